"""What to do, as pieces of the page: the best findings at a glance, and each finding in full with its fix as code."""

import html
from collections.abc import Iterator

from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.report.elements import escaped, unbroken
from pinprof.report.timeline import zoom_attribute
from pinprof.report.trace.headline import beside_findings, nothing_found
from pinprof.report.words import joint_worth, place, rates_of, then_worth, worth
from pinprof.rules import Finding, Findings, unsearched
from pinprof.units import counted, duration, percent

BEST = 3
"""Findings that stand on top, and whose fix is unfolded."""


def best(number: int, analysis: Analysis) -> Iterator[str]:
    """Yield the best findings of a trace, each with its saving and its line, linked to all that is known of it."""
    findings = analysis.findings
    if not findings:
        return
    items = "".join(_at_a_glance(number, rank, finding, analysis) for rank, finding in _ranked(findings))
    yield f'<ol class="best" aria-label="The best findings">{items}</ol>'
    together = joint_worth(findings, analysis.profile)
    if together:
        yield f'<p class="note">{escaped(together[0].upper() + together[1:])}.</p>'
    rest = len(findings) - BEST
    if rest > 0:
        yield f'<p class="note"><a href="#findings-{number}">{counted(rest, "more finding")}</a></p>'


def _ranked(findings: Findings) -> Iterator[tuple[int, Finding]]:
    return ((rank, finding) for rank, finding in enumerate(findings[:BEST], start=1))


def _at_a_glance(number: int, rank: int, finding: Finding, analysis: Analysis) -> str:
    profile, evidence = analysis.profile, finding.evidence
    brings = _short_worth(finding, profile.step_ns, profile.steps.whole)
    at = str(evidence.place) or "place not recorded"
    return (
        f'<li class="{finding.severity}"><a class="to" href="#finding-{number}-{rank}">'
        f'<span class="cost">{unbroken(brings)}</span> {escaped(finding.rule.title)}</a>'
        f"<code>{escaped(at)}</code> {_in_timeline(finding, analysis)}</li>"
    )


def _short_worth(finding: Finding, step_ns: float | None, of: str) -> str:
    saving = finding.saving
    if saving is None and not finding.evidence.cost_ns:
        return "saving not known"
    if saving is None:
        return f"{duration(finding.evidence.cost_ns)} go with it"
    if not saving.saving_ns:
        return "alone saves nothing"
    share = f", {percent(saving.saving_ns / step_ns)} of the {of}" if step_ns else ""
    return f"saves {duration(saving.saving_ns)}{share}"


def _in_timeline(finding: Finding, analysis: Analysis) -> str:
    """Return a button that shows the finding's worst instance in the timeline."""
    zoom = zoom_attribute(analysis, finding)
    return f'<button type="button" class="see"{zoom}>see it in the timeline</button>' if zoom else ""


def cards(number: int, analysis: Analysis) -> Iterator[str]:
    """Yield all findings of a trace, the best first, and what they bring together."""
    profile, findings = analysis.profile, analysis.findings
    if not profile.gpus:
        return
    yield f'<h3 id="findings-{number}">What to do</h3>'
    reason = unsearched(profile)
    if reason:
        yield f'<p class="note">Not searched in full: {escaped(reason.what)}.</p>'
    if not findings:
        if not reason:
            yield f"<p>{escaped(nothing_found(profile))}</p>"
        return
    more = beside_findings(profile, findings)
    if more:
        yield f"<p>{escaped(more)}</p>"
    for rank, finding in enumerate(findings, start=1):
        yield _card(number, rank, finding, _in_timeline(finding, analysis), profile)
    together = joint_worth(findings, profile)
    if together:
        yield f"<p><strong>{escaped(together[0].upper() + together[1:])}.</strong></p>"
    rates = rates_of(findings, profile)
    if rates:
        yield f'<p class="note">{escaped(rates[0].upper() + rates[1:])}.</p>'


def _card(number: int, rank: int, finding: Finding, in_timeline: str, profile: Profile) -> str:
    rule, evidence = finding.rule, finding.evidence
    at = place(evidence.place)
    where = f'<p class="place"><code>{escaped(at)}</code> {in_timeline}</p>' if at or in_timeline else ""
    unfolded = " open" if rank <= BEST else ""
    further = then_worth(finding, profile)
    then = f"\n<p><strong>Then:</strong> {unbroken(further)}</p>" if further else ""
    kind = f"{rule.id}, suspected" if finding.severity == "suspect" else rule.id
    return f"""<article class="finding {finding.severity}" id="finding-{number}-{rank}">
<h4><span class="cost">{unbroken(worth(finding, profile))}</span> <span>{escaped(rule.title)}</span>
<span class="kind">{escaped(kind)}</span></h4>
{where}
<p>{unbroken(evidence.text)}.</p>
<p><strong>Fix:</strong> {escaped(rule.fix)}</p>{then}
<details{unfolded}><summary>The fix as code, and when it is safe</summary>
<div class="codes">{_code("Before", rule.before)}{_code("After", rule.code)}</div>
<p><strong>Why:</strong> {escaped(rule.why)}</p>
<p><strong>Safe if:</strong> {escaped(rule.safe_if)}</p></details>
</article>"""


def _code(title: str, code: str) -> str:
    """Return code of a rule, which wide lines may scroll; unlike other texts it has lines."""
    return f'<div><h5>{title}</h5><pre tabindex="0"><code>{html.escape(code)}</code></pre></div>'
