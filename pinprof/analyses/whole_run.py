"""A whole run, not only the steps in the trace: its regular step, its irregular work, and its ledger.

The regular step is the mean of the regular steps without the profiler, with its uncertainty. The rows of the ledger
add up to the run.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pinprof.ground.step_statistics import (
    MIN_BLOCKS_OF_STEPS,
    Bools,
    Series,
    half_width,
    range_of_another,
    returning,
    unlike_others,
)
from pinprof.trace.lines import Place
from pinprof.trace.metadata import run_log
from pinprof.trace.metadata.run_log import RunLog

BEST_PRECISION = 0.005
"""The mean is never known more precisely than to this share: GPU clocks change, and timing the steps takes time."""
MAX_IRREGULAR_SHARE, MAX_IRREGULAR_STEPS = 0.05, 3
"""Longer steps without a known reason may be irregular if they are few: at most this share of all steps, or at most
this number."""
UNEXPLAINED_MULTIPLE = 3.0
"""A step without a known reason or a period is irregular only above this multiple of the usual one: on a busy machine,
twice the usual length is common."""
MIN_GAPS_OF_PERIOD = 2
USUAL_GAP_SHARE = 0.8
"""In a period, at least this share of the gaps has the usual length, and the other gaps are multiples of it."""
QUICK_INPUT_PERCENTILE = 25


@dataclass(frozen=True)
class RegularStep:
    """The regular step as it was timed without the profiler; times in ns."""

    steps: int  # how many steps were timed
    step_ns: float  # their mean
    range_ns: tuple[float, float] | None
    """The 95 % confidence interval of the mean, which does not reach down to 0; None for too few steps."""
    input_fraction: float  # the share of their time in a DataLoader
    quick_input_ns: float
    """A quarter of the steps are in a DataLoader for at most this time: with workers, about the cost of a ready
    batch."""
    others: int = 0  # how many timed steps were left out because they are irregular
    other_ns: float = 0.0  # the mean of those steps

    @property
    def input_ns(self) -> float:
        """The mean time in a DataLoader."""
        return self.input_fraction * self.step_ns

    @property
    def precision(self) -> float:
        """Half of the confidence interval, as a share of the mean."""
        return (self.range_ns[1] - self.step_ns) / self.step_ns if self.range_ns else np.inf


@dataclass(frozen=True)
class Runs:
    """The regular step of several runs of a program, each in a fresh process; times in ns."""

    step_ns: tuple[float, ...]
    range_ns: tuple[float, float] | None
    """Where the step of one more run lies, with 95 % confidence; None for two runs, which are too few."""


def runs_of(step_ns: tuple[float, ...]) -> Runs | None:
    """Return the runs of a program with these regular steps in ns; None where it ran once."""
    return Runs(step_ns, range_of_another(np.array(step_ns))) if len(step_ns) > 1 else None


class NotedSteps(NamedTuple):
    """Steps of a run as pinprof noted them, in columns; times in ns."""

    number: Series  # the index of each step among all steps of the run
    time_ns: Series
    input_ns: Series  # the part of each step in a DataLoader
    epochs: Bools  # whether an epoch begins in the step
    noted: Bools  # whether irregular work was noted in the step
    filling: Bools  # whether the step's batch was prefetched while a DataLoader started

    def of(self, rows: Series) -> "NotedSteps":
        """Return only these steps."""
        return NotedSteps(*(column[rows] for column in self))


def noted_steps(log: RunLog) -> NotedSteps:
    """Return all steps of a run, timed by the GPU if that was done, otherwise by the host."""
    host_ns, gpu_ns = np.array(log.step_ns, np.int64), np.array(log.gpu_ns, np.int64)
    number = np.arange(len(host_ns))
    input_ns = np.minimum(np.array(log.input_ns, np.int64), host_ns)
    if gpu_ns.any():
        host_ns = _without_lead(host_ns, float(np.median(gpu_ns[gpu_ns > 0])))
    return NotedSteps(
        number,
        np.where(gpu_ns > 0, gpu_ns, host_ns),
        input_ns,
        epochs=np.isin(number, [work.step for work in log.work if work.kind == run_log.EPOCH]),
        noted=np.isin(number, [work.step for work in log.unusual_work]),
        filling=np.isin(number, log.filling),
    )


def _without_lead(host_ns: Series, usual_ns: float) -> Series:
    """Return how long steps take, from the times of a host that may run ahead of the GPU and wait for it later.

    A step shorter than the usual one builds up a lead. In a later step the host waits until the lead is used up. That
    wait does not count as a part of the later step.
    """
    lead, times = 0.0, []
    for time in host_ns.tolist():
        ahead = usual_ns - time
        waits = min(lead, max(-ahead, 0.0))
        lead += max(ahead, 0.0) - waits
        times.append(max(time, usual_ns) - waits)
    return np.array(times, np.int64)


def regular_steps(steps: NotedSteps) -> Bools:
    """Return which steps are regular, by their times and the work in them.

    Waiting for input that comes in bursts is part of a regular step; waiting at the start of an epoch is not. Steps
    that are longer for no noted reason and without a period count as regular if there are many of them, or if they are
    not much longer: they show how the steps scatter.
    """
    regular = ~unlike_others(steps.time_ns, steps.noted, lambda: np.where(steps.epochs, 0, steps.input_ns))
    unexplained = np.flatnonzero(~regular & ~steps.noted)
    if len(unexplained) and period_of(steps.number[unexplained]) is None:
        many = len(unexplained) > max(MAX_IRREGULAR_SHARE * len(regular), MAX_IRREGULAR_STEPS)
        slightly = steps.time_ns[unexplained] <= UNEXPLAINED_MULTIPLE * np.median(steps.time_ns)
        regular[unexplained[many | slightly]] = True
    without_input_ns = (steps.time_ns - steps.input_ns)[regular]
    recurring = returning(without_input_ns, steps.number[regular])
    regular[np.flatnonzero(regular)[recurring]] = False
    return regular


def period_of(steps: Sequence[int] | Series) -> int | None:
    """Return the period of something that came in these steps, in steps; None without a period.

    Steps under the profiler are unknown, so an occurrence may be missing.

    >>> period_of([10, 20, 40, 50, 60, 70, 80])
    10
    """
    gaps = np.diff(steps)
    if len(gaps) < MIN_GAPS_OF_PERIOD:
        return None
    period = int(np.median(gaps))
    if period == 1:  # consecutive: all steps are longer from here on, as after a profiler
        return None
    is_even = gaps.max() - gaps.min() <= 1 or (
        (gaps % period == 0).all() and (gaps == period).mean() >= USUAL_GAP_SHARE
    )
    return period if is_even else None


def regular_since(log: RunLog, first: int) -> Series:
    """Return which steps from step `first` on are regular, as indices counted from it."""
    return np.flatnonzero(regular_steps(noted_steps(log).of(np.arange(first, len(log.step_ns)))))


def timed_regular_step(log: RunLog) -> RegularStep | None:
    """Return the regular step that the plain windows of a run timed; None where none did.

    Steps that were timed after the profiler had run count only if they agree with those before.
    """
    steps = noted_steps(log)
    before, after = _plain_windows(log)
    first = _mean_of(steps.of(before))
    if first is None or not len(after):
        return first
    second, both = _mean_of(steps.of(after)), _mean_of(steps.of(np.concatenate((before, after))))
    if second is None or first.range_ns is None or second.range_ns is None:
        return both
    agree = first.range_ns[0] <= second.range_ns[1] and second.range_ns[0] <= first.range_ns[1]
    return both if agree else first


def _plain_windows(log: RunLog) -> tuple[Series, Series]:
    """Return the steps of the first plain window, and those of all later ones."""
    begin, windows = 0, [np.arange(0)]
    for name, count in log.windows:
        if name == run_log.TIMING_WINDOW:
            windows.append(np.arange(begin, begin + count))
        begin += count
    return windows[min(len(windows) - 1, 1)], np.concatenate([windows[0], *windows[2:]])


def _mean_of(steps: NotedSteps) -> RegularStep | None:
    regular = regular_steps(steps)
    settled = regular & ~steps.filling
    if settled.sum() < max(MIN_BLOCKS_OF_STEPS, np.count_nonzero(regular) / 2):  # mostly filling: it is regular
        settled = regular
    kept, others_ns = steps.of(np.flatnonzero(settled)), steps.time_ns[~regular]
    if not kept.time_ns.sum():
        return None
    mean = float(kept.time_ns.mean())
    half = max(half_width(kept.time_ns), BEST_PRECISION * mean)
    input_fraction = min(float(kept.input_ns.sum() / kept.time_ns.sum()), 1.0)
    return RegularStep(
        steps=len(kept.time_ns),
        step_ns=mean,
        range_ns=(_above_zero(mean, half), mean + half) if half < np.inf else None,
        input_fraction=input_fraction,
        quick_input_ns=min(float(np.percentile(kept.input_ns, QUICK_INPUT_PERCENTILE)), input_fraction * mean),
        others=len(others_ns),
        other_ns=float(others_ns.mean()) if len(others_ns) else 0.0,
    )


def _above_zero(mean: float, half: float) -> float:
    """Return the lower end of an interval of this half width: it stays above 0, however wide the interval is.

    Below half of the mean it approaches 0 smoothly: a symmetric interval would soon hold times that no step takes.
    """
    return mean - half if half < mean / 2 else mean * mean / (4 * half)


FIRST_STEPS_SLOW, OFF_CPU, RECURRING, UNEXPLAINED = "first", "off_cpu", "recurring", "other"
"""Reasons besides the kinds of noted work: one of the first steps, a machine whose CPUs other programs used, work that
comes back regularly, and steps that nothing explains."""
MIN_RECURRING_STEPS = 4  # fewer longer steps may be evenly spaced by chance
FIRST_STEPS = 10  # if one of the first ten steps is irregular for no other reason, the reason is cold caches: `first`
MIN_SHARE_OF_EXCESS = 0.1  # a reason is not named if it makes up a smaller share of a step's excess


@dataclass(frozen=True)
class Irregular:
    """Steps that are irregular for one reason."""

    reason: str  # `first`, `off_cpu`, `recurring`, `other` or a kind of noted work
    count: int
    every: int | None  # after how many steps it comes back; None where it does not do so regularly
    ns: int  # the time that it adds to these steps, in total
    per_step_ns: float  # the same, divided by the number of all steps without the profiler
    places: tuple[Place, ...]  # where the program calls such work, as far as pinprof noted it


@dataclass(frozen=True, eq=False)
class StepSplit:
    """The steps of a run, in columns."""

    profiled: Bools
    regular: Bools  # never a step under the profiler
    input_ns: Series  # the time in a DataLoader, except what counts as `excess_ns`
    excess_ns: Series  # by how much an irregular step is longer than the regular one; 0 for the others


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
    every: int  # the number of steps after which it comes back
    ahead: int  # the number of steps before it comes next


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
    """Return for each reason the steps that it makes longer, in order, with the ns that it adds to each."""
    excess: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for step in np.flatnonzero(steps.excess_ns).tolist():
        for reason, ns in _divided(int(steps.excess_ns[step]), work_in[step].ns, step):
            excess[reason][step] += ns  # `_divided` may yield an epoch twice: its timed part, and the rest
    other, first = excess[UNEXPLAINED], excess[FIRST_STEPS_SLOW]
    period = period_of(list(other))
    early = [step for step in first if period is not None and (next(iter(other)) - step) % period == 0]
    if period is not None and len(early) + len(other) >= MIN_RECURRING_STEPS:
        excess[RECURRING] = {step: first.pop(step) for step in early} | excess.pop(UNEXPLAINED)
    return {reason: dict(sorted(ns_of.items())) for reason, ns_of in excess.items() if ns_of}


def _divided(excess: int, noted_ns: dict[str, int], step: int) -> Iterator[tuple[str, int]]:
    """Yield the reasons for the excess of a step, with the ns of each: timed reasons, and one for the remainder."""
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
    steps: int | None = None  # how many steps it is in; None for time outside of steps
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class WholeRun:
    """A run in sums; the times of the ledger add up to `wall_ns`."""

    regular: int  # the number of regular steps without the profiler, timed or not
    timed: RegularStep | None
    irregular: tuple[Irregular, ...]  # the largest sum first
    ledger: tuple[LedgerRow, ...]
    wall_ns: int
    unavoidable: str | None  # why the recording could not avoid expected irregular work; None if it could
    runs: Runs | None = None  # the other runs of the program; None where it ran once


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
