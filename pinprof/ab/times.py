"""Reads what a run without a profiler has written: how long its steps took, and what it was."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.ab.statistics import Floats
from pinprof.errors import MeasureError
from pinprof.trace.run_log import CHECKPOINT, COMPILE, EPOCH, EVALUATION, PLAIN, RunLog, run_of_metadata

IRREGULAR = {EVALUATION, CHECKPOINT, COMPILE, EPOCH}
EVERY = re.compile(r"every \d+")
"""In the name of a marker: it takes several of them to make a step."""

LEAST = 0.01
"""No step is shorter than this share of its time, whatever its delay seems to be."""


@dataclass(frozen=True)
class Timed:
    """The steps that a process made without a profiler."""

    turns: tuple[Floats, ...]
    """The times of the steps of each turn, in ns, without those in which an evaluation, a checkpoint or another
    irregular work was noted; one turn where nobody took turns."""
    warmup: int
    """Steps before them."""
    marker: str
    gpu: str | None
    imported: tuple[str, ...]
    """Files of the user's."""
    ranks: int
    """How many processes made steps."""
    children: int
    gpu_memory: float | None
    """The share that it has taken."""
    by_clock: tuple[Floats, ...] = ()
    """The same turns by the host's clock alone, with the time of other programs; empty where the GPU timed steps."""
    gpu_free: float = 1.0
    """The share of the GPU's memory that no process had taken at its end."""
    input_fraction: float = 0.0
    """The share of the steps' time in a DataLoader with workers."""

    @property
    def marks_per_step(self) -> tuple[str, ...]:
        """How many batches or optimizer steps make a step, as its marker tells; empty for one."""
        return tuple(EVERY.findall(self.marker))

    @property
    def untouched(self) -> tuple[Floats, ...]:
        """The turns as they were timed, with the time of other programs: it makes steps longer, never shorter."""
        return self.by_clock or self.turns

    @property
    def steps(self) -> Floats:
        """The times of all steps."""
        return np.concatenate(self.turns)

    @property
    def usual_ns(self) -> float:
        """The usual step: the median."""
        return float(np.median(self.steps))

    @property
    def mean_ns(self) -> float:
        """The mean of all steps."""
        return float(self.steps.mean())

    def can_take_turns(self, most_memory: float) -> bool:
        """Return whether it is one process without others, and takes no more of the GPU's memory than this share."""
        return self.ranks == 1 and not self.children and (self.gpu_memory or 0.0) <= most_memory


def read_times(folder: Path) -> Timed:
    """Return what the processes of a run have written into a folder: of several, the one with the longest step.

    The ranks of a job wait for each other, so that the slowest tells the job's step. Raises MeasureError if there is
    nothing.
    """
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    timed = [each for each in found if each is not None]
    if not timed:
        raise MeasureError("it made no steps that could be timed")
    slowest = max(timed, key=lambda each: each.usual_ns)
    return Timed(**{**vars(slowest), "ranks": len(timed), "children": max(each.children for each in timed)})


def _read(path: Path) -> Timed | None:
    document: dict[str, Any] = json.loads(path.read_bytes())
    log = run_of_metadata(document.get("pinprof_run"))
    if log is None:
        return None
    memory, free, children = document.get("gpu_memory"), document.get("gpu_free"), document.get("children", 0)
    delays = [] if children else document.get("delays_ns", [])  # its own workers have had the CPU, too
    turns, by_clock, first = _turns(log, delays)
    told = document["pinprof"]
    if not turns:
        return None
    imported = tuple(document.get("imported", ()))
    free = 1.0 if free is None else free
    waits = _input_fraction(log) if children else 0.0
    return Timed(turns, first, told["marker"], told["gpu"], imported, 1, children, memory, by_clock, free, waits)


def _input_fraction(log: RunLog) -> float:
    plain = _is_plain(log)
    steps, waits = (np.array(each, dtype=np.float64)[plain].sum() for each in (log.step_ns, log.input_ns))
    return float(waits / steps) if steps else 0.0


def _is_plain(log: RunLog) -> NDArray[np.bool_]:
    """Return which steps are of a window that times them."""
    return np.repeat([window == PLAIN for window, _ in log.windows], [count for _, count in log.windows]).astype(bool)


def _turns(log: RunLog, delays_ns: Sequence[int]) -> tuple[tuple[Floats, ...], tuple[Floats, ...], int]:
    """Return the times of the steps of each plain window, the same by the host's clock, and how many steps come before.

    Steps that the host's clock timed count without the time in which other programs had their CPU, where it is known:
    on a busy machine that is most of the noise.
    """
    clock, gpu = (np.array(each, dtype=np.float64) for each in (log.step_ns, log.gpu_ns))
    host = clock.copy()
    plain = _is_plain(log)
    if len(delays_ns) == plain.sum():
        host[plain] = np.maximum(host[plain] - np.array(delays_ns), LEAST * host[plain])
    regular = ~np.isin(np.arange(len(host)), _irregular(log))
    turns, first = _windows(log, np.where(gpu > 0, gpu, host), regular)
    return turns, () if gpu.any() else _windows(log, clock, regular)[0], first


def _windows(log: RunLog, times: Floats, regular: NDArray[np.bool_]) -> tuple[tuple[Floats, ...], int]:
    turns, first, begin = [], len(times), 0
    for window, count in log.windows:
        if window == PLAIN:
            first = min(first, begin)
            kept = times[begin : begin + count][regular[begin : begin + count]]
            turns.append(kept if len(kept) else times[begin : begin + count])
        begin += count
    return tuple(turns), first


def _irregular(log: RunLog) -> list[int]:
    rare = IRREGULAR - log.in_most_steps(IRREGULAR)
    return sorted({each.step for each in log.work if each.kind in rare})
