"""The ranks of a job for the terminal: in a few lines, or in full."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from pinprof.ground.units import counted, duration, listed, milliseconds, percent
from pinprof.ranks.rank import RankPart, Ranks
from pinprof.ranks.runs import MAX_RANKS_NAMED
from pinprof.report.job import view
from pinprof.report.terminal import bullet, hanging, laid_out, note, section, table
from pinprof.report.view import Section, in_terminal
from pinprof.report.words import NOTHING, capitalized, printable

MAX_BRIEF_DOUBTS = 2
MAX_LISTED_RANKS = 16
"""Ranks that the table lists if there are more than `MAX_RANK_ROWS`: those that need longest alone."""
NARROW_COLUMNS = 104
"""Columns of a terminal below which the table of ranks has no padding."""


def job_to_text(ranks: Ranks, parts: Sequence[RankPart], *, width: int = 100, color: bool = False) -> str:
    """Return the full comparison of the ranks of a job as text for a terminal of this width."""
    return laid_out(_full(ranks, parts, width), width=width, color=color)


def _full(ranks: Ranks, parts: Sequence[RankPart], width: int) -> Iterator[RenderableType]:
    yield Text(view.title(ranks), "bold")
    for remark in ranks.choice:
        yield Text(printable(remark))
    reason = view.why_long(ranks, parts)
    if reason:
        yield from in_terminal(Section("Why the step takes so long", [f"{capitalized(reason)}."]))
    yield from in_terminal(Section("Who waits for whom", [f"{view.verdict_line(ranks)}."], list(view.step_fact(ranks))))
    yield from _unless_empty(view.doubts(ranks, parts))
    yield section("Ranks, ms per step")
    yield from _rank_rows(ranks, width)
    yield from _unless_empty(view.collectives(ranks))
    yield from _unless_empty(view.findings(ranks))
    yield Text(f"\n{view.shown_rank_line(ranks)}.")


def _unless_empty(part: Section) -> Iterator[RenderableType]:
    if part.tables or part.notes:
        yield from in_terminal(part)


def _rank_rows(ranks: Ranks, width: int) -> Iterator[RenderableType]:
    columns = [time for time in view.columns_of(ranks) if time.title != view.PAUSE_TITLE]  # it is in the verdict
    rows = table("rank", *(time.title for time in columns), "came last", text_columns=1)
    if width < NARROW_COLUMNS:
        rows.padding, rows.show_edge = 0, False
    for column in rows.columns:
        column.header = str(column.header).replace(" ", "\n")
    many = len(ranks.rows) > view.MAX_RANK_ROWS
    for row in view.longest_alone_first(ranks.rows)[:MAX_LISTED_RANKS] if many else ranks.rows:
        times = (time.of(row) for time in columns)
        rows.add_row(
            f"{row.rank} *" if row.rank == ranks.slowest_rank else str(row.rank),
            *(NOTHING if ns is None else milliseconds(ns) for ns in times),
            percent(row.last),
        )
    yield rows
    if many:
        yield bullet(
            f"the {MAX_LISTED_RANKS} that need longest alone; the page and the JSON report have all {len(ranks.rows)}"
        )
    yield from map(bullet, view.notes_on(ranks))


def to_brief(ranks: Ranks, parts: Sequence[RankPart], *, width: int = 100, color: bool = False) -> str:
    """Return the short comparison of the ranks of a job as text for a terminal of this width."""
    return laid_out(_brief(ranks, parts), width=width, color=color)


def _brief(ranks: Ranks, parts: Sequence[RankPart]) -> Iterator[RenderableType]:
    yield Text(view.title(ranks), "dim")
    for remark in ranks.choice:
        yield Text(printable(remark))
    yield Text(printable(f"{view.headline(ranks, parts)}."), "bold")
    if reason := view.why(ranks):
        yield hanging(Text("  "), Text(printable(f"{reason}.")))
    longest_first = view.longest_alone_first(ranks.rows)
    alone = [f"rank {row.rank} {duration(row.alone_ns)}" for row in longest_first if row.alone_ns]
    if alone:
        yield hanging(Text("  "), Text(f"A step, if the rank waited for no other: {listed(alone, MAX_RANKS_NAMED)}."))
    if words := view.traffic_line(ranks):
        yield hanging(Text("  "), Text(f"{capitalized(words)}."))
    reasons = view.doubts_by_rank(ranks, parts)
    for doubt in reasons[:MAX_BRIEF_DOUBTS]:
        yield note(f"{doubt}.")
    if (left_out := len(reasons) - MAX_BRIEF_DOUBTS) > 0:
        yield Text(f"Note: {counted(left_out, 'more doubt')}: --full")
    yield Text(f"\n{view.shown_rank_line(ranks)}; --full has the table of all ranks, and their collectives.")
