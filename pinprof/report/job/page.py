"""The page of a job: which rank holds up the others, all ranks in one figure, and the report on the slowest.

A few ranks have timelines below each other on one time axis.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analysis import Analysis
from pinprof.ground.units import counted, duration, percent
from pinprof.ranks.rank import RankPart, RankRow, Ranks, number_of
from pinprof.report.html import Column, Markup, inline_html, lines, note, number_columns, table
from pinprof.report.job import view
from pinprof.report.job.heat_map import heat_map
from pinprof.report.page import report_page, top
from pinprof.report.source import PLAIN, Code
from pinprof.report.timeline import SharedTimeline, fragment, framed
from pinprof.report.timeline.drawn_lanes import MAX_PAGE_EVENTS
from pinprof.report.timeline.steps import choose_window, step_names
from pinprof.report.trace.page import section
from pinprof.report.view import Section, on_page
from pinprof.report.words import NOTHING, capitalized, complete_steps

MAX_TIMELINES = 4
"""Ranks of a job with a timeline: each makes the page larger, and its trace is read a second time."""
TIMELINES_SHOWN_FIRST = 2
MARGIN_SHARE_OF_STEPS = 0.02
"""The share of the shown steps that the first view shows before and after them."""


def to_html(
    ranks: Ranks,
    parts: Sequence[RankPart],
    entry: Analysis,
    code: Code = PLAIN,
    *,
    others: Mapping[int, Analysis] | None = None,
) -> Markup:
    """Return the self-contained page of a job; `entry` is the analysis of the shown rank.

    `code` says how it shows the user's code; `others` are further ranks with a timeline.
    """
    entry = replace(entry, profile=replace(entry.profile, of_job=True))
    report = section(1, entry, MAX_PAGE_EVENTS, code)
    return report_page(
        f"pinprof: {view.title(ranks)}",
        "pinprof: who holds up the job",
        _job(ranks, parts, {ranks.shown_rank: entry, **(others or {})}) + report,
    )


def page_of_files(
    ranks: Ranks, parts: Sequence[RankPart], read: Callable[[str], Analysis], code: Code = PLAIN
) -> Markup:
    """Return the page of a job; `read` is called for the files of the ranks with a timeline."""
    analyses = {rank: read(file) for rank, file in files_to_draw(ranks, parts).items()}
    return to_html(ranks, parts, analyses.pop(ranks.shown_rank), code, others=analyses)


def files_to_draw(ranks: Ranks, parts: Sequence[RankPart]) -> dict[int, str]:
    """Return the files of the ranks with a timeline."""
    file_of = {number_of(part, number): part.file for number, part in enumerate(parts)}
    return {rank: file_of[rank] for rank in ranks_to_draw(ranks)}


def _job(ranks: Ranks, parts: Sequence[RankPart], drawn: Mapping[int, Analysis]) -> Markup:
    shown_parts = (
        (Section("Side by side", name="job-steps"), heat_map(ranks)),
        (Section("Ranks", notes=view.notes_on(ranks), name="job-ranks"), lines(_rows(ranks, drawn))),
        (Section("Timelines", name="job-timelines"), rank_timelines(ranks, drawn)),
        (view.collectives(ranks), Markup()),
        (view.findings(ranks), Markup()),
    )
    present = [(part, figure) for part, figure in shown_parts if figure or part.tables]
    links = [*((part.title, part.name) for part, _ in present), (f"Report on rank {ranks.shown_rank}", "trace-1")]
    doubt_section = view.doubts(ranks, parts)
    pieces = [
        top("heading-job", view.title(ranks), _recorded_on(parts), links),
        *_headline(ranks, parts),
        *(note(f"{capitalized(words)}.") for words in (view.why_long(ranks, parts), view.traffic_line(ranks)) if words),
        *map(note, ranks.choice),
        on_page(doubt_section) if doubt_section.notes else "",
        *(on_page(part, figure) for part, figure in present),
        note(f"{view.shown_rank_line(ranks)}."),
    ]
    return Markup('<section id="job" aria-labelledby="heading-job">\n{}\n</section>\n').format(lines(pieces))


def _recorded_on(parts: Sequence[RankPart]) -> str:
    infos = [part.profile.info for part in parts]
    gpus = sorted({device.name for info in infos for device in info.devices if device.name})
    torch = sorted({f"torch {info.torch_version}" for info in infos if info.torch_version})
    recorded = sorted({complete_steps(part.profile) for part in parts})
    return " · ".join(", ".join(values) for values in (gpus, torch, recorded[:3]) if values)


def _headline(ranks: Ranks, parts: Sequence[RankPart]) -> Iterator[Markup]:
    yield Markup('<p class="headline">{}.</p>').format(inline_html(view.headline(ranks, parts)))
    why = inline_html(f"{reason}. ") if (reason := view.why(ranks)) else ""
    link = Markup('<p>{}<strong><a href="#trace-1">See what rank {} does.</a></strong></p>')
    yield link.format(why, ranks.shown_rank)


def _rows(ranks: Ranks, drawn: Collection[int]) -> Iterator[Markup]:
    rows = view.longest_alone_first(ranks.rows)
    first, rest = rows[: view.MAX_RANK_ROWS], rows[view.MAX_RANK_ROWS :]
    columns = view.columns_of(ranks)
    yield _table("Those that need longest alone come first", first, columns, ranks.slowest_rank, drawn)
    if rest:
        folded = _table("The other ranks", rest, columns, ranks.slowest_rank, drawn)
        more = Markup('<details class="long"><summary>The other {} ranks</summary>{}</details>')
        yield more.format(len(rest), folded)


def _table(
    caption: str, rows: Sequence[RankRow], times: Sequence[view.RankTime], slowest: int | None, drawn: Collection[int]
) -> Markup:
    columns = [Column("rank"), *number_columns(*(time.title for time in times), "came last"), Column("file")]
    return table(caption, columns, (_cells(row, times, drawn, is_slowest=row.rank == slowest) for row in rows))


def _cells(row: RankRow, times: Sequence[view.RankTime], drawn: Collection[int], *, is_slowest: bool) -> Sequence[str]:
    button = Markup('<button type="button" class="see to-rank" data-rank="{0}" title="its timeline">{0}</button>')
    number = button.format(row.rank) if len(drawn) > 1 and row.rank in drawn else str(row.rank)
    return (
        Markup('<span class="together">{},&nbsp;slowest</span>').format(number) if is_slowest else number,
        *(inline_html(_time(time, row)) for time in times),
        inline_html(percent(row.last)),
        Markup(".<wbr>").join(PurePath(row.path).name.split(".")),
    )


def _time(time: view.RankTime, row: RankRow) -> str:
    causes = {
        view.GPU_IDLE_TITLE: [IDLE[cause].does for cause, _ in row.idle],
        view.STALL_TITLE: [WAITS[cause].label for cause, _ in row.stalls],
    }
    ns = time.of(row)
    return ", ".join((NOTHING if ns is None else duration(ns), *causes.get(time.title, [])[:1]))


def ranks_to_draw(ranks: Ranks) -> tuple[int, ...]:
    """Return the ranks with timelines: the shown one, the one that waits most for others, then the median ones."""
    by_time_alone = sorted(ranks.rows, key=lambda row: (row.alone_ns or 0.0, row.rank))
    most_waiting = max(ranks.rows, key=lambda row: (row.waited_ns, row.rank != ranks.shown_rank))
    middle = [by_time_alone[index].rank for index in (len(by_time_alone) // 2, 0, -1, len(by_time_alone) // 4)]
    rest = [row.rank for row in ranks.rows] if len(ranks.rows) <= MAX_TIMELINES else []
    return tuple(dict.fromkeys([ranks.shown_rank, most_waiting.rank, *middle, *rest]))[:MAX_TIMELINES]


def rank_timelines(ranks: Ranks, analyses: Mapping[int, Analysis]) -> Markup:
    """Return the timelines of these ranks, with buttons that show and hide them; empty for a single one."""
    if len(analyses) <= 1:
        return Markup()
    rows = {row.rank: row for row in ranks.rows}
    shown = analyses[ranks.shown_rank]
    window, clock = choose_window(shown.trace), _clock_ns(shown, rows[ranks.shown_rank])
    first = (-MARGIN_SHARE_OF_STEPS * window.span_ns, (1 + MARGIN_SHARE_OF_STEPS) * window.span_ns)
    aligned = bool(view.clocks_line(ranks))
    named = dict(enumerate(step_names(shown.trace))).get(window.first, "the trace")
    of_shown = f"{named} of rank {ranks.shown_rank}"
    most = MAX_PAGE_EVENTS // (len(analyses) + 1)  # the report on the shown rank has one, too
    drawn = []
    for rank, analysis in analyses.items():
        own, ahead = choose_window(analysis.trace), _clock_ns(analysis, rows[rank]) - clock
        zero_ns, since = (window.start_ns - ahead, of_shown) if aligned else (own.start_ns, "")
        heading = f"Rank {rank}" + (", which holds up the others" if rank == ranks.slowest_rank else "")
        shared = SharedTimeline("ranks", f"rank {rank}", heading, first, own, zero_ns, since)
        drawn.append((rank, fragment(analysis, most, shared=shared)))
    button = Markup('<button type="button" data-rank="{0}" aria-pressed="{1}">rank {0}</button>')
    region = Markup('<div class="of-rank" role="region" data-rank="{0}" aria-label="Timeline of rank {0}"{1}>{2}</div>')
    buttons = (
        button.format(rank, "true" if index < TIMELINES_SHOWN_FIRST else "false")
        for index, (rank, _) in enumerate(drawn)
    )
    regions = (
        region.format(rank, "" if index < TIMELINES_SHOWN_FIRST else Markup(" hidden"), timeline)
        for index, (rank, timeline) in enumerate(drawn)
    )
    return Markup(
        '{}<div class="steer ranks" role="group" aria-label="Ranks that are drawn">{}'
        '<output class="rank-note"></output></div>\n{}'
    ).format(note(_explanation(ranks, len(drawn))), Markup().join(buttons), framed(lines(regions)))


def _clock_ns(analysis: Analysis, row: RankRow) -> int:
    """Return the ns to add to the times of a trace to get times of the common clock of all ranks."""
    return (analysis.profile.info.base_ns or 0) - row.clock_ahead_ns


def _explanation(ranks: Ranks, drawn: int) -> str:
    aligned = view.clocks_line(ranks) or "each from the start of its own step, as the ranks share no clock"
    return (
        f"{drawn} of {counted(len(ranks.rows), 'rank')}: {aligned}. Zooming one zooms all. Click a rank in the table "
        "above to see its timeline, or press its button to show or hide it."
    )
