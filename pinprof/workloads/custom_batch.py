"""E9: a batch of the user's own class, and the method without which a DataLoader cannot pin it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import current_thread, main_thread
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pinprof.bench.results import Figure
from pinprof.workloads.timing import Cases, answer
from pinprof.workloads.transfers import Sizes

FEATURES = 1024
WORKERS = 2
InputAndTarget = tuple[Tensor, Tensor]


class PlainBatch:
    """A batch that a DataLoader cannot pin: it returns the batch unpinned, without a warning."""

    def __init__(self, samples: Sequence[InputAndTarget]) -> None:
        """Stack the samples: the class itself is the loader's `collate_fn`."""
        self.inputs = torch.stack([inputs for inputs, _ in samples])
        self.targets = torch.stack([targets for _, targets in samples])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "PlainBatch":
        """Return a copy of the batch on the device."""
        moved = object.__new__(type(self))
        moved.inputs = self.inputs.to(device, non_blocking=non_blocking)
        moved.targets = self.targets.to(device, non_blocking=non_blocking)
        return moved


@final
class PinnableBatch(PlainBatch):
    """The same batch with the method that DataLoader(pin_memory=True) calls; with workers, in a thread."""

    def pin_memory(self) -> "PinnableBatch":
        """Pin the tensors of the batch, and return it: the loader takes what this returns."""
        self.inputs = self.inputs.pin_memory()
        self.targets = self.targets.pin_memory()
        return self


class Samples(Dataset[InputAndTarget]):
    """Four batches of samples."""

    def __init__(self, rows: int) -> None:
        self._inputs = torch.randn(4 * rows, FEATURES)

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> InputAndTarget:
        return self._inputs[index], torch.tensor(index)


def as_dictionary(samples: Sequence[InputAndTarget]) -> dict[str, Tensor]:
    """Return the samples as a batch that a DataLoader knows how to pin."""
    return {
        "inputs": torch.stack([inputs for inputs, _ in samples]),
        "targets": torch.stack([targets for _, targets in samples]),
    }


Collate = Callable[[Sequence[InputAndTarget]], Any]


def loader_of(collate: Collate | None, rows: int, workers: int = 0) -> "DataLoader[Any]":
    """Return a loader with this collate_fn, by default lists of tensors; its workers live as long as it does."""
    return DataLoader(
        Samples(rows),
        batch_size=rows,
        collate_fn=collate,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=workers > 0,
    )


def custom_batch(device: torch.device, sizes: Sizes) -> Cases:
    """E9, to be recorded: draw the batches of a loader and copy them.

    The loader and its workers live on from step to step, as in training: a recording has the settings of the loaders
    that are in use when it begins.
    """

    def case(kind: type[PlainBatch]) -> Callable[[], list[PlainBatch]]:
        loader = loader_of(kind, sizes["rows"], WORKERS)
        return lambda: [batch.to(device, non_blocking=True) for batch in loader]

    return {"pinned, without pin_memory()": case(PlainBatch), "pinned, with pin_memory()": case(PinnableBatch)}


def are_pinned(sizes: Sizes) -> Iterator[Figure]:
    """Yield whether tensors and each kind of batch are pinned, and whether the loader pins in a thread of its own.

    The latter for a loader with workers and one without: torch starts the thread only with workers.
    """
    tensor = torch.ones(FEATURES)
    pinned = tensor.pin_memory()
    yield answer("pinned, a tensor as it is made", [tensor.is_pinned()])
    yield answer("pinned, by pin_memory()", [pinned.is_pinned()])
    yield answer("pinned, what was given to pin_memory()", [tensor.is_pinned()])
    is_copy = pinned.data_ptr() != tensor.data_ptr()
    yield answer("a copy of the same values, by pin_memory()", [is_copy and torch.equal(pinned, tensor)])
    yield answer("no copy, by pin_memory() of a pinned tensor", [pinned.pin_memory().data_ptr() == pinned.data_ptr()])
    yield answer("pinned, made with pin_memory=True", [_made_pinned().is_pinned()])
    kinds: tuple[tuple[str, Collate | None, Callable[[Any], Iterable[Tensor]]], ...] = (
        ("without pin_memory()", PlainBatch, lambda batch: (batch.inputs, batch.targets)),
        ("with pin_memory()", PinnableBatch, lambda batch: (batch.inputs, batch.targets)),
        (
            "elements without pin_memory()",
            lambda samples: [PlainBatch(samples)],
            lambda batch: (batch[0].inputs, batch[0].targets),
        ),
        ("a list of tensors", None, lambda batch: batch),
        ("a dictionary of tensors", as_dictionary, lambda batch: batch.values()),
    )
    for name, collate, tensors in kinds:
        batches = loader_of(collate, sizes["rows"])
        yield answer(f"pinned, {name}", [all(tensor.is_pinned() for tensor in tensors(batch)) for batch in batches])
    for name, workers in (("with workers", WORKERS), ("without workers", 0)):
        batches = loader_of(_Witness, sizes["rows"], workers)
        yield answer(f"pinned by a thread of its own, {name}", [batch.in_thread for batch in batches])


def _made_pinned() -> Tensor:
    """Return a tensor that its constructor allocates in pinned memory, if there is a GPU."""
    return torch.ones(FEATURES, pin_memory=torch.cuda.is_available())


class _Witness:
    """A batch that knows whether a thread other than the main one has pinned it."""

    def __init__(self, _samples: Sequence[InputAndTarget]) -> None:
        self.in_thread = False

    def pin_memory(self) -> "_Witness":
        self.in_thread = current_thread() is not main_thread()
        return self
