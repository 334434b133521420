"""Notices every wait of the host for the GPU, by torch's own warnings and by wrappers of calls without a warning."""

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, SupportsIndex

import torch

from pinprof.ground.host_time import HOST_TIME
from pinprof.program.hooks import noting, replaced

SYNC_WARNING = "called a synchronizing CUDA operation"
"""The warning of torch's sync debug mode when control returns to Python (c10/cuda/CUDAFunctions.cpp)."""
PROTOTYPE_WARNING = "Synchronization debug mode is a prototype feature"  # its warning when it is turned on
LATE_WARNINGS_S = 0.01
"""Time for threads to report a finished wait: twice the time that a thread may keep the interpreter
(sys.getswitchinterval)."""


@contextmanager
def noticing(on_wait: Callable[[], None], *, linger: bool = False) -> Iterator[None]:
    """Call `on_wait` right after each wait in the block, on the thread that waited.

    It starts CUDA if necessary, and restores torch's modes and functions after the block. torch decides before a wait
    whether to warn, and warns after it. With `linger`, the block also takes the warnings of other threads that wait
    when it ends; otherwise these go to the filters outside.
    """
    mode = torch.cuda.get_sync_debug_mode()
    with taking_warnings(on_wait):
        try:
            torch.cuda.set_sync_debug_mode("warn")
            with ExitStack() as undo:
                for holder, name, waits in _uncovered():
                    undo.enter_context(replaced(holder, name, noting(partial(_report_wait, waits, on_wait))))
                yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)
            if linger and threading.active_count() > 1:
                with suppress(RuntimeError):  # the program reports a failed kernel
                    torch.cuda.synchronize()
                HOST_TIME.sleep(LATE_WARNINGS_S)


def _report_wait(waits: Callable[..., bool], on_wait: Callable[[], None], *call: Any, **more: Any) -> None:
    """Report a call if `waits` says that it may wait; its result comes first in `call`."""
    if waits(*call, **more):
        on_wait()


@contextmanager
def taking_warnings(on_wait: Callable[[], None]) -> Iterator[None]:
    """Call `on_wait` at each warning of a wait, whatever filters the block sets; nobody else sees it."""
    take = _Take(on_wait)
    with warnings.catch_warnings():
        warnings.filters = _Filters(("ignore", take, Warning, None, 0), warnings.filters)
        _taking.append(take)
        try:
            yield
        finally:
            _taking.remove(take)
            take.on_wait = None


class _Take:
    """Replaces the message pattern of a warning filter, so that it sees every warning before any other filter.

    Replacing `warnings.showwarning` does not suffice: `pytest.warns` and the like restore it, and a filter that turns
    warnings into errors comes before it.
    """

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self.on_wait: Callable[[], None] | None = on_wait
        """None after the block: a block of `catch_warnings` that lasts longer keeps a copy of the filters."""

    def match(self, message: str) -> bool:
        """Return whether to take a warning."""
        if self.on_wait is None:
            return False
        if SYNC_WARNING not in message:
            return PROTOTYPE_WARNING in message
        for take in tuple(_taking):  # Python calls only the first filter, that of the innermost block
            if take.on_wait is not None:
                take.on_wait()
        return True


_taking: list[_Take] = []


class _Filters(list[Any]):
    """Warning filters whose first one stays the first, even in the copies that `catch_warnings` makes."""

    def __init__(self, first: Any, others: Iterable[Any]) -> None:
        super().__init__([first, *others])

    def insert(self, index: SupportsIndex, item: Any) -> None:
        """Insert a filter, after the first."""
        super().insert(int(index) or 1, item)

    def __getitem__(self, index: Any) -> Any:
        got = super().__getitem__(index)
        return _Filters(got[0], got[1:]) if index == slice(None) else got


def _uncovered() -> Iterator[tuple[Any, str, Callable[..., bool]]]:
    """Yield holder, name, and condition of the functions that wait without a warning of the sync debug mode."""
    yield torch._C, "_cuda_synchronize", _always  # noqa: SLF001  torch.cuda.synchronize calls it, however imported
    yield torch._C, "_cuda_emptyCache", _always  # noqa: SLF001
    if hasattr(torch._C, "_accelerator_synchronizeDevice"):  # noqa: SLF001  since torch 2.6
        yield torch._C, "_accelerator_synchronizeDevice", _always  # noqa: SLF001
    yield torch.cuda.Event, "synchronize", _always
    yield torch.Event, "synchronize", lambda _, event: event.device.type == "cuda"
    if not has_compiled():  # a change of Tensor's methods would recompile compiled code
        for name in ("to", "cuda", "cpu", "copy_"):
            yield torch.Tensor, name, copies_pageable_memory


def has_compiled() -> bool:
    """Return whether torch.compile has compiled anything in this program."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"])


def _always(*_: object, **__: object) -> bool:
    return True


def copies_pageable_memory(result: Any, source: torch.Tensor, *args: Any, non_blocking: bool = False, **_: Any) -> bool:
    """Return whether a copy with `non_blocking=True` blocked: it was between the GPU and pageable memory."""
    if not (non_blocking or any(arg is True for arg in args)):
        return False  # torch warns of a blocking copy
    other = args[0] if args and isinstance(args[0], torch.Tensor) else result
    if not isinstance(other, torch.Tensor) or source.device.type == other.device.type:
        return False
    host = source if source.device.type == "cpu" else other
    return host.device.type == "cpu" and not host.is_pinned()
