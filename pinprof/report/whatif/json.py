"""`pinprof whatif --json` and `pinprof verify --json`: predictions, and their comparison with measured steps."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType

from pinprof.document import Bytes, Count, Document, Ms, RangeMs, Share, Words, doc, encoded, filled, one_of
from pinprof.documents.fields import (
    BlockerJson,
    Bound,
    Guards,
    Library,
    PlacedJson,
    Source,
    WaitCause,
)
from pinprof.prediction import Prediction, Scenario
from pinprof.prediction.scenarios import OPTIONS, OptionChange
from pinprof.prediction.verification import Verification
from pinprof.trace.tables import Trace


class WaitJson(PlacedJson):
    """What distinguishes a wait from others."""

    cause: WaitCause
    op: Annotated[str | None, doc("the op around it")]
    library: Annotated[Library | None, doc("where it waits in a library")]
    guards: Guards


class ChangeJson(Document):
    """What one option changes in the program."""

    option: Annotated[str, one_of(OPTIONS), doc("the option of `pinprof whatif`")]
    per_step: Annotated[float, doc("waits, copies or calls that it changes")]
    bytes_per_step: Annotated[Bytes | None, doc("bytes of the copies that it changes")]
    sites: Annotated[Sequence[WaitJson], doc("the waits that it is about")]
    blockers: Annotated[Sequence[BlockerJson], doc("what cuts a CUDA graph into several")]


class RankChange(ChangeJson):
    """What one option changes in the program of a rank."""

    rank: Annotated[Count | None, doc("the rank")]


class Predicted(Document, rename={"baseline_ms": "baseline_step_ms", "predicted_ms": "predicted_step_ms"}):
    """The step before and after a change."""

    baseline_ms: Annotated[Ms, doc("the step before the change, without the profiler")]
    baseline_source: Annotated[Source, doc("how that is known")]
    predicted_ms: Annotated[Ms, doc("the step after it")]
    range_ms: Annotated[RangeMs, doc("where that lies")]
    speedup: Annotated[float, doc("before by after")]
    bound_before: Annotated[Bound | None, doc("what sets the pace before")]
    bound_after: Annotated[Bound | None, doc("what sets the pace after")]


class UsualJson(Predicted):
    """One of the usual changes."""

    name: Annotated[Words, doc("the change in words")]
    options: Annotated[str, doc("the options that ask for it")]
    scenario: Annotated[Scenario, doc("the same as fields")]


class Whatif(Predicted, kw_only=True, tag_field="schema", tag="pinprof.whatif/1"):
    """What `pinprof whatif --json` writes."""

    path: Annotated[str, doc("the trace, or the first of several")]
    paths: Annotated[Sequence[str], doc("all traces that were replayed together")]
    scenario: Annotated[Scenario, doc("the changes asked for")]
    changes: Annotated[Sequence[RankChange], doc("what they change")]
    scenarios: Annotated[Sequence[UsualJson] | UnsetType, doc("the usual changes, where none was asked for")] = UNSET


class Verify(
    Predicted,
    tag_field="schema",
    tag="pinprof.verify/1",
    rename={"measured_ms": "measured_step_ms", "error": "error_fraction", "is_same_program": "same_program"},
):
    """What `pinprof verify --json` writes."""

    before: Annotated[str, doc("the trace before the fix")]
    after: Annotated[str, doc("the trace after it")]
    measured_ms: Annotated[Ms, doc("the step of the trace after the fix")]
    measured_source: Annotated[Source, doc("how that is known")]
    measured_range_ms: Annotated[RangeMs, doc("where it lies")]
    error: Annotated[Share, doc("how far the prediction lies above the measured step")]
    predicted_saving_ms: Annotated[Ms, doc("what the fix was predicted to save")]
    measured_saving_ms: Annotated[Ms, doc("what it saved")]
    is_same_program: Annotated[bool, doc("whether the traces seem to be of one program")]
    kernels_alike: Annotated[Share, doc("kernels per step that both have, by name")]
    changes: Annotated[Sequence[ChangeJson], doc("what the fix changed, as far as a replay can apply it")]
    new_waits: Annotated[Sequence[WaitJson], doc("waits that only the trace after has")]


def prediction_to_json(
    ranks: Sequence[tuple[Trace, Sequence[OptionChange]]],
    prediction: Prediction,
    named: Sequence[tuple[str, str, Prediction]] | None = None,
) -> str:
    """Return a prediction as JSON text; with the usual scenarios, by name and options, if they are given.

    `ranks` are the traces that were replayed together, each with what changes in it.
    """
    paths = [trace.path for trace, _ in ranks]
    changes = [filled(RankChange, change, trace.info) for trace, changes in ranks for change in changes]
    usual = [filled(UsualJson, after, name=name, options=options) for name, options, after in named or ()]
    scenarios = UNSET if named is None else usual
    document = filled(Whatif, prediction, path=paths[0], paths=paths, changes=changes, scenarios=scenarios)
    return encoded(document)


def verification_to_json(verified: Verification) -> str:
    """Return a prediction and the measured step as JSON text."""
    before, after = verified.before.path, verified.after.path
    return encoded(filled(Verify, verified, verified.prediction, before=before, after=after))
