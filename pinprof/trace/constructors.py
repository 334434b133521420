"""The DataLoaders and optimizers that a recorded program made, each with the place of its constructor's call."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pinprof.trace.lines import Place, Placed

PREFETCHED = 2
"""Torch's default of `prefetch_factor`."""
DENSE = "tensor"
"""Stands in the description of a batch for a tensor in host memory that can be pinned."""


@dataclass(frozen=True)
class MadeLoader(Placed):
    """A DataLoader."""

    file: str
    line: int | None
    function: str
    direct: bool
    """Whether the user's own line called its class; otherwise a library did, called by that line."""
    kind: str
    """Its class, with the module."""
    dataset: str
    """The class of its data set, with the module."""
    iterable: bool
    """Whether the data set is an IterableDataset."""
    num_workers: int
    pin_memory: bool
    persistent_workers: bool
    batch_size: int | None = None
    """None if it makes no batches, or a sampler makes them."""
    own_collate: bool = False
    """Whether a function of the program's own makes batches of samples."""
    drawn: int = 0
    """Batches that were drawn in the recorded steps."""
    loops: tuple[Place, ...] = ()
    """Where the program began to draw from it."""
    foreign: tuple[str, ...] | None = None
    """Classes and functions that make its samples and are not known to work in several processes, as those of torch and
    torchvision are. None in recordings of old versions."""
    fixed: bool = False
    """Whether the sample of an index is always the same, and no random number is drawn for it."""
    length: int | None = None
    """How many batches it yields in an epoch."""
    begun: int = 0
    """How often the program had begun to draw from it when the recording ended."""
    prefetch_factor: int | None = None
    """Batches that each worker prepares in advance; None without workers, and in recordings of old versions."""
    batch: object = None
    """A description of its batches: `tensor` for a dense tensor in host memory, another word for other objects, and
    lists, tuples (`{"tuple": [...]}`) and mappings (`{"dict": {...}}`) of these; None if no batch was seen."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The words in the description of its batches, without lists and mappings; with `tuple` for each tuple."""
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
    """The DataLoaders and optimizers that existed while the recorded steps ran."""

    loaders: tuple[MadeLoader, ...] = ()
    optimizers: tuple[MadeOptimizer, ...] = ()
    cpus: int | None = None
    """How many CPUs the process could use."""
    sources: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of the files in which they were made, at that time."""
    more: bool = False
    """Whether there were more than are kept."""
    starts_by: str | None = None
    """How the program's processes start: `fork`, `spawn` or `forkserver`."""

    @property
    def drawn(self) -> tuple[MadeLoader, ...]:
        """The DataLoaders from which the recorded steps drew."""
        return tuple(loader for loader in self.loaders if loader.drawn)


def batches_held(made: Made | None) -> int | None:
    """Return how many batches the queues hold from which the steps drew; None if that is unknown."""
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
