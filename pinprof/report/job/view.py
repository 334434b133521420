"""What the ranks of a job show together, for the terminal and the page."""

from collections.abc import Callable, Iterator, Sequence

from pinprof.ranks.rank import RankPart, RankRow, Ranks
from pinprof.report.elements import Column, number_columns
from pinprof.report.job.words import (
    BEHIND,
    COLUMNS,
    PER_STEP,
    RankColumn,
    clocks,
    doubts_by_rank,
    finding_in,
    group,
    numbers,
    spread,
)
from pinprof.report.view import Fact, Section, Table
from pinprof.report.words import NOTHING
from pinprof.units import duration, percent

MAX_COLLECTIVES, MAX_FINDINGS = 5, 12
"""More are not listed in a terminal."""


def doubts(ranks: Ranks, parts: Sequence[RankPart]) -> Section:
    """Return what takes figures of some ranks away or makes them uncertain."""
    return Section("Before you trust these traces", notes=[f"{doubt}." for doubt in doubts_by_rank(ranks, parts)])


def summary(ranks: Ranks) -> Iterator[Fact]:
    """Yield each figure from the least to the most of all ranks; what is none on all is left out."""
    named: tuple[tuple[str, str, Callable[[RankRow], float | None]], ...] = (
        ("step", "per step, without the profiler", lambda row: row.step_ns),
        ("alone", "a step, if the rank waited for no other", lambda row: row.alone_ns),
        ("waited for others", "per traced step, in kernels of collectives", lambda row: row.waited_ns),
        ("NCCL exposed", "per traced step, with no other kernel beside it", lambda row: row.exposed_communication_ns),
        ("GPU idle or waiting", "per step, without the profiler: time without work of the rank's busiest GPU", _idle),
        ("host stalls", "per traced step, in calls that can block", lambda row: row.stall_ns),
        ("input", "per traced step, the host waits for the next batch", lambda row: row.input_ns),
    )
    for name, meaning, time_of in named:
        times = [time for row in ranks.rows if (time := time_of(row)) is not None]
        if any(times):
            length, apart = spread(times)
            yield Fact(name, length, f"{meaning}; {apart}")


def _idle(row: RankRow) -> float | None:
    """Return what is left of the step, in ns: a collective that waits for another rank is no work of this one."""
    if row.step_ns is None or row.work_ns is None:
        return None
    waited = min(row.waited_ns, row.exposed_communication_ns)
    return max(row.step_ns - max(row.work_ns - waited, 0.0), 0.0)


def columns_of(ranks: Ranks) -> list[RankColumn]:
    """Return the columns of the table of ranks: those of which a rank has some time."""
    return [column for column in COLUMNS if any(column[1](row) for row in ranks.rows)]


def notes_on(ranks: Ranks) -> list[str]:
    """Return what to know of the table of ranks."""
    shown = [name for name, _ in columns_of(ranks)]
    nothing = [name for name, _ in COLUMNS if name not in shown]
    notes = [PER_STEP, f"none on any rank: {', '.join(nothing)}" if nothing else ""]
    notes += [BEHIND] if ranks.slowest_rank is None and any(row.waited_ns for row in ranks.rows) else []
    return list(filter(None, notes))


def collectives(ranks: Ranks) -> Section:
    """Return the collectives that ranks wait for."""
    columns = [Column("collective"), Column("ranks"), Column("came last")]
    columns += number_columns("of the steps", "takes", "others waited")
    rows = [
        (
            row.name,
            group(row),
            f"rank {row.last_rank}",
            percent(row.last),
            duration(row.own_ns),
            duration(row.waited_ns),
        )
        for row in ranks.collectives
    ]
    caption = (
        "Means over the steps. Came last: the rank that came last most often, and in which share of the steps. "
        "Takes: how long it runs once all ranks have come. Others waited: the wait of the rank that waited longest"
    )
    aligned = clocks(ranks)
    return Section(
        "Collectives, the longest awaited",
        tables=[Table(caption, columns, rows, rows[:MAX_COLLECTIVES])] if rows else [],
        notes=[aligned] if aligned and rows else [],
        name="job-collectives",
    )


def findings(ranks: Ranks) -> Section:
    """Return each rule and place once, with the ranks that have it."""
    columns = [Column("ranks"), Column("finding"), Column("where")]
    columns += number_columns("cost per step", "fixing it saves")
    rows = [
        (
            numbers(shared.ranks, len(ranks.rows)),
            f"{shared.finding.title} ({shared.finding.rule.id})",
            finding_in(shared) or NOTHING,
            duration(shared.finding.evidence.cost_ns),
            duration(shared.finding.saving.saving_ns) if shared.finding.saving else NOTHING,
        )
        for shared in ranks.findings
    ]
    caption = (
        "Each rule and place once, with the figures of the rank where it costs most; each saving is that of this fix "
        "alone"
    )
    more = len(rows) - MAX_FINDINGS
    return Section(
        "Findings by rank",
        tables=[Table(caption, columns, rows, rows[:MAX_FINDINGS])] if rows else [],
        left_out=[f"and {more} more; the page and the JSON report have them"] if more > 0 else [],
        name="job-findings",
    )
