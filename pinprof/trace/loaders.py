"""The DataLoaders of a recorded program."""

from dataclasses import dataclass

PREFETCHED = 2
"""Torch's default of `prefetch_factor`."""


@dataclass(frozen=True)
class MadeLoader:
    """A DataLoader."""

    num_workers: int
    persistent_workers: bool
    drawn: int = 0
    """Batches that were drawn in the recorded steps."""
    prefetch_factor: int | None = None
    """Batches that each worker prepares in advance; None without workers, and in recordings of old versions."""
    yields_tensors: bool = False
    """Whether its batches have dense tensors in host memory, which can be pinned."""


@dataclass(frozen=True)
class Made:
    """The DataLoaders that had yielded a batch, and existed when the recorded steps had ended."""

    loaders: tuple[MadeLoader, ...] = ()
    cpus: int | None = None
    """How many CPUs the process could use."""

    @property
    def drawn(self) -> tuple[MadeLoader, ...]:
        """The DataLoaders from which the recorded steps drew."""
        return tuple(loader for loader in self.loaders if loader.drawn)


def batches_held(made: Made | None) -> int | None:
    """Return how many batches the queues hold from which the steps drew; None if that is unknown."""
    held = [loader.num_workers * (loader.prefetch_factor or PREFETCHED) for loader in made.drawn] if made else []
    return max(held, default=0) or None
