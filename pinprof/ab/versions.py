"""Two versions of a program against each other: a first run of each, then pairs until it is decided."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from pinprof.ab.plan import (
    FEWEST_BESIDE,
    LONGEST_START_S,
    Plan,
    beside_workers,
    in_one_turn,
    of_known_steps,
    without_turns,
)
from pinprof.ab.runs import StartedPairs, one_after_the_other, pairs_at_once, time_first
from pinprof.ab.sequential_test import Bounds, PairsProgress, SequentialTest, run_test
from pinprof.ab.statistics import FEWEST_PAIRS
from pinprof.ab.times import OtherStepsError, Pair, TimedProcess, refuse_other_steps
from pinprof.ab.worker import AUTO, ProgramVersion, StepOptions
from pinprof.errors import MeasureError

Turns = Literal["auto", "steps", "runs"]
"""Whether the versions take turns of some steps, both in memory, or run after run."""
Result = TypeVar("Result")
TRIES = 3
"""How often a pair is measured whose steps are not alike."""
GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""What the drivers of NVIDIA, of WSL and of AMD make. Where no GPU works, two programs at the same time take the cores
from each other: a step of 1 ms took 150 ms on two cores, and would be planned with."""
MOST_GPU_MEMORY = 0.4
"""The share of a GPU's memory up to which two processes may hold theirs at once."""


@dataclass(frozen=True)
class Wishes:
    """How to measure; `options` say how to find the steps."""

    bounds: Bounds = field(default_factory=Bounds)
    seconds: float = 3.0
    """How long to time steps in each process."""
    turns: Turns = "auto"
    options: StepOptions = AUTO
    at_once: int = FEWEST_PAIRS
    """How many pairs may start at once, where the machine has room; on a GPU the first runs are together then."""


@dataclass(frozen=True)
class Measurement:
    """Two versions and what came out; `first` are their runs that are not counted."""

    programs: tuple[ProgramVersion, ProgramVersion]
    first: tuple[TimedProcess, TimedProcess]
    turns: Turns
    why_runs: str
    """Why they ran after each other although nobody asked for that; empty where they did not."""
    plan: Plan
    """The steps that each process made, all in one turn if they ran after each other."""
    test: SequentialTest

    @property
    def has_workers(self) -> bool:
        """Whether a version has processes of its own."""
        return any(timed.children for timed in self.first)


def measure_versions(
    programs: tuple[ProgramVersion, ProgramVersion],
    wishes: Wishes,
    *,
    first: Sequence[TimedProcess] | None = None,
    say: Callable[[str], None] = lambda _: None,
    tell: Callable[[PairsProgress], None] = lambda _: None,
) -> Measurement:
    """Measure two versions against each other. Raises MeasureError if one of them cannot be measured.

    `first` are their first runs, where they are known. `say` gets what happens in words, `tell` what is known whenever
    a pair begins.
    """
    for program in programs:
        program.python_command()  # a command that cannot be run is told before the other version has run
    begun = time.monotonic()
    first = first or _with_like_steps(lambda: _first_runs(programs, wishes, say))
    _refuse_wrong_code(programs, first)
    took_s = time.monotonic() - begun
    plan = Plan.of(first, wishes.seconds, took_s)
    ways = _ways(wishes.turns, first, plan, pairs_at_once(wishes.at_once, first))
    with closing(_Pairs(programs, wishes.options, ways)) as pairs:
        test = run_test(pairs.pair, wishes.bounds, is_ready=lambda: pairs.is_ready, tell=tell)
        way = pairs.way
    return Measurement(programs, (first[0], first[1]), way.turns, way.why_runs, way.plan, test)


def _with_like_steps(measure: Callable[[], Result]) -> Result:
    """Measure, again where the steps of the versions were not alike; raise OtherStepsError where they never are."""
    for _ in range(TRIES - 1):
        with suppress(OtherStepsError):
            return measure()
    return measure()


def _first_runs(programs: Sequence[ProgramVersion], wishes: Wishes, say: Callable[[str], None]) -> list[TimedProcess]:
    first = _run_first(programs, wishes, say)
    refuse_other_steps([program.name for program in programs], first)
    return first


def _run_first(programs: Sequence[ProgramVersion], wishes: Wishes, say: Callable[[str], None]) -> list[TimedProcess]:
    limit_s = max(wishes.bounds.seconds, LONGEST_START_S)
    if wishes.at_once > 1 and any(map(os.path.exists, GPU_DEVICES)):
        say("first run of both, which is not counted")
        with suppress(MeasureError):  # as where both have no room on the GPU
            together = time_first(programs, wishes.options, wishes.seconds, limit_s)
            if all(timed.gpu for timed in together):
                return together
    first = []
    for program in programs:
        say(f"first run of {program.name}, which is not counted")
        first += time_first([program], wishes.options, wishes.seconds, limit_s)
    return first


