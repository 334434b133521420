"""The report for the terminal in full: the verdict, what to do, then all sections."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.measurement.profile import Profile
from pinprof.report.layout import bullet, laid_out, section, unbroken
from pinprof.report.sites import LINE
from pinprof.report.trace.advice import advice, evidence, unfound
from pinprof.report.trace.headline import sentence, why_long
from pinprof.report.trace.step import step_bar
from pinprof.report.trace.view import PARTS, doubt_sections, event_sections, step_sections
from pinprof.report.view import in_terminal
from pinprof.report.words import joint_worth, printable, rates_of, recording, site_line, then_worth, worth
from pinprof.rules import Finding, Findings
from pinprof.units import counted

MAX_FOUND = 5
"""Sites of a finding that are listed."""
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}


def to_text(
    profile: Profile,
    findings: Findings,
    *,
    width: int = 100,
    color: bool = False,
    waits_by: str = LINE,
    full: bool = False,
) -> str:
    """Return the full report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    Waits in libraries are gathered by the user's `line` that calls them, or by the `library`'s function. With `full`
    the tables of waits, kernels and ops have all rows.
    """
    return laid_out(_parts(profile, findings, waits_by, width, full=full), width=width, color=color)


def _parts(profile: Profile, findings: Findings, waits_by: str, width: int, *, full: bool) -> Iterable[RenderableType]:
    yield unbroken(profile.path, "bold")
    yield Text(recording(profile))
    yield from _verdict(profile, findings)
    for part in (*doubt_sections(profile), *step_sections(profile, findings.verdict.cause)):
        yield from in_terminal(part, step_bar(profile, width, has_legend=False) if part.name == PARTS else ())
    if profile.gpus:
        yield from _findings(profile, findings)
    for part in event_sections(profile, findings, waits_by, full=full):
        yield from in_terminal(part)


def _verdict(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    yield section("Why the step takes so long") if why_long(profile, findings.verdict) else Text("")
    yield Padding(Text(f"{sentence(profile, findings.verdict)}.", "bold"), (0, 0, 0, 2))
    yield Padding(Text(printable(advice(profile, findings).sentence)), (0, 0, 0, 2))
    yield from (bullet(f"{line}.") for line in evidence(profile, findings))


def _findings(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    remark = unfound(profile, findings)
    if not findings and remark == advice(profile, findings).sentence:
        return
    yield section("What to do")
    if remark:
        yield bullet(remark)
    for finding in findings:
        style = SEVERITY_STYLES[finding.severity]
        what = (f"{finding.rule.id} {finding.title}", "bold")
        yield Padding(Text.assemble((worth(finding, profile), style), ": ", what), (0, 0, 0, 2))
        yield Padding(Text(printable(finding.evidence.text)), (0, 0, 0, 6))
        yield from _finding_sites(finding)
        yield Padding(Text(f"Fix: {finding.fix}"), (0, 0, 0, 6))
        further = then_worth(finding, profile)
        if further:
            yield Padding(Text(f"Then: {further}"), (0, 0, 0, 6))
    for words in (joint_worth(findings, profile), rates_of(findings, profile)):
        if words:
            yield bullet(printable(words))


def _finding_sites(finding: Finding) -> Iterable[RenderableType]:
    lines = [site_line(site) for site in finding.sites[:MAX_FOUND]] if finding.evidence.sites else []
    if (more := len(finding.evidence.sites) - MAX_FOUND) > 0:
        lines.append(f"and {counted(more, 'more site')}, all in the JSON and HTML reports")
    rows = Table.grid(padding=(0, 1))
    for line in lines:
        rows.add_row("-", Text(printable(line)))
    if lines:
        yield Padding(rows, (0, 0, 0, 6))
