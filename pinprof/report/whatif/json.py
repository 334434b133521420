"""`pinprof whatif --json` and `pinprof verify --json`: predictions for programs."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, convert
from msgspec.structs import asdict

from pinprof.analyses.syncs import Site
from pinprof.document import (
    Bytes,
    Count,
    Document,
    Gbps,
    Ms,
    RangeMs,
    Share,
    Words,
    doc,
    encoded,
    filled,
    one_of,
    range_ms,
)
from pinprof.documents.fields import (
    Blocker,
    Bound,
    File,
    Function,
    Guards,
    Library,
    Line,
    Source,
    WaitCause,
    blockers,
    library,
)
from pinprof.trace.tables import Trace
from pinprof.units import ms
from pinprof.whatif import Prediction, fixes
from pinprof.whatif.regions import Region
from pinprof.whatif.verification import Verification

Rates: TypeAlias = Annotated[Sequence[Sequence[float]], doc("[bytes, GB/s] of the copies that were measured, by size")]
BaselineMs: TypeAlias = Annotated[Ms, doc("the step before the change, without the profiler")]
HowKnown: TypeAlias = Annotated[Source, doc("how that is known")]
PredictedMs: TypeAlias = Annotated[Ms, doc("the step after it")]
PredictedRange: TypeAlias = Annotated[RangeMs, doc("where that lies")]
Speedup: TypeAlias = Annotated[float, doc("before by after")]
BoundBefore: TypeAlias = Annotated[Bound | None, doc("what sets the pace before")]
BoundAfter: TypeAlias = Annotated[Bound | None, doc("what sets the pace after")]


class PinnedRates(Document):
    """What pinned copies were measured at."""

    gpu: Annotated[str, doc("the GPU of the bench")]
    htod: Rates
    dtoh: Rates


class Scenario(Document):
    """The changes that are asked for, as the options of `pinprof whatif`."""

    drop_syncs: Annotated[Sequence[str], doc("places at which the host no longer waits, or `all`")]
    pin: Annotated[bool, doc("copies are pinned")]
    pinned_gbps: Annotated[Gbps | None, doc("the rate of pinned copies, if given")]
    machine: Annotated[PinnedRates | None, doc("the bench of `--machine`")]
    non_blocking: Annotated[bool, doc("copies do not block the host")]
    overlap_copies: Annotated[bool, doc("copies to the GPU move one step ahead, onto a stream of their own")]
    drop_allocs: Annotated[bool, doc("nothing is allocated or freed")]
    cuda_graph: Annotated[Region | None, doc("what CUDA graphs launch")]
    fused_optimizer: Annotated[bool, doc("one launch makes the optimizer's step")]
    host_speed: Annotated[float, doc("the host is so many times as fast")]
    gpu_speed: Annotated[float, doc("the kernels are so many times as fast")]


class Wait(Document):
    """What tells a wait from others."""

    cause: WaitCause
    op: Annotated[str | None, doc("the op around it")]
    file: File
    line: Line
    function: Function
    library: Annotated[Library | None, doc("where it waits in a library")]
    guards: Guards


Option: TypeAlias = Annotated[str, one_of(fixes.FIXES), doc("the option of `pinprof whatif` that it is")]
ChangedPerStep: TypeAlias = Annotated[float, doc("waits, copies or calls that it changes")]
ChangedBytes: TypeAlias = Annotated[Bytes | None, doc("bytes of the copies that it changes")]
ChangedWaits: TypeAlias = Annotated[Sequence[Wait], doc("the waits that it is about")]
Blockers: TypeAlias = Annotated[Sequence[Blocker], doc("what cuts a CUDA graph into several")]


class Change(Document):
    """What one option changes in the program."""

    option: Option
    per_step: ChangedPerStep
    bytes_per_step: ChangedBytes
    sites: ChangedWaits
    blockers: Blockers


class RankChange(Document):
    """What one option changes in the program of a rank."""

    rank: Annotated[Count | None, doc("the rank")]
    option: Option
    per_step: ChangedPerStep
    bytes_per_step: ChangedBytes
    sites: ChangedWaits
    blockers: Blockers


class Usual(Document):
    """One of the usual changes."""

    name: Annotated[Words, doc("what it is")]
    options: Annotated[str, doc("the options that ask for it")]
    baseline_step_ms: BaselineMs
    baseline_source: HowKnown
    predicted_step_ms: PredictedMs
    range_ms: PredictedRange
    speedup: Speedup
    bound_before: BoundBefore
    bound_after: BoundAfter
    scenario: Annotated[Scenario, doc("the same as fields")]


class Whatif(Document, kw_only=True):
    """What `pinprof whatif --json` writes."""

    schema: Annotated[Literal["pinprof.whatif/1"], doc("name and number of this schema")] = "pinprof.whatif/1"
    path: Annotated[str, doc("the trace, or the first of several")]
    paths: Annotated[Sequence[str], doc("all traces that were replayed together")]
    baseline_step_ms: BaselineMs
    baseline_source: HowKnown
    predicted_step_ms: PredictedMs
    range_ms: PredictedRange
    speedup: Speedup
    bound_before: BoundBefore
    bound_after: BoundAfter
    scenario: Annotated[Scenario, doc("the changes asked for")]
    changes: Annotated[Sequence[RankChange], doc("what they change")]
    scenarios: Annotated[Sequence[Usual] | UnsetType, doc("the usual changes, where none was asked for")] = UNSET


class Verify(Document, kw_only=True):
    """What `pinprof verify --json` writes."""

    schema: Annotated[Literal["pinprof.verify/1"], doc("name and number of this schema")] = "pinprof.verify/1"
    before: Annotated[str, doc("the trace before the fix")]
    after: Annotated[str, doc("the trace after it")]
    baseline_step_ms: BaselineMs
    baseline_source: HowKnown
    predicted_step_ms: PredictedMs
    range_ms: PredictedRange
    speedup: Speedup
    bound_before: BoundBefore
    bound_after: BoundAfter
    measured_step_ms: Annotated[Ms, doc("the step of the trace after the fix")]
    measured_source: HowKnown
    measured_range_ms: Annotated[RangeMs, doc("where it lies")]
    error_fraction: Annotated[Share, doc("how far the prediction lies above the measured step")]
    predicted_saving_ms: Annotated[Ms, doc("what the fix was predicted to save")]
    measured_saving_ms: Annotated[Ms, doc("what it saved")]
    same_program: Annotated[bool, doc("whether the traces seem to be of one program")]
    kernels_alike: Annotated[Share, doc("kernels per step that both have, by name")]
    changes: Annotated[Sequence[Change], doc("what the fix changed, as far as a replay can apply it")]
    new_waits: Annotated[Sequence[Wait], doc("waits that only the trace after has")]


def to_json(
    ranks: Sequence[tuple[Trace, Sequence[fixes.Change]]],
    prediction: Prediction,
    named: Sequence[tuple[str, str, Prediction]] | None = None,
) -> str:
    """Return a prediction as JSON text; with the usual scenarios, by name and options, if they are given.

    `ranks` are the traces that were replayed together, each with what changes in it.
    """
    paths = [trace.path for trace, _ in ranks]
    document = Whatif(
        path=paths[0],
        paths=paths,
        **_prediction(prediction),
        scenario=_scenario(prediction),
        changes=[
            RankChange(rank=trace.info.rank, **asdict(_change(change)))
            for trace, changes in ranks
            for change in changes
        ],
    )
    if named is not None:
        document.scenarios = [
            Usual(name=name, options=options, **_prediction(usual), scenario=_scenario(usual))
            for name, options, usual in named
        ]
    return encoded(document)


def _prediction(prediction: Prediction) -> dict[str, Any]:
    """Return the fields of a prediction but its scenario."""
    return {
        "baseline_step_ms": ms(prediction.baseline_ns),
        "baseline_source": prediction.baseline_source,
        "predicted_step_ms": ms(prediction.predicted_ns),
        "range_ms": range_ms(prediction.range_ns),
        "speedup": prediction.speedup,
        "bound_before": prediction.bound_before,
        "bound_after": prediction.bound_after,
    }


def _scenario(prediction: Prediction) -> Scenario:
    return convert(prediction.scenario, Scenario, from_attributes=True)


def _change(change: fixes.Change) -> Change:
    sites = [_wait(site) for site in change.sites]
    return filled(Change, change, sites=sites, blockers=blockers(change.blockers))


def _wait(site: Site) -> Wait:
    return filled(Wait, site, library=library(site.library))


def verification_to_json(verified: Verification) -> str:
    """Return a prediction against what was measured as JSON text."""
    return encoded(verification(verified))


def verification(verified: Verification) -> Verify:
    """Return a prediction against what was measured, for programs."""
    return Verify(
        before=verified.before.path,
        after=verified.after.path,
        **_prediction(verified.prediction),
        measured_step_ms=ms(verified.measured_ns),
        measured_source=verified.measured_source,
        measured_range_ms=[ms(end) for end in verified.measured_range_ns],
        error_fraction=verified.error,
        predicted_saving_ms=ms(verified.predicted_saving_ns),
        measured_saving_ms=ms(verified.measured_saving_ns),
        same_program=verified.is_same_program,
        kernels_alike=verified.kernels_alike,
        changes=[_change(change) for change in verified.changes],
        new_waits=[_wait(site) for site in verified.new_waits],
    )
