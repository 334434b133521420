"""The step times that processes have written, and how those of a pair compare: one process of each version."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from pinprof.ab.statistics import Floats
from pinprof.errors import MeasureError
from pinprof.replay.bound import STARVED
from pinprof.trace.run_log import IRREGULAR_WORK, PLAIN, RunLog, TimesFile, run_of_metadata

EVERY = re.compile(r"every \d+")
"""In the name of a marker: a step is several of its calls."""

LEAST = 0.01
"""A step less its delay is at least this share of the step, however long the delay seems."""
NORMAL_MAD, MEDIAN_ERROR = 1.4826, 1.2533
"""Ratios in a normal distribution: standard deviation to median deviation, and error of a median to that of a mean."""


@dataclass(frozen=True)
class TimedProcess:
    """The steps that a process made without a profiler."""

    turns: tuple[Floats, ...]
    """The step times of each turn, in ns, without steps with an evaluation, a checkpoint or other irregular work; one
    turn where the versions did not take turns."""
    warmup: int
    """Steps before the first turn."""
    marker: str
    gpu: str | None
    imported: tuple[str, ...]
    """The user's files that it has imported."""
    ranks: int
    """How many processes made steps."""
    children: int
    gpu_memory: float | None
    """The share of the GPU's memory that it has taken."""
    by_clock: tuple[Floats, ...] = ()
    """The same turns by the host's clock, including the time of other programs; empty where the GPU timed steps."""
    gpu_free: float = 1.0
    """The share of the GPU's memory that was free when it ended."""
    input_fraction: float = 0.0
    """The share of the steps' time in a DataLoader with workers."""

    @property
    def marks_per_step(self) -> tuple[str, ...]:
        """The part of the marker's name that says how many of its calls are a step; empty for one call."""
        return tuple(EVERY.findall(self.marker))

    @property
    def untouched(self) -> tuple[Floats, ...]:
        """The turns as timed, including the time of other programs, which can only make steps longer."""
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


def read_times(folder: Path) -> TimedProcess:
    """Return the times that a run has written into a folder; of several ranks, those of the slowest.

    The ranks of a job wait for each other, so that the slowest sets the job's step. Raises MeasureError if no steps
    were timed.
    """
    ranks = [timed for path in sorted(folder.glob("*.json")) if (timed := _read(path)) is not None]
    if not ranks:
        raise MeasureError("it made no steps that could be timed")
    slowest = max(ranks, key=lambda rank: rank.usual_ns)
    return replace(slowest, ranks=len(ranks), children=max(rank.children for rank in ranks))


def _read(path: Path) -> TimedProcess | None:
    times = msgspec.json.decode(path.read_bytes(), type=TimesFile)
    log = run_of_metadata(times.pinprof_run)
    if log is None:
        return None
    delays = [] if times.children else times.delays_ns  # its own workers have had the CPU, too
    turns, by_clock, first = _turns(log, delays)
    if not turns:
        return None
    return TimedProcess(
        turns,
        first,
        times.pinprof["marker"],
        times.pinprof["gpu"],
        tuple(times.imported),
        ranks=1,
        children=times.children,
        gpu_memory=times.gpu_memory,
        by_clock=by_clock,
        gpu_free=times.gpu_free,
        input_fraction=_input_fraction(log) if times.children else 0.0,
    )


def _input_fraction(log: RunLog) -> float:
    plain = _is_plain(log)
    steps, waits = (np.array(times, dtype=np.float64)[plain].sum() for times in (log.step_ns, log.input_ns))
    return float(waits / steps) if steps else 0.0


def _is_plain(log: RunLog) -> NDArray[np.bool_]:
    """Return which steps are of a window that times them."""
    return np.repeat([window == PLAIN for window, _ in log.windows], [count for _, count in log.windows]).astype(bool)


