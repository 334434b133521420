"""Notices every wait of the host for the GPU, from torch's own warnings and from wrappers around the rest."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from pinprof.capture.replaced import replaced

SYNC_WARNING = "called a synchronizing CUDA operation"
"""What torch's sync debug mode says, as soon as control is back in Python (c10/cuda/CUDAFunctions.cpp)."""

PROTOTYPE_WARNING = "Synchronization debug mode is a prototype feature"
"""What it says when it is turned on."""


@contextmanager
def noticing(on_wait: Callable[[], None]) -> Iterator[None]:
    """Call `on_wait` right after each wait of the block, on the thread that waited, whichever that is.

    Starts CUDA if nothing has. torch's modes and functions are as before after the block.
    """
    with ExitStack() as undo:
        undo.enter_context(_warned(on_wait))
        for holder, name, waits in _uncovered():
            undo.enter_context(replaced(holder, name, _noting(waits, on_wait)))
        yield


@contextmanager
def _warned(on_wait: Callable[[], None]) -> Iterator[None]:
    """Take the warnings of torch's sync debug mode; others go where they always go."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def take(message: Warning | str, *details: Any, **more: Any) -> None:
            if SYNC_WARNING in str(message):
                on_wait()
            else:
                show(message, *details, **more)

        warnings.showwarning = take
        warnings.filterwarnings("always", message=f".*{SYNC_WARNING}")
        warnings.filterwarnings("ignore", message=f".*{PROTOTYPE_WARNING}")
        try:
            torch.cuda.set_sync_debug_mode("warn")
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)


def _noting(waits: Callable[..., bool], on_wait: Callable[[], None]) -> Callable[[Any], Any]:
    """Return what makes a function report each call of it that `waits` says may wait."""

    def change(function: Any) -> Any:
        @wraps(function)
        def noted(*args: Any, **more: Any) -> Any:
            result = function(*args, **more)
            if waits(result, *args, **more):
                on_wait()
            return result

        return noted

    return change


def _uncovered() -> Iterator[tuple[Any, str, Callable[..., bool]]]:
    """Yield (holder, name, condition) of the functions that wait without a warning of the sync debug mode."""
    yield torch._C, "_cuda_synchronize", _always  # noqa: SLF001  what torch.cuda.synchronize calls, however imported
    yield torch._C, "_cuda_emptyCache", _always  # noqa: SLF001
    yield torch.cuda.Event, "synchronize", _always
    if not _has_compiled():  # compiled code guards on the methods of Tensor: it would compile again
        for name in ("to", "cuda", "cpu", "copy_"):
            yield torch.Tensor, name, copies_pageable_memory


def _has_compiled() -> bool:
    """Return whether torch.compile has compiled anything in this program."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"])


def _always(*_: object, **__: object) -> bool:
    return True


def copies_pageable_memory(result: Any, source: torch.Tensor, *args: Any, non_blocking: bool = False, **_: Any) -> bool:
    """Return whether a copy that should not block was one between the GPU and pageable memory, which blocks."""
    if not (non_blocking or any(arg is True for arg in args)):
        return False  # a blocking copy is warned of
    other = args[0] if args and isinstance(args[0], torch.Tensor) else result
    if not isinstance(other, torch.Tensor) or source.device.type == other.device.type:
        return False
    host = source if source.device.type == "cpu" else other
    return host.device.type == "cpu" and not host.is_pinned()
