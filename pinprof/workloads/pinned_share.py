"""E15: time the host's own work while a growing share of its memory is pinned, and leave enough to other programs."""

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
"""Larger than the caches of a CPU, so that the copy is bound by the host's memory."""
FRESH_BYTES = READ_BYTES = 1 << 26
"""The size of memory that is new to the process, and of a file that has been read before."""
WORK = Budget(least=5, most=40, seconds=0.15)
"""How often each kind of work runs at each step."""
PERCENTS = (5, 10, 15, 20, 30, 40, 50)
"""The steps: how much of the host's memory is pinned."""
CHUNK_BYTES = 1 << 30
"""Memory is pinned in chunks; before each, we check that enough is left."""
LEFT_SHARE = 0.25
"""The share of the host's memory that always stays available to other programs."""
PINNING_S = 25.0
"""The time for all steps: the host of an H100 pins a GiB in half a second, so some 40 GiB."""
CPU = torch.device("cpu")
MayPin = Callable[[int, int], bool]
"""Given how many more bytes to pin and how many are pinned, returns whether that is allowed."""


def room(memory: int, pinned_before: int) -> MayPin:
    """Return a function that says whether more may be pinned: other programs keep their share, RLIMIT_MEMLOCK holds.

    A driver may ignore RLIMIT_MEMLOCK: we do too if more than that was pinned before.
    """
    lockable = host_memory.lockable()

    def may(more: int, pinned: int) -> bool:
        within = pinned + more <= lockable or lockable <= pinned_before
        return within and host_memory.available() - more >= LEFT_SHARE * memory

    return may


def work_while_pinning(
    pin: Callable[[], Tensor],
    free: Callable[[], None],
    memory: int,
    share: int,
    may: MayPin,
    clock: Timer = time.perf_counter,
) -> Iterator[Figure]:
    """Yield the time of each kind of work at each step: with up to `share` percent of the host's memory pinned.

    `pin` pins CHUNK_BYTES. If there is no room or no time for a step, it and all later ones are left out. All memory is
    freed before the figures come, whatever happens. With nothing pinned the work is timed before and after, which shows
    whether something else has slowed the host.
    """
    pinned = _Pinned(pin, may, clock, clock() + PINNING_S)
    reached = []
    with _host_work() as work:
        work.time(0)
        try:
            for count in _steps(memory, share):
                if not pinned.reaches(count):
                    break
                work.time(count)
                reached.append(count)
        finally:
            pinned.chunks.clear()
            free()
        work.time(0)
    yield from work.figures()
    for count in reached:
        yield figure("pinned of the host's memory", "%", [100 * count / memory], count)


def _steps(memory: int, share: int) -> list[int]:
    """Return the bytes of each step, in whole chunks; on a small host several steps may be one."""
    counts = (memory * percent // 100 // CHUNK_BYTES * CHUNK_BYTES for percent in PERCENTS if percent <= share)
    return sorted({count for count in counts if count})


@dataclass
class _Pinned:
    """The pinned chunks, and how long pinning them took."""

    pin: Callable[[], Tensor]
    may: MayPin
    clock: Timer
    end: float
    chunks: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0

    def reaches(self, count: int) -> bool:
        """Pin chunks until `count` bytes are pinned; return False if there is no room or no time for that."""
        while (missing := count // CHUNK_BYTES - len(self.chunks)) > 0:
            start = self.clock()
            chunk_s = self.seconds / len(self.chunks) if self.chunks else 0.0
            if start + missing * chunk_s > self.end or not self.may(CHUNK_BYTES, len(self.chunks) * CHUNK_BYTES):
                return False
            try:
                self.chunks.append(self.pin())
            except (RuntimeError, MemoryError):
                return False
            self.seconds += self.clock() - start
        return True


@dataclass(frozen=True)
class _HostWork:
    """Kinds of work of the host, and the milliseconds of their runs, by name and by how many bytes were pinned."""

    runs: Mapping[str, TimedRun]
    times: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def time(self, pinned: int) -> None:
        for name, run in self.runs.items():
            self.times.setdefault((name, pinned), []).extend(repeated(run, by_host(CPU), WORK))

    def figures(self) -> Iterator[Figure]:
        for (name, pinned), times in self.times.items():
            yield figure(name, "ms", times, pinned)


@contextmanager
def _host_work() -> Iterator[_HostWork]:
    """Give work that pinned memory may slow: a copy in host memory, fresh memory, and reading a file again."""
    source, target, read = (torch.ones(count, dtype=torch.uint8) for count in (COPIED_BYTES, COPIED_BYTES, READ_BYTES))
    with TemporaryDirectory(prefix="pinprof-") as folder:
        path = Path(folder) / "file"
        buffer = memoryview(read.numpy().data)
        path.write_bytes(buffer)

        def read_again() -> None:
            with path.open("rb", buffering=0) as file:
                file.readinto(buffer)

        runs: dict[str, TimedRun] = {
            "host copy": partial(target.copy_, source),
            "fresh memory": lambda: torch.empty(FRESH_BYTES, dtype=torch.uint8).fill_(1),
            "file read again": read_again,
        }
        yield _HostWork(runs)
