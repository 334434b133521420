"""What the rules find in a trace: their evidence, weighed by what its fix saves, or else by what it costs."""

from collections.abc import Iterator
from dataclasses import replace

from pinprof.bench.rates import Pinning
from pinprof.details import Details, details_of
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt
from pinprof.replay import Replay
from pinprof.rules.registry import RULES
from pinprof.rules.rule import NEGLIGIBLE, Finding, Findings, Rule
from pinprof.rules.savings import as_measured, with_savings
from pinprof.trace.tables import Trace
from pinprof.verdict import judge
from pinprof.whatif.graphs import Blocker, capture_of

HIGH, MEDIUM = 0.10, 0.02
"""Shares of the step from which a saving, or else a cost, is of high and of medium severity."""


def find(profile: Profile, trace: Trace, machine: Pinning | None = None) -> Findings:
    """Return what the rules find, the largest saving first, then the largest cost, hazards last.

    `machine` is what pinned memory brings and costs on the user's; without it usual rates are assumed.
    """
    details = details_of(trace)
    return look(details, profile, Replay([details], profile.step_ns), machine)


def look(details: Details, profile: Profile, replay: Replay, machine: Pinning | None = None) -> Findings:
    """Return what the rules find of a trace, as `find` does; `replay` tells what their fixes save."""
    step = profile.step_ns
    findings = list(_unweighed(details, profile, step, machine)) if step else []
    # where the estimate is withheld, a replay would run without what the trace lacks
    ordered, joint = with_savings(findings, None if profile.withheld.estimate else replay)
    weighed = [_weighed(finding, step or 1.0) for finding in ordered]
    bench = machine.rates.gpu if machine else None
    return Findings(weighed, joint, bench, judge(details, profile, replay), _blockers(details, profile))


def _blockers(details: Details, profile: Profile) -> tuple[Blocker, ...] | None:
    """Return what forbids to capture the step as one CUDA graph; None where launches or waits are not known."""
    if profile.launches is None or profile.withheld.stalls:
        return None
    return capture_of(details.trace, details.syncs, "step").blockers


def finding_of_verdict(findings: Findings) -> int | None:
    """Return the place of the finding that tells what to do about the verdict's cause; None without one."""
    cause = findings.verdict.cause
    return next((place for place, finding in enumerate(findings) if cause in finding.rule.answers), None)


def _unweighed(details: Details, profile: Profile, step_ns: float, machine: Pinning | None) -> Iterator[Finding]:
    """Yield what the rules see, weighed by its cost."""
    for rule in RULES:
        if rule.look is None or any(_doubts(profile, rule)):
            continue
        for evidence in rule.look(details, profile):
            if evidence.at_any_cost or evidence.cost_ns >= NEGLIGIBLE * step_ns:
                severity = "suspect" if rule.is_hazard else _severity(evidence.cost_ns / step_ns)
                measured = as_measured(evidence, rule, details.trace, machine) if machine else evidence
                yield Finding(rule, severity, measured)


def _doubts(profile: Profile, rule: Rule) -> Iterator[Doubt | None]:
    """Return why the figures that a rule rests on are withheld."""
    return (getattr(profile.withheld, figure) for figure in rule.rests_on)


def _weighed(finding: Finding, step_ns: float) -> Finding:
    """Return a finding with the severity of what its fix saves, or at most, if a replay tells: not of its cost."""
    saved_ns = finding.saving.saving_ns if finding.saving else finding.most_ns
    return finding if saved_ns is None else replace(finding, severity=_severity(saved_ns / step_ns))


def unsearched(profile: Profile) -> Doubt | None:
    """Return the gravest reason why some rules are silent, None if all of them were asked."""
    return profile.gravest(*(doubt for rule in RULES for doubt in _doubts(profile, rule)))


def _severity(share: float) -> str:
    """Return the severity of a saving of this share of the step, or of a cost where no replay tells the saving."""
    if share >= HIGH:
        return "high"
    return "medium" if share >= MEDIUM else "low"
