"""All rules, and what they find in a trace: evidence, weighed by what its fix saves, or else by what it costs."""

import copyreg
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.details import Details, details_of
from pinprof.ground.processes import aside
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt
from pinprof.prediction.graphs import capture_of
from pinprof.prediction.pinning import Pinning
from pinprof.replay import Replay
from pinprof.rules import catalogue
from pinprof.rules.catalogue import pin104_unpinned_batches, pin105_batches_without_pin_memory
from pinprof.rules.rule import NEGLIGIBLE_SHARE_OF_STEP, Finding, Findings, Rule, Severity
from pinprof.rules.savings import as_measured, with_savings
from pinprof.trace.tables import DIRECTIONS, NONE, Trace
from pinprof.verdict.verdict import judge

HIGH_SHARE_OF_STEP, MEDIUM_SHARE_OF_STEP = 0.10, 0.02
"""Shares of the step from which a saving, or else a cost, is of high and of medium severity."""
RULES: tuple[Rule, ...] = tuple(
    import_module(f"{catalogue.__name__}.{module.name}").RULE
    for module in sorted(iter_modules(catalogue.__path__), key=lambda module: module.name)
)
"""By number: 1xx copies, 2xx waits of the host, 3xx overlap and idle time, 4xx input, 5xx hazards, 6xx the host's
launches, 7xx the GPU's own time."""
RULE_OF_GUARDS = next(rule for rule in RULES if rule.guards).id
RULE_OF_CAUSE = {cause: rule.id for rule in RULES for cause in rule.causes}
"""The rule that is for the waits of each cause, unless they are for batches of a DataLoader; waits for room in the
launch queue and the profiler's own have none."""
RULE_OF_EXPOSURE = {exposure: rule.id for rule in RULES for exposure in rule.exposures}
"""The rule that explains why copies are exposed, by the reason and their direction, unless they are batches of a
DataLoader."""


def find(profile: Profile, trace: Trace, machine: Pinning | None = None) -> Findings:
    """Return what the rules find, the largest saving first, then the largest cost, hazards last.

    `machine` is what pinned memory brings and costs on the user's; without it usual rates are assumed.
    """
    details = details_of(trace)
    return find_in(details, profile, Replay([details], profile.step_ns), machine)


def find_in(details: Details, profile: Profile, replay: Replay, machine: Pinning | None = None) -> Findings:
    """Return what the rules find of a trace, as `find` does; `replay` computes what their fixes save."""
    step = profile.step_ns
    verdict = aside(partial(judge, details, profile, replay), is_worth=details.trace.is_worth_two_cores)
    findings = list(_unweighed(details, profile, step, machine)) if step else []
    # where the estimate is withheld, a replay would run without what the trace lacks
    ordered, joint = with_savings(findings, None if profile.withheld.estimate else replay)
    saved = ((finding, finding.saving.saving_ns if finding.saving else finding.most_ns) for finding in ordered)
    weighed = [
        finding if saved_ns is None else replace(finding, severity=_severity(saved_ns / (step or 1.0)))
        for finding, saved_ns in saved
    ]
    bench = machine.rates.gpu if machine else None
    are_known = profile.launches is not None and not profile.withheld.stalls
    blockers = capture_of(details.trace, details.syncs, "step").blockers if are_known else None
    return Findings(weighed, joint, bench, verdict(), blockers)


def finding_of_verdict(findings: Findings) -> int | None:
    """Return the index of the finding that says what to do about the verdict's cause; None without one."""
    cause = findings.verdict.cause
    return next((number for number, finding in enumerate(findings) if cause in finding.rule.answers), None)


def _unweighed(details: Details, profile: Profile, step_ns: float, machine: Pinning | None) -> Iterator[Finding]:
    for rule in RULES:
        if rule.search is None or any(_doubts(profile, rule)):
            continue
        for evidence in rule.search(details, profile):
            if evidence.at_any_cost or evidence.cost_ns >= NEGLIGIBLE_SHARE_OF_STEP * step_ns:
                severity: Severity = "suspect" if rule.is_hazard else _severity(evidence.cost_ns / step_ns)
                measured = as_measured(evidence, rule, details.trace, machine) if machine else evidence
                yield Finding(rule, severity, measured)


def _doubts(profile: Profile, rule: Rule) -> Iterator[Doubt | None]:
    return (getattr(profile.withheld, figure) for figure in rule.rests_on)


def unsearched(profile: Profile) -> Doubt | None:
    """Return the gravest reason why some rules are silent, None if all rules could look."""
    return profile.gravest(*(doubt for rule in RULES for doubt in _doubts(profile, rule)))


def _severity(share: float) -> Severity:
    """Return the severity of a saving of this share of the step, or of a cost where no replay says what it saves."""
    if share >= HIGH_SHARE_OF_STEP:
        return "high"
    return "medium" if share >= MEDIUM_SHARE_OF_STEP else "low"


def rule_of(number: str) -> Rule:
    """Return the rule of this number. Raises StopIteration where there is none."""
    return next(rule for rule in RULES if rule.id == number)


copyreg.pickle(Rule, lambda rule: (rule_of, (rule.id,)))
"""A rule is pickled as its number: another process has the same rule, with its function."""


def rule_of_exposure(details: Details, reason: str, direction: str) -> str | None:
    """Return the rule that explains why copies of a trace are exposed, the same that finds them."""
    if (reason, direction) == ("pageable", "HtoD") and details.loader.has_unpinned:
        of_batches = pin105_batches_without_pin_memory if details.loader.pins else pin104_unpinned_batches
        return of_batches.RULE.id
    return RULE_OF_EXPOSURE.get((reason, direction))


def rule_of_wait(details: Details, stall: int) -> str | None:
    """Return the rule that is for a stall, a row of `Syncs.stalls`, the same that finds its site; None without one."""
    if details.syncs.sites[details.syncs.site[stall]].is_kept:
        return RULE_OF_GUARDS
    cause, copy = WAIT_CAUSES[details.syncs.cause[stall]], details.syncs.stalls.copy[stall]
    if cause != "pageable_copy" or copy == NONE:
        return RULE_OF_CAUSE.get(cause)
    return rule_of_exposure(details, "pageable", DIRECTIONS[details.trace.gpu.direction[copy]])
