"""Starts the processes of several pairs at once, and measures the pairs one after the other.

To start takes a process some ten seconds: imports, the GPU's context, the warm-up. While a pair is measured, all others
wait between two steps.
"""

import os
import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import final

from pinprof.ab.measuring import Pair, Run, take_turns
from pinprof.ab.plan import Plan
from pinprof.ab.program import Program
from pinprof.ab.tasks import StepOptions
from pinprof.ab.times import Timed
from pinprof.temporary import temporary_folder

MOST_GPU_MEMORY = 0.8
"""The share of a GPU's memory that all processes may hold at once, of what other programs leave."""
CONTEXT = 0.006
"""The share of a GPU's memory that a process takes beside its tensors: some 600 MB of 80 GB and more."""
MOST_MEMORY = 0.6
"""The share of the host's free memory that they may hold."""
STARTING_PER_CORE = 1.25
"""Processes of programs that start at once: nine pairs on 16 cores."""
PROCESSES_PER_CORE = 4
"""Processes of programs and their workers: nearly all of them wait."""


@final
class Ahead:
    """Pairs whose processes have started, `pairs` of them at once; while the block is open."""

    def __init__(self, programs: Sequence[Program], options: StepOptions, plan: Plan, pairs: int) -> None:
        self._programs, self._options, self._plan, self._pairs = programs, options, plan, pairs
        self._undo = ExitStack()
        self._ready: list[list[Run]] = []
        self._runs: list[Run] = []

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        self._ready.clear()
        with ThreadPoolExecutor() as pool:  # to end takes each of them a second
            list(pool.map(Run.end, self._runs))
        self._undo.close()

    @property
    def is_ready(self) -> bool:
        """Whether the processes of the next pair have started."""
        return bool(self._ready)

    def pair(self, first: int) -> Pair:
        """Measure the next pair. Raises MeasureError if a process fails."""
        if not self._ready:
            self._undo.close()
            self._start()
        return take_turns(self._programs, self._ready.pop(), self._plan, first)

    def _start(self) -> None:
        """Start the processes of the next pairs in an order at random, and wait until all of them wait."""
        self._runs.clear()
        folder = self._undo.enter_context(temporary_folder("ab"))
        places = [(pair, number) for pair in range(self._pairs) for number in (0, 1)]
        Random().shuffle(places)  # noqa: S311  no secret
        started: dict[tuple[int, int], Run] = {}
        for pair, number in places:
            own = folder / f"{pair}.{number}"
            run = Run(self._programs[number], self._options, self._plan, own)
            started[pair, number] = self._undo.enter_context(run)
            self._runs.append(run)
        for run in started.values():
            run.start()
        for run in started.values():
            run.await_turn()
        self._ready = [[started[pair, 0], started[pair, 1]] for pair in range(self._pairs)]


def pairs_at_once(wanted: int, first: Sequence[Timed]) -> int:
    """Return how many pairs may start at once, by what the first run of each version took; 0 or 1: none."""
    if any(timed.ranks > 1 for timed in first):
        return 0
    cores = os.cpu_count() or 1
    processes = 1 + max(timed.children for timed in first)
    room = [wanted, int(STARTING_PER_CORE * cores / 2), PROCESSES_PER_CORE * cores // (2 * processes)]
    memory = max(timed.gpu_memory or 0.0 for timed in first)
    if any(timed.gpu for timed in first):
        free = min(min(timed.gpu_free for timed in first) + memory + CONTEXT, 1.0)  # its own share is free again
        room.append(int(MOST_GPU_MEMORY * free / (2 * (memory + CONTEXT))))
    with suppress(OSError, ValueError, StopIteration):
        largest = max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1) * 1024 * processes
        room.append(int(MOST_MEMORY * _free_bytes() / (2 * largest)))
    return max(min(room), 0)


def _free_bytes() -> int:
    rows = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(row.split()[1] for row in rows if row.startswith("MemAvailable:")))
