"""Copy results to the host in every step, and wait for them or read them one step later."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import Step, device_batch, sizes, trainer


@contextmanager
def readback_blocking(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Copy the network's output to the host in every step and wait for it."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)

    def step() -> None:
        output = training.model(batch)
        training.update(F.cross_entropy(output, training.target))
        first_score(output.detach().cpu())

    yield step


@final
class LateReader:
    """Copies tensors to pinned memory on a stream of its own, and returns each one call later."""

    def __init__(self, output: Tensor) -> None:
        self._buffers = [torch.empty_like(output, device="cpu", pin_memory=True) for _ in range(2)]
        self._copied = [torch.cuda.Event() for _ in self._buffers]  # type: ignore[no-untyped-call]
        self._side_stream = torch.cuda.Stream(output.device)  # type: ignore[no-untyped-call]
        self._calls = 0

    def exchange(self, result: Tensor) -> Tensor | None:
        """Start the copy of `result`, and return the finished copy of the previous one; None at the first call."""
        slot = self._calls % 2
        self._side_stream.wait_stream(torch.cuda.current_stream(result.device))
        with torch.cuda.stream(self._side_stream):
            self._buffers[slot].copy_(result, non_blocking=True)
            self._copied[slot].record(self._side_stream)
        result.record_stream(self._side_stream)  # its memory stays until the copy has read it
        self._calls += 1
        if self._calls == 1:
            return None
        self._copied[1 - slot].synchronize()  # done a step ago; without this wait the buffer may hold old numbers
        return self._buffers[1 - slot]


@contextmanager
def readback_async(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Copy the network's output on a side stream and read it one step later."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    reader = LateReader(torch.empty(size.rows, size.classes, device=device)) if device.type == "cuda" else None

    def step() -> None:
        output = training.model(batch)
        training.update(F.cross_entropy(output, training.target))
        earlier = reader.exchange(output.detach()) if reader else output.detach()
        if earlier is not None:
            first_score(earlier)

    yield step


def first_score(output: Tensor) -> float:
    """Return one number of an output that is in host memory: an `item()` that waits for nothing."""
    return output[0, 0].item()
