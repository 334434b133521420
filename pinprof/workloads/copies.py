"""Batches that come from host memory: every way to copy them, from the slowest to the prefetched."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor

from pinprof.workloads.model import Step, forever, host_batches, sizes, trainer


@contextmanager
def copied(
    device: torch.device, scale: float = 1.0, *, pinned: bool = False, non_blocking: bool = False
) -> Iterator[Step]:
    """Copy the batch on the default stream, from pageable or pinned memory, waiting for the copy or not."""
    size = sizes(scale)
    training = trainer(device, size)
    batches = forever(host_batches(size, pinned=pinned and device.type == "cuda"))

    def step() -> None:
        batch = next(batches).to(device, non_blocking=non_blocking)
        training.train(batch)

    yield step


@contextmanager
def pin_then_copy(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Pin every batch in the main thread just before its copy."""
    size = sizes(scale)
    training = trainer(device, size)
    batches = forever(host_batches(size))

    def step() -> None:
        batch = next(batches)
        if device.type == "cuda":
            batch = batch.pin_memory()
        training.train(batch.to(device, non_blocking=True))

    yield step


@final
class Prefetcher:
    """Hands out device copies of pinned batches, each copied on a stream of its own while the step before it computes.

    The five rules of a correct prefetcher are marked where they are kept.
    """

    def __init__(self, ring: list[Tensor], device: torch.device) -> None:
        self._ring = forever(ring)  # 1: pinned and dense. 2: only read; refill a slot once its copy's event has passed
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # 3: one stream, made once
        self._ahead = self._copy_next()

    def next_batch(self) -> Tensor:
        """Return the batch that was copied ahead, safe to use on the current stream, and start the next copy."""
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._side)  # 4: no kernel reads the batch before its copy is complete
        batch = self._ahead
        batch.record_stream(current)  # 5: its memory is not handed out again while kernels may still read it
        self._ahead = self._copy_next()
        return batch

    def _copy_next(self) -> Tensor:
        # One step ahead is enough: without this wait the copies of many steps would run at once when the host is ahead.
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            return next(self._ring).to(self._device, non_blocking=True)


@contextmanager
def prefetch(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Copy the next batch on a side stream while this one is trained on."""
    size = sizes(scale)
    training = trainer(device, size)
    if device.type == "cuda":
        next_batch = Prefetcher(host_batches(size, count=3, pinned=True), device).next_batch
    else:
        next_batch = forever(host_batches(size, count=3)).__next__

    def step() -> None:
        training.train(next_batch())

    yield step
