"""Where the time of a whole run went: the work that made steps longer, and a ledger whose rows add up to the run."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pinprof.analyses.whole_run.regular_step import (
    NotedSteps,
    RegularStep,
    Runs,
    noted_steps,
    period_of,
    regular_steps,
    runs_of,
    timed_regular_step,
)
from pinprof.ground.step_statistics import Bools, Series
from pinprof.trace.lines import Place
from pinprof.trace.metadata import run_log
from pinprof.trace.metadata.run_log import RunLog

FIRST_STEPS_SLOW, OFF_CPU, RECURRING, UNEXPLAINED = "first", "off_cpu", "recurring", "other"
"""Reasons besides the kinds of noted work: one of the first steps, a machine whose CPUs others had, what comes back
regularly, and what nothing explains."""
MIN_RECURRING_STEPS = 4
"""Fewer longer steps may be evenly spaced by chance."""
FIRST_STEPS = 10
"""If one of the first ten steps is irregular for no other reason, the reason is cold caches: `first`."""
MIN_SHARE_OF_EXCESS = 0.1
"""A reason is not named if it makes up a smaller share of a step's excess."""


@dataclass(frozen=True)
class Irregular:
    """Steps that are irregular for one reason."""

    reason: str
    """`first`, `off_cpu`, `recurring`, `other` or a kind of noted work."""
    count: int
    every: int | None
    """After how many steps it comes back; None where it does not do so regularly."""
    ns: int
    """The time that it adds to these steps, in total."""
    per_step_ns: float
    """The same, divided by the number of all steps without the profiler."""
    places: tuple[Place, ...]
    """Where the program calls such work, as far as pinprof noted it."""


@dataclass(frozen=True, eq=False)
class StepSplit:
    """The steps of a run, in columns."""

    profiled: Bools
    regular: Bools
    """Never a step under the profiler."""
    input_ns: Series
    """The time in a DataLoader, without `excess_ns`."""
    excess_ns: Series
    """By how much an irregular step is longer than the regular one; 0 for the others."""


def split_steps(log: RunLog, steps: NotedSteps) -> StepSplit:
    """Return which steps are regular, and by how much the others are longer."""
    host_ns = np.array(log.step_ns, np.int64)
    names, counts = zip(*log.windows, strict=True) if log.windows else ((), ())
    profiled = np.repeat(np.isin(names, run_log.PROFILED_WINDOWS), counts)
    regular = np.zeros(len(host_ns), bool)
    free = np.flatnonzero(~profiled)
    regular[free] = regular_steps(steps.of(free))
    usual, usual_input = 0.0, 0
    if regular.any():
        usual, usual_input = steps.time_ns[regular].mean(), np.median(steps.input_ns[regular])
    irregular = ~profiled & ~regular
    excess = np.where(irregular, np.clip(steps.time_ns - usual, 0, host_ns), 0).astype(np.int64)
    input_ns = np.where(irregular, np.minimum(steps.input_ns, usual_input), steps.input_ns)
    input_ns = np.where(profiled, 0, input_ns).astype(np.int64)
    return StepSplit(profiled, regular, np.minimum(input_ns, host_ns - excess), excess)


def irregular_work(log: RunLog, steps: StepSplit) -> list[Irregular]:
    """Return what makes the irregular steps longer, by reason, the reason of the first such step first."""
    work_in, free, rows = _work_by_step(log), max(int((~steps.profiled).sum()), 1), []
    for reason, excess in _excess_by_reason(work_in, steps).items():
        places = tuple(dict.fromkeys(place for step in excess for place in work_in[step].places.get(reason, ())))
        period, ns = period_of(list(excess)), sum(excess.values())
        rows.append(Irregular(reason, len(excess), period, ns, ns / free, places))
    return rows


class Expected(NamedTuple):
    """Irregular work that will come again."""

    reason: str
    every: int
    """The number of steps after which it comes back."""
    ahead: int
    """The number of steps before it comes next."""


def next_irregular_work(log: RunLog) -> Expected | None:
    """Return which irregular work is expected next; None if none comes regularly."""
    expected = []
    for reason, excess in _excess_by_reason(_work_by_step(log), split_steps(log, noted_steps(log))).items():
        steps = list(excess)
        period = None if reason in {FIRST_STEPS_SLOW, run_log.COMPILE, OFF_CPU, UNEXPLAINED} else period_of(steps)
        if period:
            expected.append(Expected(reason, period, (steps[-1] - len(log.step_ns)) % period))
    return min(expected, key=lambda work: work.ahead, default=None)


@dataclass
class _StepWork:
    """The work that was noted in one step, by kind."""

    ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    places: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))


def _work_by_step(log: RunLog) -> dict[int, _StepWork]:
    by_step: dict[int, _StepWork] = defaultdict(_StepWork)
    for step, ns in enumerate(log.off_cpu_ns):
        if ns:
            by_step[step].ns[OFF_CPU] = ns
    for work in log.unusual_work:
        by_step[work.step].ns[work.kind] += work.ns
        if work.place != run_log.NOWHERE:
            by_step[work.step].places[work.kind].append(log.places[work.place])
    return by_step


