"""Run the experiments in a process of their own, so that the failure of one does not cost another its figures."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Figure, Machine, Picture, Result, Usual, of_rounds, shortened, usual_by_unit
from pinprof.version import VERSION
from pinprof.workloads.experiments import (
    PROGRAMS,
    ROUNDS,
    SOME_ROUNDS,
    measure_once,
    time_experiment,
    trace_experiment,
)
from pinprof.workloads.machine import describe_machine
from pinprof.workloads.spawned_process import SpawnedProcess, SpawnedProcessError

TIMEOUT_S = 120.0
"""How long a part of one experiment may take; on an H200 none takes a minute."""

ExperimentPart = Callable[[str, dict[str, int], bool], Iterator[Figure | Picture]]
"""Yields figures and pictures of an experiment, given its number, its sizes and whether to be quick; picklable."""
OnProgress = Callable[[str, Experiment, str], None]
"""Gets the place in the bench ("round 1, 2 of 15"), the experiment, and what was measured of it last, if any."""
BEGIN_BY_S = 235.0
"""After the first three rounds, none begins later: the bench may take five minutes, and on an H100 a round of the quick
experiments takes thirteen seconds, the traces thirty-five, and what is measured once fifteen."""
FURTHER_BY_S = 210.0
"""After its third round, an experiment that takes seconds begins none later: rounds of the quick ones are to follow."""


def _silent(_place: str, _experiment: Experiment, _last: str) -> None:
    """Show nothing."""


@dataclass
class _Gathered:
    """The results of an experiment so far."""

    figures: dict[tuple[str, int | None], list[Figure]] = field(default_factory=dict)
    """The figures of all rounds, by name and size."""
    pictures: list[Picture] = field(default_factory=list)
    problem: str | None = None
    seconds: float = 0.0

    def take(self, finding: Figure | Picture) -> str:
        """Keep a figure or a picture and return its name."""
        if isinstance(finding, Figure):
            self.figures.setdefault((finding.name, finding.size), []).append(finding)
            return finding.name
        self.pictures.append(finding)
        return finding.case


@dataclass(frozen=True)
class Stage:
    """A part of the bench: all experiments run it before any runs the next."""

    name: str
    part: ExperimentPart
    numbers: frozenset[str] | None = None
    """The experiments that have this part; None for all."""
    fresh: bool = False
    """Whether it begins in a new process."""
    begin_by_s: float = math.inf
    """It is left out if it would begin later than this."""


def stages(*, quick: bool) -> tuple[Stage, ...]:
    """Return the rounds of timing, what is measured once, and the traces; a quick bench has one round.

    Each round has a process of its own, so that what drifts with time shows as a difference between rounds. Nothing is
    timed in a process that was profiled: CUPTI, once loaded, slows the host. But the traces come in the process of the
    last round, because starting one takes some seconds.
    """
    rounds = [stage for number in range(1, 2 if quick else ROUNDS + 1) for stage in _round(number)]
    traced = frozenset(number for number, program in PROGRAMS.items() if program.read)
    once = frozenset(number for number, program in PROGRAMS.items() if program.once)
    return (*rounds, Stage("once", measure_once, once), Stage("traces", trace_experiment, traced))


def _round(number: int) -> Iterator[Stage]:
    """Yield a round: first the experiments that it always has, then those that it has only if time is left.

    Experiments with fewer rounds have them spread over those of the bench, beginning with the first.
    """
    places = {name: _place(program.rounds, number) for name, program in PROGRAMS.items()}
    further = frozenset(
        name for name, at in places.items() if at is not None and at >= SOME_ROUNDS and PROGRAMS[name].rounds < ROUNDS
    )
    always = frozenset(name for name, at in places.items() if at is not None) - further
    begin_by_s = math.inf if number <= SOME_ROUNDS else BEGIN_BY_S
    yield Stage(f"round {number}", time_experiment, always, fresh=number > 1, begin_by_s=begin_by_s)
    if further:
        yield Stage(f"round {number}", time_experiment, further, begin_by_s=FURTHER_BY_S)


def _place(rounds: int, number: int) -> int | None:
    """Return which of an experiment's rounds, from 0 on, comes in a round of the bench; None if none does."""
    places = [1 + at * ROUNDS // rounds for at in range(rounds)]
    return places.index(number) if number in places else None


def run_bench(
    experiments: Sequence[Experiment], *, quick: bool = False, on_progress: OnProgress = _silent, date: str = ""
) -> Bench:
    """Return what the experiments measure on this machine. Raises SpawnedProcessError if its GPU cannot be used."""
    with SpawnedProcess() as process:
        machines: list[Machine] = list(process.call(describe_machine, timeout_s=TIMEOUT_S))
        chosen = stages(quick=quick)
        results = run_experiments(experiments, chosen, quick=quick, on_progress=on_progress, process=process)
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
    process: SpawnedProcess,
    quick: bool = False,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = _silent,
) -> tuple[Result, ...]:
    """Return the results of the experiments, each with all figures that it gave before it failed.

    They share a process; a stage may begin in a new one. An experiment that fails, dies or takes longer than
    `timeout_s` is left out of later stages, and its result says why; the others go on in a new process.
    """
    gathered = {experiment.number: _Gathered() for experiment in experiments}
    start = time.monotonic()
    for stage in stages:
        if time.monotonic() - start > stage.begin_by_s:
            continue
        if stage.fresh:
            process.renew()
        for number, experiment in enumerate(experiments, start=1):
            results = gathered[experiment.number]
            if results.problem is None and (stage.numbers is None or experiment.number in stage.numbers):
                report = _reporter(on_progress, f"{stage.name}, {number} of {len(experiments)}", experiment)
                _run(process, stage.part, experiment, results, quick=quick, timeout_s=timeout_s, report=report)
    usual = usual_by_unit(rounds for results in gathered.values() for rounds in results.figures.values())
    return tuple(_result(experiment, gathered[experiment.number], usual, quick=quick) for experiment in experiments)


def _reporter(on_progress: OnProgress, stage: str, experiment: Experiment) -> Callable[[str], None]:
    return lambda last: on_progress(stage, experiment, last)


def _run(
    process: SpawnedProcess,
    part: ExperimentPart,
    experiment: Experiment,
    gathered: _Gathered,
    *,
    quick: bool,
    timeout_s: float,
    report: Callable[[str], None],
) -> None:
    report("")
    start = time.monotonic()
    try:
        for item in process.call(part, experiment.number, experiment.defaults(quick=quick), quick, timeout_s=timeout_s):
            report(gathered.take(item))
    except SpawnedProcessError as error:
        gathered.problem = str(error)
    gathered.seconds += time.monotonic() - start


def _result(experiment: Experiment, gathered: _Gathered, usual: Mapping[str, Usual], *, quick: bool) -> Result:
    return Result(
        number=experiment.number,
        sizes=experiment.defaults(quick=quick),
        figures=tuple(shortened(of_rounds(one, usual.get(one[0].unit))) for one in gathered.figures.values()),
        seconds=round(gathered.seconds, 3),
        pictures=tuple(gathered.pictures),
        problem=gathered.problem,
    )
