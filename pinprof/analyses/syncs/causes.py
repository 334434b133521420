"""The causes of the host's waits: one row for each, with its words, its colour, and the ops and calls that show it."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Final

from pinprof.ground.hues import COPY_WAIT, MEMORY_WAIT, OTHER_WAIT, SYNC_WAIT, WAIT
from pinprof.ground.units import uncoded
from pinprof.trace import calls
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD
from pinprof.trace.vendors import FREE_CALLS, SYNCHRONIZE

_SCALAR_OPS = frozenset({"aten::item"})
_COPY_OPS = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
_INDEX_OPS = _SCALAR_OPS | _COPY_OPS | {"aten::nonzero"}  # an index of a list or of NumPy is copied
_NEW_TENSOR_OPS = _SCALAR_OPS | _COPY_OPS | {"aten::lift_fresh", "aten::detach"}


@dataclass(frozen=True)
class Cause:
    """A cause of waits."""

    label: str  # what the host calls, or what happens in the call; text in backticks is code
    colour: str
    """The colour of its kind of remedy, see `pinprof.ground.hues`: read later, copy otherwise, remove, keep memory."""
    _: KW_ONLY
    ops: tuple[str, ...] = ()  # ops whose calls have this cause; of several around a call the outermost decides
    methods: tuple[str, ...] = ()
    """Methods of tensors that have this cause; methods and functions count before the ops inside."""
    functions: tuple[str, ...] = ()  # parts of the names of Python functions that have this cause
    calls: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Calls in Python with this cause, named as in `pinprof.program.frames`: the outermost ops that each runs when it
    waits, besides the op of its own name, or the runtime calls that it makes outside of ops."""
    call_kind: int | None = None  # the kind of call of `trace.calls` that has this cause if nothing else names one
    copy: str = ""  # the direction of the copy, if the call that makes it also waits for it
    gives_size: bool = False  # whether values on the GPU decide how large its result is
    goes_with_op: bool = False  # whether the fix removes the whole op: its kernels, its copy, and the host's time in it
    is_blocking_copy: bool = False  # whether `non_blocking=True` removes it
    goes_with_copies: bool = False  # whether it is a wait for copies to the GPU, and disappears with them
    held_up: str = ""
    """The host's time in it, in words; only of causes for which a launch takes long without a wait for the GPU."""

    @property
    def plain(self) -> str:
        """The label without backticks, for legends."""
        return uncoded(self.label)


_read = partial(Cause, colour=WAIT, goes_with_op=True)  # a cause of waits in which the host reads a value of the GPU
_sized = partial(Cause, colour=WAIT, gives_size=True)  # a cause of waits in which the host needs the size of a result

