"""The figures of the ranks of a job, side by side."""

from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from pinprof.ranks.part import TimesPerStep
from pinprof.rules import Finding, FoundSite


@dataclass(frozen=True)
class RankRow:
    """One rank in figures; times in ns per step."""

    rank: int
    path: str
    step_ns: float | None
    alone_ns: float | None
    """The step that the rank would have if it never waited for another rank."""
    surely_ns: float | None
    """The least possible `alone_ns`, given what the profiler may have cost."""
    traced_ns: float | None
    """The step as traced; all times below are parts of it."""
    gpu_busy_ns: float | None
    exposed_copies_ns: float | None
    stall_ns: float | None
    """Time that the host spends in calls that wait."""
    input_ns: float
    communication_ns: float
    exposed_communication_ns: float
    waited_ns: float
    """Time that the kernels of its collectives waited for other ranks."""
    last: float
    """Share of the collectives that it reached last."""
    clock_ahead_ns: int
    """How far the clock of its machine is ahead of that of the first rank."""
    steps_before: int | None
    """Steps of the program before the recorded ones; collectives match if all ranks have the same number."""
    overlapped_communication_ns: float
    """Communication during which another kernel runs; with the exposed part it is all of `communication_ns`."""
    pause_ns: float | None
    """The longest time during which its host ran no op and no call."""
    stalls: TimesPerStep
    """By cause; they add up to `stall_ns`."""
    idle_ns: float | None
    """Time that its busiest GPU had no work, as traced."""
    work_ns: float | None
    """Time that its busiest GPU worked for the steps; without the profiler it is idle for the rest of `step_ns`."""
    idle: TimesPerStep
    """By cause; they add up to `idle_ns`."""


@dataclass(frozen=True)
class CollectiveRow:
    """A collective of the step, in order; times in ns, means over the steps."""

    name: str
    group: str
    last_rank: int
    """The rank that was last most often."""
    last: float
    """In this share of the steps."""
    own_ns: float
    """How long it takes after all ranks have arrived."""
    waited_ns: float
    """The longest time that a rank waited for the others."""


class SharedSite(NamedTuple):
    """One of the places of a finding, on one or more ranks."""

    site: FoundSite
    """As on the rank where it costs most."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class SharedFinding:
    """A finding of one or more ranks: those of one rule that have a place in common are one."""

    finding: Finding
    """As on the rank where it costs most."""
    ranks: tuple[int, ...]
    sites: tuple[SharedSite, ...] = ()
    """Its places on all of these ranks, the costliest first."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job side by side."""

    rows: tuple[RankRow, ...]
    world_size: int | None
    collectives: tuple[CollectiveRow, ...]
    """Those with the longest waits."""
    clocks_within_ns: float | None
    """How closely the ends of nine in ten collectives agree on the aligned clocks; None if no collective tells."""
    slowest_rank: int | None
    """The rank that holds up the others, or None."""
    skew_ns: float
    """How much longer than the median of the others the slowest rank needs alone."""
    reason: str | None
    """Why the slowest rank needs longer, in words."""
    findings: tuple[SharedFinding, ...] = ()
    """Those on the most ranks first, among these the largest saving first, then the largest cost."""

    choice: tuple[str, ...] = ()
    """Remarks on the choice of traces: why this run of several, ranks without a trace."""

    @property
    def shown_rank(self) -> int:
        """The rank on which to report: the one that holds up the others, else the one that needs longest alone."""
        if self.slowest_rank is not None:
            return self.slowest_rank
        return min(self.rows, key=lambda row: (-(row.alone_ns or 0.0), row.rank)).rank

    @property
    def spread_ns(self) -> tuple[float, float, float] | None:
        """The shortest step, the median and the longest; None if no rank's step is known."""
        steps = [row.step_ns for row in self.rows if row.step_ns]
        return (min(steps), median(steps), max(steps)) if steps else None
