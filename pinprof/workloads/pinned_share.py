"""E15: what the host's own work takes while a growing share of its memory is pinned, with enough left to all others."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.workloads import host_memory
from pinprof.workloads.timing import Budget, TimedRun, Timer, by_host, figure, repeated

COPIED_BYTES = 1 << 27
"""Beyond the caches of a CPU, so that the host's memory is what is timed."""
FRESH_BYTES = READ_BYTES = 1 << 26
"""Of memory that is new to the process, and of a file that has been read before."""
WORK = Budget(least=5, most=40, seconds=0.15)
"""How often the host does each of its works at a step."""
PERCENTS = (5, 10, 15, 20, 30, 40, 50)
"""Of the host's memory, what is pinned step by step."""
CHUNK_BYTES = 1 << 30
"""What is pinned at once: between two of them it is asked what is left."""
LEFT_SHARE = 0.25
"""Of the host's memory, what all others keep at least."""
PINNING_S = 25.0
"""How long the steps may take in all: the host of an H100 pins a GiB in half a second, so some 40 GiB."""
CPU = torch.device("cpu")
MayPin = Callable[[int, int], bool]
"""Says whether so many more bytes may be pinned beside so many that are."""


def room(memory: int, pinned_before: int) -> MayPin:
    """Return what says whether more may be pinned: all others keep their share, and RLIMIT_MEMLOCK is not passed.

    A driver may pin without asking that limit: it does not hold where as much has been pinned before.
    """
    lockable = host_memory.lockable()

    def may(more: int, pinned: int) -> bool:
        within = pinned + more <= lockable or lockable <= pinned_before
        return within and host_memory.available() - more >= LEFT_SHARE * memory

    return may


def beside_pinned(
    pin: Callable[[], Tensor],
    free: Callable[[], None],
    memory: int,
    share: int,
    may: MayPin,
    clock: Timer = time.perf_counter,
) -> Iterator[Figure]:
    """Yield what each of the host's works takes at each step: how much of the memory is pinned, up to `share` percent.

    `pin` pins CHUNK_BYTES. A step is left out, and all after it, for which there is no room, or no time. What is
    pinned is given back before the figures come, whatever happens. Beside nothing pinned the works are timed before and
    after, so that what has slowed the host by itself shows there too.
    """
    pinned = _Pinned(pin, may, clock, clock() + PINNING_S)
    reached = []
    with _works() as works:
        works.do(0)
        try:
            for count in _steps(memory, share):
                if not pinned.reaches(count):
                    break
                works.do(count)
                reached.append(count)
        finally:
            pinned.chunks.clear()
            free()
        works.do(0)
    yield from works.figures()
    for count in reached:
        yield figure("pinned of the host's memory", "%", [100 * count / memory], count)


def _steps(memory: int, share: int) -> list[int]:
    """Return the bytes of each step, in whole chunks; those of a small host may be the same."""
    counts = (memory * percent // 100 // CHUNK_BYTES * CHUNK_BYTES for percent in PERCENTS if percent <= share)
    return sorted({count for count in counts if count})


@dataclass
class _Pinned:
    """Chunks that are pinned, and how long that took."""

    pin: Callable[[], Tensor]
    may: MayPin
    clock: Timer
    end: float
    chunks: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0

    def reaches(self, count: int) -> bool:
        """Pin more until so many bytes are; return False where room or time does not suffice."""
        while (missing := count // CHUNK_BYTES - len(self.chunks)) > 0:
            start = self.clock()
            each_s = self.seconds / len(self.chunks) if self.chunks else 0.0
            if start + missing * each_s > self.end or not self.may(CHUNK_BYTES, len(self.chunks) * CHUNK_BYTES):
                return False
            try:
                self.chunks.append(self.pin())
            except (RuntimeError, MemoryError):
                return False
            self.seconds += self.clock() - start
        return True


@dataclass(frozen=True)
class _Works:
    """What the host does by itself, and the milliseconds of its runs by what is pinned beside it, in bytes."""

    runs: Mapping[str, TimedRun]
    taken: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def do(self, pinned: int) -> None:
        for name, run in self.runs.items():
            self.taken.setdefault((name, pinned), []).extend(repeated(run, by_host(CPU), WORK))

    def figures(self) -> Iterator[Figure]:
        for (name, pinned), taken in self.taken.items():
            yield figure(name, "ms", taken, pinned)


@contextmanager
def _works() -> Iterator[_Works]:
    """Give what can be starved: a copy within the host's memory, memory that is new, a file that is read again."""
    source, target, read = (torch.ones(count, dtype=torch.uint8) for count in (COPIED_BYTES, COPIED_BYTES, READ_BYTES))
    with TemporaryDirectory(prefix="pinprof-") as folder:
        path = Path(folder) / "file"
        buffer = memoryview(read.numpy().data)
        path.write_bytes(buffer)

        def read_again() -> None:
            with path.open("rb", buffering=0) as file:
                file.readinto(buffer)

        works: dict[str, TimedRun] = {
            "host copy": partial(target.copy_, source),
            "fresh memory": lambda: torch.empty(FRESH_BYTES, dtype=torch.uint8).fill_(1),
            "file read again": read_again,
        }
        yield _Works(works)
