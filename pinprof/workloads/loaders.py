"""Copy batches of a DataLoader with two workers, which pins them or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from pinprof.workloads.model import Step, forever, host_batches, sizes, trainer

WORKERS = 2


class BatchStream(IterableDataset[Tensor]):
    """Yields whole batches that exist in shared memory from the start, so that the workers always keep up."""

    def __init__(self, batches: list[Tensor]) -> None:
        super().__init__()
        self._batches = [batch.share_memory_() for batch in batches]  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[Tensor]:
        return forever(self._batches)


@contextmanager
def loaded(device: torch.device, scale: float = 1.0, *, pinned: bool = False) -> Iterator[Step]:
    """Copy the loader's batches with `non_blocking=True`.

    With half as many rows as elsewhere, to save shared memory, and a deeper network, so that the loader is never late.
    """
    size = sizes(scale)
    size = replace(size, rows=max(1, size.rows // 2))
    training = trainer(device, size, hidden=4)
    loader = DataLoader(
        BatchStream(host_batches(size)),
        batch_size=None,
        num_workers=WORKERS,
        pin_memory=pinned and device.type == "cuda",
    )
    running = [iter(loader)]

    def step() -> None:
        batch = next(running[0]).to(device, non_blocking=True)
        training.train(batch)

    try:
        yield step
    finally:
        running.clear()  # the workers end with the last reference to their iterator
