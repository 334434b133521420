"""What pinprof keeps of one rank of a job: small, however large its trace is."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.parts import step_windows
from pinprof.analysis import Analysis, analyse
from pinprof.bench.rates import Pinning
from pinprof.intervals import Intervals, covered
from pinprof.measurement.profile import Profile
from pinprof.replay import Replay
from pinprof.replay.calibration import expected, way_of
from pinprof.replay.machine import pace
from pinprof.replay.ranks import alone
from pinprof.rules import Findings
from pinprof.trace.files import rank_in_name
from pinprof.trace.tables import Trace

TimesPerStep = tuple[tuple[str, float], ...]
"""(cause, ns per step), the longest first."""


SURELY = 1.25
"""A profiler cost a rank at most so many times what is expected, where ranks of one job are compared: with 1.1, ranks
that are alike were told apart."""


@dataclass(frozen=True)
class RankPart:
    """What pinprof keeps of one rank: small, however large its trace is."""

    profile: Profile
    findings: Findings
    alone_ns: tuple[float, float] | None
    """The step that the rank would have without the profiler and without waiting for other ranks: the least possible
    and the expected time; None if the trace does not tell."""
    idle: TimesPerStep | None = None
    """Why its busiest GPU was idle in the complete steps; None if unknown."""


def measure_rank(trace: Trace, machine: Pinning | None = None) -> RankPart:
    """Return what the report on a job needs of one rank; `machine` is as for `find`."""
    analysis = analyse(trace, machine)
    return RankPart(analysis.profile, analysis.findings.summary(), _alone(analysis.replay), idle=_idle(analysis))


def _idle(analysis: Analysis) -> TimesPerStep | None:
    details, why = analysis.details, analysis.profile.withheld
    if why.step or why.per_step or why.busy or why.causes or not details.devices:
        return None
    trace, busiest = details.trace, max(details.devices, key=lambda device: device.busy_ns).device
    _, start, end = step_windows(trace, np.flatnonzero(trace.gpu.device == busiest))
    if not len(start):
        return None
    gaps = next(each for each in details.gaps if each.device == busiest)
    times = []
    for code, cause in enumerate(IDLE_CAUSES):
        of_cause = gaps.cause == code
        idle = Intervals(gaps.times.start[of_cause], gaps.times.end[of_cause])
        times.append((cause, float(covered(idle, start, end).sum()) / len(start)))
    return longest_first(times)


def longest_first(times: Iterable[tuple[str, float]]) -> TimesPerStep:
    """Return times in ns by cause, the longest first, without zeros."""
    return tuple(sorted(((cause, time) for cause, time in times if time), key=lambda each: -each[1]))


def _alone(replay: Replay) -> tuple[float, float] | None:
    trace = replay.ranks[0].trace
    if not replay.runs:
        return None
    by_itself = alone(trace, replay.programs[0], replay.chosen[0])
    usual_cost = expected([by_itself], way_of([trace])).cost
    most_cost = replace(usual_cost, per_event_ns=SURELY * usual_cost.per_event_ns)
    least, usual = (pace([by_itself], replay.steps, cost).step_ns for cost in (most_cost, usual_cost))
    return (least, usual) if usual else None


def rank_of(part: RankPart) -> int | None:
    """Return the number of a rank: as recorded, else from the names of its file and folders; None if unknown."""
    return rank_in_name(part.profile.path) if part.profile.info.rank is None else part.profile.info.rank


def number_of(part: RankPart, place: int) -> int:
    """Return the number of a rank, else its place among the traces."""
    rank = rank_of(part)
    return place if rank is None else rank
