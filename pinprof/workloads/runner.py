"""Runs the experiments one after the other, so that what becomes of one costs no other its figures."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pinprof.bench.catalogue import Experiment
from pinprof.bench.results import Bench, Figure, Machine, Picture, Result
from pinprof.version import VERSION
from pinprof.workloads.apart import Apart, ApartError
from pinprof.workloads.experiments import PROGRAMS, time_experiment, trace_experiment
from pinprof.workloads.machine import describe_machine

TIMEOUT_S = 120.0
"""How long a part of one experiment may take; on an H200 none takes a minute."""

Part = Callable[[str, dict[str, int], bool], Iterator[Figure | Picture]]
"""Yields what it finds of an experiment, given its number, its sizes and whether to be quick; picklable."""
OnProgress = Callable[[int, int, Experiment, str], None]
"""Called with k, n, the experiment that is the k-th of n, and the name of what was measured of it last, if any."""


def _silent(_number: int, _of: int, _known: Experiment, _last: str) -> None:
    """Show nothing."""


@dataclass
class _Gathered:
    """What an experiment has given so far."""

    figures: list[Figure] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def take(self, found: Figure | Picture) -> str:
        """Keep what was found and return its name."""
        if isinstance(found, Figure):
            self.figures.append(found)
            return found.name
        self.pictures.append(found)
        return found.case


@dataclass(frozen=True)
class Stage:
    """A part of the work that all experiments do before any does the next."""

    part: Part
    numbers: frozenset[str] | None = None
    """The experiments that have this part; None for all."""


STAGES = (
    Stage(time_experiment),
    Stage(trace_experiment, frozenset(number for number, program in PROGRAMS.items() if program.tell)),
)
"""Nothing is timed in a process that was profiled: CUPTI, once loaded, slows what the host bounds."""


def run_bench(
    experiments: Sequence[Experiment], *, quick: bool = False, on_progress: OnProgress = _silent, date: str = ""
) -> Bench:
    """Return what the experiments measure on this machine. ApartError if its GPU cannot be used at all."""
    with Apart() as apart:
        machines: list[Machine] = list(apart.call(describe_machine, timeout_s=TIMEOUT_S))
        results = run_experiments(experiments, STAGES, quick=quick, on_progress=on_progress, apart=apart)
    return Bench(machines[0], results, date or datetime.now(timezone.utc).date().isoformat(), quick, VERSION)


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

    Each stage has a process of its own for all experiments. One that fails, dies or takes longer than `timeout_s` has
    that as its problem; the others go on in a new process.
    """
    gathered = {known.number: _Gathered() for known in experiments}
    for stage in stages:
        for number, known in enumerate(experiments, start=1):
            if stage.numbers is None or known.number in stage.numbers:
                tell = _teller(on_progress, number, len(experiments), known)
                _run(apart, stage.part, known, gathered[known.number], quick=quick, timeout_s=timeout_s, tell=tell)
        apart.renew()
    return tuple(_result(known, gathered[known.number], quick=quick) for known in experiments)


def _teller(on_progress: OnProgress, number: int, of: int, known: Experiment) -> Callable[[str], None]:
    return lambda last: on_progress(number, of, known, last)


def _run(
    apart: Apart,
    part: Part,
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
        gathered.problems.append(str(error))
    gathered.seconds += time.monotonic() - start


def _result(known: Experiment, gathered: _Gathered, *, quick: bool) -> Result:
    return Result(
        number=known.number,
        sizes=known.defaults(quick=quick),
        figures=tuple(gathered.figures),
        seconds=round(gathered.seconds, 3),
        pictures=tuple(gathered.pictures),
        problem="; ".join(gathered.problems) or None,
    )
