"""Which ops a call in Python may run that waits: what tells at which of several lines an op can have been called."""

from pinprof.trace.watched import BACKWARD_CALL, WatchedWait

_SCALAR = frozenset({"aten::item"})
_COPY = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
_NEW = _COPY | _SCALAR | {"aten::lift_fresh", "aten::detach"}
_PUT = frozenset({"aten::index_put_", "aten::_index_put_impl_", "aten::nonzero", "aten::fill_"}) | _COPY | _SCALAR
_SYNCHRONIZE = frozenset(
    f"{runtime}{what}Synchronize" for runtime in ("cuda", "hip") for what in ("Device", "Stream", "Event")
)

OPS_OF = {
    "item": _SCALAR,
    "float": _SCALAR,
    "int": _SCALAR,
    "complex": _SCALAR,
    "index": _SCALAR,
    "bool": frozenset({"aten::is_nonzero"}),
    "[]": frozenset({"aten::index", "aten::nonzero"}) | _SCALAR | _COPY,  # an index of a list or of NumPy is copied
    "[]=": _PUT,
    "to": _COPY,
    "cpu": _COPY,
    "cuda": _COPY,
    "copy_": _COPY,
    "tolist": _COPY | _SCALAR,
    "tensor": _NEW,
    "as_tensor": _NEW,
    "asarray": _NEW,
    "nonzero": frozenset({"aten::nonzero", "aten::nonzero_numpy"}),
    "argwhere": frozenset({"aten::argwhere", "aten::nonzero"}),
    "where": frozenset({"aten::where", "aten::nonzero_numpy", "aten::nonzero"}),
    "unique": frozenset({"aten::_unique2", "aten::unique_dim", "aten::_unique"}),
    "synchronize": _SYNCHRONIZE,
    "_cuda_synchronize": _SYNCHRONIZE,
    "_accelerator_synchronizeDevice": _SYNCHRONIZE,
    "_cuda_emptyCache": _SYNCHRONIZE | {"cudaFree", "hipFree"},
    BACKWARD_CALL: frozenset(),
}
"""The outermost ops that these calls run where they wait, or the runtime calls that they make outside of ops. Their
names are those that `pinprof.program.frames` gives. The autograd engine runs its ops on threads of its own."""

_NOT_ALWAYS = frozenset({"synchronize", "_cuda_emptyCache"})
"""Calls that watching notices whether or not they wait: an event that was not recorded is not awaited, and an empty
cache has nothing to free."""


def is_shown(wait: WatchedWait) -> bool:
    """Return whether the trace of any step shows a wait, or a copy of pageable memory, for each that was watched."""
    return wait.waited is not None and wait.waited not in _NOT_ALWAYS


def may_be(wait: WatchedWait, op: str) -> bool:
    """Return whether the op may have been called there; also where that is not known."""
    if wait.waited is None or is_of(wait, op):
        return True
    return wait.waited not in OPS_OF and f"aten::{wait.waited}" != op


def is_of(wait: WatchedWait, op: str) -> bool:
    """Return whether what was called there is known to run this op where it waits."""
    return wait.waited is not None and (op in OPS_OF.get(wait.waited, ()) or op == f"aten::{wait.waited}")
