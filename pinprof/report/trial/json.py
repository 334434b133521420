"""`pinprof try --json`: a patch with its certificate."""

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated

from pinprof.document import (
    Count,
    Document,
    Ms,
    RangeShare,
    Seconds,
    Share,
    Words,
    doc,
    encoded,
    filled,
    maybe_ms,
    one_of,
)
from pinprof.report.ab.json import AbJudgement, AbPair, judgement, pairs
from pinprof.report.fix import FixChange, FixRefused, change_json, refused
from pinprof.report.trial.text import milliseconds, sentence
from pinprof.report.whatif.json import Verify, verification
from pinprof.trial import selection
from pinprof.trial.certificate import Certificate, CheckResults, PatchVerdict
from pinprof.trial.numbers import NumbersComparison, NumbersVerdict
from pinprof.version import VERSION


class TryFix(FixChange):
    """A fix that was tried."""

    diff: Annotated[
        str | None, doc("the change as a unified diff, which applies after those before it; null if left out")
    ]
    doubts: Annotated[Sequence[Words], doc("why it is not certain; a proposal has some")]
    fate: Annotated[selection.Fate, doc("what became of it")]
    fate_reason: Annotated[Words | None, doc("why it was not measured by itself")]
    measured: Annotated[
        AbJudgement | None, doc("the step with it against the step without; null if not measured by itself")
    ]


class TryNumbers(Document):
    """What both versions compute in their first steps."""

    verdict: Annotated[NumbersVerdict, doc("whether it is the same")]
    steps: Annotated[Count, doc("steps that were compared")]
    kinds: Annotated[Sequence[Annotated[str, one_of(("loss", "parameters", "output"))]], doc("what was compared")]
    reason: Annotated[Words | None, doc("what differs, or why that is not known")]
    distance: Annotated[Share | None, doc("the largest difference; null where one of the values is not a number")]
    rounding: Annotated[
        Share | None, doc("that of the original after a change of the last bits; null where not needed")
    ]
    repeated: Annotated[Share | None, doc("that of two runs of the original; null where not needed")]


class TryRace(Document):
    """Host memory used before its copy has ended."""

    rule: Annotated[str, doc("the rule that it breaks")]
    headline: Annotated[Words, doc("what, and both places")]
    certain: Annotated[bool, doc("whether something is wrong for certain")]
    new: Annotated[bool, doc("whether the original does not have it")]


class TryGuardOriginal(Document):
    """The guard over the original."""

    ran: Annotated[bool, doc("whether it ran")]
    reason: Annotated[Words | None, doc("why not")]
    races: Annotated[Count, doc("races that it found")]


class TryGuard(Document):
    """The guard over the changed program."""

    ran: Annotated[bool, doc("whether it ran")]
    reason: Annotated[Words | None, doc("why not")]
    copies: Annotated[Count, doc("asynchronous copies that it followed")]
    notes: Annotated[Sequence[Words], doc("what it could not see")]
    races: Annotated[Sequence[TryRace], doc("what it found")]
    original: Annotated[TryGuardOriginal | None, doc("the same of the original; null where nothing was found")]


