"""The report as a page: the step and what costs it time, what to do, a timeline, tables, and sections with charts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from pinprof.analyses.step_parts import MeanStep
from pinprof.analysis import Analysis
from pinprof.errors import PinprofError
from pinprof.measurement.profile import Profile, busiest
from pinprof.measurement.trust.doubt import Withheld
from pinprof.report.charts.chart import Chart, chart_html
from pinprof.report.charts.copies import copies_chart
from pinprof.report.charts.flame import fragment as flame
from pinprof.report.charts.flame import host_flame, waits_flame
from pinprof.report.charts.steps import idle_chart, overlap_chart, part_times, steps_chart, syncs_chart
from pinprof.report.charts.timeline import timeline_chart
from pinprof.report.html import Column, HtmlBarPart, Markup, inline_html, lines, note, remarks, shares, table
from pinprof.report.page import page, report_page, top
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.tables import grids_of, tables
from pinprof.report.timeline import fragment
from pinprof.report.timeline.drawn_lanes import MAX_EVENTS
from pinprof.report.timeline.kinds import COMPUTE_ONLY, IDLE, KINDS
from pinprof.report.timeline.steps import shown_numbers
from pinprof.report.trace.finding_cards import changes
from pinprof.report.trace.step import SMALLEST, bound_fact, division_title, step_fact, why_idle
from pinprof.report.trace.verdict import advice, evidence, verdict_sentence
from pinprof.report.trace.view import doubt_sections, event_sections, step_sections
from pinprof.report.trace.work import kind_sections, kinds_figure, kinds_in_short, ops_in_short
from pinprof.report.view import Fact, PageContext, Section, capitalized_sentence, on_page, sentence_html
from pinprof.report.words import NOTHING, capitalized, doubts, recording_line
from pinprof.units import counted, duration
from pinprof.verdict.verdict import UNKNOWN_CAUSE, Verdict

GROUPS = {
    **dict.fromkeys(("phases", "kinds", "kernels", "collectives"), "Kernels"),
    **dict.fromkeys(("waits", "idle", "copies", "input"), "Waits"),
    **dict.fromkeys(("host", "ops"), "Host"),
    **dict.fromkeys(("steps", "serving", "course"), "Steps"),
}
"""The group of each section below the timeline, in order; a link at the top leads to each group."""
MAX_GPUS = 4
"""GPUs of a trace with a chart of their steps."""
FEWEST_COPIES, FEWEST_SIZES, FEWEST_SITES, FEWEST_GPUS, FEWEST_STEPS, FEWEST_LENGTHS = 4, 3, 2, 2, 3, 5
"""A chart of fewer is left out: it would show no more than the numbers next to it."""


def to_html(entries: Sequence[Analysis], code: Code = PLAIN) -> Markup:
    """Return the report on the traces as one self-contained page; `code` says how it shows the user's code."""
    names = [PurePath(entry.profile.path).name for entry in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    max_events = MAX_EVENTS // max(len(entries), 1)
    sections = (section(number, entry, max_events, code) for number, entry in enumerate(entries, start=1))
    overview = _overview(entries) if len(entries) > 1 else Markup()
    return report_page(title, "pinprof: where the step's time goes", overview + Markup().join(sections))


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline alone as one page without other files."""
    name = PurePath(analysis.profile.path).name
    return page(f"pinprof: {name}", Markup("<main><h1>{}</h1>\n{}\n</main>").format(name, fragment(analysis)))


def plotly_page(analysis: Analysis) -> Markup:
    """Return the timeline as a plotly figure on a self-contained page; see `timeline_chart`.

    Raises PinprofError if the trace has nothing to draw.
    """
    title = timeline_title(analysis)
    chart = timeline_chart(analysis, title)
    if not chart.data:
        raise PinprofError(f"{analysis.profile.path}: has no events on host threads or GPU streams to draw")
    body = Markup('<main aria-label="Timeline of {}">\n{}\n</main>').format(title[0], chart_html(chart))
    return page(f"pinprof: {title[0]}", body)


def timeline_title(analysis: Analysis) -> tuple[str, str]:
    """Return the name of a trace and the sentence of its report, for a timeline."""
    return PurePath(analysis.profile.path).name, _sentence(analysis)


def _sentence(analysis: Analysis) -> str:
    return f"{verdict_sentence(analysis.profile, analysis.findings.verdict)}."


def _overview(entries: Sequence[Analysis]) -> Markup:
    """Return a table of the traces, each with its step and what to do first, and a link to its part of the page."""
    columns = [Column("trace"), Column("step", is_number=True), Column("bound by"), Column("what to do first")]
    rows = []
    for number, entry in enumerate(entries, start=1):
        profile = entry.profile
        name = PurePath(profile.path).name
        rank = f"rank {profile.info.rank}: " if profile.info.rank is not None else ""
        link = Markup('<a href="#trace-{}">{}</a>').format(number, rank + name)
        limit = bound_fact(profile)
        first = advice(profile, entry.findings).sentence
        rows.append((link, step_fact(profile).number, limit.number if limit else NOTHING, first))
    return Markup('<nav aria-label="Traces">{}</nav>\n').format(table("The traces of this page", columns, rows))


def section(number: int, entry: Analysis, max_events: int, code: Code = PLAIN) -> Markup:
    """Return the report on one trace, the page's `number`-th."""
    profile, findings = entry.profile, entry.findings
    advised = advice(profile, findings)
    quoting, grids = Quoting(entry.details.sources, code), grids_of(entry)
    what_to_do = changes(number, entry, quoting)
    parts = list(_below(number, entry, PageContext([grid.name for grid in grids], f"tables-{number}", quoting)))
    links = [("Changes", f"findings-{number}")] if what_to_do else []
    links += [("Timeline", f"timeline-{number}"), *([("Tables", f"tables-{number}")] if grids else [])]
    first_of_group = {part.group: part.id for part in reversed(parts)}
    links += [(group, first_of_group[group]) for group in dict.fromkeys(part.group for part in parts) if group]
    pieces = [
        top(f"heading-{number}", PurePath(profile.path).name, recording_line(profile), links),
        Markup('<p class="headline">{}</p>').format(inline_html(_sentence(entry))),
        note(" ".join(f"{capitalized(reason)}." for reason in evidence(profile, findings))),
        Markup("<p><strong>{}</strong></p>").format(inline_html(advised.sentence)) if advised.finding is None else "",
        *_doubts(profile),
        *_shares(profile, findings.verdict),
        _figures(profile),
        _work(profile, findings.verdict.cause),
        what_to_do,
        Markup('<h3 id="timeline-{}">Timeline</h3>\n{}').format(number, fragment(entry, max_events, findings)),
        Markup('<h3 id="tables-{}">Tables</h3>\n{}').format(number, tables(number, entry, grids, quoting))
        if grids
        else "",
        *(part.content for part in parts),
        note(Markup("Read from <code>{}</code>").format(profile.path)),
    ]
    frame = Markup('<section id="trace-{0}" aria-labelledby="heading-{0}">\n{1}\n</section>\n')
    return frame.format(number, lines(pieces))


def _doubts(profile: Profile) -> Iterator[Markup]:
    """Yield the doubts as one line that unfolds; it is open if figures are withheld."""
    all_doubts = doubts(profile)
    is_open = Markup(" open") if any(doubt.withholds for doubt in all_doubts) else ""
    what = "; ".join(doubt.what for doubt in all_doubts)
    for part in doubt_sections(profile):
        reasons = remarks(map(sentence_html, map(capitalized_sentence, part.notes)))
        line = Markup('<details class="trust"{}><summary><strong>{}:</strong> {}</summary>{}</details>')
        yield line.format(is_open, part.title, inline_html(what), reasons)


def _figures(profile: Profile) -> Markup:
    """Return a line with the figures of the step that neither the verdict nor the bar shows."""
    in_verdict = {fact.name for fact in (step_fact(profile), bound_fact(profile)) if fact}
    shown = [fact for fact in _facts(profile) if fact.name not in in_verdict]
    item = Markup('<li title="{}">{} <strong>{}</strong></li>')
    items = Markup().join(item.format(fact.meaning, fact.name, inline_html(fact.number)) for fact in shown)
    return Markup('<ul class="figures">{}</ul>').format(items) if items else Markup()


def _work(profile: Profile, limit: str | None) -> Markup:
    """Return the GPU's time by kind of kernel, or the host's by op, in a line."""
    summaries = [f"{line}." for line in (kinds_in_short(profile, limit), ops_in_short(profile)) if line]
    return Markup('<p class="note work">{}</p>').format(inline_html(" ".join(summaries))) if summaries else Markup()


def _facts(profile: Profile) -> list[Fact]:
    return [fact for part in step_sections(profile, is_drawn=True) for fact in part.facts]


class PagePart(NamedTuple):
    """A part of the page below the timeline; a link leads to the first of each group that has a name."""

    group: str
    id: str
    content: Markup


def _below(number: int, entry: Analysis, shown: PageContext) -> Iterator[PagePart]:
    """Yield the parts below the timeline, by group: the sections of the report with their charts, and the steps."""
    steps, facts = entry.profile.steps, _facts(entry.profile)
    title = "Steps" if steps.count > 1 else f"The {steps.whole}"
    lengths = Section(
        title, sentences=[f"{capitalized(name)}: {value}, {why}" for name, value, why, *_ in facts], name="steps"
    )
    order, events = [*GROUPS, ""], event_sections(entry.profile, entry.findings)
    parts = (*kind_sections(entry.profile), *events, lengths)
    for part in sorted(parts, key=lambda part: order.index(part.name)):
        drawn = lines(_charts_of_steps(entry)) if part is lengths else _charts_of(part.name, entry)
        named = replace(part, name=f"{part.name}-{number}" if part.name else "")
        yield PagePart(GROUPS.get(part.name, ""), named.name, on_page(named, drawn, shown))


def _shares(profile: Profile, verdict: Verdict) -> Iterator[Markup]:
    """Yield a bar of the step on the busiest GPU, and folded bars of the other GPUs."""
    main = busiest(profile)
    bars = [
        division_bar(profile, mean, division_title(profile, mean), verdict)
        for mean in profile.parts
        if mean.length_ns and mean is not main
    ]
    if main is not None and main.length_ns:
        yield division_bar(profile, main, division_title(profile, main), verdict)
    if bars:
        others = Markup("<details><summary>{}</summary>{}</details>")
        yield others.format(counted(len(bars), "other GPU"), lines(bars))


def division_bar(
    profile: Profile, mean: MeanStep, caption: str, verdict: Verdict = UNKNOWN_CAUSE, longest: float = 0.0
) -> Markup:
    """Return how a step divides on a GPU as a bar; `longest` is as for `shares`."""
    why = why_idle(profile, mean, verdict)
    names = {IDLE: "GPU idle", **({} if mean.both_ns else {COMPUTE_ONLY: "kernels"})}
    parts = (
        HtmlBarPart(
            names.get(kind, KINDS[kind].label),
            time,
            duration(time),
            KINDS[kind].colour,
            f", {why}" if why and kind == IDLE else "",
        )
        for kind, time in part_times(mean).items()
        if time >= SMALLEST * mean.length_ns
    )
    return shares(caption, list(parts), longest)


def _charts_of(section: str, analysis: Analysis) -> Markup:
    """Return the charts of a section of the report by its name; empty if it has none."""
    profile = analysis.profile
    if section == "copies":
        chart = None if profile.withheld.copies else copies_chart(analysis.trace)
        sizes = {size for series in chart.data for size in series["x"]} if chart else ()
        return _chart(chart if len(sizes) >= FEWEST_SIZES else None, FEWEST_COPIES)
    if section == "kinds":
        return kinds_figure(profile)
    if section == "waits":
        graph = waits_flame(profile)
        return lines((_chart(syncs_chart(profile), FEWEST_SITES), flame(graph) if graph else ""))
    if section == "host" and profile.host is not None:
        graph = host_flame(profile)
        return flame(graph) if graph else Markup()
    if section == "idle":
        withheld = profile.withheld
        return _chart(None if withheld.busy or withheld.causes else idle_chart(profile), FEWEST_GPUS)
    return Markup()


def _charts_of_steps(analysis: Analysis) -> Iterator[Markup]:
    """Yield how each step divides on a GPU, and how long the steps are."""
    profile, numbers = analysis.profile, shown_numbers(analysis.trace)
    parts = () if isinstance(profile.mean_steps, Withheld) else analysis.details.parts
    yield from (_chart(overlap_chart(of_gpu, numbers), FEWEST_STEPS) for of_gpu in parts[:MAX_GPUS])
    if len(parts) > MAX_GPUS:
        yield note(f"The first {MAX_GPUS} of {len(parts)} GPUs are drawn.")
    if not profile.withheld.step:
        longest = max(parts, key=lambda of_gpu: int(of_gpu.length_ns.sum()), default=None)
        yield _chart(steps_chart(analysis.trace, profile, longest), FEWEST_LENGTHS)


def _chart(chart: Chart | None, fewest: int) -> Markup:
    """Return a chart as HTML; empty if all of its series have fewer values than `fewest`."""
    longest = max((len(series["x"]) for series in chart.data), default=0) if chart else 0
    return chart_html(chart) if chart and longest >= fewest else Markup()
