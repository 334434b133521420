"""The JSON of what is wrong: the verdict and the findings of a trace, and the ranks of a job side by side."""

from pinprof.document import filled, maybe_ms
from pinprof.documents import findings as documents
from pinprof.ground.units import ms
from pinprof.measurement.profile import Profile
from pinprof.prediction.predict import Saving
from pinprof.ranks.rank import Ranks, SharedFinding, TimesPerStep
from pinprof.report.trace.first_screen import first_screen, listed_costs
from pinprof.report.trace.verdict import advice, known_headline, not_told, other_causes
from pinprof.rules.rule import Finding, Findings, FoundSite, Joint
from pinprof.verdict.step_limits import IRREGULAR, LIMITS
from pinprof.verdict.verdict import LimitCost


def verdict_of(profile: Profile, findings: Findings) -> documents.VerdictJson:
    """Return why the step takes so long; `cause` is null if the trace cannot tell."""
    screen, verdict = first_screen(profile, findings), findings.verdict
    first = advice(screen)
    return filled(
        documents.VerdictJson,
        _cost(verdict.cost, verdict.step_ns),
        cause=verdict.cause,
        word=LIMITS[verdict.cause].word if verdict.cause else None,
        headline=known_headline(screen),
        evidence=[words for words in (other_causes(screen), *not_told(screen)) if words],
        do=first.do,
        finding=screen.first,
    )


def costs_of(findings: Findings) -> list[documents.Cost]:
    """Return what each cause costs; causes overlap."""
    verdict = findings.verdict
    idle = dict(verdict.idle)
    return [
        filled(
            documents.Cost,
            _cost(cost, verdict.step_ns),
            cause=cost.cause,
            share=cost.share,
            idle_ms=ms(idle.get(cost.cause, 0.0)),
        )
        for cost in listed_costs(verdict)
    ]


def _cost(cost: LimitCost | None, step_ns: float | None) -> documents.OfCause:
    """Return what a cause costs the step; null if the trace cannot tell."""
    if cost is None or not step_ns:
        return documents.OfCause(ms=None, fraction=None, range_ms=None)
    whole_ns = step_ns + (cost.ns if cost.cause == IRREGULAR else 0.0)
    return filled(documents.OfCause, cost, fraction=cost.ns / whole_ns)


def finding_of(finding: Finding, step_ns: float | None) -> documents.FindingJson:
    """Return a finding in a step of this length."""
    evidence, rule, saving = finding.evidence, finding.rule, finding.saving if step_ns else None
    then, both = evidence.then, finding.with_then if step_ns else None
    return filled(
        documents.FindingJson,
        finding,
        evidence,
        rule,
        saving,
        rule=rule.id,
        evidence=evidence.text,
        saving_fraction=finding.share_of(step_ns) if saving and step_ns else None,
        at_most_ms=maybe_ms(finding.most_ns),
        irregular=evidence.is_irregular,
        then=filled(documents.Then, then, both, saving_fraction=_share_of_step(both, step_ns))
        if then and finding.with_then
        else None,
        fix_code=documents.FixCode(before=rule.before, after=rule.code),
        sites=[_site(site) for site in finding.sites],
    )


def _share_of_step(saving: Saving | None, step_ns: float | None) -> float | None:
    return saving.saving_ns / step_ns if saving and step_ns else None


def _site(site: FoundSite) -> documents.FindingSite:
    return filled(documents.FindingSite, site.evidence, site.saving, evidence=site.evidence.text)


def joint_of(joint: Joint | None, step_ns: float | None) -> documents.JointJson | None:
    """Return what all fixes save together; None if a replay cannot tell."""
    if joint is None or not step_ns:
        return None
    fraction, predicted_ms = _share_of_step(joint, step_ns), ms(step_ns - joint.saving_ns)
    return filled(documents.JointJson, joint, saving_fraction=fraction, predicted_step_ms=predicted_ms)


def ranks_of(ranks: Ranks) -> documents.RanksJson:
    """Return the comparison of the ranks of a job."""
    return filled(
        documents.RanksJson,
        ranks,
        shown_rank=ranks.shown_rank if ranks.rows else None,
        spread=documents.Spread(*map(ms, ranks.spread_ns)) if ranks.spread_ns else None,
        rows=[
            filled(documents.RankRowJson, row, stalls=_by_cause(row.stalls), idle=_by_cause(row.idle))
            for row in ranks.rows
        ],
        findings=[_shared(shared) for shared in ranks.findings],
        turns=filled(documents.TurnsJson, ranks.turns) if ranks.turns else None,
    )


def _by_cause(times: TimesPerStep) -> list[documents.ByCause]:
    return [documents.ByCause(cause=cause, time_ms=ms(time)) for cause, time in times]


def _shared(shared: SharedFinding) -> documents.SharedFindingJson:
    finding = shared.finding
    return filled(
        documents.SharedFindingJson,
        finding,
        finding.evidence,
        finding.rule,
        finding.saving,
        rule=finding.rule.id,
        ranks=shared.ranks,
        sites=[filled(documents.SharedSiteJson, _site(of_site.site), ranks=of_site.ranks) for of_site in shared.sites],
    )
