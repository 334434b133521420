"""What is wrong and what to do about it: rules in plain sight, and what they find in a profile."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from pinprof.analyses.syncs import CAUSES
from pinprof.bench.rates import Pinning
from pinprof.measure import Profile, measure_with_model
from pinprof.rules import copies, guarded, hazards, loading, memory, overlap, waits
from pinprof.rules.copies import rule_of_batches
from pinprof.rules.pinning import as_measured
from pinprof.rules.rule import Evidence, Finding, Findings, Rule, Saving
from pinprof.rules.savings import with_savings
from pinprof.trace.tables import DIRECTIONS, NONE, Trace
from pinprof.trust import Missing
from pinprof.whatif import Model, Recorded

__all__ = [
    "NEGLIGIBLE",
    "RESTS_ON",
    "RULES",
    "RULE_OF_CAUSE",
    "RULE_OF_EXPOSURE",
    "Evidence",
    "Examined",
    "Finding",
    "Findings",
    "Rule",
    "Saving",
    "examine",
    "find",
    "rule_of_exposure",
    "rule_of_wait",
    "unsearched",
]

RULES = (*copies.RULES, *memory.RULES, *waits.RULES, *overlap.RULES, *loading.RULES, *hazards.RULES, *guarded.RULES)
"""All rules by number: 1xx copies, 2xx waits of the host, 3xx overlap and idle time, 4xx input, 5xx hazards."""

RULE_OF_CAUSE = {cause: rule.id for rule in RULES for cause in rule.causes}
"""The rule that is for the waits of each cause, unless they are for batches of a DataLoader; waits for room in the
launch queue and the profiler's own have none."""

RULE_OF_EXPOSURE = {exposure: rule.id for rule in RULES for exposure in rule.exposures}
"""The rule that explains why copies are exposed, by the reason and their direction, as far as there is one, and unless
they are batches of a DataLoader."""

RESTS_ON = {
    copies.RULES: {"per_step", "copies", "overlap", "drain"},
    memory.RULES: set(),
    waits.RULES: {"per_step", "stalls", "drain"},
    overlap.RULES: {"per_step", "busy", "overlap", "causes", "drain"},
    loading.RULES: {"per_step", "step", "busy"},
    hazards.RULES: {"per_step", "copies", "stalls"},
}
"""The figures of a profile that each family of rules needs: where one is withheld, its rules are silent."""
HIGH, MEDIUM = 0.10, 0.02
"""Shares of the step from which a saving, or else a cost, is of high and of medium severity."""
NEGLIGIBLE = 0.001
"""A cost below this share of the step is not worth a line."""


class Examined(NamedTuple):
    """What was measured and found of a trace, and what replays it."""

    profile: Profile
    findings: Findings
    model: Model


def examine(trace: Trace, machine: Pinning | None = None) -> Examined:
    """Return what `measure` and `find` do of a trace, with one replay for both."""
    profile, model = measure_with_model(trace)
    if profile.step.step_ns is None:
        model = Model(model.ranks, profile.steps.traced_ns)
    return Examined(profile, _find(profile, trace, model, machine), model)


def find(profile: Profile, trace: Trace, machine: Pinning | None = None) -> Findings:
    """Return what the rules find, the largest saving first, then the largest cost, hazards last.

    `machine` is what pinned memory brings and costs on the user's; without it usual rates are assumed.
    """
    rank = Recorded(trace, profile.syncs, profile.steps, profile.loader)
    return _find(profile, trace, Model([rank], profile.step_ns), machine)


def _find(profile: Profile, trace: Trace, model: Model, machine: Pinning | None) -> Findings:
    step = profile.step_ns
    findings = Findings()
    if step:
        found = list(_found(profile, trace, step, machine))
        # where the estimate is withheld, a replay would run without what the trace lacks
        findings = _weighed(with_savings(found, None if "estimate" in profile.withheld else model), step)
    findings.machine = machine.rates.gpu if machine else None
    return findings


def _found(profile: Profile, trace: Trace, step_ns: float, machine: Pinning | None) -> Iterator[Finding]:
    """Yield what the rules see, weighed by its cost."""
    looked = (
        (rule, evidence)
        for rules, figures in RESTS_ON.items()
        if not figures & profile.withheld.keys()
        for rule in rules
        if rule.look
        for evidence in rule.look(profile, trace)
        if evidence.at_any_cost or evidence.cost_ns >= NEGLIGIBLE * step_ns
    )
    for rule, evidence in looked:
        severity = "suspect" if rule in hazards.RULES else _severity(evidence.cost_ns / step_ns)
        yield Finding(rule, severity, as_measured(evidence, rule.id, trace, machine) if machine else evidence)


def _weighed(findings: Findings, step_ns: float) -> Findings:
    """Return the findings with the severity of what their fixes save, as far as a replay tells: not of their cost."""
    weighed = Findings(
        replace(each, severity=_severity(each.saving.saving_ns / step_ns)) if each.saving else each for each in findings
    )
    weighed.joint = findings.joint
    return weighed


def rule_of_exposure(profile: Profile, reason: str, direction: str) -> str | None:
    """Return the rule that explains why copies of a profile are exposed, the same as finds them."""
    of_batches = rule_of_batches(profile) if (reason, direction) == ("pageable", "HtoD") else None
    return of_batches or RULE_OF_EXPOSURE.get((reason, direction))


def rule_of_wait(profile: Profile, trace: Trace, stall: int) -> str | None:
    """Return the rule that is for a stall, a row of `Syncs.stalls`, the same as finds its site; None without one."""
    cause, copy = CAUSES[profile.syncs.cause[stall]], profile.syncs.stalls.copy[stall]
    if cause != "pageable_copy" or copy == NONE:
        return RULE_OF_CAUSE.get(cause)
    return rule_of_exposure(profile, "pageable", DIRECTIONS[trace.gpu.direction[copy]])


def unsearched(profile: Profile) -> Missing | None:
    """Return why some rules are silent, None if all of them were asked."""
    needed = set().union(*RESTS_ON.values())
    return next((entry for figure, entry in profile.withheld.items() if figure in needed), None)


def _severity(share: float) -> str:
    """Return how severe it is that this share of the step would be saved, or is lost where no replay tells more."""
    if share >= HIGH:
        return "high"
    return "medium" if share >= MEDIUM else "low"
