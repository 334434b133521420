"""The ranks of a job in a few lines: who holds up the others, and how long each would need alone."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from pinprof.ranks import RankPart, RankRow, Ranks
from pinprof.report.job.words import below, doubts_by_rank, longest_alone_first, nobody, slowest_of, title
from pinprof.report.layout import hanging, laid_out
from pinprof.report.words import begun, printable
from pinprof.units import counted, duration

MAX_ROWS = 8
"""More ranks than this are counted, not drawn; those that need longest alone are."""
LONGEST = 48
"""Characters of the longest bar."""
LEAST = 10
BESIDE = 52
"""Columns that stand beside a bar."""
MAX_DOUBTS = 2


def to_text(ranks: Ranks, parts: Sequence[RankPart], *, width: int = 100, color: bool = False) -> str:
    """Return what the ranks of a job show side by side, in short, as text for a terminal of this width."""
    return laid_out(_parts(ranks, parts, width), width=width, color=color)


def _parts(ranks: Ranks, parts: Sequence[RankPart], width: int) -> Iterator[RenderableType]:
    yield Text(title(ranks), "dim")
    for remark in ranks.choice:
        yield Text(printable(remark))
    yield Text(printable(f"{verdict_line(ranks)}."), "bold")
    yield from _bars(ranks, width)
    doubts = doubts_by_rank(ranks, parts)
    for doubt in doubts[:MAX_DOUBTS]:
        yield hanging(Text("Note: ", "bold"), Text(printable(f"{doubt}.")))
    if (left := len(doubts) - MAX_DOUBTS) > 0:
        yield Text(f"Note: {counted(left, 'more doubt')}: --full")
    yield Text(f"\n{below(ranks)}; --full has the table of all ranks, and their collectives.")


def verdict_line(ranks: Ranks) -> str:
    """Return who holds up the others, by how much and why, without the last full stop."""
    slowest = slowest_of(ranks)
    if slowest is None:
        return begun(nobody(ranks))
    return f"Rank {slowest.rank} holds up the others by {duration(ranks.skew_ns)} per step: {ranks.reason}"


def _bars(ranks: Ranks, width: int) -> Iterator[RenderableType]:
    """Yield a bar for each rank: how long its step would take if it waited for nobody, of the longest."""
    rows = longest_alone_first(ranks.rows) if len(ranks.rows) > MAX_ROWS else ranks.rows
    longest = max((row.alone_ns or 0.0 for row in ranks.rows), default=0.0)
    if not longest:
        return
    yield Text("")
    room = max(min(width - BESIDE, LONGEST), LEAST)
    digits = max(len(str(row.rank)) for row in rows[:MAX_ROWS])
    for row in rows[:MAX_ROWS]:
        yield Text(_bar(row, ranks, longest, room, digits))
    if (left := len(rows) - MAX_ROWS) > 0:
        yield Text(f"  and {counted(left, 'more rank')}")
    yield Text("  alone: the step that a rank would need if it waited for no other", "dim")


def _bar(row: RankRow, ranks: Ranks, longest: float, room: int, digits: int) -> str:
    if row.alone_ns is None:
        return f"  rank {row.rank:>{digits}}  {'':{room}}  not known"
    filled = max(round(row.alone_ns / longest * room), 1)
    mark = "  holds up the others" if row.rank == ranks.slowest_rank else ""
    return f"  rank {row.rank:>{digits}}  {'█' * filled:{room}}  {duration(row.alone_ns)} alone{mark}"
