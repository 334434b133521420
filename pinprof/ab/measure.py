"""Compares two versions of a program: a first run of each, then pairs until the result is certain."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

from pinprof.ab.pairs import Pairs, time_first, with_like_steps
from pinprof.ab.plan import LONGEST_START_S, Plan, TurnMode, pairs_at_once, plans
from pinprof.ab.sequential_test import Bounds, PairsProgress, SequentialTest, run_test
from pinprof.ab.statistics import FEWEST_PAIRS
from pinprof.ab.times import TimedProcess, refuse_other_steps
from pinprof.ab.worker import AUTO, ProgramVersion, StepOptions
from pinprof.errors import MeasureError

GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Devices of the drivers of NVIDIA, WSL and AMD. Without a GPU, two programs at the same time take the cores from each
other: a step of 1 ms took 150 ms on two cores, which would spoil the plan."""


@dataclass(frozen=True)
class Wishes:
    """How to measure; `options` say how to find the steps."""

    bounds: Bounds = field(default_factory=Bounds)
    seconds: float = 3.0
    """How long to time steps in each process."""
    turns: TurnMode = "auto"
    options: StepOptions = AUTO
    at_once: int = FEWEST_PAIRS
    """How many pairs may start at once, if the machine has room; on a GPU the first runs then start together, too."""


@dataclass(frozen=True)
class Measurement:
    """Two versions and the result; `first` are their first runs, which are not counted."""

    programs: tuple[ProgramVersion, ProgramVersion]
    first: tuple[TimedProcess, TimedProcess]
    plan: Plan
    """How pairs were measured; in one turn if the processes ran one after the other."""
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
    """Compare two versions. Raises MeasureError if one of them cannot be measured.

    `first` are their first runs, if they have been made. `say` gets sentences on what happens, `tell` the progress
    whenever a pair begins.
    """
    for program in programs:
        program.python_command()  # a wrong command fails before the other version has run
    begun = time.monotonic()
    first = first or with_like_steps(lambda: _first_runs(programs, wishes, say))
    _refuse_wrong_code(programs, first)
    took_s = time.monotonic() - begun
    plan = Plan.of(first, wishes.seconds, took_s)
    possible = plans(wishes.turns, first, plan, pairs_at_once(wishes.at_once, first))
    with closing(Pairs(programs, wishes.options, possible)) as pairs:
        test = run_test(pairs.pair, wishes.bounds, is_ready=lambda: pairs.is_ready, tell=tell)
        return Measurement(programs, (first[0], first[1]), pairs.plan, test)


def _first_runs(programs: Sequence[ProgramVersion], wishes: Wishes, say: Callable[[str], None]) -> list[TimedProcess]:
    """Return a run of each version, together where a GPU has room for both. Raises OtherStepsError."""
    limit_s = max(wishes.bounds.seconds, LONGEST_START_S)
    first: list[TimedProcess] = []
    if wishes.at_once > 1 and any(map(os.path.exists, GPU_DEVICES)):
        say("first run of both, which is not counted")
        with suppress(MeasureError):
            first = time_first(programs, wishes.options, wishes.seconds, limit_s)
    if not first or not all(timed.gpu for timed in first):
        first = []
        for program in programs:
            say(f"first run of {program.name}, which is not counted")
            first += time_first([program], wishes.options, wishes.seconds, limit_s)
    refuse_other_steps([program.name for program in programs], first)
    return first


def _refuse_wrong_code(programs: Sequence[ProgramVersion], first: Sequence[TimedProcess]) -> None:
    """Raise MeasureError if a version imports code of the other, as if the project is installed from its folder."""
    for program, timed in zip(programs, first, strict=True):
        for wrong in program.not_its_own:
            file = next((file for file in timed.imported if file.startswith(wrong)), None)
            if file is not None:
                raise MeasureError(
                    f"{program.name}: it imports {file}, which is not of this version (is the project installed from "
                    "its folder?); set PYTHONPATH to the folders of its packages, relative to the top of the repository"
                )
