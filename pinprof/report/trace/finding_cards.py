"""What to do, on the page: the findings as lines that open, the best first, and what they save together."""

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.report.html import Markup, inline_html, lines, note
from pinprof.report.source import Quoting
from pinprof.report.timeline.worst_instance import zoom_attribute
from pinprof.report.trace.actions import brief_actions
from pinprof.report.trace.first_screen import first_screen
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
    then_worth,
    with_more_sites,
    worth,
)
from pinprof.rules.rule import Finding
from pinprof.units import counted

FIRST = 3
"""Findings that are shown at first if the short report has none; otherwise the same as there."""
MAX_BUTTONS = 10
"""Sites of a finding with a button that shows them in the timeline."""
MAX_QUOTES = 3
"""Sites of a finding whose lines are quoted."""


def changes(number: int, analysis: Analysis, quoting: Quoting) -> Markup:
    """Return all findings of the page's `number`-th trace, and what they save together; empty if there are none."""
    profile, findings = analysis.profile, analysis.findings
    screen = first_screen(profile, findings)
    remark = why_no_finding(screen)
    if not findings and (not profile.gpus or remark == advice(screen).sentence):
        return Markup()
    shown_at_first = {action.number for action in brief_actions(profile, findings)} or set(range(FIRST))
    cards = [
        _card(f"finding-{number}-{index + 1}", finding, analysis, quoting, is_open=index == min(shown_at_first))
        for index, finding in enumerate(findings)
    ]
    folded = [card for index, card in enumerate(cards) if index not in shown_at_first]
    more = Markup("<details><summary>{}</summary>\n{}\n</details>")
    together = "" if findings.joint and findings.joint.saving_ns else joint_worth(findings, profile)
    rates = source_of_rates(findings, profile)
    pieces = [
        Markup('<h3 id="findings-{}">What to do</h3>').format(number),
        note(remark) if remark else "",
        *(card for index, card in enumerate(cards) if index in shown_at_first),
        more.format(counted(len(folded), "more change"), lines(folded)) if folded else "",
        note(" ".join(f"{capitalized(sentence)}." for sentence in (together, rates) if sentence))
        if together or rates
        else "",
    ]
    return Markup('<div class="changes">\n{}\n</div>').format(lines(pieces))


def _card(name: str, finding: Finding, analysis: Analysis, quoting: Quoting, *, is_open: bool) -> Markup:
    """Return a finding as a line, which unfolds its evidence and its fix."""
    profile, rule, evidence = analysis.profile, finding.rule, finding.evidence
    place_text = cut(place(evidence.place), MAX_CELL)
    where = with_more_sites(cut(place(short_place(evidence.place)), MAX_CELL), len(evidence.sites))
    whole_place = Markup('<p class="place"><code>{}</code></p>\n').format(quoting.linked(evidence.place, place_text))
    quote = Markup() if evidence.sites else quoting.quoted(evidence.place, rule.change)
    then_worth_text = then_worth(finding, profile)
    then = Markup("\n<p><strong>Then:</strong> {}</p>").format(inline_html(then_worth_text))
    return Markup("""<article class="finding {severity}" id="{name}">
<details{opened}><summary><strong class="cost">{worth}</strong> <strong>{title}</strong> <code>{where}</code>
<span class="kind">{rule.id}{suspected}</span></summary>
<div class="body" tabindex="0" role="region" aria-label="{title_text}"><div>{whole}{quote}<p>{evidence}.</p>{sites}
<p><strong>Why:</strong> {rule.why}</p></div>
<div><p><strong>Fix:</strong> {fix}</p>{then}
<div class="codes">{codes}</div>
<p><strong>Safe if:</strong> {rule.safe_if}</p></div></div></details>{in_timeline}
</article>""").format(
        name=name,
        opened=Markup(" open") if is_open else "",
        rule=rule,
        fix=finding.fix,
        title=inline_html(finding.title),
        title_text=finding.title.replace("`", ""),
        where=where,
        severity=finding.severity,
        suspected=", suspected" if finding.severity == "suspect" else "",
        worth=inline_html(worth(finding, profile)),
        whole=whole_place if place_text not in ("", where) and not evidence.sites else "",
        quote=quote,
        evidence=inline_html(evidence.text),
        sites=_sites(finding, analysis, quoting) if evidence.sites else "",
        then=then if then_worth_text else "",
        codes=("" if quote else _code("Before", rule.before)) + _code("After", rule.code),
        in_timeline=_in_timeline(finding, analysis),
    )


def _sites(finding: Finding, analysis: Analysis, quoting: Quoting) -> Markup:
    """Return the sites of a finding, the costliest of them with a button."""
    items = Markup().join(
        Markup("<li>{}{} {}{}</li>").format(
            Markup("<code>{}</code>: ").format(quoting.linked(site.evidence.place, place_text))
            if (place_text := cut(place(site.evidence.place), MAX_CELL))
            else "",
            inline_html(site_figures(site)),
            _in_timeline(site_finding, analysis) if rank < MAX_BUTTONS else "",
            quoting.quoted(site.evidence.place, finding.rule.change) if rank < MAX_QUOTES else "",
        )
        for rank, (site, site_finding) in enumerate(zip(finding.sites, finding.by_site, strict=True))
    )
    return Markup('\n<ol class="sites">{}</ol>').format(items)


def _in_timeline(finding: Finding, analysis: Analysis) -> Markup:
    """Return a button that shows the finding's worst instance in the timeline."""
    zoom = zoom_attribute(analysis, finding)
    button = Markup('<button type="button" class="see"{}>see it in the timeline</button>')
    return button.format(zoom) if zoom else Markup()


def _code(title: str, code: str) -> Markup:
    """Return code of a rule with its line ends; wide lines scroll."""
    return Markup('<div><h5>{}</h5><pre tabindex="0"><code>{}</code></pre></div>').format(title, escape(code))
