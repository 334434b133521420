"""The commands that go on from a report: diffs, and the prediction of a change."""

import shlex

from pinprof import urls
from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.ranks import RankPart
from pinprof.report.trace.actions import brief_actions
from pinprof.report.words import printable
from pinprof.rules import Finding, Findings
from pinprof.trace.sources import Sources

DROP_SYNCS = "--drop-syncs"
"""The option that takes the waits of a finding out of the program; it needs a place."""


def named_again(profile: Profile) -> str:
    """Return a trace as a command takes it."""
    return "-" if profile.path == urls.shown(urls.STANDARD_INPUT) else shlex.quote(printable(profile.path))


def fix_command(profile: Profile) -> str:
    """Return the command that prints diffs."""
    return f"pinprof fix {shlex.quote(profile.path)}"


def has_diffs(measured: Analysis | RankPart) -> bool:
    """Return whether `pinprof fix` has a diff for a trace.

    False for a rank of a job, of which the rows are not kept. What reads programs is imported only where one may be
    changed: it takes a tenth of a second.
    """
    if isinstance(measured, RankPart) or not _may_have_diffs(measured.profile, measured.findings):
        return False
    from pinprof import fix  # noqa: PLC0415

    return fix.has_diffs(measured)


def _may_have_diffs(profile: Profile, findings: Findings) -> bool:
    """Return whether a recording has what diffs need, and the program that is to be changed is at hand."""
    if not profile.info.by_pinprof or profile.path == urls.shown(urls.STANDARD_INPUT):
        return False
    made = profile.info.made
    files: set[str | None] = {each.file for each in (*made.loaders, *made.optimizers)} if made else set()
    files = files if any(finding.rule.mended in ("line", "construction") for finding in findings) else set()
    for finding in findings:
        if finding.rule.mended == "line":
            files |= {site.evidence.file for site in finding.sites if site.evidence.file and site.evidence.line}
    sources = Sources(profile.path)
    return any(file is not None and sources.path(file) is not None for file in files)


def next_command(profile: Profile, findings: Findings) -> str:
    """Return the command that predicts the first change worth doing; without one, that which compares all changes.

    Nothing where the trace is not fit for predictions.
    """
    if not profile.gpus or profile.withheld.estimate:
        return ""
    options = next((words for action in brief_actions(profile, findings) if (words := options_of(action.finding))), "")
    return f"pinprof whatif {shlex.quote(profile.path)} {options}".rstrip()


def options_of(finding: Finding) -> str:
    """Return the options of `pinprof whatif` for the change that a finding asks for; nothing where there are none."""
    options, named = finding.rule.what_if, finding.evidence.place.names
    if options != DROP_SYNCS:
        return options
    if finding.saving is None:
        return ""
    return f"{options} {shlex.quote(named[0]) if named and not finding.evidence.sites else 'all'}"
