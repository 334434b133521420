"""The ranks of a job side by side, as figures."""

from dataclasses import dataclass
from statistics import median

from pinprof.ranks.part import TimesPerStep
from pinprof.rules import Finding


@dataclass(frozen=True)
class RankRow:
    """One rank in figures; times in ns per step."""

    rank: int
    path: str
    step_ns: float | None
    alone_ns: float | None
    """The step that it would have if it waited for no other rank."""
    surely_ns: float | None
    """The least that this may be, by what the profiler may have cost."""
    traced_ns: float | None
    """The step as traced, of which all below are parts."""
    gpu_busy_ns: float | None
    exposed_copies_ns: float | None
    stall_ns: float | None
    """The host stands in calls that wait."""
    input_ns: float
    communication_ns: float
    exposed_communication_ns: float
    waited_ns: float
    """Its collectives' kernels waited for other ranks."""
    last: float
    """Share of the collectives to which it came last."""
    clock_ahead_ns: int
    """How far the clock of its machine is ahead of the first rank's."""
    steps_before: int | None
    """Steps of the program before those recorded; collectives match where this is the same on all ranks."""
    overlapped_communication_ns: float
    """Beside which another kernel runs; with the exposed part all of `communication_ns`."""
    pause_ns: float | None
    """The longest time in which its host ran no op and no call."""
    stalls: TimesPerStep
    """By cause; they add up to `stall_ns`."""
    idle_ns: float | None
    """Its busiest GPU had no work, as traced."""
    work_ns: float | None
    """Its busiest GPU worked on what the steps launched: the rest of `step_ns` it is idle without the profiler."""
    idle: TimesPerStep
    """By cause; they add up to `idle_ns`."""


@dataclass(frozen=True)
class CollectiveRow:
    """A collective of the step, in order; times in ns, means over the steps."""

    name: str
    group: str
    last_rank: int
    """The rank that came last most often."""
    last: float
    """In this share of the steps."""
    own_ns: float
    """What it takes once all have come."""
    waited_ns: float
    """The longest that a rank waited for the others."""


@dataclass(frozen=True)
class SharedFinding:
    """What one rule found in one place, on one or more ranks."""

    finding: Finding
    """As on the rank where it costs most."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job side by side."""

    rows: tuple[RankRow, ...]
    world_size: int | None
    collectives: tuple[CollectiveRow, ...]
    """The costliest, by waiting."""
    clocks_within_ns: float | None
    """How well the clocks of the ranks agree once aligned: the ends of nine in ten collectives, None if none tells."""
    slowest_rank: int | None
    """The rank that holds up the others; None if none does."""
    skew_ns: float
    """How much longer the slowest rank needs by itself than the median of the others."""
    reason: str | None
    """What the slowest rank does instead, in words."""
    findings: tuple[SharedFinding, ...] = ()
    """Those of the most ranks first, and of these the costliest."""

    choice: tuple[str, ...] = ()
    """What is to be known of the choice of traces: why this run of several, ranks of which there is none."""

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
