"""What is kept of one rank of a job: small, whatever its trace has."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from pinprof.analyses.hazards import Hazards
from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.overlap import Overlap
from pinprof.analyses.parts import step_windows
from pinprof.analyses.syncs import Stalls, Syncs
from pinprof.bench.rates import Pinning
from pinprof.intervals import Intervals, covered
from pinprof.measure import Profile
from pinprof.rules import Findings, examine
from pinprof.trace.files import rank_in_name
from pinprof.trace.tables import Trace
from pinprof.whatif import Model
from pinprof.whatif.bound import gaps_with_causes
from pinprof.whatif.calibrate import expected
from pinprof.whatif.ranks import alone
from pinprof.whatif.replay import pace

Table = TypeVar("Table", Overlap, Syncs, Stalls, Hazards)

Times = tuple[tuple[str, float], ...]
"""(cause, ns per step), the longest first."""


@dataclass(frozen=True)
class RankPart:
    """What is kept of one rank: small, whatever its trace has."""

    profile: Profile
    """Without what it has of each copy and stall."""
    findings: Findings
    alone_ns: tuple[float, float] | None
    """The step that it would have, without profiler, if it waited for no other rank: the least that it may be, and what
    is expected; None if that cannot be told."""
    idle: Times | None = None
    """Why its busiest GPU was idle in the complete steps; None where that is not known."""


def measure_rank(trace: Trace, machine: Pinning | None = None) -> RankPart:
    """Return what the report on a job needs of one rank; `machine` is as for `find`."""
    profile, findings, model = examine(trace, machine)
    return RankPart(
        _summary(profile),
        findings.summary(),
        _alone(trace, model),
        idle=_idle(trace, profile),
    )


def _summary(profile: Profile) -> Profile:
    """Return a profile without what it has of each copy and stall: as small for a long trace as for a short one."""
    overlap, syncs = profile.overlap, profile.syncs
    return replace(
        profile,
        overlap=_emptied(overlap),
        copy_places=(),
        syncs=replace(_emptied(syncs), stalls=_emptied(syncs.stalls), lines=()),
        hazards=_emptied(profile.hazards),
    )


def _emptied(table: Table) -> Table:
    """Return a dataclass with empty columns."""
    values: dict[str, Any] = {field.name: getattr(table, field.name) for field in fields(table)}
    columns = {name: value[:0].copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    return replace(table, **{**values, **columns})


def _idle(trace: Trace, profile: Profile) -> Times | None:
    if profile.withheld.keys() & {"step", "per_step", "busy", "causes"} or not profile.devices:
        return None
    busiest = max(profile.devices, key=lambda device: device.busy_ns).device
    _, start, end = step_windows(trace, np.flatnonzero(trace.gpu.device == busiest))
    if not len(start):
        return None
    gaps = next(each for each in gaps_with_causes(trace, profile.syncs, profile.loader) if each.device == busiest)
    times = []
    for code, cause in enumerate(IDLE_CAUSES):
        of_cause = gaps.cause == code
        idle = Intervals(gaps.times.start[of_cause], gaps.times.end[of_cause])
        times.append((cause, float(covered(idle, start, end).sum()) / len(start)))
    return longest_first(times)


def longest_first(times: Iterable[tuple[str, float]]) -> Times:
    """Return times in ns by cause, the longest first, without those that are none."""
    return tuple(sorted(((cause, time) for cause, time in times if time), key=lambda each: -each[1]))


def _alone(trace: Trace, model: Model) -> tuple[float, float] | None:
    if not model.runs:
        return None
    by_itself = alone(trace, model.programs[0], model.chosen[0])
    calibration = expected([by_itself], stacks=len(trace.functions) > 0)
    least, usual = (pace([by_itself], model.steps, cost).step_ns for cost in (calibration.high, calibration.cost))
    return (least, usual) if usual else None


def rank_of(part: RankPart) -> int | None:
    """Return the number of a rank: as recorded, else as the names of file and folders say; None if none does."""
    return rank_in_name(part.profile.path) if part.profile.info.rank is None else part.profile.info.rank


def number_of(part: RankPart, place: int) -> int:
    """Return the number of a rank, else its place among the traces."""
    rank = rank_of(part)
    return place if rank is None else rank
