"""What the rules found, for programs."""

from typing import Any

from pinprof.report.fields import maybe_ms
from pinprof.rules import Finding, FoundSite, Joint, Saving


def finding_fields(finding: Finding, step_ns: float | None) -> dict[str, Any]:
    """Return the names and values of a finding in a step of this length."""
    return {
        "rule": finding.rule.id,
        "family": finding.rule.family,
        "title": finding.title,
        "severity": finding.severity,
        **finding.evidence.place._asdict(),
        "evidence": finding.evidence.text,
        "cost_ms": maybe_ms(finding.evidence.cost_ns),
        **saving_fields(finding.saving, step_ns),
        "at_most_ms": maybe_ms(finding.most_ns),
        "then": _then(finding, step_ns),
        "fix": finding.fix,
        "fix_code": {"before": finding.rule.before, "after": finding.rule.code},
        "sites": [site_fields(site) for site in finding.sites],
    }


def site_fields(site: FoundSite) -> dict[str, Any]:
    """Return the names and values of a place of a finding."""
    return {
        **site.evidence.place._asdict(),
        "evidence": site.evidence.text,
        "cost_ms": maybe_ms(site.evidence.cost_ns),
        "saving_ms": maybe_ms(site.saving.saving_ns) if site.saving else None,
    }


def saving_fields(saving: Saving | None, step_ns: float | None) -> dict[str, Any]:
    """Return what a change saves of a step of this length, in fields that are null where no replay tells."""
    if saving is None or not step_ns:
        return {"saving_ms": None, "saving_fraction": None, "range_ms": None}
    return {
        "saving_ms": maybe_ms(saving.saving_ns),
        "saving_fraction": saving.saving_ns / step_ns,
        "range_ms": [maybe_ms(bound) for bound in saving.range_ns],
    }


def _then(finding: Finding, step_ns: float | None) -> dict[str, Any] | None:
    """Return what a fix makes possible, and what both bring together; None where that is no more."""
    then = finding.evidence.then
    if then is None or finding.with_then is None:
        return None
    return {"rule": then.rule, "what": then.what, **saving_fields(finding.with_then, step_ns)}


def joint_fields(joint: Joint | None, step_ns: float | None) -> dict[str, Any] | None:
    """Return what all fixes bring together; None where a replay cannot tell."""
    if joint is None or not step_ns:
        return None
    return {
        **saving_fields(joint, step_ns),
        "predicted_step_ms": maybe_ms(step_ns - joint.saving_ns),
        "without": list(joint.without),
    }
