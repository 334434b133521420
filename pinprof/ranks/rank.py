"""The ranks of a job: what pinprof keeps of each trace, and the result of their comparison."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.step_parts import step_windows
from pinprof.analysis import Analysis, analyse
from pinprof.documents.findings import Collective, TrafficJson
from pinprof.ground.intervals import Intervals, covered
from pinprof.ground.units import counted, one_line
from pinprof.measurement.profile import Profile
from pinprof.prediction.pinning import Pinning
from pinprof.replay import Replay
from pinprof.replay.calibration import cost_of, expected, recording_mode
from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import Program
from pinprof.rules.rule import Finding, Findings, FoundSite
from pinprof.trace.files import rank_in_name
from pinprof.trace.tables import NONE, Int64s, Trace

TimesPerStep: TypeAlias = tuple[tuple[str, float], ...]  # (cause, ns per step), the longest first

MAX_PROFILER_COST_RATIO = 1.25
"""The most that a profiler may have cost a rank, relative to the expected cost. With 1.1, one of several ranks with the
same work was called slow."""
MIN_PAUSE_BETWEEN_CALLS_NS = 1_000_000
"""The least pause between two calls of a host; a torch op is shorter, even under a profiler."""
MAX_PACE_RATIO = 2.0
SHARE_OF_USUAL_STEPS = 0.25
"""The usual step of a rank is this quantile: two ranks that take turns are each late in half of the steps."""


class Alone(NamedTuple):
    """The step of a rank that waits for no other, in ns."""

    least_ns: float  # without the profiler, at its highest possible cost
    usual_ns: float  # without the profiler, at its expected cost
    traced_ns: float  # with the profiler's cost: the rank's own work in the trace
    call_gap_ns: float = 0.0  # the median time from one call of the host to the next, its pace; 0 if unknown
    in_ops_ns: float = 0.0  # the host's time between calls per step, without Python: the most that a faster host saves

    def at_pace_ns(self, call_gap_ns: float) -> float:
        """Return the least usual step if this host had that gap between calls."""
        slower = max(1 - call_gap_ns / self.call_gap_ns, 0.0) if self.call_gap_ns and call_gap_ns else 0.0
        return min(self.least_ns, self.usual_ns - slower * self.in_ops_ns)


@dataclass(frozen=True)
class RankPart:
    """What pinprof keeps of one rank: small, however large its trace is."""

    profile: Profile
    findings: Findings
    alone: Alone | None  # None if it is unknown
    idle: TimesPerStep | None = None  # why its busiest GPU was idle in the complete steps; None if unknown
    between_calls_ns: tuple[int, ...] = ()  # how long the host pauses between two calls in each whole step
    delays_ns: tuple[float, ...] = ()  # how much longer than usual the host's own work takes in each whole step
    file: str = ""  # where to read the trace again; the path of the profile hides the secrets of a URL


def measure_rank(trace: Trace, machine: Pinning | None = None) -> RankPart:
    """Return what the report on a job needs of one rank; `machine` is as for `find`."""
    analysis = analyse(trace, machine)
    between_calls_ns = _between_calls_ns(analysis.details.trace)
    return RankPart(
        analysis.profile,
        analysis.findings.summary(),
        _alone(analysis.replay),
        idle=_idle(analysis),
        between_calls_ns=tuple(between_calls_ns.tolist()),
        delays_ns=tuple(_delays_ns(analysis, between_calls_ns)),
    )


def _between_calls_ns(trace: Trace) -> Int64s:
    """Return how long the host pauses in each whole step, counting pauses of a millisecond or more."""
    steps, calls = trace.steps, trace.calls
    made = calls.times()
    ends, begins = made.end[:-1], made.start[1:]
    long = begins - ends >= MIN_PAUSE_BETWEEN_CALLS_NS
    return covered(Intervals(ends[long], begins[long]), steps.start_ns, steps.end_ns)[steps.whole]


def _delays_ns(analysis: Analysis, between_calls_ns: Int64s) -> list[float]:
    """Return how much longer than usual the host's own work takes in each whole step.

    Either the host pauses longer, or its work exceeds `MAX_PACE_RATIO` times the usual: a host that is ahead of its GPU
    makes calls up to twice as fast as one that is not.
    """
    steps, stalls = analysis.details.trace.steps, analysis.details.syncs.stalls
    if not steps.on_host or not steps.whole.any():
        return []
    in_step = stalls.call_step != NONE
    waits = np.bincount(stalls.call_step[in_step], stalls.stall_ns[in_step], minlength=len(steps))
    own = (steps.end_ns - steps.start_ns - waits)[steps.whole]
    usual = np.quantile(own, SHARE_OF_USUAL_STEPS)
    longer = np.where(own > MAX_PACE_RATIO * usual, own - usual, 0.0)
    return np.maximum(between_calls_ns - between_calls_ns.min(), longer).tolist()


def _idle(analysis: Analysis) -> TimesPerStep | None:
    details, withheld = analysis.details, analysis.profile.withheld
    if withheld.step or withheld.per_step or withheld.busy or withheld.causes or not details.devices:
        return None
    trace, busiest = details.trace, max(details.devices, key=lambda device: device.busy_ns).device
    _, start, end = step_windows(trace, np.flatnonzero(trace.gpu.device == busiest))
    if not len(start):
        return None
    gaps = next(gaps for gaps in details.gaps if gaps.device == busiest)
    times = []
    for code, cause in enumerate(IDLE_CAUSES):
        of_cause = gaps.cause == code
        idle = Intervals(gaps.times.start[of_cause], gaps.times.end[of_cause])
        times.append((cause, float(covered(idle, start, end).sum()) / len(start)))
    return longest_first(times)


def longest_first(times: Iterable[tuple[str, float]]) -> TimesPerStep:
    """Return times in ns by cause, the longest first, without zeros."""
    return tuple(sorted(((cause, time) for cause, time in times if time), key=lambda of_cause: -of_cause[1]))


def _alone(replay: Replay) -> Alone | None:
    if not replay.runs:
        return None
    by_itself = replay.waiting_for_nobody or replay.programs[0]
    usual_cost = expected([by_itself], recording_mode([replay.ranks[0].trace])).cost
    most_cost = replace(usual_cost, per_event_ns=MAX_PROFILER_COST_RATIO * usual_cost.per_event_ns)
    least, usual, traced = (
        pace([by_itself], replay.steps, cost).step_ns for cost in (most_cost, usual_cost, cost_of(0))
    )
    alone = Alone(least, usual, traced, *_pace_of_host(by_itself, usual_cost, replay.steps))
    return alone if alone.usual_ns else None


def _pace_of_host(program: Program, cost: ProfilerCost, steps: int) -> tuple[float, float]:
    """Return the median time from one call of the host to the next, and the sum of these times per step."""
    gaps = np.maximum(cost.before_ns(program.host) - program.host.input - program.host.python, 0.0)
    gaps = gaps[gaps > 0]
    return (float(np.median(gaps)), float(gaps.sum()) / steps) if len(gaps) else (0.0, 0.0)


def rank_of(part: RankPart) -> int | None:
    """Return the number of a rank: as recorded, or from the names of its file and folders; None if unknown."""
    return rank_in_name(part.profile.path) if part.profile.info.rank is None else part.profile.info.rank


def number_of(part: RankPart, position: int) -> int:
    """Return the number of a rank, or its place among the traces."""
    rank = rank_of(part)
    return position if rank is None else rank


# The comparison


@dataclass(frozen=True)
class RankRow:
    """One rank in figures; times in ns per step."""

    rank: int
    path: str
    step_ns: float | None
    alone_ns: float | None  # the step that the rank would have if it never waited for another rank
    surely_ns: float | None  # the least that `alone_ns` can be: see `Alone.at_pace_ns`
    traced_ns: float | None  # the step as traced; all times below are parts of it
    gpu_busy_ns: float | None
    exposed_copies_ns: float | None
    stall_ns: float | None  # time that the host spends in calls that wait
    input_ns: float
    communication_ns: float
    exposed_communication_ns: float
    waited_ns: float  # time in which the kernels of its collectives waited for other ranks
    last: float  # share of the collectives that it reached last
    explains: float | None
    """The share of the others' wait that its own extra work in the trace explains; None if that is unknown,
    or nobody waits."""
    host_pace: float | None
    """Its host's time from one call to the next, as a multiple of that of the others; None if unknown."""
    clock_ahead_ns: int  # how far the clock of its machine is ahead of that of the first rank
    steps_before: int | None
    """Steps of the program before the recorded ones; collectives match if all ranks have the same number."""
    overlapped_communication_ns: float
    """Communication during which another kernel runs; with the exposed part it is all of `communication_ns`."""
    pause_ns: float | None  # the longest time during which its host ran no op and no call
    stalls: TimesPerStep  # by cause; they add up to `stall_ns`
    idle_ns: float | None  # time that its busiest GPU had no work, as traced
    work_ns: float | None
    """Time that its busiest GPU worked for the steps; without the profiler it is idle for the rest of `step_ns`."""
    idle: TimesPerStep  # by cause; they add up to `idle_ns`


