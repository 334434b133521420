"""Two versions of a program against each other: a first run of each, then pairs until it is decided."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Literal

from pinprof.ab.ahead import Ahead, of_known_steps, one_turn_each, pairs_at_once
from pinprof.ab.duel import Bounds, Duel, Progress, fight
from pinprof.ab.looks import FEWEST_PAIRS
from pinprof.ab.measuring import (
    LONGEST_START_S,
    Pair,
    Plan,
    in_turns,
    one_after_the_other,
    time_first,
    time_together,
)
from pinprof.ab.program import Program
from pinprof.ab.times import Timed
from pinprof.errors import MeasureError

Turns = Literal["auto", "steps", "runs"]
"""Whether the versions take turns every few steps, both in memory, or run after run."""
MOST_GPU_MEMORY = 0.4
"""The share of a GPU's memory up to which two processes may hold theirs at once."""


@dataclass(frozen=True)
class Wishes:
    """How to measure; `options` are those of `pinprof run` that find the steps."""

    bounds: Bounds = field(default_factory=Bounds)
    seconds: float = 3.0
    """How long to time steps in each process."""
    turns: Turns = "auto"
    options: tuple[str, ...] = ()
    ahead: int = FEWEST_PAIRS
    """How many pairs may start at once, where the machine has room; the first runs are together then."""


@dataclass(frozen=True)
class Contest:
    """Two versions and what came out; `first` are their runs that are not counted."""

    programs: tuple[Program, Program]
    first: tuple[Timed, Timed]
    turns: Turns
    why_runs: str
    """Why they ran after each other although nobody asked for that; empty where they did not."""
    duel: Duel


def contest(
    programs: tuple[Program, Program],
    wishes: Wishes,
    *,
    first: Sequence[Timed] | None = None,
    say: Callable[[str], None] = lambda _: None,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Contest:
    """Measure two versions against each other. Raises MeasureError if one of them cannot be measured.

    `first` are their first runs, where they are known. `say` gets what happens in words, `tell` what is known whenever
    a pair begins.
    """
    for program in programs:
        program.under_pinprof(())  # a command that cannot be run is told before the other version has run
    begun = time.monotonic()
    first = first or _first_runs(programs, wishes, say)
    _refuse_wrong_code(programs, first)
    took_s = time.monotonic() - begun
    plan = Plan.of(first, wishes.seconds, took_s)
    turns, why_runs = _way(wishes.turns, first)
    ahead = pairs_at_once(wishes.ahead, first)
    with ExitStack() as undo:
        measured = _Measured(programs, wishes, plan, turns, why_runs, ahead, max(each.children for each in first), undo)
        duel = fight(measured.pair, wishes.bounds, is_ready=measured.is_ready, tell=tell)
    return Contest(programs, (first[0], first[1]), measured.turns, measured.why_runs, duel)


def _first_runs(programs: Sequence[Program], wishes: Wishes, say: Callable[[str], None]) -> list[Timed]:
    limit_s = max(wishes.bounds.seconds, LONGEST_START_S)
    if wishes.ahead > 1:
        say("first run of both, which is not counted")
        with suppress(MeasureError):  # as where both have no room on the GPU
            return time_together(programs, wishes.options, wishes.seconds, limit_s)
    first = []
    for program in programs:
        say(f"first run of {program.name}, which is not counted")
        first.append(time_first(program, wishes.options, wishes.seconds, limit_s))
    return first


@dataclass
class _Measured:
    """Measures the pairs; where the versions cannot be in memory together, one after the other."""

    programs: Sequence[Program]
    wishes: Wishes
    plan: Plan
    turns: Turns
    why_runs: str
    ahead: int
    """How many pairs start at once."""
    children: int
    undo: ExitStack
    has_pair: bool = False
    started: Ahead | None = None

    def pair(self, first: int) -> Pair:
        """Measure a pair."""
        if self.ahead > 1:
            try:
                return self._ahead(first)
            except MeasureError:
                if self.has_pair:
                    raise
                self.ahead = 0
                self.undo.close()
        measure = in_turns if self.turns == "steps" else one_after_the_other
        try:
            pair = measure(self.programs, self.wishes.options, self.plan, first)
        except MeasureError as error:
            if self.turns != "steps" or self.has_pair or self.wishes.turns == "steps":
                raise
            self.turns, self.why_runs = "runs", f"side by side they do not run ({error})"
            pair = one_after_the_other(self.programs, self.wishes.options, self.plan, first)
        self.has_pair = True
        return pair

    def is_ready(self) -> bool:
        """Return whether the processes of the next pair have started."""
        return self.started is not None and self.started.is_ready

    def _ahead(self, first: int) -> Pair:
        if self.started is None:
            in_steps = self.turns == "steps"
            plan = of_known_steps(self.plan) if in_steps else one_turn_each(self.plan, self.children)
            self.started = self.undo.enter_context(Ahead(self.programs, self.wishes.options, plan, self.ahead))
        pair = self.started.pair(first)
        self.has_pair = True
        return pair


def _way(wanted: Turns, first: Sequence[Timed]) -> tuple[Turns, str]:
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
