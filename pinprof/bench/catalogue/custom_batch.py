"""E9: which tensors and batches of a DataLoader are pinned; batches of your own class with and without pin_memory()."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from pinprof.bench.experiment import CaseRun, CaseRuns, Experiment, Lab, Size, Tensor
from pinprof.bench.judge import Claim, all_of, no, yes
from pinprof.bench.results import Measured, figures

WITHOUT_METHOD, WITH_METHOD, ELEMENTS, LISTS, DICTIONARIES = figures(
    "E9",
    "yes",
    "pinned, without pin_memory(); pinned, with pin_memory(); pinned, elements without pin_memory(); "
    "pinned, a list of tensors; pinned, a dictionary of tensors",
)
AS_MADE, PINNED, MADE_PINNED, COPY = figures(
    "E9",
    "yes",
    "pinned, a tensor as it is made; pinned, by pin_memory(); pinned, made with pin_memory=True; "
    "a copy of the same values, by pin_memory()",
)
FEATURES, LOADER_WORKERS = 1024, 2
InputAndTarget = tuple[Tensor, Tensor]
Collate = Callable[[Sequence[InputAndTarget]], Any]


class PlainBatch:
    """A batch that a DataLoader cannot pin: it returns the batch unpinned, without a warning."""

    def __init__(self, samples: Sequence[InputAndTarget]) -> None:
        """Stack the samples: the class itself is the loader's `collate_fn`."""
        self.inputs, self.targets = stacked(samples).values()

    def to(self, device: Any, *, non_blocking: bool = False) -> "PlainBatch":
        """Return a copy of the batch on the device."""
        moved = object.__new__(type(self))
        moved.inputs = self.inputs.to(device, non_blocking=non_blocking)
        moved.targets = self.targets.to(device, non_blocking=non_blocking)
        return moved


@final
class PinnableBatch(PlainBatch):
    """The same batch with the method that DataLoader(pin_memory=True) calls."""

    def pin_memory(self) -> "PinnableBatch":
        """Pin the tensors of the batch, and return it: the loader takes what this returns."""
        self.inputs = self.inputs.pin_memory()
        self.targets = self.targets.pin_memory()
        return self


def stacked(samples: Sequence[InputAndTarget]) -> dict[str, Tensor]:
    """Return samples as a batch that a DataLoader knows how to pin."""
    import torch

    inputs, targets = zip(*samples, strict=True)
    return {"inputs": torch.stack(inputs), "targets": torch.stack(targets)}


def loader_of(collate: Collate | None, rows: int, workers: int = 0) -> Iterable[Any]:
    """Return a loader of four batches with this collate_fn, by default lists of tensors."""
    import torch
    from torch.utils.data import DataLoader

    samples: Any = [(inputs, torch.tensor(row)) for row, inputs in enumerate(torch.randn(4 * rows, FEATURES))]
    alive = workers > 0
    return DataLoader(samples, rows, collate_fn=collate, num_workers=workers, pin_memory=True, persistent_workers=alive)


def copies_of_custom_batches(lab: Lab) -> CaseRuns:
    """Return the steps of the cases: draw and copy the batches of a loader, whose workers live on as in training."""

    def case(kind: type[PlainBatch]) -> CaseRun:
        loader = loader_of(kind, lab.sizes["rows"], LOADER_WORKERS)
        return lambda: [batch.to(lab.device, non_blocking=True) for batch in loader]

    return case(PlainBatch), case(PinnableBatch)


def what_is_pinned(lab: Lab) -> Iterator[Measured]:
    """Yield whether tensors and each kind of batch are pinned."""
    import torch

    tensor = torch.ones(FEATURES)
    pinned, made = tensor.pin_memory(), torch.ones(FEATURES, pin_memory=torch.cuda.is_available())
    for figure, each in ((AS_MADE, tensor), (PINNED, pinned), (MADE_PINNED, made)):
        yield figure.of([each.is_pinned()])
    yield COPY.of([pinned.data_ptr() != tensor.data_ptr() and torch.equal(pinned, tensor)])
    kinds: Iterable[tuple[Any, Collate | None, Callable[[Any], Iterable[Tensor]]]] = (
        (WITHOUT_METHOD, PlainBatch, lambda batch: (batch.inputs, batch.targets)),
        (WITH_METHOD, PinnableBatch, lambda batch: (batch.inputs, batch.targets)),
        (ELEMENTS, lambda samples: [PlainBatch(samples)], lambda batch: (batch[0].inputs, batch[0].targets)),
        (LISTS, None, lambda batch: batch),
        (DICTIONARIES, stacked, lambda batch: batch.values()),
    )
    for figure, collate, tensors in kinds:
        batches = loader_of(collate, lab.sizes["rows"])
        yield figure.of([all(tensor.is_pinned() for tensor in tensors(batch)) for batch in batches])


CUSTOM_BATCH = Experiment(
    "E9",
    "custom_batch",
    "which tensors and loader batches are pinned; batches of your own class with and without pin_memory()",
    (
        Claim("A batch of a custom type is handed back unpinned", "article: custom types", no(WITHOUT_METHOD)),
        Claim("With a pin_memory() method of its own, it is pinned", "article: custom types", yes(WITH_METHOD)),
        Claim("Elements of a custom type in a list stay unpinned", "article: custom types", no(ELEMENTS)),
        Claim("Lists and dictionaries of tensors are pinned", "article: pin_memory=True", yes(LISTS, DICTIONARIES)),
        Claim(
            "The memory of a tensor is pageable unless something else is asked for",
            "tutorial: memory; article: pinned memory; processes: concepts",
            no(AS_MADE),
        ),
        Claim(
            "pin_memory() returns a copy in pinned memory, and constructors can make tensors there",
            "tutorial: memory; article: pin_memory=True; processes: usage",
            all_of(yes(PINNED, COPY, MADE_PINNED), no(AS_MADE)),
        ),
    ),
    (WITHOUT_METHOD, WITH_METHOD),
    copies_of_custom_batches,
    what_is_pinned,
    sizes=(Size("rows", 64, "samples in a batch"),),
    changed="the article's batches have 2 rows of 5 numbers; here they are large enough to be seen in a trace",
    rounds=1,
)
