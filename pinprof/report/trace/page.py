"""The report as a page: the step and what costs it time, what to do, a timeline to check it by, and the tables."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from pinprof.analysis import Analysis
from pinprof.errors import PinprofError
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import shown
from pinprof.report.charts.steps import part_times
from pinprof.report.charts.timeline import timeline_chart
from pinprof.report.elements import Column, Markup, Share, facts, lines, note, shares, table, unbroken
from pinprof.report.page import page
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.tables import grids_of, tables
from pinprof.report.timeline import MAX_EVENTS, fragment
from pinprof.report.timeline.kinds import COMPUTE_ONLY, IDLE, KINDS
from pinprof.report.trace.advice import advice, evidence
from pinprof.report.trace.cards import cards
from pinprof.report.trace.charts import drawn, lengths_of_steps, overlap_of_steps
from pinprof.report.trace.headline import sentence
from pinprof.report.trace.step import because, bound, of_what, step
from pinprof.report.trace.view import doubt_sections, event_sections, step_sections
from pinprof.report.view import Shown, on_page
from pinprof.report.words import NOTHING, begun, steps
from pinprof.rules import Findings
from pinprof.units import duration


def to_html(entries: Sequence[Analysis], code: Code = PLAIN) -> Markup:
    """Return the report on the traces as one page that needs nothing else; `code` says how it shows the user's code."""
    names = [PurePath(entry.profile.path).name for entry in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    most = MAX_EVENTS // max(len(entries), 1)
    sections = (section(number, entry, most, code) for number, entry in enumerate(entries, start=1))
    overview = _overview(entries) if len(entries) > 1 else Markup()
    return report_page(title, "what the host and its copies cost the step", overview + Markup().join(sections))


def report_page(title: str, subject: str, sections: Markup) -> Markup:
    """Return a page of these sections on a subject in words."""
    body = Markup(
        '<a class="skip" href="#report">Skip to the report</a>\n<header><h1>pinprof: {}</h1></header>\n'
        '<main id="report" tabindex="-1">\n{}</main>'
    )
    return page(title, body.format(subject, sections))


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline alone as one page that needs nothing else."""
    name = PurePath(analysis.profile.path).name
    return page(f"pinprof: {name}", Markup("<main><h1>{}</h1>\n{}\n</main>").format(name, fragment(analysis)))


def plotly_page(analysis: Analysis) -> Markup:
    """Return the timeline as a plotly figure on one page that needs nothing else; see `timeline_chart`.

    Raises PinprofError if the trace has nothing to draw.
    """
    title = timeline_title(analysis)
    chart = timeline_chart(analysis, title)
    if not chart.data:
        raise PinprofError(f"{analysis.profile.path}: has no events on host threads or GPU streams to draw")
    body = Markup('<main aria-label="Timeline of {}">\n{}\n</main>').format(title[0], shown(chart))
    return page(f"pinprof: {title[0]}", body)


def timeline_title(analysis: Analysis) -> tuple[str, str]:
    """Return the name of a trace and the sentence of its report, for a timeline."""
    return PurePath(analysis.profile.path).name, _sentence(analysis)


def _sentence(analysis: Analysis) -> str:
    return f"{sentence(analysis.profile, analysis.findings.verdict)}."


def _overview(entries: Sequence[Analysis]) -> Markup:
    """Return a table of the traces, each with its step and what to do first, and a link to its part of the page."""
    columns = [Column("trace"), Column("step", is_number=True), Column("bound by"), Column("what to do first")]
    rows = []
    for number, entry in enumerate(entries, start=1):
        profile = entry.profile
        name = PurePath(profile.path).name
        rank = f"rank {profile.info.rank}: " if profile.info.rank is not None else ""
        link = Markup('<a href="#trace-{}">{}</a>').format(number, rank + name)
        limit = bound(profile)
        first = advice(profile, entry.findings).sentence
        rows.append((link, step(profile).number, limit.number if limit else NOTHING, first))
    return Markup('<nav aria-label="Traces">{}</nav>\n').format(table("The traces of this page", columns, rows))


def section(number: int, entry: Analysis, max_events: int, code: Code = PLAIN) -> Markup:
    """Return the report on one trace, the page's so many-th."""
    profile, findings = entry.profile, entry.findings
    first = advice(profile, findings)
    do = unbroken(first.sentence)
    if first.finding is not None:
        do = Markup('<a href="#finding-{}-{}">{}</a>').format(number, first.finding + 1, do)
    quoting, grids = Quoting(entry.details.sources, code), grids_of(entry)
    actions = list(cards(number, entry, quoting))
    parts = list(_below(number, entry, Shown([grid.name for grid in grids], f"tables-{number}", quoting)))
    links = [(f"findings-{number}", "What to do")] if actions else []
    links += [
        (f"timeline-{number}", "Timeline"),
        *([(f"tables-{number}", "Tables")] if grids else []),
        *((part.id, part.title) for part in parts if part.id),
    ]
    pieces = [
        Markup('<h2 id="heading-{}">{}</h2>').format(number, PurePath(profile.path).name),
        note(_recorded(profile)),
        Markup('<p class="headline">{} <strong>{}</strong></p>').format(unbroken(_sentence(entry)), do),
        _evidence(profile, findings),
        *map(on_page, doubt_sections(profile)),
        facts(fact[:3] for part in step_sections(profile, is_drawn=True) for fact in part.facts),
        *_shares(profile),
        contents(links),
        *actions,
        Markup('<h3 id="timeline-heading-{}">Timeline</h3>').format(number),
        Markup('<div id="timeline-{}">{}</div>').format(number, fragment(entry, max_events, findings)),
        Markup('<h3 id="tables-{}">Tables</h3>\n{}').format(number, tables(number, entry, grids, quoting))
        if grids
        else "",
        *(part.content for part in parts),
        note(Markup("Read from <code>{}</code>").format(profile.path)),
    ]
    made = Markup('<section id="trace-{0}" aria-labelledby="heading-{0}">\n{1}\n</section>\n')
    return made.format(number, lines(pieces))


class PagePart(NamedTuple):
    """A part of the page, to which links lead by its id if it has one."""

    id: str
    title: str
    content: Markup


def _below(number: int, entry: Analysis, shown: Shown) -> Iterator[PagePart]:
    """Yield the parts below the timeline: how the steps divide, and the sections of the report with their charts."""
    steps = entry.profile.steps
    each = "each step" if steps.whole == "step" else "the whole trace"
    length = "Steps" if steps.count > 1 else f"The {steps.whole}"
    heading = Markup('<h3 id="{0}-{1}">{2}</h3>\n{3}')
    for name, title, chart in (
        ("overlap", f"Overlap in {each}", overlap_of_steps(entry)),
        ("steps", length, lengths_of_steps(entry)),
    ):
        if chart:
            yield PagePart(f"{name}-{number}", title, heading.format(name, number, title, chart))
    for part in event_sections(entry.profile, entry.findings):
        named = replace(part, name=f"{part.name}-{number}" if part.name else "")
        title = part.title.split(",", maxsplit=1)[0]
        yield PagePart(named.name, title, on_page(named, drawn(part.name, entry), shown))


def _evidence(profile: Profile, findings: Findings) -> Markup:
    """Return what shows why the step is as long as it is, and how to find out where the trace cannot tell it."""
    items = [Markup("<li>{}.</li>").format(unbroken(begun(line))) for line in evidence(profile, findings)]
    return Markup('<ul class="verdict">{}</ul>').format(Markup().join(items)) if items else Markup()


def contents(links: Sequence[tuple[str, str]]) -> Markup:
    """Return links to parts of the page: (id, title)."""
    items = Markup().join(Markup('<li><a href="#{}">{}</a></li>').format(*link) for link in links)
    return Markup('<nav class="contents" aria-label="Parts of the report"><ul>{}</ul></nav>').format(items)


def _recorded(profile: Profile) -> str:
    info = profile.info
    gpus = ", ".join(sorted({device.name or f"device {device.index}" for device in info.devices}))
    rank = f"rank {info.rank}" + (f" of {info.world_size}" if info.world_size else "") if info.rank is not None else ""
    torch = f"torch {info.torch_version}" if info.torch_version else ""
    return " · ".join(
        part for part in (gpus, torch, rank, steps(profile), f"{duration(profile.span_ns)} recorded") if part
    )


def _shares(profile: Profile) -> Iterator[Markup]:
    """Yield a bar for each GPU whose parts add up to the step."""
    for mean in profile.parts:
        why = because(profile, mean).lstrip(", ")
        names = {IDLE: "GPU idle", **({} if mean.both_ns else {COMPUTE_ONLY: "kernels"})}
        if mean.length_ns:
            yield shares(
                of_what(profile, mean),
                [
                    Share(names.get(kind, KINDS[kind].label), time, duration(time), KINDS[kind].colour, more)
                    for kind, time in part_times(mean).items()
                    for more in [f", {why}" if why and kind == IDLE else ""]
                ],
            )