WAITS: Final = {
    "item": _read(
        "`.item()`",
        ops=("aten::item", "aten::_local_scalar_dense"),
        calls=dict.fromkeys(("item", "float", "int", "complex", "index"), _SCALAR_OPS),
    ),
    "optimizer_state": Cause("the optimizer's step count", WAIT),
    "nan_check": Cause("anomaly detection's check for NaN", WAIT, goes_with_op=True),
    "bool": _read("`if tensor:`", ops=("aten::is_nonzero",), calls={"bool": frozenset({"aten::is_nonzero"})}),
    "tolist": _read("`.tolist()`", methods=("tolist",), calls={"tolist": _COPY_OPS | _SCALAR_OPS}),
    "to_cpu": Cause(
        "`.cpu()`",
        COPY_WAIT,
        ops=("aten::_to_copy",),
        methods=("cpu",),
        calls=dict.fromkeys(("to", "cpu", "cuda", "copy_"), _COPY_OPS),
        goes_with_op=True,
        is_blocking_copy=True,
    ),
    "print": _read("`print(tensor)`", functions=("torch/_tensor_str.py(",)),
    "nonzero": _sized(
        "`nonzero()`",
        ops=("aten::nonzero",),
        calls={
            "nonzero": frozenset({"aten::nonzero", "aten::nonzero_numpy"}),
            "argwhere": frozenset({"aten::argwhere", "aten::nonzero"}),
            "where": frozenset({"aten::where", "aten::nonzero_numpy", "aten::nonzero"}),
        },
    ),
    "mask_index": _sized(
        "`x[mask]`",
        calls={
            "[]": _INDEX_OPS | {"aten::index"},
            "[]=": _INDEX_OPS | {"aten::index_put_", "aten::_index_put_impl_", "aten::fill_"},
        },
    ),
    "masked_select": _sized("`masked_select()`", ops=("aten::masked_select",)),
    "unique": _sized(
        "`unique()`",
        ops=("aten::unique_dim", "aten::_unique", "aten::_unique2", "aten::unique_consecutive"),
        calls={"unique": frozenset({"aten::_unique2", "aten::unique_dim", "aten::_unique"})},
    ),
    "repeat_interleave": _sized("`repeat_interleave()`", ops=("aten::repeat_interleave",)),
    "equal": _read("`torch.equal()`", ops=("aten::equal", "aten::allclose")),
    "blocking_copy_htod": Cause(
        "blocking copy to the GPU", COPY_WAIT, copy=DIRECTIONS[HTOD], is_blocking_copy=True, goes_with_copies=True
    ),
    "blocking_copy_dtoh": Cause("blocking copy to the host", COPY_WAIT, copy=DIRECTIONS[DTOH], is_blocking_copy=True),
    "pageable_copy": Cause("pageable copy", COPY_WAIT, goes_with_copies=True),
    "tensor_from_host": Cause(
        "`torch.tensor()` on the GPU",
        COPY_WAIT,
        methods=("new_tensor",),
        functions=(
            "<built-in method tensor of type",
            "<built-in method as_tensor of type",
            "<built-in method asarray of type",
        ),
        calls=dict.fromkeys(("tensor", "as_tensor", "asarray"), _NEW_TENSOR_OPS),
        goes_with_op=True,
    ),
    "device_synchronize": Cause(
        "`torch.cuda.synchronize()`",
        SYNC_WAIT,
        calls=dict.fromkeys(("synchronize", "_cuda_synchronize", "_accelerator_synchronizeDevice"), SYNCHRONIZE),
        call_kind=calls.DEVICE,
    ),
    "stream_synchronize": Cause("`stream.synchronize()`", SYNC_WAIT, call_kind=calls.STREAM),
    "event_synchronize": Cause("`event.synchronize()`", SYNC_WAIT, call_kind=calls.EVENT),
    "device_malloc": Cause("GPU memory is allocated", MEMORY_WAIT, call_kind=calls.MALLOC),
    "device_free": Cause(
        "GPU memory is freed", MEMORY_WAIT, calls={"_cuda_emptyCache": SYNCHRONIZE | FREE_CALLS}, call_kind=calls.FREE
    ),
    "host_alloc": Cause("pinned memory is allocated", MEMORY_WAIT, call_kind=calls.HOST_MEMORY),
    "module_load": Cause(
        "kernels are loaded",
        OTHER_WAIT,
        call_kind=calls.MODULE_LOAD,
        held_up="of host time in launches that wait until their code is loaded",
    ),
    "queue_full": Cause(
        "the launch queue is full",
        OTHER_WAIT,
        call_kind=calls.QUEUE_FULL,
        held_up="of host time in launches that wait because the launch queue is full",
    ),
    "launch_blocking": Cause("`CUDA_LAUNCH_BLOCKING=1`", OTHER_WAIT, call_kind=calls.LAUNCH),
    "collective": Cause("collective", OTHER_WAIT),
    "profiler": Cause("profiler", OTHER_WAIT, call_kind=calls.PROFILER),
    "other": Cause("wait within an op", OTHER_WAIT),
}
"""The causes by name, as in JSON; their order gives their codes in columns."""

WAIT_CAUSES: Final = tuple(WAITS)
CAUSE_CODE: Final = {cause: code for code, cause in enumerate(WAIT_CAUSES)}

SYNCHRONIZE_CAUSES: Final = tuple(
    name for name, cause in WAITS.items() if cause.call_kind in (calls.STREAM, calls.DEVICE, calls.EVENT)
)
"""Causes that the program asked for by name, if no op is around the call."""
ALLOCATION_CAUSES: Final = frozenset(name for name, cause in WAITS.items() if cause.call_kind in calls.ALLOCATING)
"""Causes that take the host's time whether or not it waits for the GPU."""
BLOCKING_COPY_CAUSES: Final = frozenset(name for name, cause in WAITS.items() if cause.is_blocking_copy)
WAITS_FOR_COPIES_TO_GPU: Final = frozenset(name for name, cause in WAITS.items() if cause.goes_with_copies)
HELD_UP_LAUNCHES: Final = frozenset(name for name, cause in WAITS.items() if cause.held_up)
"""Causes for which a launch takes long, while the host waits for no work of the GPU."""


def label_of(name: str) -> str:
    """Return the label of a cause; any other name is returned as it is."""
    return WAITS[name].label if name in WAITS else name
