"""Reports to the watch every torch operator that the program calls, and other uses of memory."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pinprof.program.hooks import preceded, replaced
from pinprof.program.machine import PLAIN_TENSORS
from pinprof.races.pending_copies import Access
from pinprof.races.torch_ops import may_copy_within
from pinprof.races.watch import Watch

# ruff: noqa: SLF001  the mode stack of a thread, printing and pickling have no public names

_C: Any = torch._C
_Mode: Any = TorchDispatchMode
COMPILER_MODULES = "torch._subclasses."
"""The modules of tensors without memory, which represent others while a program is compiled."""


class Operators(_Mode):  # type: ignore[misc]
    """Calls each operator through the watch."""

    supports_higher_order_operators = True

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile, although the watch does not see compiled code: the program must run as usual."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call one operator."""
        kwargs = kwargs or {}
        if types and any(kind.__torch_dispatch__ is not Tensor.__torch_dispatch__ for kind in types):
            if not any(kind.__module__.startswith(COMPILER_MODULES) for kind in types):
                return NotImplemented  # tensor classes that call operators themselves, which come here too
            return func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if may_copy_within(func):  # in inference mode only; otherwise torch has already decomposed it
            with _turned_on(self):
                return func.decompose(*args, **kwargs)
        return self._watch.call(func, args, kwargs)


@contextmanager
def _turned_on(mode: Operators) -> Iterator[None]:
    _C._push_on_torch_dispatch_stack(mode)
    try:
        yield
    finally:
        _C._pop_torch_dispatch_stack(None)


@contextmanager
def in_new_threads(mode: Operators) -> Iterator[None]:
    """Turn the mode on in each thread that begins in the block; autograd's threads inherit it from their caller."""

    def change(begin: Any) -> Any:
        @wraps(begin)
        def wrapper(thread: threading.Thread) -> None:
            with _turned_on(mode):
                begin(thread)

        return wrapper

    with replaced(threading.Thread, "_bootstrap_inner", change):  # `run` is overridden by subclasses
        yield


@contextmanager
def beyond_operators(watch: Watch) -> Iterator[None]:
    """Tell the watch about uses of a tensor's memory without an operator of torch."""
    with ExitStack() as undo:
        for holder, name, kind, action in BEYOND_OPERATORS:
            undo.enter_context(replaced(holder, name, _reporting(watch, kind, action)))
        # whether modes currently see no operators, as while torch.tensor reads numbers
        are_unseen = partial(_C._dispatch_tls_is_dispatch_key_excluded, _C.DispatchKey.Python)
        for name in ("__float__", "__index__", "__complex__"):
            undo.enter_context(replaced(Tensor, name, _reporting(watch, "read", "torch.tensor", only_if=are_unseen)))
        undo.enter_context(_sent_to_processes(watch))
        yield


BEYOND_OPERATORS: tuple[tuple[Any, str, Access, str], ...] = (
    (Tensor, "numpy", "view", "Tensor.numpy"),  # __array__ calls it, and so does np.asarray
    (Tensor, "__dlpack__", "view", "DLPack"),
    (torch.utils.dlpack, "to_dlpack", "view", "DLPack"),
    (Tensor, "tolist", "read", "Tensor.tolist"),
    (Tensor, "__reduce_ex__", "read", "pickling, as torch.save does it,"),
    (torch._tensor_str, "_str", "read", "printing"),
    (Tensor, "apply_", "write", "Tensor.apply_"),
    (Tensor, "map_", "write", "Tensor.map_"),
)


def _reporting(
    watch: Watch, kind: Access, action: str, *, only_if: Callable[[], bool] = lambda: True
) -> Callable[[Any], Any]:
    def change(function: Any) -> Any:
        @wraps(function)
        def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if only_if():
                uses: list[tuple[Tensor, Access]] = [(tensor, kind), *((arg, "read") for arg in args)]
                own = [(used, use) for used, use in uses if type(used) in PLAIN_TENSORS and not watch.gpu.owns(used)]
                watch.use(own, action)
            return function(tensor, *args, **kwargs)

        wrapper._torchdynamo_disable = True  # type: ignore[attr-defined]
        return wrapper

    return change


@contextmanager
def _sent_to_processes(watch: Watch) -> Iterator[None]:
    """Tell the watch about tensors that go to another process, which have their own way of pickling."""
    reducers: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    before = {kind: reducers[kind] for kind in PLAIN_TENSORS if kind in reducers}
    show = _reporting(watch, "read", "handing over to another process")
    reducers.update({kind: show(reducer) for kind, reducer in before.items()})
    try:
        yield
    finally:
        reducers.update(before)


@contextmanager
def registered_memory(watch: Watch) -> Iterator[None]:
    """Tell the watch about memory that the program pins by `torch.cuda.cudart()`, which torch does not manage."""
    cudart = getattr(watch.gpu.c, "_cudart", None)
    with ExitStack() as undo:
        if cudart is not None:
            undo.enter_context(replaced(cudart, "cudaHostRegister", preceded(watch.register)))
            undo.enter_context(replaced(cudart, "cudaHostUnregister", preceded(watch.unregister)))
        yield
