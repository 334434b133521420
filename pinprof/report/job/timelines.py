"""Timelines of a few ranks of a job, under each other on one time axis."""

from collections.abc import Mapping

from pinprof.analysis import Analysis
from pinprof.ranks.rank import RankRow, Ranks
from pinprof.report.elements import Markup, lines, note
from pinprof.report.job.words import clocks
from pinprof.report.timeline import MAX_EVENTS, Shared, Zero, beside, fragment
from pinprof.report.timeline.steps import choose_window, step_names

MAX_TIMELINES = 4
"""Ranks of a job that have a timeline: each makes the page larger, and is read a second time."""
AT_FIRST = 2
"""So many of these are seen at once; the others on request."""
MARGIN = 0.02
"""Of what is shown at first, before and after it."""


def ranks_to_draw(ranks: Ranks) -> tuple[int, ...]:
    """Return the ranks that have timelines: the shown one, the one that waits most for others, then the median ones."""
    alone = sorted(ranks.rows, key=lambda row: (row.alone_ns or 0.0, row.rank))
    waits = max(ranks.rows, key=lambda row: (row.waited_ns, row.rank != ranks.shown_rank))
    middle = [alone[place].rank for place in (len(alone) // 2, 0, -1, len(alone) // 4)]
    rest = [row.rank for row in ranks.rows] if len(ranks.rows) <= MAX_TIMELINES else []
    return tuple(dict.fromkeys([ranks.shown_rank, waits.rank, *middle, *rest]))[:MAX_TIMELINES]


def rank_timelines(ranks: Ranks, analyses: Mapping[int, Analysis]) -> Markup:
    """Return the timelines of these ranks, with what chooses among them; nothing for a single one."""
    if len(analyses) <= 1:
        return Markup()
    rows = {row.rank: row for row in ranks.rows}
    shown = analyses[ranks.shown_rank]
    window = choose_window(shown.trace)
    first = (-MARGIN * window.span_ns, (1 + MARGIN) * window.span_ns)
    aligned = clocks(ranks) is not None
    named = dict(enumerate(step_names(shown.trace))).get(window.first, "the trace")
    since = f"{named} of rank {ranks.shown_rank}"
    most = MAX_EVENTS // (len(analyses) + 1)  # the report on the shown rank has one, too
    drawn = []
    for rank, analysis in analyses.items():
        ahead = _clock_ns(analysis, rows[rank]) - _clock_ns(shown, rows[ranks.shown_rank])
        zero = Zero(window.start_ns - ahead, since) if aligned else None
        shared = Shared("ranks", f"rank {rank}", _title(ranks, rows[rank]))
        drawn.append((rank, fragment(analysis, most, shared=shared, first_ns=first, zero=zero)))
    buttons = (_button(rank, seen=place < AT_FIRST) for place, (rank, _) in enumerate(drawn))
    regions = (_region(rank, timeline, seen=place < AT_FIRST) for place, (rank, timeline) in enumerate(drawn))
    return Markup(
        '{}<div class="steer ranks" role="group" aria-label="Ranks that are drawn">{}'
        '<output class="rank-note"></output></div>\n{}'
    ).format(note(_said(ranks, len(drawn))), Markup().join(buttons), beside(lines(regions)))


def _button(rank: int, *, seen: bool) -> Markup:
    button = Markup('<button type="button" data-rank="{0}" aria-pressed="{1}">rank {0}</button>')
    return button.format(rank, "true" if seen else "false")


def _region(rank: int, timeline: Markup, *, seen: bool) -> Markup:
    made = Markup('<div class="of-rank" role="region" data-rank="{0}" aria-label="Timeline of rank {0}"{1}>{2}</div>')
    return made.format(rank, "" if seen else Markup(" hidden"), timeline)


def _clock_ns(analysis: Analysis, row: RankRow) -> int:
    """Return what to add to the times of a trace to get those of one clock for all ranks."""
    return (analysis.profile.info.base_ns or 0) - row.clock_ahead_ns


def _title(ranks: Ranks, row: RankRow) -> str:
    return f"Rank {row.rank}" + (", which holds up the others" if row.rank == ranks.slowest_rank else "")


def _said(ranks: Ranks, drawn: int) -> str:
    aligned = clocks(ranks)
    own = "each from the start of its own step, as the ranks share no clock"
    axis = f"on one time axis: {aligned}" if aligned else own
    which = "All ranks" if drawn == len(ranks.rows) else f"{drawn} of {len(ranks.rows):,} ranks"
    return (
        f"{which}, {axis}. Zooming one zooms all. Click a rank in the figure above to see its timeline, or press its "
        "button to show or hide it."
    )
