"""Runs the experiments one after the other, so that the failure of one does not cost another its figures."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Figure, Machine, Picture, Result, Usual, of_rounds, shortened, usual_by_unit
from pinprof.version import VERSION
from pinprof.workloads.apart import Apart, ApartError
from pinprof.workloads.experiments import (
    PROGRAMS,
    ROUNDS,
    SOME_ROUNDS,
    measure_once,
    time_experiment,
    trace_experiment,
)
from pinprof.workloads.machine import describe_machine

TIMEOUT_S = 120.0
"""How long a part of one experiment may take; on an H200 none takes a minute."""

ExperimentPart = Callable[[str, dict[str, int], bool], Iterator[Figure | Picture]]
"""Yields what it finds of an experiment, given its number, its sizes and whether to be quick; picklable."""
OnProgress = Callable[[str, Experiment, str], None]
"""Called with how far it is ("round 1, 2 of 15"), the experiment, and what was measured of it last, if any."""
BEGIN_BY_S = 235.0
"""No round after the first three begins later: one of what is light should take an H100 thirteen seconds, the traces
take it thirty-five, what is measured once fifteen, and the whole bench may take five minutes."""
FURTHER_BY_S = 210.0
"""What takes seconds begins no round after its own third later: rounds of what is light are still to come."""


def _silent(_far: str, _known: Experiment, _last: str) -> None:
    """Show nothing."""


@dataclass
class _Gathered:
    """What an experiment has given so far."""

    figures: dict[tuple[str, int | None], list[Figure]] = field(default_factory=dict)
    """Those of all rounds, by name and size."""
    pictures: list[Picture] = field(default_factory=list)
    problem: str | None = None
    seconds: float = 0.0

    def take(self, found: Figure | Picture) -> str:
        """Keep what was found and return its name."""
        if isinstance(found, Figure):
            self.figures.setdefault((found.name, found.size), []).append(found)
            return found.name
        self.pictures.append(found)
        return found.case


@dataclass(frozen=True)
class Stage:
    """A part of the work that all experiments do before any does the next."""

    name: str
    part: ExperimentPart
    numbers: frozenset[str] | None = None
    """The experiments that have this part; None for all."""
    fresh: bool = False
    """Whether it begins in a new process."""
    begin_by_s: float = math.inf
    """It is left out if the bench has taken longer when it would begin."""


def stages(*, quick: bool) -> tuple[Stage, ...]:
    """Return the rounds, in which all is timed, what is measured once, and the traces; a quick bench has one round.

    A round is a process of its own, and what drifts with time is spread over the rounds, not over the runs of one.
    Nothing is timed in a process that was profiled: CUPTI, once loaded, slows what the host bounds. What was timed may
    be profiled: starting a process takes some seconds.
    """
    rounds = [stage for number in range(1, 2 if quick else ROUNDS + 1) for stage in _round(number)]
    told = frozenset(number for number, program in PROGRAMS.items() if program.tell)
    once = frozenset(number for number, program in PROGRAMS.items() if program.once)
    return (*rounds, Stage("once", measure_once, once), Stage("traces", trace_experiment, told))


def _round(number: int) -> Iterator[Stage]:
    """Yield a round: what is timed in it whenever it begins, then what is only if time is left.

    What has fewer rounds than all else has them spread over the others, the first in the first.
    """
    place = {each: _place(program.rounds, number) for each, program in PROGRAMS.items()}
    further = frozenset(
        each for each, at in place.items() if at is not None and at >= SOME_ROUNDS and PROGRAMS[each].rounds < ROUNDS
    )
    there = frozenset(each for each, at in place.items() if at is not None) - further
    begin_by_s = math.inf if number <= SOME_ROUNDS else BEGIN_BY_S
    yield Stage(f"round {number}", time_experiment, there, fresh=number > 1, begin_by_s=begin_by_s)
    if further:
        yield Stage(f"round {number}", time_experiment, further, begin_by_s=FURTHER_BY_S)


def _place(rounds: int, number: int) -> int | None:
    """Return which of an experiment's rounds a round of the bench is, from 0 on; None if it is none of them."""
    places = [1 + place * ROUNDS // rounds for place in range(rounds)]
    return places.index(number) if number in places else None


def run_bench(
    experiments: Sequence[Experiment], *, quick: bool = False, on_progress: OnProgress = _silent, date: str = ""
) -> Bench:
    """Return what the experiments measure on this machine. ApartError if its GPU cannot be used at all."""
    with Apart() as apart:
        machines: list[Machine] = list(apart.call(describe_machine, timeout_s=TIMEOUT_S))
        results = run_experiments(experiments, stages(quick=quick), quick=quick, on_progress=on_progress, apart=apart)
    return Bench(
        machine=machines[0],
        results=results,
        date=date or datetime.now(timezone.utc).date().isoformat(),
        quick=quick,
        pinprof_version=VERSION,
    )


def run_experiments(
    experiments: Sequence[Experiment],
    stages: Sequence[Stage],
    *,
    apart: Apart,
    quick: bool = False,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = _silent,
) -> tuple[Result, ...]:
    """Return the results of the experiments, each with all figures that it gave before anything went wrong.

    They share a process; a stage may begin in a new one. One that fails, dies or takes longer than `timeout_s` has that
    as its problem and is left out of later stages; the others go on in a new process.
    """
    gathered = {known.number: _Gathered() for known in experiments}
    start = time.monotonic()
    for stage in stages:
        if time.monotonic() - start > stage.begin_by_s:
            continue
        if stage.fresh:
            apart.renew()
        for number, known in enumerate(experiments, start=1):
            has_part = stage.numbers is None or known.number in stage.numbers
            if has_part and gathered[known.number].problem is None:
                tell = _teller(on_progress, f"{stage.name}, {number} of {len(experiments)}", known)
                _run(apart, stage.part, known, gathered[known.number], quick=quick, timeout_s=timeout_s, tell=tell)
    usual = usual_by_unit(rounds for found in gathered.values() for rounds in found.figures.values())
    return tuple(_result(known, gathered[known.number], usual, quick=quick) for known in experiments)


def _teller(on_progress: OnProgress, far: str, known: Experiment) -> Callable[[str], None]:
    return lambda last: on_progress(far, known, last)


def _run(
    apart: Apart,
    part: ExperimentPart,
    known: Experiment,
    gathered: _Gathered,
    *,
    quick: bool,
    timeout_s: float,
    tell: Callable[[str], None],
) -> None:
    tell("")
    start = time.monotonic()
    try:
        for found in apart.call(part, known.number, known.defaults(quick=quick), quick, timeout_s=timeout_s):
            tell(gathered.take(found))
    except ApartError as error:
        gathered.problem = str(error)
    gathered.seconds += time.monotonic() - start


def _result(known: Experiment, gathered: _Gathered, usual: Mapping[str, Usual], *, quick: bool) -> Result:
    return Result(
        number=known.number,
        sizes=known.defaults(quick=quick),
        figures=tuple(shortened(of_rounds(each, usual.get(each[0].unit))) for each in gathered.figures.values()),
        seconds=round(gathered.seconds, 3),
        pictures=tuple(gathered.pictures),
        problem=gathered.problem,
    )
