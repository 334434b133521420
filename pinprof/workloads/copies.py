"""Copy batches from host memory in every way, from the slowest to the prefetched."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pinprof.workloads.model import Step, forever, host_batches, sizes, trainer
from pinprof.workloads.prefetcher import Prefetcher


@contextmanager
def copied(
    device: torch.device, scale: float = 1.0, *, pinned: bool = False, non_blocking: bool = False
) -> Iterator[Step]:
    """Copy the batch on the default stream, from pageable or pinned memory, blocking or not."""
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


@contextmanager
def prefetch(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Copy the next batch on a side stream while this one is trained on."""
    size = sizes(scale)
    training = trainer(device, size)
    batches: Iterator[Tensor] = iter(
        Prefetcher(forever(host_batches(size, count=3, pinned=device.type == "cuda")), device)
    )

    def step() -> None:
        training.train(next(batches))

    yield step
