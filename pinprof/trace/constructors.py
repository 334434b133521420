"""What a recorded program made: its DataLoaders and optimizers, each with the place of its call."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pinprof.trace.lines import Place, Placed

PREFETCHED = 2
"""Torch's default of `prefetch_factor`."""
DENSE = "tensor"
"""A tensor in host memory that can be pinned, in the description of a batch."""


@dataclass(frozen=True)
class MadeLoader(Placed):
    """A DataLoader."""

    file: str
    line: int | None
    function: str
    direct: bool
    """Whether the user's own line called its class; else a library did, on behalf of that line."""
    kind: str
    """Its class, with the module."""
    dataset: str
    """The class of its data set, with the module."""
    iterable: bool
    """Whether that is an IterableDataset."""
    num_workers: int
    pin_memory: bool
    persistent_workers: bool
    batch_size: int | None = None
    """None where it makes no batches by itself, or where a sampler makes them."""
    own_collate: bool = False
    """Whether a function of the program's own makes batches of samples."""
    drawn: int = 0
    """Batches that were drawn within the recorded steps."""
    loops: tuple[Place, ...] = ()
    """Where the program began to draw from it."""
    foreign: tuple[str, ...] | None = None
    """Classes and functions that make its samples and are not known to work in several processes; those of torch and
    torchvision are. None in recordings of old versions."""
    fixed: bool = False
    """Whether the sample of an index is always the same, and no random number is drawn for it."""
    length: int | None = None
    """How many batches it yields before it begins anew."""
    begun: int = 0
    """How often the program had begun to draw from it when the recording ended."""
    prefetch_factor: int | None = None
    """Batches that each worker has ready; None without workers, and in recordings of old versions."""
    batch: object = None
    """What its batches are: `tensor` for a dense one in host memory, another word for what is none, and lists, tuples
    (`{"tuple": [...]}`) and mappings (`{"dict": {...}}`) of these; None where none was seen."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What its batches are made of, without the lists and mappings; `tuple` for each tuple."""
        return tuple(_batch_parts(self.batch))


@dataclass(frozen=True)
class MadeOptimizer(Placed):
    """An optimizer."""

    file: str
    line: int | None
    function: str
    direct: bool
    """As for a DataLoader."""
    kind: str
    """Its class, with the module."""
    fused: bool | None = None
    foreach: bool | None = None
    differentiable: bool = False
    momentum: bool = False
    """Whether it keeps the momentum of SGD."""
    plain_on_gpu: bool = False
    """Whether all its parameters are dense tensors of real numbers on GPUs, and were when it was made."""


@dataclass(frozen=True)
class Made:
    """All that was made and still there while the recorded steps ran."""

    loaders: tuple[MadeLoader, ...] = ()
    optimizers: tuple[MadeOptimizer, ...] = ()
    cpus: int | None = None
    """How many the process could use."""
    sources: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of the files in which they were made, as they were then."""
    more: bool = False
    """Whether there were too many to keep all."""
    starts_by: str | None = None
    """How processes start that the program makes: `fork`, `spawn` or `forkserver`."""

    @property
    def drawn(self) -> tuple[MadeLoader, ...]:
        """The DataLoaders from which the recorded steps drew."""
        return tuple(loader for loader in self.loaders if loader.drawn)


def batches_held(made: Made | None) -> int | None:
    """Return how many batches the queues hold from which the steps drew; None where that is not known."""
    held = [loader.num_workers * (loader.prefetch_factor or PREFETCHED) for loader in made.drawn] if made else []
    return max(held, default=0) or None


def _batch_parts(batch: object) -> Iterator[str]:
    if isinstance(batch, str):
        yield batch
    elif isinstance(batch, list):
        for element in batch:
            yield from _batch_parts(element)
    elif isinstance(batch, dict) and "tuple" in batch:
        yield "tuple"
    elif isinstance(batch, dict):
        for element in batch.get("dict", {}).values():
            yield from _batch_parts(element)
