"""`pinprof compare --json`: fields named as in the report, in milliseconds, bytes and GB/s."""

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

from pinprof.comparison import ComparedFigure, Comparison, StepVerdict, Value, changes
from pinprof.comparison.figures import FigureOutcome
from pinprof.document import Count, Document, Ms, Range, RangeMs, Share, Words, doc, encoded, filled, range_ms
from pinprof.documents.fields import (
    Bound,
    DeviceJson,
    Direction,
    Library,
    Memory,
    PlacedJson,
    Severity,
    Source,
    ThreadRole,
    WaitCause,
    WaitVerdict,
)
from pinprof.measurement.profile import Profile
from pinprof.report.comparison.words import verdict
from pinprof.rules.rule import Finding
from pinprof.units import ms
from pinprof.version import VERSION

StatusField: TypeAlias = Annotated[changes.ChangeStatus, doc("how it changed")]
VerdictOnStep: TypeAlias = Annotated[StepVerdict, doc("how the step changed")]
VerdictSentence: TypeAlias = Annotated[Words, doc("the verdict in a sentence")]
SameProgram: TypeAlias = Annotated[bool | None, doc("whether the traces seem to be of one program")]
WhyNot: TypeAlias = Annotated[Words | None, doc("why they are not compared; null where they are")]
SavedMs: TypeAlias = Annotated[Ms | None, doc("what the fix saves per step")]
NameOfFigure: TypeAlias = Annotated[str, doc("which figure; its end is the unit")]
DeviceOfFigure: TypeAlias = Annotated[Count | None, doc("the GPU")]
CopyDirection: TypeAlias = Annotated[Direction, doc("from where to where")]
CopyMemory: TypeAlias = Annotated[Memory | None, doc("kind of the host's memory")]
RuleId: TypeAlias = Annotated[str, doc("the rule, for `pinprof explain`")]
RuleTitle: TypeAlias = Annotated[Words, doc("the rule in a few words")]


class BriefFigure(Document):
    """Two values of a figure."""

    before: Annotated[float | None, doc("the figure before")]
    after: Annotated[float | None, doc("the figure after")]
    difference: Annotated[float | None, doc("after less before")]
    within_noise: Annotated[bool | None, doc("whether the difference may be chance: their ranges overlap")]
    outcome: Annotated[FigureOutcome | None, doc("whether that is better or worse; null within noise and below 2 %")]
    reason: Annotated[Words | None, doc("why it is not compared")]


class FigureChange(BriefFigure):
    """Two values of a figure; its name ends with the unit."""

    fraction: Annotated[Share | None, doc("the difference as a share of the figure before")]
    noise: Annotated[float | None, doc("how much the figures may differ by chance")]
    range_before: Annotated[Range | None, doc("where the figure before lies")]
    range_after: Annotated[Range | None, doc("where the figure after lies")]


FigurePerStep: TypeAlias = Annotated[FigureChange, doc("per step")]


class StepFigure(FigureChange):
    """A figure of the step or of a GPU."""

    name: NameOfFigure
    device: DeviceOfFigure


class BriefSide(Document):
    """One of the two traces."""

    path: Annotated[str, doc("where it was read")]
    steps: Annotated[Count, doc("complete steps")]
    step_source: Annotated[Source, doc("how the step is known")]
    bound: Annotated[Bound | None, doc("what sets the pace")]


class SideJson(BriefSide):
    """One of the two traces."""

    rank: Annotated[Count | None, doc("the rank")]
    torch_version: Annotated[str | None, doc("the torch that recorded it")]
    devices: Annotated[Sequence[DeviceJson], doc("the GPUs")]


class WaitSiteJson(PlacedJson):
    """A place of a wait."""

    library: Annotated[Library | None, doc("where it waits in a library")]
    call: Annotated[str, doc("the CUDA call that blocked")]
    thread: Annotated[ThreadRole, doc("the host thread")]
    verdict: Annotated[WaitVerdict, doc("whether the code asked for it, and whether it costs anything")]


class WaitChangeJson(Document):
    """A wait before and after."""

    change: StatusField
    cause: WaitCause
    op: Annotated[str | None, doc("the op around it")]
    before: Annotated[Sequence[WaitSiteJson], doc("its places before")]
    after: Annotated[Sequence[WaitSiteJson], doc("its places after")]
    per_step: Annotated[FigureChange, doc("how many")]
    stall_ms: Annotated[FigureChange, doc("time in them per step")]
    bubble_ms: Annotated[FigureChange, doc("GPU idle time after them per step")]


class CopyChangeJson(Document):
    """The copies of one direction and host memory, before and after."""

    change: StatusField
    direction: CopyDirection
    host_memory: CopyMemory
    count: FigurePerStep
    bytes: FigurePerStep
    time_ms: FigurePerStep
    exposed_ms: FigurePerStep
    bandwidth_gbps: FigurePerStep


