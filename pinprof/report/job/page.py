"""The ranks of a job as a page: who holds up the others, all ranks in one figure, and the report on the slowest."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import PurePath

from pinprof.analysis import Analysis
from pinprof.phrases import IDLE, WAITS
from pinprof.ranks import RankPart, RankRow, Ranks, TimesPerStep
from pinprof.report.charts import ranks_chart, shown
from pinprof.report.elements import Column, Markup, facts, lines, note, number_columns, remarks, table, unbroken
from pinprof.report.job.timelines import rank_timelines
from pinprof.report.job.words import (
    BEHIND,
    COLUMNS,
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
from pinprof.report.source import PLAIN, Code
from pinprof.report.timeline import MAX_EVENTS
from pinprof.report.trace.page import contents, report_page, section
from pinprof.report.words import NOTHING, begun, steps
from pinprof.units import duration, percent

MAX_ROWS = 32
"""More ranks than this are folded away: the ones that need longest alone are not."""


def to_html(
    ranks: Ranks,
    parts: Sequence[RankPart],
    entry: Analysis,
    code: Code = PLAIN,
    *,
    others: Mapping[int, Analysis] | None = None,
) -> Markup:
    """Return the page of a job, which needs nothing else; `entry` is that of the rank to be shown.

    `code` says how it shows the user's code, `others` are ranks that have a timeline beside it.
    """
    own = section(1, entry, MAX_EVENTS, code)
    return report_page(
        f"pinprof: {title(ranks)}",
        "who holds up the job",
        _job(ranks, parts, {ranks.shown_rank: entry, **(others or {})}) + own,
    )


def _job(ranks: Ranks, parts: Sequence[RankPart], drawn: Mapping[int, Analysis]) -> Markup:
    chart = ranks_chart(ranks)
    named = (
        ("job-steps", "All ranks side by side", shown(chart) if chart else Markup()),
        ("job-timelines", "Timelines of ranks", rank_timelines(ranks, drawn)),
        ("job-ranks", "Ranks", lines(_rows(ranks, drawn))),
        ("job-collectives", "Collectives, the longest awaited", _collectives(ranks)),
        ("job-findings", "Findings by rank", _findings(ranks)),
    )
    present = [each for each in named if each[2]]
    links = [*((name, heading) for name, heading, _ in present), ("trace-1", f"Report on rank {ranks.shown_rank}")]
    pieces = [
        Markup('<h2 id="heading-job">{}</h2>').format(title(ranks)),
        note(_recorded(parts)),
        *_choice(ranks),
        *(note(f"{reason[0].upper()}{reason[1:]}.") for reason in [why(ranks, parts)] if reason),
        _headline(ranks),
        remarks("Before you trust these traces", [f"{doubt}." for doubt in doubts_by_rank(ranks, parts)]),
        facts(_summary(ranks)),
        contents(links),
        *(Markup('<h3 id="{}">{}</h3>\n{}').format(*each) for each in present),
        note(f"{below(ranks)}."),
    ]
    return Markup('<section id="job" aria-labelledby="heading-job">\n{}\n</section>\n').format(lines(pieces))


def _recorded(parts: Sequence[RankPart]) -> str:
    """Return on what the ranks ran, as far as they agree, and how long each was recorded."""
    infos = [part.profile.info for part in parts]
    gpus = sorted({device.name for info in infos for device in info.devices if device.name})
    torch = sorted({f"torch {info.torch_version}" for info in infos if info.torch_version})
    recorded = sorted({steps(part.profile) for part in parts})
    return " · ".join(", ".join(each) for each in (gpus, torch, recorded[:3]) if each)


def _choice(ranks: Ranks) -> Iterator[Markup]:
    """Yield why these traces; the list of all runs, whose lines are indented, is folded."""
    runs = [remark for remark in ranks.choice if remark.startswith(" ")]
    yield from (note(remark) for remark in ranks.choice if remark not in runs)
    if runs:
        items = Markup().join(map(Markup("<li>{}</li>").format, runs))
        yield Markup("<details><summary>The runs</summary><ul>{}</ul></details>").format(items)


def _headline(ranks: Ranks) -> Markup:
    slowest = slowest_of(ranks)
    if slowest is None:
        what, link, do = nobody(ranks), "trace-1", f"What costs rank {ranks.shown_rank} time is below."
        what = begun(what)
        if ranks.findings:
            first = ranks.findings[0]
            at = f" in {finding_in(first)}" if finding_in(first) else ""
            link, do = "job-findings", f"On {numbers(first.ranks, len(ranks.rows))}: {first.finding.title}{at}."
    else:
        what = f"Rank {slowest.rank} holds up the others by {duration(ranks.skew_ns)} per step: {ranks.reason}"
        link, do = "trace-1", f"See what rank {slowest.rank} does."
    said = Markup('<p class="headline">{}. <strong><a href="#{}">{}</a></strong></p>')
    return said.format(unbroken(what), link, unbroken(do))


# The numbers on top


def _summary(ranks: Ranks) -> Iterator[tuple[str, str, str]]:
    """Yield each figure from the least to the most of all ranks; what is none on all is left out."""
    named: tuple[tuple[str, str, Callable[[RankRow], float | None]], ...] = (
        ("Step", "per step, without the profiler", lambda row: row.step_ns),
        ("Alone", "a step, if the rank waited for no other", lambda row: row.alone_ns),
        ("Waited for others", "per traced step, in kernels of collectives", lambda row: row.waited_ns),
        ("NCCL exposed", "per traced step, with no other kernel beside it", lambda row: row.exposed_communication_ns),
        ("GPU idle or waiting", "per step, without the profiler: time without work of the rank's busiest GPU", _idle),
        ("Host stalls", "per traced step, in calls that can block", lambda row: row.stall_ns),
        ("Input", "per traced step, the host waits for the next batch", lambda row: row.input_ns),
    )
    for name, meaning, time_of in named:
        times = [time for row in ranks.rows if (time := time_of(row)) is not None]
        if any(times):
            length, apart = spread(times)
            yield name, length, f"{meaning}; {apart}"


def _idle(row: RankRow) -> float | None:
    """Return what is left of the step, in ns: a collective that waits for another rank is no work of this one."""
    if row.step_ns is None or row.work_ns is None:
        return None
    waited = min(row.waited_ns, row.exposed_communication_ns)
    return max(row.step_ns - max(row.work_ns - waited, 0.0), 0.0)


# The tables


CAUSES: dict[str, Callable[[RankRow], TimesPerStep]] = {
    "GPU idle": lambda row: row.idle,
    "stalls": lambda row: row.stalls,
}
"""The causes of the times of a column, of which the longest is named."""


def _rows(ranks: Ranks, drawn: Collection[int]) -> Iterator[Markup]:
    rows = longest_alone_first(ranks.rows)
    first, rest = rows[:MAX_ROWS], rows[MAX_ROWS:]
    shown = [title for title, time_of in COLUMNS if any(time_of(row) for row in rows)]
    nothing = [title for title, _ in COLUMNS if title not in shown]
    caption = f"{PER_STEP}. Those that need longest alone come first"
    caption += f". None on any rank: {', '.join(nothing)}" if nothing else ""
    yield _table(caption, first, shown, ranks.slowest_rank, drawn)
    if rest:
        folded = _table("The other ranks", rest, shown, ranks.slowest_rank, drawn)
        more = Markup('<details class="long"><summary>The other {} ranks</summary>{}</details>')
        yield more.format(len(rest), folded)
    if ranks.slowest_rank is None and any(row.waited_ns for row in rows):
        yield note(f"{BEHIND[0].upper()}{BEHIND[1:]}.")


def _table(
    caption: str, rows: Sequence[RankRow], shown: Sequence[str], slowest: int | None, drawn: Collection[int]
) -> Markup:
    columns = [Column("rank"), *number_columns(*shown, "came last"), Column("file")]
    return table(caption, columns, (_cells(row, shown, drawn, is_slowest=row.rank == slowest) for row in rows))


def _cells(row: RankRow, shown: Sequence[str], drawn: Collection[int], *, is_slowest: bool) -> Sequence[str]:
    button = Markup('<button type="button" class="see to-rank" data-rank="{0}" title="its timeline">{0}</button>')
    number = button.format(row.rank) if len(drawn) > 1 and row.rank in drawn else str(row.rank)
    return (
        Markup('<span class="together">{},&nbsp;slowest</span>').format(number) if is_slowest else number,
        *(unbroken(_mostly(time_of(row), _causes(title, row))) for title, time_of in COLUMNS if title in shown),
        unbroken(percent(row.last)),
        Markup(".<wbr>").join(PurePath(row.path).name.split(".")),
    )


def _time(ns: float | None) -> str:
    return NOTHING if ns is None else duration(ns)


def _causes(title: str, row: RankRow) -> list[str]:
    """Return the causes of what a column has of a rank, the main one first."""
    if title not in CAUSES:
        return []
    names = IDLE if title == "GPU idle" else WAITS
    return [names[cause] for cause, _ in CAUSES[title](row)]


def _mostly(ns: float | None, causes: Sequence[str]) -> str:
    """Return a time and its main cause."""
    return f"{_time(ns)}, {causes[0]}" if causes else _time(ns)


def _collectives(ranks: Ranks) -> Markup:
    if not ranks.collectives:
        return Markup()
    columns = [Column("collective"), Column("came last"), *number_columns("of the steps", "takes", "others waited")]
    rows = (
        (
            row.name,
            f"rank {row.last_rank}",
            percent(row.last),
            duration(row.own_ns),
            duration(row.waited_ns),
            group(row),
        )
        for row in ranks.collectives
    )
    caption = (
        "Means over the steps. Came last: the rank that came last most often, and in which share of the steps. "
        "Takes: how long it runs once all ranks have come. Others waited: the wait of the rank that waited longest"
    )
    aligned = clocks(ranks)
    caption += f". {aligned[0].upper()}{aligned[1:]}" if aligned else ""
    return table(caption, [*columns, Column("ranks")], rows)


def _findings(ranks: Ranks) -> Markup:
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
    return table(caption, columns, rows) if rows else Markup()