@dataclass(frozen=True)
class _Way:
    """How pairs are measured: `pairs` of them start at once, or, with 0, process after process."""

    pairs: int
    turns: Turns
    why_runs: str
    plan: Plan


class _Pairs:
    """Measures pairs by the first of these ways by which the first pair can be measured."""

    def __init__(self, programs: Sequence[ProgramVersion], options: StepOptions, ways: Sequence[_Way]) -> None:
        self._programs, self._options, self._ways = programs, options, list(ways)
        self._started: StartedPairs | None = None

    @property
    def way(self) -> _Way:
        """How the next pair is measured."""
        return self._ways[0]

    @property
    def is_ready(self) -> bool:
        """Whether the processes of the next pair have started."""
        return self._started is not None and self._started.is_ready

    def pair(self, first: int) -> Pair:
        """Measure a pair. Raises MeasureError if that cannot be done in any way."""
        return _with_like_steps(lambda: self._pair(first))

    def close(self) -> None:
        """End all processes."""
        if self._started is not None:
            self._started.close()
            self._started = None

    def _pair(self, first: int) -> Pair:
        try:
            pair = self._measured(first)
        except OtherStepsError:
            raise
        except MeasureError as error:  # as where the program has fewer steps than it is asked for, or no room
            if len(self._ways) == 1:
                raise
            self.close()
            failed = self._ways.pop(0)
            if failed.pairs == 1 and not self.way.pairs:
                self._ways[0] = replace(self.way, why_runs=f"taking turns failed: {error}")
            return self._pair(first)
        del self._ways[1:]
        return pair

    def _measured(self, first: int) -> Pair:
        if not self.way.pairs:
            return one_after_the_other(self._programs, self._options, self.way.plan, first)
        if self._started is None:
            self._started = StartedPairs(self._programs, self._options, self.way.plan, self.way.pairs)
        return self._started.pair(first)


def _ways(wanted: Turns, first: Sequence[TimedProcess], plan: Plan, at_once: int) -> list[_Way]:
    """Return how to measure, the best way first: several pairs at once, one in turns, process after process.

    A program that ends before it has made the steps of all turns takes fewer turns.
    """
    turns, why_runs = _turns(wanted, first)
    workers = _workers(first)
    ways = [_way_at_once(wanted, first, plan, at_once)] if at_once > 1 else []
    if turns == "steps":
        plans = [beside_workers(plan, workers, FEWEST_BESIDE)] if workers else [plan, of_known_steps(plan)]
        ways += [_Way(1, "steps", "", turned) for turned in dict.fromkeys(plans)]
    if wanted != "steps":
        ways.append(_Way(0, "runs", why_runs, without_turns(plan)))
    return ways


def _way_at_once(wanted: Turns, first: Sequence[TimedProcess], plan: Plan, at_once: int) -> _Way:
    """Return the way of pairs that start at once: there, programs with workers may take turns, too."""
    turns, why_runs = _turns(wanted, first)
    workers = _workers(first)
    if turns == "steps" and not workers:
        return _Way(at_once, turns, "", of_known_steps(plan))
    if wanted == "runs" or not workers:
        return _Way(at_once, "runs", why_runs, in_one_turn(plan, workers))
    turned = beside_workers(plan, workers, FEWEST_BESIDE if wanted == "steps" else 1)
    if turned.turns > 1:
        return _Way(at_once, "steps", "", turned)
    return _Way(at_once, "runs", f"{why_runs}, and too few steps in --seconds for turns beside them", turned)


def _workers(first: Sequence[TimedProcess]) -> int:
    return max(timed.children for timed in first)


def _turns(wanted: Turns, first: Sequence[TimedProcess]) -> tuple[Turns, str]:
    if wanted != "auto":
        return wanted, ""
    for timed in first:
        if timed.ranks > 1:
            return "runs", "the program has several ranks"
        if timed.children:
            return "runs", "the program has processes of its own, as workers of a DataLoader"
        if not timed.can_take_turns(MOST_GPU_MEMORY):
            return "runs", f"the program takes more than {MOST_GPU_MEMORY:.0%} of the GPU's memory"
    return "steps", ""


def _refuse_wrong_code(programs: Sequence[ProgramVersion], first: Sequence[TimedProcess]) -> None:
    """Raise MeasureError if a version imports code of the other: where a project is installed from its folder, say."""
    for program, timed in zip(programs, first, strict=True):
        for wrong in program.not_its_own:
            file = next((file for file in timed.imported if file.startswith(wrong)), None)
            if file is not None:
                raise MeasureError(
                    f"{program.name}: it imports {file}, which is not of this version (is the project installed from "
                    "its folder?); set PYTHONPATH to the folders of its packages, relative to the top of the repository"
                )
