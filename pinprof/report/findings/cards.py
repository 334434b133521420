"""What to do, on the page: the findings as lines that open, the best first, and what they save together."""

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.ground.units import counted
from pinprof.report.findings.views import FindingView
from pinprof.report.html import Markup, inline_html, lines, note
from pinprof.report.source import Quoting
from pinprof.report.timeline.worst_instance import zoom_attribute
from pinprof.report.trace.first_screen import FirstScreen
from pinprof.report.trace.verdict import advice, why_no_finding
from pinprof.report.words import (
    MAX_CELL,
    capitalized,
    cut,
    joint_worth,
    place,
    short_place,
    site_figures,
    source_of_rates,
    with_more_sites,
)
from pinprof.rules.rule import Finding

MAX_UNFOLDED_FINDINGS = 3
"""Findings that are shown at first if the short report has none; otherwise the same as there."""
MAX_SITES_WITH_BUTTON = 10
MAX_QUOTED_SITES = 3


def changes(number: int, analysis: Analysis, screen: FirstScreen, quoting: Quoting) -> Markup:
    """Return all findings of the page's `number`-th trace, and what they save together; empty if there are none."""
    profile, findings, views = screen.profile, screen.findings, screen.views
    remark = why_no_finding(screen)
    if not findings and (not profile.gpus or remark == advice(screen).sentence):
        return Markup()
    shown = screen.shown or views[:MAX_UNFOLDED_FINDINGS]
    cards = {view.number: _card(number, view, analysis, quoting, is_open=view is shown[0]) for view in views}
    unfolded = [cards.pop(view.number) for view in shown]
    together = "" if findings.joint and findings.joint.saving_ns else joint_worth(findings, profile)
    remarks = [f"{capitalized(words)}." for words in (together, source_of_rates(findings, profile)) if words]
    more = Markup("<details><summary>{}</summary>\n{}\n</details>")
    pieces = [
        Markup('<h3 id="findings-{}">What to do</h3>').format(number),
        note(remark) if remark else "",
        *unfolded,
        more.format(counted(len(cards), "more change"), lines(cards.values())) if cards else "",
        note(" ".join(remarks)) if remarks else "",
    ]
    return Markup('<div class="changes">\n{}\n</div>').format(lines(pieces))


def _card(number: int, view: FindingView, analysis: Analysis, quoting: Quoting, *, is_open: bool) -> Markup:
    finding, evidence = view.finding, view.finding.evidence
    place_text = cut(place(evidence.place), MAX_CELL)
    where = with_more_sites(cut(place(short_place(evidence.place)), MAX_CELL), len(evidence.sites))
    whole_place = Markup('<p class="place"><code>{}</code></p>\n').format(quoting.linked(evidence.place, place_text))
    quote = Markup() if evidence.sites else quoting.quoted(evidence.place, view.rule.change)
    then = Markup("\n<p><strong>Then:</strong> {}</p>").format(inline_html(view.then)) if view.then else ""
    return Markup("""<article class="finding {severity}" id="finding-{number}-{nth}">
<details{opened}><summary><strong class="cost">{worth}</strong> <strong>{title}</strong> <code>{where}</code>
<span class="kind">{view.rule.id}{suspected}</span></summary>
<div class="body" tabindex="0" role="region" aria-label="{title_text}"><div>{whole}{quote}<p>{evidence}.</p>{sites}
<p><strong>Why:</strong> {why}</p></div>
<div><p><strong>Fix:</strong> {fix}</p>{then}
<div class="codes">{codes}</div>
<p><strong>Safe if:</strong> {safe_if}</p></div></div></details>{in_timeline}
</article>""").format(
        view=view,
        number=number,
        nth=view.number + 1,
        opened=Markup(" open") if is_open else "",
        title=inline_html(finding.title),
        title_text=finding.title.replace("`", ""),
        where=where,
        severity=finding.severity,
        suspected=", suspected" if finding.severity == "suspect" else "",
        worth=inline_html(view.worth),
        whole=whole_place if place_text not in ("", where) and not evidence.sites else "",
        quote=quote,
        evidence=inline_html(evidence.text),
        why=inline_html(view.rule.why),
        fix=inline_html(finding.fix),
        safe_if=inline_html(view.rule.safe_if),
        sites=_sites(finding, analysis, quoting) if evidence.sites else "",
        then=then,
        codes=("" if quote else _code("Before", view.rule.before)) + _code("After", view.rule.code),
        in_timeline=_in_timeline(finding, analysis),
    )


def _sites(finding: Finding, analysis: Analysis, quoting: Quoting) -> Markup:
    items = Markup().join(
        Markup("<li>{}{} {}{}</li>").format(
            Markup("<code>{}</code>: ").format(quoting.linked(site.evidence.place, place_text))
            if (place_text := cut(place(site.evidence.place), MAX_CELL))
            else "",
            inline_html(site_figures(site)),
            _in_timeline(site_finding, analysis) if rank < MAX_SITES_WITH_BUTTON else "",
            quoting.quoted(site.evidence.place, finding.rule.change) if rank < MAX_QUOTED_SITES else "",
        )
        for rank, (site, site_finding) in enumerate(zip(finding.sites, finding.by_site, strict=True))
    )
    return Markup('\n<ol class="sites">{}</ol>').format(items)


def _in_timeline(finding: Finding, analysis: Analysis) -> Markup:
    zoom = zoom_attribute(analysis, finding)
    button = Markup('<button type="button" class="see"{}>see it in the timeline</button>')
    return button.format(zoom) if zoom else Markup()


def _code(title: str, code: str) -> Markup:
    """Return code of a rule with its line ends; wide lines scroll."""
    return Markup('<div><h5>{}</h5><pre tabindex="0"><code>{}</code></pre></div>').format(title, escape(code))