class Try(Document, kw_only=True, tag_field="schema", tag="pinprof.try/1"):
    """What `pinprof try --json` writes."""

    pinprof_version: Annotated[str, doc("the pinprof that wrote this")] = VERSION
    verdict: Annotated[
        PatchVerdict, doc("whether to take the patch; `leave_it` exits with 1, `cannot_tell` with 2, else 0")
    ]
    sentence: Annotated[Words, doc("the verdict in one line")]
    gpu: Annotated[str | None, doc("the GPU that it was measured on")]
    recorded_step_ms: Annotated[Ms | None, doc("the step of the recording, without the profiler")]
    root: Annotated[str, doc("the folder to which the paths in the diffs are relative")]
    fixes: Annotated[Sequence[TryFix], doc("all fixes that were tried, in the order in which they apply")]
    refused: Annotated[Sequence[FixRefused], doc("what is not changed")]
    before_ms: Annotated[Ms | None, doc("the usual step before; null where nothing was measured")]
    after_ms: Annotated[Ms | None, doc("the usual step after")]
    measured: Annotated[AbJudgement | None, doc("the step after against the step before")]
    pairs: Annotated[Sequence[AbPair], doc("what each pair of processes has measured")]
    predicted_saving_fraction: Annotated[
        Share | None, doc("what the patch was predicted to save; null where no replay predicts it")
    ]
    predicted_range: Annotated[RangeShare | None, doc("where that lies")]
    as_predicted: Annotated[
        bool | None,
        doc(
            "whether the measured saving may lie in that range: false where all of its interval is outside, true where "
            "it is not and the verdict on the speed is certain; else null"
        ),
    ]
    verification: Annotated[Verify | None, doc("prediction and measurement, by a recording of the changed program")]
    verification_reason: Annotated[Words | None, doc("why there is none")]
    numbers: Annotated[TryNumbers | None, doc("what both compute; null where it is not faster")]
    guard: Annotated[TryGuard | None, doc("races of the changed program; null where it is not faster")]
    changes_numbers: Annotated[bool, doc("whether other numbers were allowed")]
    seconds: Annotated[Seconds, doc("how long all of it took")]
    written: Annotated[Sequence[str], doc("the files that --write wrote")]
    backups: Annotated[Sequence[str], doc("the copies of them that --backup made")]


def trial_to_json(certificate: Certificate, written: Iterable[Path] = (), backups: Iterable[Path] = ()) -> str:
    """Return the patch and its certificate as JSON text."""
    step_ns, checked = certificate.analysis.profile.step_ns, certificate.checked
    diffs = {id(patch.change): patch.diff for patch in certificate.patches.patches}
    document = Try(
        verdict=certificate.verdict,
        sentence=sentence(certificate),
        gpu=certificate.measurement.first[0].gpu if certificate.measurement else None,
        recorded_step_ms=maybe_ms(step_ns or None),
        root=str(certificate.patches.root),
        fixes=[_fix(outcome, step_ns, diffs.get(id(outcome.change))) for outcome in certificate.outcomes],
        refused=refused(certificate.patches),
        before_ms=milliseconds(certificate, 0),
        after_ms=milliseconds(certificate, 1),
        measured=judgement(certificate.judgement) if certificate.judgement else None,
        pairs=pairs(certificate.measurement.test.pairs) if certificate.measurement else [],
        predicted_saving_fraction=certificate.predicted[0] if certificate.predicted else None,
        predicted_range=certificate.predicted[1:] if certificate.predicted else None,
        as_predicted=certificate.is_as_predicted,
        verification=verification(certificate.verified) if certificate.verified else None,
        verification_reason=certificate.why_not_verified or None,
        numbers=_numbers(checked.numbers) if checked else None,
        guard=_guard(checked) if checked else None,
        changes_numbers=certificate.changes_numbers,
        seconds=round(certificate.seconds, 3),
        written=[str(path) for path in written],
        backups=[str(path) for path in backups],
    )
    return encoded(document)


def _fix(outcome: selection.FixOutcome, step_ns: float | None, diff: bytes | None) -> TryFix:
    return filled(
        TryFix,
        change_json(outcome.change, step_ns),
        diff=None if diff is None else diff.decode(errors="replace"),
        doubts=list(outcome.change.doubts),
        fate=outcome.fate,
        fate_reason=outcome.why or None,
        measured=judgement(outcome.judgement) if outcome.judgement else None,
    )


def _numbers(compared: NumbersComparison) -> TryNumbers:
    return filled(
        TryNumbers,
        compared,
        reason=compared.why or None,
        distance=_finite(compared.distance),
        rounding=_finite(compared.rounding),
        repeated=_finite(compared.repeated),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _guard(checked: CheckResults) -> TryGuard:
    guard, before = checked.guard, checked.guard_before
    return filled(
        TryGuard,
        guard,
        ran=not guard.why,
        reason=guard.why or None,
        races=[filled(TryRace, race, new=race in checked.new_races) for race in guard.races],
        original=TryGuardOriginal(ran=not before.why, reason=before.why or None, races=len(before.races))
        if before
        else None,
    )
