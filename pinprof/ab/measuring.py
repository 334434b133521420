"""Measures a pair: one fresh process of each version, one after the other, or both in turns of a few steps."""

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path
from typing import final

import numpy as np

from pinprof.ab.cores import ANY_CORES, CORES_BYTES
from pinprof.ab.plan import Plan
from pinprof.ab.process import Running, running
from pinprof.ab.program import Program
from pinprof.ab.statistics import Floats
from pinprof.ab.tasks import Record, StepOptions, Turns
from pinprof.ab.times import Timed, read_times
from pinprof.capture.bounds import RecordingOptions
from pinprof.errors import MeasureError
from pinprof.replay.bound import STARVED
from pinprof.temporary import temporary_folder

LONGEST_PLAIN_S = 20.0
"""How long a first run times steps at least, where they are so long that it makes fewer than it should."""
TIMES = "times.json"
NORMAL_MAD, MEDIAN_ERROR = 1.4826, 1.2533
"""Of a normal distribution: its standard deviation by its median deviation, and the error of a median by a mean's."""


@dataclass(frozen=True)
class Difference:
    """The logarithm of the second version's step divided by the first's."""

    value: float
    error: float = 0.0
    """By how much it may be off, as the turns scatter; the same if the versions changed places. 0 without turns."""

    @classmethod
    def of(cls, each: Sequence[float]) -> "Difference":
        """Return the median of the turns' differences, with its error."""
        middle = float(np.median(each))
        scatter = NORMAL_MAD * float(np.median(np.abs(np.array(each) - middle)))
        return cls(middle, MEDIAN_ERROR * scatter / sqrt(len(each)))


@dataclass(frozen=True)
class Pair:
    """The steps of one process of each version, in ns, and which ran first: 0 or 1."""

    first: int
    usual_ns: tuple[float, float]
    mean_ns: tuple[float, float]
    usual: Difference
    mean: Difference
    """Of the means, which see what is only in some of the steps."""
    quickest: Difference | None = None
    """Of the quickest step of each turn; None where that tells something else: where workers set the pace, so that the
    quickest step is one whose batch was ready."""
    by_mean: bool = False
    """Whether the mean is the usual step, because workers set the pace: they bring batches in bursts, so that most
    steps find one that is ready."""

    @classmethod
    def of(cls, first: int, timed: Sequence[Timed]) -> "Pair":
        """Return the pair of these runs.

        In turns, each turn is compared with the other version's next to it: the median of these ratios sees neither
        what disturbs a few turns, nor how the machine changes meanwhile.
        """
        one, other = timed
        by_mean = max(one.input_fraction, other.input_fraction) >= STARVED
        mean_ns = (one.mean_ns, other.mean_ns)
        usual_ns = mean_ns if by_mean else (one.usual_ns, other.usual_ns)
        if len(one.turns) == 1 or len(one.turns) != len(other.turns):
            usual, mean = (Difference(log(b / a)) for a, b in (usual_ns, mean_ns))
            return cls(first, usual_ns, mean_ns, usual, mean, by_mean=by_mean)
        beside = list(zip(one.turns, other.turns, strict=True))
        mean = Difference.of([log(b.mean() / a.mean()) for a, b in beside])
        if by_mean:
            return cls(first, usual_ns, mean_ns, mean, mean, by_mean=True)
        usual = Difference.of([_step_by_step(a, b) for a, b in beside])
        quickest = [log(b.min() / a.min()) for a, b in zip(one.untouched, other.untouched, strict=True)]
        return cls(first, usual_ns, mean_ns, usual, mean, Difference.of(quickest))


class OtherStepsError(MeasureError):
    """A step of one version was several of the other's.

    Where iterations are told by pauses, as in reinforcement learning, that may happen to one process of many.
    """


def refuse_other_steps(programs: Sequence[Program], timed: Sequence[Timed]) -> None:
    """Raise OtherStepsError where a step of one version is several of the other's."""
    one, other = timed
    if one.marks_per_step != other.marks_per_step:
        raise OtherStepsError(
            f"a step of {programs[0].name} is one {one.marker}, and of {programs[1].name} one {other.marker}: their "
            "times cannot be compared; --step-marker says what a step is"
        )


def _step_by_step(turn: Floats, other: Floats) -> float:
    """Return the usual difference of two turns: both make the same steps, so each is compared with its like."""
    if len(turn) == len(other):
        return float(np.median(np.log(other / turn)))
    return log(np.median(other) / np.median(turn))


def time_together(programs: Sequence[Program], options: StepOptions, seconds: float, limit_s: float) -> list[Timed]:
    """Return the first run of each version, all at the same time: how fast they are is not counted."""
    longest = max(seconds, LONGEST_PLAIN_S)
    wanted = RecordingOptions(
        steps=0,
        warmup=options.warmup,
        max_warmup=options.max_warmup,
        plain_seconds=seconds,
        plain_max_seconds=longest,
        plain_precision=1.0,
    )
    return _timed(programs, options.step_marker, wanted, limit_s)


def time_first(program: Program, options: StepOptions, seconds: float, limit_s: float) -> Timed:
    """Return the first run of a version: it fills caches, tells how many steps to make, and is not counted."""
    return time_together([program], options, seconds, limit_s)[0]


def _timed(programs: Sequence[Program], step_marker: str, options: RecordingOptions, limit_s: float) -> list[Timed]:
    """Return the runs of versions that start at the same time."""
    with ExitStack() as stack:
        started = []
        for program in programs:
            folder = stack.enter_context(temporary_folder("ab"))
            command = program.under_worker(Record(step_marker=step_marker, options=options), folder / TIMES)
            process = stack.enter_context(running(command, program.folder, program.environment))
            started.append((program, folder, process))
        end = time.monotonic() + limit_s
        for program, _, process in started:
            _check(program, process, process.wait(max(end - time.monotonic(), 0.0)), limit_s)
        return [_read(program, folder) for program, folder, _ in started]


