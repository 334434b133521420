"""`pinprof compare --json`, whole and `--brief`: fields named as in the report, in milliseconds, bytes and GB/s."""

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

from pinprof.comparison import ComparedFigure, Comparison, StepVerdict, Value, changes
from pinprof.comparison.figures import FigureOutcome
from pinprof.document import (
    Count,
    Document,
    Range,
    Share,
    Words,
    doc,
    encoded,
    encoded_as_brief,
    filled,
    projection,
    range_ms,
)
from pinprof.documents import fields
from pinprof.documents.findings import FindingJson, FindingSite
from pinprof.documents.waits import SiteJson
from pinprof.ground.units import ms
from pinprof.measurement.profile import Profile
from pinprof.report.comparison import view
from pinprof.report.comparison.text import notes
from pinprof.report.comparison.words import verdict
from pinprof.report.words import cut
from pinprof.rules.rule import Finding
from pinprof.version import VERSION

LONGEST_BRIEF_CHARS = 240
BRIEF_CHANGES = (12, 8, 4, 2)
"""The most figures and changes of a brief: the first number with which it fits into `MAX_BRIEF_BYTES`."""

WhyNot: TypeAlias = Annotated[Words | None, doc("why they are not compared; null where they are")]
VerdictOnStep: TypeAlias = Annotated[StepVerdict, doc("how the step changed")]
SameProgram: TypeAlias = Annotated[bool | None, doc("whether the traces seem to be of one program")]
StatusField: TypeAlias = Annotated[changes.ChangeStatus, doc("how it changed")]


class FigureChange(Document):
    """Two values of a figure; its name ends with the unit."""

    before: Annotated[float | None, doc("the figure before")]
    after: Annotated[float | None, doc("the figure after")]
    difference: Annotated[float | None, doc("after less before")]
    within_noise: Annotated[bool | None, doc("whether the difference may be chance: their ranges overlap")]
    outcome: Annotated[FigureOutcome | None, doc("whether that is better or worse; null within noise and below 2 %")]
    reason: Annotated[Words | None, doc("why it is not compared")]
    fraction: Annotated[Share | None, doc("the difference as a share of the figure before")]
    noise: Annotated[float | None, doc("how much the figures may differ by chance")]
    range_before: Annotated[Range | None, doc("where the figure before lies")]
    range_after: Annotated[Range | None, doc("where the figure after lies")]


FigurePerStep: TypeAlias = Annotated[FigureChange, doc("per step")]


class StepFigure(FigureChange):
    """A figure of the step or of a GPU."""

    name: Annotated[str, doc("which figure; its end is the unit")]
    device: Annotated[Count | None, doc("the GPU")]


class SideJson(Document):
    """One of the two traces."""

    path: Annotated[str, doc("where it was read")]
    steps: Annotated[Count, doc("complete steps")]
    step_source: Annotated[fields.Source, doc("how the step is known")]
    bound: Annotated[fields.Bound | None, doc("what sets the pace")]
    rank: Annotated[Count | None, doc("the rank")]
    torch_version: Annotated[str | None, doc("the torch that recorded it")]
    devices: Annotated[Sequence[fields.DeviceJson], doc("the GPUs")]


@projection(SiteJson, "file line function library call thread verdict")
class WaitSiteJson(fields.PlacedJson):
    """A place of a wait."""

    library: Annotated[fields.Library | None, doc("where it waits in a library")]


class WaitChangeJson(Document):
    """A wait before and after."""

    change: StatusField
    cause: fields.WaitCause
    op: Annotated[str | None, doc("the op around it")]
    before: Annotated[Sequence[WaitSiteJson], doc("its places before")]
    after: Annotated[Sequence[WaitSiteJson], doc("its places after")]
    per_step: Annotated[FigureChange, doc("how many")]
    stall_ms: Annotated[FigureChange, doc("time in them per step")]
    bubble_ms: Annotated[FigureChange, doc("GPU idle time after them per step")]


class CopyChangeJson(Document):
    """The copies of one direction and host memory, before and after."""

    change: StatusField
    direction: Annotated[fields.Direction, doc("from where to where")]
    host_memory: Annotated[fields.Memory | None, doc("kind of the host's memory")]
    count: FigurePerStep
    bytes: FigurePerStep
    time_ms: FigurePerStep
    exposed_ms: FigurePerStep
    bandwidth_gbps: FigurePerStep


@projection(FindingSite, "file line function saving_ms")
class FoundSiteJson(fields.PlacedJson):
    """A place of a finding."""


