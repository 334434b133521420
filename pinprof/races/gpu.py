"""What the guard asks a GPU: which memory is on it, which stream is current, and when a copy has ended.

Tests have a GPU and marks of their own.
"""

from typing import Any

import torch
from torch import Tensor

from pinprof.ground.units import NS_PER_MS
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
        """Return the stream of a device (None: the current one) on which this thread queues its work.

        It is faster than `torch.cuda.current_stream()`.
        """
        if device is None:
            device = int(_C._cuda_getDevice())
        return Stream(device, _C._cuda_getCurrentRawStream(device))

    def is_capturing(self) -> bool:
        """Return whether a graph captures the work of this thread, to run it later."""
        return torch.cuda.is_current_stream_capturing()

    def begin(self, device: int | None) -> "CopyMark":
        """Mark the beginning of the next copy on the current stream of a device (None: the current one)."""
        return CopyMark(device)


_event: Any = torch.cuda.Event


class CopyMark:
    """The beginning and the end of a copy on its stream: two events, whose records and waits the guard does not see."""

    def __init__(self, device: int | None) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._first, self._last = (_event(enable_timing=True) for _ in range(2))
        _C._CudaEventBase.record(self._first, self._stream)

    def end(self) -> None:
        """Mark the end of the copy that was just queued."""
        _C._CudaEventBase.record(self._last, self._stream)

    def has_ended(self) -> bool:
        """Return whether the copy has ended by now."""
        return not torch.cuda.is_current_stream_capturing() and bool(_C._CudaEventBase.query(self._last))

    def took_ns(self) -> float | None:
        """Wait for the copy and return how long it took; None during a capture, which allows no wait."""
        if torch.cuda.is_current_stream_capturing():  # a wait would end the capture
            return None
        _C._CudaEventBase.synchronize(self._last)
        return float(_C._CudaEventBase.elapsed_time(self._first, self._last)) * NS_PER_MS