def _excess_by_reason(work_in: dict[int, _StepWork], steps: StepSplit) -> dict[str, dict[int, int]]:
    """Return by reason the steps that it makes longer, in order, and by how many ns each."""
    excess: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for step in np.flatnonzero(steps.excess_ns).tolist():
        for reason, ns in _divided(int(steps.excess_ns[step]), work_in[step].ns, step):
            excess[reason][step] += ns  # a new epoch may come twice: with its timed part, and as the rest's reason
    other, first = excess[UNEXPLAINED], excess[FIRST_STEPS_SLOW]
    period = period_of(list(other))
    early = [step for step in first if period is not None and (next(iter(other)) - step) % period == 0]
    if period is not None and len(early) + len(other) >= MIN_RECURRING_STEPS:
        excess[RECURRING] = {step: first.pop(step) for step in early} | excess.pop(UNEXPLAINED)
    return {reason: dict(sorted(ns_of.items())) for reason, ns_of in excess.items() if ns_of}


def _divided(excess: int, noted_ns: dict[str, int], step: int) -> Iterator[tuple[str, int]]:
    """Yield the reasons for the excess of a step, with the ns of each: those that were timed, and that of the rest."""
    unexplained, timed = excess, []
    for reason in (OFF_CPU, run_log.CHECKPOINT, run_log.CAPTURE, run_log.GARBAGE, run_log.EPOCH):
        ns = min(noted_ns.get(reason, 0), unexplained)
        if ns >= MIN_SHARE_OF_EXCESS * excess:
            timed.append((reason, ns))
            unexplained -= ns
    if timed and unexplained < MIN_SHARE_OF_EXCESS * excess:
        reason, ns = timed.pop()
        timed.append((reason, ns + unexplained))
    else:
        marked = (reason for reason in (run_log.COMPILE, run_log.EVALUATION, run_log.EPOCH) if reason in noted_ns)
        yield next(marked, FIRST_STEPS_SLOW if step < FIRST_STEPS else UNEXPLAINED), unexplained
    yield from timed


START_UP, REGULAR, INPUT_WAITS, LATER, PINPROF, RUN_END = "start_up", "regular", "input", "later", "pinprof", "end"
"""Rows of the ledger besides the reasons of irregular work. pinprof noted only the sum of the `later` steps;
`pinprof` is the time that pinprof itself took."""


@dataclass(frozen=True)
class LedgerRow:
    """A row of the ledger."""

    what: str
    ns: int
    steps: int | None = None
    """How many steps it is in; None for time outside of steps."""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class WholeRun:
    """A run in sums; the times of the ledger add up to `wall_ns`."""

    regular: int
    """The number of regular steps without the profiler, timed or not."""
    timed: RegularStep | None
    irregular: tuple[Irregular, ...]
    """The largest sum first."""
    ledger: tuple[LedgerRow, ...]
    wall_ns: int
    unavoidable: str | None
    """Why the recording could not avoid expected irregular work; None if it could."""
    runs: Runs | None = None
    """The other runs of the program; None where it ran once."""


def sum_up_run(log: RunLog) -> WholeRun:
    """Return the sums of a run."""
    steps = split_steps(log, noted_steps(log))
    irregular = irregular_work(log, steps)
    return WholeRun(
        regular=int(steps.regular.sum()),
        timed=timed_regular_step(log),
        irregular=tuple(sorted(irregular, key=lambda row: -row.ns)),
        ledger=tuple(entry for entry in _ledger(log, steps, irregular) if entry.ns),
        wall_ns=sum((log.start_up_ns, *log.step_ns, *log.own_ns, log.later.ns, log.after_ns, log.own_after_ns)),
        unavoidable=log.unavoidable,
        runs=runs_of(log.runs_ns),
    )


def _ledger(log: RunLog, steps: StepSplit, irregular: list[Irregular]) -> Iterator[LedgerRow]:
    host_ns = np.array(log.step_ns, np.int64)
    free, input_ns, excess_ns = ~steps.profiled, int(steps.input_ns.sum()), int(steps.excess_ns.sum())
    yield LedgerRow(START_UP, log.start_up_ns)
    yield LedgerRow(REGULAR, int(host_ns[free].sum()) - input_ns - excess_ns, int(free.sum()))
    yield LedgerRow(INPUT_WAITS, input_ns + log.later.input_ns, int((steps.input_ns > 0).sum()))
    yield from (LedgerRow(row.reason, row.ns, row.count, row.places) for row in irregular)
    yield LedgerRow(LATER, log.later.ns - log.later.input_ns, log.later.steps)
    own_ns = int(host_ns[steps.profiled].sum()) + sum(log.own_ns) + log.own_after_ns
    yield LedgerRow(PINPROF, own_ns, int(steps.profiled.sum()))
    yield LedgerRow(RUN_END, log.after_ns)
