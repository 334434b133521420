"""The report as a page: the step and what costs it time, what to do, a timeline to check it by, and the tables."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.errors import PinprofError
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import shown
from pinprof.report.charts.steps import part_times
from pinprof.report.charts.timeline import timeline_chart
from pinprof.report.elements import Column, Markup, Share, facts, lines, note, shares, table, unbroken
from pinprof.report.page import page
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.tables.fragment import grids_of, tables
from pinprof.report.timeline import MAX_EVENTS, fragment, zoom_attribute
from pinprof.report.timeline.kinds import COMPUTE_ONLY, IDLE, KINDS
from pinprof.report.trace.charts import charts_of, lengths_of_steps, overlap_of_steps
from pinprof.report.trace.step import bound, of_what, step, while_idle
from pinprof.report.trace.verdict import advice, evidence, sentence, unfound
from pinprof.report.trace.view import doubt_sections, event_sections, step_sections
from pinprof.report.view import Shown, on_page
from pinprof.report.words import (
    MAX_CELL,
    NOTHING,
    begun,
    cut,
    joint_worth,
    place,
    rates_of,
    recording,
    site_figures,
    then_worth,
    worth,
)
from pinprof.rules import Finding, Findings
from pinprof.units import duration

BEST = 3
"""Findings whose fix is unfolded."""
MAX_BUTTONS = 10
"""Sites of a finding that the timeline shows one by one."""
MAX_QUOTES = 3
"""Sites of a finding whose lines are quoted."""


def to_html(entries: Sequence[Analysis], code: Code = PLAIN) -> Markup:
    """Return the report on the traces as one page that needs nothing else; `code` says how it shows the user's code."""
    names = [PurePath(entry.profile.path).name for entry in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    most = MAX_EVENTS // max(len(entries), 1)
    sections = (section(number, entry, most, code) for number, entry in enumerate(entries, start=1))
    overview = _overview(entries) if len(entries) > 1 else Markup()
    return report_page(title, "where the step's time goes", overview + Markup().join(sections))


def report_page(title: str, subject: str, sections: Markup) -> Markup:
    """Return a page of these sections on a subject in words."""
    body = Markup(
        '<a class="skip" href="#report">Skip to the report</a>\n<header><h1>pinprof: {}</h1></header>\n'
        '<main id="report" tabindex="-1">\n{}</main>'
    )
    return page(title, body.format(subject, sections))


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline alone as one page without other files."""
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
    """Return the report on one trace, the page's `number`-th."""
    profile, findings = entry.profile, entry.findings
    first = advice(profile, findings)
    do = unbroken(first.sentence)
    if first.finding is not None:
        do = Markup('<a href="#finding-{}-{}">{}</a>').format(number, first.finding + 1, do)
    quoting, grids = Quoting(entry.details.sources, code), grids_of(entry)
    actions = list(_cards(number, entry, quoting))
    parts = list(_below(number, entry, Shown([grid.name for grid in grids], f"tables-{number}", quoting)))
    links = [(f"findings-{number}", "What to do")] if actions else []
    links += [
        (f"timeline-{number}", "Timeline"),
        *([(f"tables-{number}", "Tables")] if grids else []),
        *((part.id, part.title) for part in parts if part.id),
    ]
    pieces = [
        Markup('<h2 id="heading-{}">{}</h2>').format(number, PurePath(profile.path).name),
        note(recording(profile)),
        Markup('<p class="headline">{} <strong>{}</strong></p>').format(unbroken(_sentence(entry)), do),
        _evidence(profile, findings),
        *map(on_page, doubt_sections(profile)),
        facts(fact[:3] for part in step_sections(profile, is_drawn=True) for fact in part.facts),
        *_shares(profile, findings.verdict.cause),
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
    frame = Markup('<section id="trace-{0}" aria-labelledby="heading-{0}">\n{1}\n</section>\n')
    return frame.format(number, lines(pieces))


def _in_timeline(finding: Finding, analysis: Analysis) -> Markup:
    """Return a button that shows the finding's worst instance in the timeline."""
    zoom = zoom_attribute(analysis, finding)
    button = Markup('<button type="button" class="see"{}>see it in the timeline</button>')
    return button.format(zoom) if zoom else Markup()


def _cards(number: int, analysis: Analysis, quoting: Quoting) -> Iterator[Markup]:
    """Yield all findings of a trace, the best first, and what they bring together."""
    profile, findings = analysis.profile, analysis.findings
    remark = unfound(profile, findings)
    if not profile.gpus or (not findings and remark == advice(profile, findings).sentence):
        return
    yield Markup('<h3 id="findings-{}">What to do</h3>').format(number)
    if remark:
        yield note(remark)
    for rank, finding in enumerate(findings, start=1):
        yield _card(number, rank, finding, analysis, quoting)
    together = joint_worth(findings, profile)
    if together:
        yield Markup("<p><strong>{}.</strong></p>").format(begun(together))
    rates = rates_of(findings, profile)
    if rates:
        yield note(f"{begun(rates)}.")


def _card(number: int, rank: int, finding: Finding, analysis: Analysis, quoting: Quoting) -> Markup:
    profile, in_timeline = analysis.profile, _in_timeline(finding, analysis)
    at = "" if finding.evidence.sites else cut(place(finding.evidence.place), MAX_CELL)
    rule, further = finding.rule, then_worth(finding, profile)
    where = Markup('<p class="place"><code>{}</code> {}</p>').format(
        quoting.linked(finding.evidence.place, at), in_timeline
    )
    then = Markup("\n<p><strong>Then:</strong> {}</p>").format(unbroken(further))
    return Markup("""<article class="finding {severity}" id="finding-{number}-{rank}">
<h4><span class="cost">{worth}</span> <span>{title}</span>
<span class="kind">{rule.id}{suspected}</span></h4>
{where}
{quote}<p>{evidence}.</p>{sites}
<p><strong>Fix:</strong> {fix}</p>{then}
<details{unfolded}><summary>The fix as code, and when it is safe</summary>
<div class="codes">{codes}</div>
<p><strong>Why:</strong> {rule.why}</p>
<p><strong>Safe if:</strong> {rule.safe_if}</p></details>
</article>""").format(
        number=number,
        rank=rank,
        rule=rule,
        fix=finding.fix,
        title=unbroken(finding.title),
        severity=finding.severity,
        suspected=", suspected" if finding.severity == "suspect" else "",
        worth=unbroken(worth(finding, profile)),
        where=where if at or in_timeline else "",
        quote="" if finding.evidence.sites else quoting.quoted(finding.evidence.place, rule.change),
        evidence=unbroken(finding.evidence.text),
        sites=_sites(finding, analysis, quoting) if finding.evidence.sites else "",
        then=then if further else "",
        unfolded=" open" if rank <= BEST else "",
        codes=_code("Before", rule.before) + _code("After", rule.code),
    )


def _sites(finding: Finding, analysis: Analysis, quoting: Quoting) -> Markup:
    """Return the sites of a finding with several, the costliest of them with a button."""
    items = Markup().join(
        Markup("<li>{}{} {}{}</li>").format(
            Markup("<code>{}</code>: ").format(quoting.linked(site.evidence.place, at))
            if (at := cut(place(site.evidence.place), MAX_CELL))
            else "",
            unbroken(site_figures(site)),
            _in_timeline(alone, analysis) if rank < MAX_BUTTONS else "",
            quoting.quoted(site.evidence.place, finding.rule.change) if rank < MAX_QUOTES else "",
        )
        for rank, (site, alone) in enumerate(zip(finding.sites, finding.by_site, strict=True))
    )
    return Markup('\n<ol class="sites">{}</ol>').format(items)


def _code(title: str, code: str) -> Markup:
    """Return code of a rule, which wide lines may scroll; unlike other texts it has lines."""
    return Markup('<div><h5>{}</h5><pre tabindex="0"><code>{}</code></pre></div>').format(title, escape(code))


class PagePart(NamedTuple):
    """A part of the page, to which links lead by its id if it has one."""

    id: str
    title: str
    content: Markup


def _below(number: int, entry: Analysis, shown: Shown) -> Iterator[PagePart]:
    """Yield the parts below the timeline: how the steps divide, and the sections of the report with their charts."""
    steps = entry.profile.steps
    where = "each step" if steps.whole == "step" else "the whole trace"
    length = "Steps" if steps.count > 1 else f"The {steps.whole}"
    heading = Markup('<h3 id="{0}-{1}">{2}</h3>\n{3}')
    for name, title, chart in (
        ("overlap", f"Overlap in {where}", lines(overlap_of_steps(entry))),
        ("steps", length, lines(lengths_of_steps(entry))),
    ):
        if chart:
            yield PagePart(f"{name}-{number}", title, heading.format(name, number, title, chart))
    for part in event_sections(entry.profile, entry.findings):
        named = replace(part, name=f"{part.name}-{number}" if part.name else "")
        title = part.title.split(",", maxsplit=1)[0]
        yield PagePart(named.name, title, on_page(named, charts_of(part.name, entry), shown))


def _evidence(profile: Profile, findings: Findings) -> Markup:
    """Return what shows why the step is as long as it is, and how to find out where the trace cannot tell it."""
    items = [Markup("<li>{}.</li>").format(unbroken(begun(line))) for line in evidence(profile, findings)]
    return Markup('<ul class="verdict">{}</ul>').format(Markup().join(items)) if items else Markup()


def contents(links: Sequence[tuple[str, str]]) -> Markup:
    """Return links to parts of the page: (id, title)."""
    items = Markup().join(Markup('<li><a href="#{}">{}</a></li>').format(*link) for link in links)
    return Markup('<nav class="contents" aria-label="Parts of the report"><ul>{}</ul></nav>').format(items)


def _shares(profile: Profile, limit: str | None) -> Iterator[Markup]:
    """Yield a bar for each GPU whose parts add up to the step."""
    for mean in profile.parts:
        why = while_idle(profile, mean, limit)
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
