"""A patch with its certificate, for programs."""

import json
from collections.abc import Iterable
from math import inf, isfinite
from pathlib import Path
from typing import Any

from pinprof.ab import Judgement
from pinprof.report.ab.json import judgement_fields, pair_fields
from pinprof.report.fields import maybe_ms
from pinprof.report.fix.json import mend_fields, refused_fields
from pinprof.report.trial.words import milliseconds, sentence
from pinprof.report.whatif.verification import fields as verification_fields
from pinprof.trial.certificate import Certificate, Checked
from pinprof.trial.elimination import Share
from pinprof.trial.numbers import Comparison
from pinprof.trial.runs import Guarded, Race
from pinprof.version import VERSION

SCHEMA = "pinprof.try/1"


def to_json(certificate: Certificate, written: Iterable[Path] = (), backups: Iterable[Path] = ()) -> str:
    """Return all that was shown as JSON text."""
    step_ns = certificate.analysis.profile.step_ns
    diffs = {id(patch.mend): patch.diff for patch in certificate.patches.patches}
    document = {
        "schema": SCHEMA,
        "pinprof_version": VERSION,
        "verdict": certificate.verdict,
        "sentence": sentence(certificate),
        "gpu": certificate.contest.first[0].gpu if certificate.contest else None,
        "recorded_step_ms": maybe_ms(step_ns) if step_ns else None,
        "root": str(certificate.patches.root),
        "fixes": [_fix(each, step_ns, diffs.get(id(each.mend))) for each in certificate.shares],
        "refused": refused_fields(certificate.patches),
        "before_ms": milliseconds(certificate, 0),
        "after_ms": milliseconds(certificate, 1),
        "measured": _judged(certificate.judgement),
        "pairs": pair_fields(certificate.contest.duel.pairs) if certificate.contest else [],
        "predicted_saving_fraction": certificate.predicted[0] if certificate.predicted else None,
        "predicted_range": list(certificate.predicted[1:]) if certificate.predicted else None,
        "as_predicted": certificate.is_as_predicted,
        "verification": verification_fields(certificate.verified) if certificate.verified else None,
        "verification_reason": certificate.why_not_verified or None,
        "numbers": _numbers(certificate.checked.numbers) if certificate.checked else None,
        "guard": _guard(certificate.checked) if certificate.checked else None,
        "changes_numbers": certificate.changes_numbers,
        "seconds": round(certificate.seconds, 3),
        "written": [str(each) for each in written],
        "backups": [str(each) for each in backups],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _fix(share: Share, step_ns: float | None, diff: bytes | None) -> dict[str, Any]:
    return {
        **mend_fields(share.mend, step_ns),
        "fate": share.fate,
        "fate_reason": share.why or None,
        "measured": _judged(share.judgement),
        "diff": None if diff is None else diff.decode(errors="replace"),
    }


def _judged(judgement: Judgement | None) -> dict[str, Any] | None:
    return None if judgement is None else judgement_fields(judgement)


def _numbers(compared: Comparison) -> dict[str, Any]:
    return {
        "verdict": compared.verdict,
        "steps": compared.steps,
        "kinds": list(compared.kinds),
        "reason": compared.why or None,
        "distance": _finite(compared.distance),
        "rounding": _finite(compared.rounding),
        "repeated": _finite(compared.repeated),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) and value < inf else None


def _guard(checked: Checked) -> dict[str, Any]:
    return {
        "ran": not checked.guard.why,
        "reason": checked.guard.why or None,
        "copies": checked.guard.copies,
        "notes": list(checked.guard.notes),
        "races": [_race(each, checked) for each in checked.guard.races],
        "original": None if checked.guard_before is None else _ran(checked.guard_before),
    }


def _ran(guarded: Guarded) -> dict[str, Any]:
    return {"ran": not guarded.why, "reason": guarded.why or None, "races": len(guarded.races)}


def _race(race: Race, checked: Checked) -> dict[str, Any]:
    return {
        "rule": race.rule,
        "headline": race.headline,
        "certain": race.certain,
        "new": race in checked.new_races,
    }
