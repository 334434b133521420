"""What to do, as pieces of the page: each finding in full, with its fix as code, and what all bring together."""

from collections.abc import Iterator

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.report.elements import Markup, note, unbroken
from pinprof.report.source import Quoting
from pinprof.report.timeline import zoom_attribute
from pinprof.report.trace.advice import advice, unfound
from pinprof.report.words import MAX_CELL, begun, cut, joint_worth, place, rates_of, site_figures, then_worth, worth
from pinprof.rules import Finding

BEST = 3
"""Findings whose fix is unfolded."""
MAX_BUTTONS = 10
"""Sites of a finding that the timeline shows one by one."""
MAX_QUOTES = 3
"""Sites of a finding whose lines are quoted."""


def _in_timeline(finding: Finding, analysis: Analysis) -> Markup:
    """Return a button that shows the finding's worst instance in the timeline."""
    zoom = zoom_attribute(analysis, finding)
    button = Markup('<button type="button" class="see"{}>see it in the timeline</button>')
    return button.format(zoom) if zoom else Markup()


def cards(number: int, analysis: Analysis, quoting: Quoting) -> Iterator[Markup]:
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
