"""Two versions of a program against each other: a first run of each, then pairs until it is decided."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from pinprof.ab.ahead import Ahead, pairs_at_once
from pinprof.ab.measuring import (
    OtherStepsError,
    Pair,
    in_turns,
    one_after_the_other,
    refuse_other_steps,
    time_first,
    time_together,
)
from pinprof.ab.plan import (
    FEWEST_BESIDE,
    LONGEST_START_S,
    Plan,
    beside_workers,
    in_one_turn,
    of_known_steps,
    without_turns,
)
from pinprof.ab.program import Program
from pinprof.ab.sequential_test import Bounds, Progress, SequentialTest, run_test
from pinprof.ab.statistics import FEWEST_PAIRS
from pinprof.ab.tasks import AUTO, StepOptions
from pinprof.ab.times import Timed
from pinprof.errors import MeasureError

Turns = Literal["auto", "steps", "runs"]
"""Whether the versions take turns of some steps, both in memory, or run after run."""
Made = TypeVar("Made")
TRIES = 3
"""How often a pair is measured whose steps are not alike."""
GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""What the drivers of NVIDIA, of WSL and of AMD make. Where no GPU works, two programs beside each other take the cores
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
    ahead: int = FEWEST_PAIRS
    """How many pairs may start at once, where the machine has room; on a GPU the first runs are together then."""


@dataclass(frozen=True)
class Measurement:
    """Two versions and what came out; `first` are their runs that are not counted."""

    programs: tuple[Program, Program]
    first: tuple[Timed, Timed]
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
    programs: tuple[Program, Program],
    wishes: Wishes,
    *,
    first: Sequence[Timed] | None = None,
    say: Callable[[str], None] = lambda _: None,
    tell: Callable[[Progress], None] = lambda _: None,
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
    ways = _way(wishes.turns, first, plan), _way_ahead(wishes.turns, first, plan)
    with ExitStack() as undo:
        measured = _Measured(programs, wishes, *ways, pairs_at_once(wishes.ahead, first), undo)
        test = run_test(measured.pair, wishes.bounds, is_ready=measured.is_ready, tell=tell)
    way = measured.way
    return Measurement(programs, (first[0], first[1]), way.turns, way.why_runs, way.plan, test)


def _with_like_steps(measure: Callable[[], Made]) -> Made:
    """Measure, again where the steps of the versions were not alike; raise OtherStepsError where they never are."""
    for _ in range(TRIES - 1):
        with suppress(OtherStepsError):
            return measure()
    return measure()


def _first_runs(programs: Sequence[Program], wishes: Wishes, say: Callable[[str], None]) -> list[Timed]:
    first = _run_first(programs, wishes, say)
    refuse_other_steps(programs, first)
    return first


def _run_first(programs: Sequence[Program], wishes: Wishes, say: Callable[[str], None]) -> list[Timed]:
    limit_s = max(wishes.bounds.seconds, LONGEST_START_S)
    if wishes.ahead > 1 and any(map(os.path.exists, GPU_DEVICES)):
        say("first run of both, which is not counted")
        with suppress(MeasureError):  # as where both have no room on the GPU
            together = time_together(programs, wishes.options, wishes.seconds, limit_s)
            if all(timed.gpu for timed in together):
                return together
    first = []
    for program in programs:
        say(f"first run of {program.name}, which is not counted")
        first.append(time_first(program, wishes.options, wishes.seconds, limit_s))
    return first


@dataclass(frozen=True)
class _Way:
    """How pairs are measured."""

    turns: Turns
    why_runs: str
    plan: Plan


@dataclass
class _Measured:
    """Measures the pairs; where the versions cannot be in memory together, one after the other."""

    programs: Sequence[Program]
    wishes: Wishes
    way: _Way
    """That of pairs that start one at a time, until others have started at once."""
    way_ahead: _Way
    ahead: int
    """How many pairs start at once."""
    undo: ExitStack
    has_pair: bool = False
    started: Ahead | None = None

    def pair(self, first: int) -> Pair:
        """Measure a pair; the first one finds the way of all."""
        pair = _with_like_steps(lambda: self._pair(first))
        self.has_pair = True
        return pair

    def is_ready(self) -> bool:
        """Return whether the processes of the next pair have started."""
        return self.started is not None and self.started.is_ready

    def _pair(self, first: int) -> Pair:
        if not self.has_pair:
            return self._first(first)
        return self.started.pair(first) if self.started else self._alone(first)

    def _first(self, first: int) -> Pair:
        if self.ahead > 1:
            try:
                return self._ahead(first)
            except MeasureError as error:  # as where the program has fewer steps than it is asked for
                self.undo.close()
                if isinstance(error, OtherStepsError):
                    raise
        try:
            return self._alone(first)
        except MeasureError as error:
            if isinstance(error, OtherStepsError) or self.way.turns != "steps" or self.wishes.turns == "steps":
                raise
            self.way = _Way("runs", f"side by side they do not run ({error})", without_turns(self.way.plan))
            return self._alone(first)

    def _ahead(self, first: int) -> Pair:
        started = Ahead(self.programs, self.wishes.options, self.way_ahead.plan, self.ahead)
        pair = self.undo.enter_context(started).pair(first)
        self.started, self.way = started, self.way_ahead
        return pair

    def _alone(self, first: int) -> Pair:
        measure = in_turns if self.way.turns == "steps" else one_after_the_other
        return measure(self.programs, self.wishes.options, self.way.plan, first)


def _way(wanted: Turns, first: Sequence[Timed], plan: Plan) -> _Way:
    """Return the way of pairs that start one at a time."""
    turns, why_runs = _turns(wanted, first)
    if turns == "runs":
        return _Way(turns, why_runs, without_turns(plan))
    workers = _workers(first)
    return _Way(turns, "", beside_workers(plan, workers, FEWEST_BESIDE) if workers else plan)


def _way_ahead(wanted: Turns, first: Sequence[Timed], plan: Plan) -> _Way:
    """Return the way of pairs that start at once: there, programs with workers may take turns, too."""
    turns, why_runs = _turns(wanted, first)
    workers = _workers(first)
    if turns == "steps" and not workers:
        return _Way(turns, "", of_known_steps(plan))
    if wanted == "runs" or not workers:
        return _Way("runs", why_runs, in_one_turn(plan, workers))
    turned = beside_workers(plan, workers, FEWEST_BESIDE if wanted == "steps" else 1)
    if turned.turns > 1:
        return _Way("steps", "", turned)
    return _Way("runs", f"{why_runs}, and too few steps in --seconds for turns beside them", turned)


def _workers(first: Sequence[Timed]) -> int:
    return max(timed.children for timed in first)


def _turns(wanted: Turns, first: Sequence[Timed]) -> tuple[Turns, str]:
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


def _refuse_wrong_code(programs: Sequence[Program], first: Sequence[Timed]) -> None:
    """Raise MeasureError if a version imports code of the other: where a project is installed from its folder, say."""
    for program, timed in zip(programs, first, strict=True):
        for wrong in program.not_its_own:
            file = next((file for file in timed.imported if file.startswith(wrong)), None)
            if file is not None:
                raise MeasureError(
                    f"{program.name}: it imports {file}, which is not of this version (is the project installed from "
                    "its folder?); set PYTHONPATH to the folders of its packages, relative to the top of the repository"
                )
