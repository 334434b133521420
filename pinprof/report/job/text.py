"""The ranks of a job for the terminal in full: who holds up the others, each rank, and what all have in common."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.ranks import RankPart, Ranks
from pinprof.report.job.words import (
    BEHIND,
    COLUMNS,
    NOBODY,
    PAUSED,
    PER_STEP,
    below,
    clocks,
    doubts_by_rank,
    finding_in,
    group,
    longest_alone_first,
    nobody,
    numbers,
    slowest_of,
    spread,
    title,
    why,
)
from pinprof.report.layout import bullet, fact, laid_out, section, table
from pinprof.report.words import NOTHING, printable
from pinprof.units import duration, milliseconds, percent

MAX_ROWS = 32
"""More ranks than this are not all listed."""
LISTED = 16
"""Of more ranks, those that are: the ones that need longest alone."""
MAX_COLLECTIVES = 5
MAX_FINDINGS = 12
SHOWN = [(name, time_of) for name, time_of in COLUMNS if name != PAUSED]
"""The columns for which a terminal has room; a pause that matters is in the verdict."""
NARROW = 104
"""Columns of a terminal in which the table of ranks stands closer."""


def to_text(ranks: Ranks, parts: Sequence[RankPart], *, width: int = 100, color: bool = False) -> str:
    """Return what the ranks of a job show side by side as text for a terminal of this width."""
    return laid_out(_parts(ranks, parts, width), width=width, color=color)


def _parts(ranks: Ranks, parts: Sequence[RankPart], width: int) -> Iterator[RenderableType]:
    yield Text(title(ranks), "bold")
    for remark in ranks.choice:
        yield Text(printable(remark))
    reason = why(ranks, parts)
    if reason:
        yield section("Why the step takes so long")
        yield Padding(Text(f"{reason[0].upper()}{reason[1:]}.", "bold"), (0, 0, 0, 2))
    yield section("Who waits for whom")
    yield from _verdict(ranks)
    doubts = doubts_by_rank(ranks, parts)
    if doubts:
        yield section("Before you trust these traces")
        yield from (bullet(f"{doubt}.") for doubt in doubts)
    yield section("Ranks, ms per step")
    yield from _rows(ranks, width)
    if ranks.collectives:
        yield section("Collectives, the longest awaited")
        yield from _collectives(ranks)
    if ranks.findings:
        yield section("Findings by rank")
        yield from _findings(ranks)
    yield Text(f"\n{below(ranks)}.")


def _verdict(ranks: Ranks) -> Iterator[RenderableType]:
    slowest = slowest_of(ranks)
    if slowest is None:
        yield fact("none" if NOBODY in nobody(ranks) else "unsure", nobody(ranks))
    else:
        yield fact(f"rank {slowest.rank}", f"holds up the others: {ranks.reason}")
        alone = duration(slowest.alone_ns or 0.0)
        yield fact(
            duration(ranks.skew_ns), f"longer than the others: its step would take {alone} if it waited for nobody"
        )
    steps = [row.step_ns for row in ranks.rows if row.step_ns]
    if steps:
        length, apart = spread(steps)
        yield fact(length, f"per step; {apart}")


def _rows(ranks: Ranks, width: int) -> Iterator[RenderableType]:
    columns = [(name, time_of) for name, time_of in SHOWN if any(time_of(row) for row in ranks.rows)]
    rows = table("rank", *(name for name, _ in columns), "came last", text_columns=1)
    if width < NARROW:
        rows.padding, rows.show_edge = 0, False
    for column in rows.columns:
        column.header = str(column.header).replace(" ", "\n")
    many = len(ranks.rows) > MAX_ROWS
    for row in longest_alone_first(ranks.rows)[:LISTED] if many else ranks.rows:
        times = (time_of(row) for _, time_of in columns)
        rows.add_row(
            f"{row.rank} *" if row.rank == ranks.slowest_rank else str(row.rank),
            *(NOTHING if time is None else milliseconds(time) for time in times),
            percent(row.last),
        )
    yield rows
    if many:
        yield bullet(f"the {LISTED} that need longest alone; the page and the JSON report have all {len(ranks.rows)}")
    yield bullet(PER_STEP)
    nothing = [name for name, _ in SHOWN if name not in dict(columns)]
    if nothing:
        yield bullet(f"none on any rank: {', '.join(nothing)}")
    if ranks.slowest_rank is None and any(row.waited_ns for row in ranks.rows):
        yield bullet(BEHIND)


def _collectives(ranks: Ranks) -> Iterator[RenderableType]:
    rows = table("collective", "ranks", "came last", "in", "takes", "others waited", text_columns=3)
    for row in ranks.collectives[:MAX_COLLECTIVES]:
        last = f"rank {row.last_rank}"
        rows.add_row(row.name, group(row), last, percent(row.last), duration(row.own_ns), duration(row.waited_ns))
    yield rows
    aligned = clocks(ranks)
    if aligned:
        yield bullet(aligned)


def _findings(ranks: Ranks) -> Iterator[RenderableType]:
    for shared in ranks.findings[:MAX_FINDINGS]:
        rule, where = shared.finding.rule, finding_in(shared)
        at = f" in {where}" if where else ""
        yield bullet(f"{numbers(shared.ranks, len(ranks.rows))}: {shared.finding.title} ({rule.id}){at}")
    if len(ranks.findings) > MAX_FINDINGS:
        yield bullet(f"and {len(ranks.findings) - MAX_FINDINGS} more; the page and the JSON report have them")