def _turns(log: RunLog, delays_ns: Sequence[int]) -> tuple[tuple[Floats, ...], tuple[Floats, ...], int]:
    """Return the step times of each plain window, the same by the host's clock, and how many steps come before.

    From steps that the host's clock timed, the time is subtracted in which other programs used the CPU, where it is
    known: on a busy machine that is most of the noise.
    """
    clock, gpu = (np.array(times, dtype=np.float64) for times in (log.step_ns, log.gpu_ns))
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
    rare = {*IRREGULAR_WORK} - log.in_most_steps({*IRREGULAR_WORK})
    return sorted({work.step for work in log.work if work.kind in rare})


@dataclass(frozen=True)
class Difference:
    """The logarithm of the second version's step divided by the first's."""

    value: float
    error: float = 0.0
    """Its standard error, from the scatter of the turns; the same if the versions change places. 0 without turns."""

    @classmethod
    def of(cls, turns: Sequence[float]) -> "Difference":
        """Return the median of the turns' differences, with its error."""
        middle = float(np.median(turns))
        scatter = NORMAL_MAD * float(np.median(np.abs(np.array(turns) - middle)))
        return cls(middle, MEDIAN_ERROR * scatter / sqrt(len(turns)))


@dataclass(frozen=True)
class Pair:
    """The steps of one process of each version, in ns, and which ran first: 0 or 1."""

    first: int
    usual_ns: tuple[float, float]
    mean_ns: tuple[float, float]
    usual: Difference
    mean: Difference
    """Of the means, which include work that is in only some of the steps."""
    quickest: Difference | None = None
    """Of the quickest step of each turn; None where workers set the pace: such a step had its batch ready."""
    by_mean: bool = False
    """Whether the mean is taken for the usual step, because workers set the pace: they deliver batches in bursts, so
    that most steps find one ready."""

    @classmethod
    def of(cls, first: int, timed: Sequence[TimedProcess]) -> "Pair":
        """Return the pair of these runs.

        Each turn is compared with the other version's turn next to it: neither a disturbance of a few turns nor a slow
        change of the machine affects the median of these ratios.
        """
        one, other = timed
        by_mean = max(one.input_fraction, other.input_fraction) >= STARVED
        mean_ns = (one.mean_ns, other.mean_ns)
        usual_ns = mean_ns if by_mean else (one.usual_ns, other.usual_ns)
        if len(one.turns) == 1 or len(one.turns) != len(other.turns):
            usual, mean = (Difference(log(b / a)) for a, b in (usual_ns, mean_ns))
            return cls(first, usual_ns, mean_ns, usual, mean, by_mean=by_mean)
        neighbours = list(zip(one.turns, other.turns, strict=True))
        mean = Difference.of([log(b.mean() / a.mean()) for a, b in neighbours])
        if by_mean:
            return cls(first, usual_ns, mean_ns, mean, mean, by_mean=True)
        usual = Difference.of([_step_by_step(a, b) for a, b in neighbours])
        quickest = [log(b.min() / a.min()) for a, b in zip(one.untouched, other.untouched, strict=True)]
        return cls(first, usual_ns, mean_ns, usual, mean, Difference.of(quickest))


class OtherStepsError(MeasureError):
    """A step of one version is several steps of the other.

    Where steps are told apart by pauses, as in reinforcement learning, that may happen in one process of many.
    """


def refuse_other_steps(names: Sequence[str], timed: Sequence[TimedProcess]) -> None:
    """Raise OtherStepsError where a step of one version is several of the other's."""
    one, other = timed
    if one.marks_per_step != other.marks_per_step:
        raise OtherStepsError(
            f"a step of {names[0]} is one {one.marker}, and of {names[1]} one {other.marker}: their "
            "times cannot be compared; --step-marker says what a step is"
        )


def _step_by_step(turn: Floats, other: Floats) -> float:
    """Return the usual difference of two turns: both make the same steps, so each step is compared with its own."""
    if len(turn) == len(other):
        return float(np.median(np.log(other / turn)))
    return log(np.median(other) / np.median(turn))
