"""What to do after a report: the change to try first, as options of `pinprof whatif`."""

import shlex

from pinprof.measurement.profile import Profile
from pinprof.report.trace.changes import chosen
from pinprof.rules import Finding, Findings

PINNED = "--pin --non-blocking"
OPTIONS = {
    "PIN101": PINNED,
    "PIN102": PINNED,
    "PIN104": PINNED,
    "PIN105": PINNED,
    "PIN301": "--overlap-copies",
    "PIN302": "--overlap-copies",
    "PIN303": "--drop-allocs",
    "PIN601": "--cuda-graph step",
    "PIN602": "--fused-optimizer",
}
"""What makes the change of a rule in the recorded program."""

OF_LINES = ("PIN101", "PIN102", "PIN104", "PIN105", "PIN201", "PIN202", "PIN203", "PIN209", "PIN210", "PIN303")
"""Rules whose findings `pinprof fix` may mend at their lines."""
OF_WHAT_IS_MADE = ("PIN401", "PIN402", "PIN602", "PIN701")
"""And those that it may mend where DataLoaders and optimizers are made."""


def fix_command(profile: Profile, findings: Findings) -> str:
    """Return the command that prints diffs, where a recording has what they need: it says whether any is certain."""
    made = profile.info.made
    is_made = made is not None and bool(made.loaders or made.optimizers)
    may_be = any(
        (finding.rule.id in OF_LINES and any(site.evidence.line is not None for site in finding.sites))
        or (finding.rule.id in OF_WHAT_IS_MADE and is_made)
        for finding in findings
    )
    return f"pinprof fix {shlex.quote(profile.path)}" if profile.info.by_pinprof and may_be else ""


def next_command(profile: Profile, findings: Findings) -> str:
    """Return the command that predicts the first change worth doing; without one, that which compares all changes.

    Nothing where the trace is not fit for predictions.
    """
    if not profile.gpus or profile.withheld.estimate:
        return ""
    options = next(filter(None, map(options_of, chosen(findings, profile))), "")
    return f"pinprof whatif {shlex.quote(profile.path)} {options}".rstrip()


def options_of(finding: Finding) -> str:
    """Return the options of `pinprof whatif` for the change that a finding asks for; nothing where there are none."""
    if finding.rule.family == "waits" and finding.saving is not None:
        named = finding.evidence.place.names
        return f"--drop-syncs {shlex.quote(named[0])}" if named and not finding.evidence.sites else "--drop-syncs all"
    return OPTIONS.get(finding.rule.id, "")