def one_after_the_other(programs: Sequence[Program], options: StepOptions, plan: Plan, first: int) -> Pair:
    """Measure a pair of processes, one after the other."""
    fixed = _fixed(plan)
    timed = {
        number: _timed([programs[number]], options.step_marker, fixed, plan.limit_s)[0] for number in (first, 1 - first)
    }
    return _pair(programs, first, [timed[0], timed[1]])


def in_turns(programs: Sequence[Program], options: StepOptions, plan: Plan, first: int) -> Pair:
    """Measure a pair of processes that take turns: A B B A A B B A ..., or with B first.

    Both load torch at the same time, and wait before they start the program.
    """
    order = (first, 1 - first)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("ab"))
        runs: dict[int, Run] = {}
        for number in order:
            runs[number] = stack.enter_context(Run(programs[number], options, plan, folder / str(number)))
        for run in runs.values():
            run.start()
            if not plan.start_together:
                run.await_turn()
        return take_turns(programs, runs, plan, first)


def _pair(programs: Sequence[Program], first: int, timed: Sequence[Timed]) -> Pair:
    refuse_other_steps(programs, timed)
    return Pair.of(first, timed)


def take_turns(programs: Sequence[Program], runs: "Mapping[int, Run] | Sequence[Run]", plan: Plan, first: int) -> Pair:
    """Let two processes that have started take turns, and end; return what they have measured.

    The second one of each two turns runs on the cores on which the first one has just run.
    """
    order = (first, 1 - first)
    for number in order:
        runs[number].await_turn()
    for turn in range(plan.turns):
        cores = ANY_CORES
        for number in order if turn % 2 == 0 else order[::-1]:
            cores = runs[number].take_turn(cores)
    for number in order:
        runs[number].go()
    for number in order:
        runs[number].await_end()
    return _pair(programs, first, [read_times(runs[number].folder) for number in (0, 1)])


def _fixed(plan: Plan) -> RecordingOptions:
    """Return the options by which each process times as many steps as the plan says, and no profiler starts."""
    warmup = max(plan.warmup, 1)
    return RecordingOptions(
        steps=0, warmup=warmup, max_warmup=warmup, plain_steps=plan.steps, plain_seconds=0.0, plain_precision=1.0
    )


def _check(program: Program, process: Running, status: int | None, limit_s: float) -> None:
    if status is None:
        raise MeasureError(f"{program.name}: it has not made its steps after {limit_s:.0f} s")
    if status:
        raise MeasureError(f"{program.name}: {process.why_failed(status)}")


def _read(program: Program, folder: Path) -> Timed:
    try:
        return read_times(folder)
    except MeasureError as error:
        raise MeasureError(f"{program.name}: {error}") from error


@final
class Run:
    """A process that takes turns with another one, while the block is open."""

    def __init__(self, program: Program, options: StepOptions, plan: Plan, folder: Path) -> None:
        self.folder = folder
        self._program, self._plan = program, plan
        self._stack = ExitStack()
        self._step_marker = options.step_marker
        self._end = 0.0
        self._waits = False
        self._cores = ANY_CORES

    def __enter__(self) -> "Run":
        self.folder.mkdir()
        asked, self._asks = os.pipe()
        self._told, told = os.pipe()
        plan = self._plan
        task = Record(
            step_marker=self._step_marker,
            options=_fixed(plan),
            turns=Turns(asked, told, plan.settling, plan.turn_steps, plan.turns),
        )
        command = self._program.under_worker(task, self.folder / TIMES)
        self._end = time.monotonic() + plan.limit_s
        with ExitStack() as undo:
            undo.callback(os.close, self._told)
            undo.callback(os.close, self._asks)
            try:
                process = running(command, self._program.folder, self._program.environment, (asked, told))
                self._process = undo.enter_context(process)
            finally:
                os.close(asked)
                os.close(told)
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it, wherever it is."""
        self._stack.close()

    def await_turn(self) -> None:
        """Wait until it waits for its turn. Raises MeasureError if it ends before."""
        if self._waits:
            return
        ready, _, _ = select.select([self._told], [], [], max(self._end - time.monotonic(), 0.0))
        cores = os.read(self._told, CORES_BYTES) if ready else b""
        if not cores:
            limit_s = self._plan.limit_s
            _check(self._program, self._process, self._process.wait(limit_s if ready else 0.0), limit_s)
            raise MeasureError(
                f"{self._program.name}: it ended before it had made all its steps; it needs {self._needed} of them"
            )
        self._cores, self._waits = cores, True

    def start(self) -> None:
        """Let it start the program."""
        self.await_turn()
        self.go()

    def take_turn(self, cores: bytes) -> bytes:
        """Let it make the steps of a turn, on these cores; return those on which it ends."""
        self.await_turn()
        self.go(cores)
        self.await_turn()
        return self._cores

    def go(self, cores: bytes = ANY_CORES) -> None:
        """Let it go on."""
        self._waits = False
        with suppress(BrokenPipeError):
            os.write(self._asks, cores)

    def await_end(self) -> None:
        """Wait until it has ended. Raises MeasureError if it fails."""
        _check(self._program, self._process, self._process.wait(self._plan.limit_s), self._plan.limit_s)

    @property
    def _needed(self) -> int:
        plan = self._plan
        return plan.warmup + plan.turns * (plan.settling + plan.turn_steps)


Measure = Callable[[Sequence[Program], Sequence[str], Plan, int], Pair]
