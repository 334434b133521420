"""What the guard asks a GPU: which memory is on it, which stream is current, and when a copy has ended.

Tests have a GPU of their own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pinprof.program.machine import has_gpu
from pinprof.races.clocks import Stream

# ruff: noqa: SLF001  some of this has no public name

_C: Any = torch._C


class Gpu:
    """The GPUs of this process, with the modules of torch whose functions and classes are changed."""

    cuda: Any = torch.cuda
    generic: Any = torch
    c: Any = _C

    def is_there(self) -> bool:
        """Return whether torch sees a GPU."""
        return has_gpu()

    def owns(self, where: Tensor | torch.device) -> bool:
        """Return whether memory is on a GPU, not on the host."""
        return where.is_cuda if isinstance(where, Tensor) else where.type == "cuda"

    def is_pinned(self, tensor: Tensor) -> bool:
        """Return whether a tensor of the host is pinned, as CUDA sees it."""
        return tensor.is_pinned()

    def current_stream(self, device: int | None) -> Stream:
        """Return this thread's stream of a device (None: the current one), faster than torch.cuda.current_stream."""
        if device is None:
            device = int(_C._cuda_getDevice())
        return Stream(device, _C._cuda_getCurrentRawStream(device))

    def is_capturing(self) -> bool:
        """Return whether a graph captures the work of this thread, to run it later."""
        return torch.cuda.is_current_stream_capturing()

    def mark(self, device: int | None) -> Callable[[], bool]:
        """Mark the end of the work on a device's current stream, unseen by the guard; return what shows its end."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        _C._CudaEventBase.record(event, torch.cuda.current_stream(device))
        return lambda: not torch.cuda.is_current_stream_capturing() and bool(_C._CudaEventBase.query(event))