class SharedSite(NamedTuple):
    """One of the places of a finding, on one or more ranks."""

    site: FoundSite  # as on the rank where it costs most
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class SharedFinding:
    """The findings of one rule with a common place, on one or more ranks."""

    finding: Finding
    """As on the rank where it costs most; if it is about collectives, on the one that waits least in them."""
    ranks: tuple[int, ...]
    sites: tuple[SharedSite, ...] = ()  # its places on all of these ranks, the costliest first


class Turns(NamedTuple):
    """Ranks that hold up the others, each in some of the steps."""

    ranks: tuple[int, ...]
    held_up: int  # the number of steps in which one of them is late
    steps: int  # the number of recorded steps
    late_ns: float  # the median extra work of its host there, beyond the others'


class Latecomer(NamedTuple):
    """The rank for which the others wait longest, although its own work does not explain it."""

    rank: int
    last: float  # share of the collectives that it reached last
    waited_ns: float  # how long the others wait for it, per step
    begins_later_ns: float  # how much later than the others it begins its steps
    is_one_step: bool  # whether only one step was recorded: what came before it is not in the traces


@dataclass(frozen=True, repr=False)
class Ranks:
    """The ranks of a job side by side."""

    rows: tuple[RankRow, ...]
    world_size: int | None
    collectives: tuple[Collective, ...]  # those with the longest waits
    clocks_within_ns: float | None
    """How closely the ends of nine in ten collectives agree on the aligned clocks; None if no collective shows it."""
    slowest_rank: int | None  # the rank that holds up the others, or None
    skew_ns: float  # how much longer than the median of the others the slowest rank needs alone
    reason: str | None  # why the slowest rank needs longer, in words
    findings: tuple[SharedFinding, ...] = ()
    """Those on the most ranks first, among these the largest saving first, then the largest cost."""

    choice: tuple[str, ...] = ()  # remarks on the choice of traces: why this run of several, ranks without a trace
    traffic: tuple[TrafficJson, ...] = ()  # the collectives with recorded messages, those with most bytes first
    unsure: float = 0.0
    """The times alone may be wrong by this share: the error in the expected cost of the profiler."""
    latecomer: Latecomer | None = None  # None if a rank is named, or the others wait for none
    turns: Turns | None = None  # None if a rank is named, or none is late in some steps
    is_reason_known: bool = False  # whether the trace of the rank that needs longest alone shows why

    def __repr__(self) -> str:
        return one_line("ranks", [self.summary])

    @property
    def summary(self) -> str:
        """How many ranks there are, and which one holds up the others."""
        who = "none" if self.slowest_rank is None else f"rank {self.slowest_rank}"
        return f"{counted(len(self.rows), 'rank')}, {who} holds up the others"

    @property
    def shown_rank(self) -> int:
        """The rank on which to report: the one that holds up the others, else the one that needs longest alone."""
        if self.slowest_rank is not None:
            return self.slowest_rank
        if self.turns:
            return self.turns.ranks[0]
        return min(self.rows, key=lambda row: (-(row.alone_ns or 0.0), row.rank)).rank

    @property
    def spread_ns(self) -> tuple[float, float, float] | None:
        """The shortest step, the median and the longest; None if no rank's step is known."""
        steps = [row.step_ns for row in self.rows if row.step_ns]
        return (min(steps), median(steps), max(steps)) if steps else None