class FoundSiteJson(PlacedJson):
    """A place of a finding."""

    saving_ms: SavedMs


class Found(PlacedJson):
    """A finding in one of the traces."""

    severity: Annotated[Severity, doc("how grave it is")]
    evidence: Annotated[Words, doc("what was seen")]
    saving_ms: SavedMs
    range_ms: Annotated[RangeMs | None, doc("where that lies")]
    sites: Annotated[Sequence[FoundSiteJson], doc("its places")]


class FindingChangeJson(Document):
    """A finding before and after."""

    change: StatusField
    rule: RuleId
    title: RuleTitle
    before: Annotated[Sequence[Found], doc("as found before")]
    after: Annotated[Sequence[Found], doc("as found after")]
    saving_ms: Annotated[FigureChange, doc("what its fix saves per step")]


class Compare(Document, kw_only=True, tag_field="schema", tag="pinprof.compare/1"):
    """What `pinprof compare --json` writes; differences are after less before."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[SideJson, doc("the trace before")]
    after: Annotated[SideJson, doc("the trace after")]
    verdict: VerdictOnStep
    sentence: VerdictSentence
    same_program: SameProgram
    kernels_alike: Annotated[Share | None, doc("kernels per step that both have, by name")]
    figures: Annotated[Sequence[StepFigure], doc("the step first, then its parts")]
    waits: Annotated[Sequence[WaitChangeJson], doc("waits, matched before and after")]
    waits_reason: WhyNot
    copies: Annotated[Sequence[CopyChangeJson], doc("copies by direction and host memory")]
    copies_reason: WhyNot
    repinned: Annotated[Sequence[changes.Repinned], doc("copies whose host memory is of another kind after")]
    findings: Annotated[Sequence[FindingChangeJson], doc("findings, matched before and after")]
    findings_reason: WhyNot


def comparison_to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON text; differences are after less before."""
    return encoded(compared(comparison))


def compared(comparison: Comparison) -> Compare:
    """Return the comparison as a document."""
    return filled(
        Compare,
        comparison,
        pinprof_version=VERSION,
        before=_side(comparison.before),
        after=_side(comparison.after),
        sentence=verdict(comparison),
        same_program=comparison.is_same_program,
        figures=[filled(StepFigure, _figure(figure), figure) for figure in comparison.figures],
        waits=[_wait_change(change) for change in comparison.waits],
        waits_reason=comparison.reasons.get("waits"),
        copies=[_copy_change(change) for change in comparison.copies],
        copies_reason=comparison.reasons.get("copies"),
        findings=[_finding_change(change) for change in comparison.findings],
        findings_reason=comparison.reasons.get("findings"),
    )


def _side(profile: Profile) -> SideJson:
    return filled(
        SideJson,
        profile.info,
        path=profile.path,
        steps=profile.steps.count,
        step_source=profile.estimate.source,
        bound=profile.bound,
    )


def _figure(figure: ComparedFigure) -> FigureChange:
    """Return two values of a figure, in the unit of its name."""
    unit = figure.unit
    return FigureChange(
        before=_number(unit, figure.before.value),
        after=_number(unit, figure.after.value),
        difference=_number(unit, figure.difference),
        fraction=figure.fraction,
        noise=_number(unit, figure.noise),
        within_noise=figure.is_within_noise,
        outcome=figure.outcome,
        range_before=_range(unit, figure.before),
        range_after=_range(unit, figure.after),
        reason=figure.reason or None,
    )


def _figures(figures: Iterable[ComparedFigure]) -> dict[str, FigureChange]:
    """Return figures by their names."""
    return {figure.name: _figure(figure) for figure in figures}


def _number(unit: str, value: float | None) -> float | None:
    return value if value is None or unit != "ns" else ms(value)


def _range(unit: str, value: Value) -> list[float] | None:
    return range_ms(value.spread) if unit == "ns" else value.spread and list(value.spread)


def _wait_change(change: changes.WaitChange) -> WaitChangeJson:
    return filled(WaitChangeJson, change.members[0], change, change=change.status, **_figures(change.figures))


def _copy_change(change: changes.CopyChange) -> CopyChangeJson:
    memory = None if change.host_memory == "none" else change.host_memory
    return filled(CopyChangeJson, change, change=change.status, host_memory=memory, **_figures(change.figures))


def _finding_change(change: changes.FindingChange) -> FindingChangeJson:
    finding = change.members[0]
    return FindingChangeJson(
        change=change.status,
        rule=finding.rule.id,
        title=finding.title,
        before=[_found(finding) for finding in change.before],
        after=[_found(finding) for finding in change.after],
        saving_ms=_figure(change.saving),
    )


def _found(finding: Finding) -> Found:
    return filled(
        Found,
        finding.evidence,
        finding.saving,
        severity=finding.severity,
        evidence=finding.evidence.text,
        sites=[filled(FoundSiteJson, site.evidence, site.saving) for site in finding.sites],
    )
