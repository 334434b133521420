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
    savings = {id(finding): _saving(model, finding.evidence.edits) for finding in replayed}
    result = Findings(
        sorted(
            (replace(finding, saving=savings.get(id(finding))) for finding in by_cost),
            key=lambda finding: -finding.saving.saving_ns if finding.saving else 0.0,
        )
    )
    result.joint = _saving(model, reduce(or_, (finding.evidence.edits for finding in replayed), NO_EDITS))
    return result


def _runs(model: Model) -> bool:
    return model.runs and bool(model.before.step_ns)


def _saving(model: Model, edits: Edits) -> Saving:
    before = min(model.before.step_ns, model.step.step_ns or model.before.step_ns)
    saving = max(before - model.after([edits]).step_ns, 0.0)
    if saving < NOTHING * before:
        saving = 0.0
    unsure = UNSURE_CHANGE * saving + NOISE * before
    return Saving(saving, (max(saving - unsure, 0.0), saving + unsure))