@projection(FindingJson, "file line function severity evidence saving_ms range_ms sites")
class Found(fields.PlacedJson):
    """A finding in one of the traces."""

    sites: Annotated[Sequence[FoundSiteJson], doc("its places")]


class FindingChangeJson(Document):
    """A finding before and after."""

    change: StatusField
    rule: Annotated[str, doc("the rule, for `pinprof explain`")]
    title: Annotated[Words, doc("the rule in a few words")]
    before: Annotated[Sequence[Found], doc("as found before")]
    after: Annotated[Sequence[Found], doc("as found after")]
    saving_ms: Annotated[FigureChange, doc("what its fix saves per step")]


class Compare(Document, kw_only=True, tag_field="schema", tag="pinprof.compare/1"):
    """What `pinprof compare --json` writes; differences are after less before."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[SideJson, doc("the trace before")]
    after: Annotated[SideJson, doc("the trace after")]
    verdict: VerdictOnStep
    sentence: Annotated[Words, doc("the verdict in a sentence")]
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


@projection(StepFigure, "before after difference within_noise outcome reason id name device")
class BriefStepFigure(Document):
    """A figure of the step or of a GPU."""

    id: fields.Pointer


@projection(SideJson, "path steps step_source bound")
class BriefSide(Document):
    """One of the two traces."""


class BriefChange(Document):
    """A wait, a kind of copies or a finding that changed."""

    id: fields.Pointer
    change: StatusField
    says: Annotated[Words, doc("what it is, before and after")]


class CompareBrief(Document, kw_only=True, tag_field="schema", tag="pinprof.compare-brief/1"):
    """What `pinprof compare --json --brief` writes: at most 6 kB, and only what changed beyond noise."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[BriefSide, doc("the trace before")]
    after: Annotated[BriefSide, doc("the trace after")]
    verdict: VerdictOnStep
    sentence: Annotated[Words, doc("the verdict in a sentence")]
    same_program: SameProgram
    figures: Annotated[Sequence[BriefStepFigure], doc("the step, then its parts")]
    changes: Annotated[Sequence[BriefChange], doc("waits, copies and findings")]
    more_changes: Annotated[Count, doc("changes that do not fit here")]
    cannot_tell: Annotated[Sequence[Words], doc("what is not compared, and what the traces lack")]


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
        waits=[
            filled(WaitChangeJson, change.members[0], change, change=change.status, **_figures(change.figures))
            for change in comparison.waits
        ],
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
    return {figure.name: _figure(figure) for figure in figures}


def _number(unit: str, value: float | None) -> float | None:
    return value if value is None or unit != "ns" else ms(value)


def _range(unit: str, value: Value) -> list[float] | None:
    return range_ms(value.spread) if unit == "ns" else value.spread and list(value.spread)


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


def comparison_to_brief_json(comparison: Comparison) -> str:
    """Return the brief as JSON text of at most `MAX_BRIEF_BYTES`; an id is a JSON Pointer into the whole comparison."""
    whole = compared(comparison)
    return encoded_as_brief(_brief(comparison, whole, most) for most in BRIEF_CHANGES)


def _brief(comparison: Comparison, whole: Compare, most: int) -> CompareBrief:
    figures = [(index, row) for index, row in enumerate(whole.figures) if not index or row.within_noise is False]
    kinds = {"findings": view.findings, "waits": view.waits, "copies": view.copies}
    changes = [
        BriefChange(id=f"/{kind}/{index}", change=row.status, says=_short(row.sentence))
        for kind, table_of in kinds.items()
        for index, row in enumerate(table_of(comparison).rows)
        if row.status != "same"
    ]
    not_compared = [f"{kind} are not compared: {reason}" for kind, reason in comparison.reasons.items()]
    return filled(
        CompareBrief,
        whole,
        before=filled(BriefSide, whole.before, path=_short(whole.before.path)),
        after=filled(BriefSide, whole.after, path=_short(whole.after.path)),
        sentence=_short(whole.sentence),
        figures=[filled(BriefStepFigure, row, id=f"/figures/{index}") for index, row in figures[:most]],
        changes=changes[:most],
        more_changes=sum(max(len(rows) - most, 0) for rows in (figures, changes)),
        cannot_tell=[_short(sentence) for sentence in (*not_compared, *notes(comparison))][:most],
    )


def _short(text: str) -> str:
    return cut(text, LONGEST_BRIEF_CHARS)
