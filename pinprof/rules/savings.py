"""What the fixes of findings bring, each alone and all together, by replay."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pinprof.rules.rule import Finding, Findings, Saving
from pinprof.whatif import Edits, Model
from pinprof.whatif.edits import NO_EDITS
from pinprof.whatif.predict import NOISE, UNSURE_CHANGE

MOST_REPLAYS = 20
"""Findings that get a replay of their own, the costliest first."""
NOTHING = 0.002
"""A saving below this share of the step is none."""


def with_savings(found: Sequence[Finding], model: Model | None) -> Findings:
    """Return the findings with what their fixes bring by the model, the largest saving first, then the largest cost."""
    by_cost = sorted(found, key=lambda finding: -finding.evidence.cost_ns)
    if model is None or not any(finding.evidence.edits for finding in found) or not _runs(model):
        return Findings(by_cost)
    replayed = [finding for finding in by_cost if finding.evidence.edits][:MOST_REPLAYS]
    saved = {id(finding): _with_saving(finding, model) for finding in replayed}
    result = Findings(
        sorted(
            (saved.get(id(finding), finding) for finding in by_cost),
            key=lambda finding: -finding.saving.saving_ns if finding.saving else 0.0,
        )
    )
    result.joint = _saving(model, reduce(or_, map(_all_edits, saved.values()), NO_EDITS))
    return result


def _with_saving(finding: Finding, model: Model) -> Finding:
    """Return a finding with what its fix brings, and with what the fix makes possible if that brings more."""
    alone, then = _saving(model, finding.evidence.edits), finding.evidence.then
    both = _saving(model, finding.evidence.edits | then.edits) if then else alone
    more = both.saving_ns - alone.saving_ns > NOISE * model.before.step_ns
    return replace(finding, saving=alone, with_then=both if more else None)


def _all_edits(finding: Finding) -> Edits:
    then = finding.evidence.then
    return finding.evidence.edits | then.edits if then and finding.with_then else finding.evidence.edits


def _runs(model: Model) -> bool:
    return model.runs and bool(model.before.step_ns)


def _saving(model: Model, edits: Edits) -> Saving:
    before = min(model.before.step_ns, model.step.step_ns or model.before.step_ns)
    saving = max(before - model.after([edits]).step_ns, 0.0)
    if saving < NOTHING * before:
        saving = 0.0
    unsure = UNSURE_CHANGE * saving + NOISE * before
    return Saving(saving, (max(saving - unsure, 0.0), saving + unsure))
