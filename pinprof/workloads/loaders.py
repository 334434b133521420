"""Copy batches of a DataLoader with two workers, which pins them or not."""

from collections.abc import Iterator
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


def loaded(device: torch.device, scale: float = 1.0, *, pinned: bool = False) -> Step:
    """Copy the loader's batches with `non_blocking=True`.

    With half as many rows as elsewhere, to save shared memory, and a deeper network, so that the loader is never late.
    """
    size = sizes(scale)
    size = replace(size, rows=max(1, size.rows // 2))
    training, stream = trainer(device, size, hidden=4), BatchStream(host_batches(size))
    pins = pinned and device.type == "cuda"
    batches = iter(DataLoader(stream, batch_size=None, num_workers=WORKERS, pin_memory=pins))
    return lambda: training.train(next(batches).to(device, non_blocking=True))
