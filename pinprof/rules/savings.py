"""What the fixes of findings bring: each alone and all together, by replay; and on a machine whose bench is known."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from math import sqrt
from operator import or_

import numpy as np

from pinprof.ground.units import size
from pinprof.prediction.edits import NO_EDITS, Edits
from pinprof.prediction.pinning import Pinning
from pinprof.prediction.predict import Saving, paces_after, saving_in
from pinprof.replay import Replay
from pinprof.rules.rule import Evidence, Finding, Joint, Rule
from pinprof.trace.tables import Int64s, Trace

MAX_REPLAYS = 20  # findings that get a replay of their own, and sites of findings with several, the costliest first
MIN_SAVING_SHARE_OF_STEP = 0.02  # a fix that saves at most this share of the step is not worth a finding
NO_SAVING_SHARE_OF_STEP = 0.002
MIN_FURTHER_SHARE_OF_STEP = 0.01
MIN_SHARE_BEFORE_WHOLE_STEP = 0.1
"""A change of a line comes before one of the whole step if it saves at least this share."""
NO_SAVING = Saving(0.0, (0.0, 0.0))


def with_savings(findings: Sequence[Finding], replay: Replay | None) -> tuple[list[Finding], Joint | None]:
    """Return the findings with what their fixes bring, by saving, then by cost; and what all fixes bring together."""
    by_cost = sorted(findings, key=lambda finding: -finding.evidence.cost_ns)
    has_edits = any(of.evidence.edits or of.evidence.at_most or of.evidence.seen for of in findings)
    if replay is None or not has_edits or not replay.runs or not replay.before.step_ns:
        return by_cost, None
    by_cost = [weighed for finding in by_cost if (weighed := _with_most(finding, replay))]
    replayed = [finding for finding in by_cost if finding.evidence.edits][:MAX_REPLAYS]
    saved = {id(finding): _with_saving(finding, replay) for finding in replayed}
    saved = dict(zip(saved, _with_sites(list(saved.values()), replay), strict=True))
    by_saving = sorted((saved.get(id(finding)) or _with_irregular(finding) for finding in by_cost), key=_order)
    by_saving = _fewer_launches_first(by_saving, MIN_SHARE_BEFORE_WHOLE_STEP * replay.step_ns)
    return by_saving, _together([of for of in by_saving if of.saving and not of.evidence.seen], replay)


def _together(findings: Sequence[Finding], replay: Replay) -> Joint | None:
    """Return what the fixes of findings bring together, never less than one of them.

    Where all of them bring less than the best, those that bring nothing alone are left out, then all but the best:
    small copies that become pinned cost more than they save. Otherwise they stay: each of two waits may save nothing
    until the other is gone.
    """
    if not findings:
        return None
    all_edits = reduce(or_, map(_all_edits, findings))
    best = max(findings, key=lambda finding: _worth(finding).saving_ns)
    together = saving_of(replay, all_edits)
    if together.saving_ns >= _worth(best).saving_ns:
        highest = max(together.range_ns[1], _worth(best).range_ns[1])  # a GPU that works longer leaves less to save
        return Joint(together.saving_ns, (together.range_ns[0], highest))
    useful = [finding for finding in findings if _worth(finding).saving_ns]
    together = saving_of(replay, reduce(or_, map(_all_edits, useful)))
    if together.saving_ns < _worth(best).saving_ns:
        useful, together = [best], _worth(best)
    rules = {finding.rule.id for finding in useful}
    others = dict.fromkeys(finding.rule.id for finding in findings if finding.rule.id not in rules)
    return Joint(together.saving_ns, together.range_ns, tuple(others))


def _worth(finding: Finding) -> Saving:
    return finding.with_then or finding.saving or NO_SAVING


def _order(finding: Finding) -> tuple[float, bool]:
    """Return what findings are sorted by: what their fixes save, and last those that may save something or nothing."""
    evidence = finding.evidence
    saved_ns = finding.saving.saving_ns if finding.saving else evidence.cost_ns if evidence.is_irregular else 0.0
    return -saved_ns, finding.most_ns is not None


def _fewer_launches_first(findings: Sequence[Finding], least_ns: float) -> list[Finding]:
    """Return findings with those that launch less, and save enough, before one that launches the step otherwise."""

    def stays(finding: Finding) -> bool:
        rule = finding.rule
        return "launch" not in rule.answers or rule.of_whole_step or _worth(finding).saving_ns < least_ns

    first = next((number for number, finding in enumerate(findings) if finding.rule.of_whole_step), len(findings))
    return [*findings[:first], *sorted(findings[first:], key=stays)]


def _with_most(finding: Finding, replay: Replay) -> Finding | None:
    """Return a finding with what its fix saves at most, where no more can be told; None if that is too little."""
    if not finding.evidence.at_most:
        return finding
    most = saving_of(replay, finding.evidence.at_most)
    if most.saving_ns < MIN_SAVING_SHARE_OF_STEP * replay.step_ns:
        return None
    cost_ns = finding.evidence.cost_ns
    most_ns = cost_ns if finding.rule.family == "gpu" else min(most.range_ns[1], cost_ns)
    return replace(finding, most_ns=max(most_ns, most.saving_ns))


def _with_saving(finding: Finding, replay: Replay) -> Finding:
    evidence, then = finding.evidence, finding.evidence.then
    alone = _up_to_best(replay, evidence.edits, evidence.at_best)
    further = then.edits if then else NO_EDITS
    both = _up_to_best(replay, evidence.edits | further, evidence.at_best and evidence.at_best | further)
    more = both.saving_ns - alone.saving_ns > MIN_FURTHER_SHARE_OF_STEP * replay.step_ns
    return replace(finding, saving=alone, with_then=both if more else None)


def _up_to_best(replay: Replay, edits: Edits, at_best: Edits) -> Saving:
    """Return what a fix saves; its range reaches to what it saves at best, and as far to the other side."""
    usual = saving_of(replay, edits)
    best = saving_of(replay, at_best) if at_best else usual
    unsure_ns, (low, high) = max(best.saving_ns - usual.saving_ns, 0.0), usual.range_ns
    return replace(usual, range_ns=(max(low - unsure_ns, 0.0) if unsure_ns else low, max(high, best.range_ns[1])))


def _with_irregular(finding: Finding) -> Finding:
    """Return a finding with what its fix saves of irregular steps: another run sees them as often, give or take √n."""
    cost_ns, seen = finding.evidence.cost_ns, finding.evidence.seen
    unsure_ns = cost_ns / sqrt(seen) if seen else 0.0
    return replace(finding, saving=Saving(cost_ns, (cost_ns - unsure_ns, cost_ns + unsure_ns))) if seen else finding


def _with_sites(findings: Sequence[Finding], replay: Replay) -> list[Finding]:
    sites = [site for finding in findings for site in finding.evidence.sites if site.edits]
    costliest = sorted(sites, key=lambda site: -site.cost_ns)[:MAX_REPLAYS]
    alone = {id(site): saving_of(replay, site.edits) for site in costliest}
    return [
        replace(finding, alone=tuple(alone.get(id(site)) for site in finding.evidence.sites)) for finding in findings
    ]


def _all_edits(finding: Finding) -> Edits:
    then = finding.evidence.then
    return finding.evidence.edits | then.edits if then and finding.with_then else finding.evidence.edits


def saving_of(replay: Replay, edits: Edits) -> Saving:
    """Return what a change of the program saves of its step."""
    outcomes = replay.outcomes(paces_after(replay, [edits]))
    saving = saving_in(np.maximum(replay.in_worlds - outcomes, 0.0))
    return saving if saving.saving_ns >= NO_SAVING_SHARE_OF_STEP * replay.step_ns else replace(saving, saving_ns=0.0)


def as_measured(evidence: Evidence, rule: Rule, trace: Trace, machine: Pinning) -> Evidence:
    """Return evidence whose fix copies pinned memory as fast as a machine does, and that says whether to pin there."""
    copies = np.array(sorted(evidence.edits.pinned), np.int64)
    advice = "; ".join(_advice(machine, trace.gpu.bytes[copies])) if rule.weighs_pinning else ""
    return replace(
        evidence,
        text=f"{evidence.text}. As measured on {machine.rates.gpu}: {advice}" if advice else evidence.text,
        edits=evidence.edits | Edits(machine=machine.rates),
        at_best=evidence.at_best | Edits(machine=machine.rates),
        sites=tuple(replace(site, edits=site.edits | Edits(machine=machine.rates)) for site in evidence.sites),
    )


def _advice(machine: Pinning, sizes: Int64s) -> Iterator[str]:
    sizes = sizes[sizes >= 0]  # those that are recorded
    if machine.pays and len(sizes):
        yield _compared_with(machine.pays.value, sizes)
    if machine.fresh:
        sized = f"for {machine.fresh_size} " if machine.fresh_size else ""
        text = machine.fresh.text
        yield f"{sized}{text[0].lower()}{text[1:].removesuffix('.')}"


def _compared_with(least: float | None, sizes: Int64s) -> str:
    """Return whether copies are as large as pinning needs to pay; `least` is None where it never does."""
    if least is None:
        return "copies to the GPU are no faster from pinned memory"
    paying = int((sizes >= least).sum())
    return f"pinned memory pays from {size(least)} on, which {paying:,} of these {len(sizes):,} copies have"
