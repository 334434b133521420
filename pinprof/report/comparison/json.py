"""`pinprof compare --json`: with the names of the report, in milliseconds, bytes and GB/s."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pinprof import rules
from pinprof.analyses.syncs import Site
from pinprof.comparison import ComparedFigure, Comparison, Value, changes
from pinprof.documents.fields import (
    Bound,
    Bytes,
    Count,
    Device,
    Direction,
    Document,
    File,
    Function,
    Library,
    Line,
    Memory,
    Ms,
    Placed,
    Range,
    RangeMs,
    Severity,
    Share,
    Source,
    Thread,
    WaitCause,
    WaitVerdict,
    Words,
    doc,
    encoded,
    filled,
    library,
    one_of,
    place_fields,
    range_ms,
)
from pinprof.measurement.profile import Profile
from pinprof.report.comparison.words import verdict
from pinprof.units import ms
from pinprof.version import VERSION

STATUSES = (changes.GONE, changes.NEW, changes.MOVED, changes.CHANGED, changes.SAME)
Status: TypeAlias = Annotated[str, one_of(STATUSES), doc("how it changed")]
VerdictOnStep: TypeAlias = Annotated[
    str, one_of(("faster", "slower", "same", "unsure", "unknown")), doc("how the step changed")
]
WhyNot: TypeAlias = Annotated[Words | None, doc("why they are not compared; null where they are")]
FigureBefore: TypeAlias = Annotated[float | None, doc("the figure before")]
FigureAfter: TypeAlias = Annotated[float | None, doc("the figure after")]
Difference: TypeAlias = Annotated[float | None, doc("after less before")]
Fraction: TypeAlias = Annotated[Share | None, doc("the difference of the figure before")]
Noise: TypeAlias = Annotated[float | None, doc("how much the figures may differ by chance")]
WithinNoise: TypeAlias = Annotated[bool | None, doc("whether the ranges have something in common")]
RangeBefore: TypeAlias = Annotated[Range | None, doc("where the figure before lies")]
RangeAfter: TypeAlias = Annotated[Range | None, doc("where the figure after lies")]
NotCompared: TypeAlias = Annotated[Words | None, doc("why it is not compared")]
SavedMs: TypeAlias = Annotated[Ms | None, doc("what the fix saves per step")]


class Figure(Document):
    """Two values of a figure; its name tells the unit."""

    before: FigureBefore
    after: FigureAfter
    difference: Difference
    fraction: Fraction
    noise: Noise
    within_noise: WithinNoise
    range_before: RangeBefore
    range_after: RangeAfter
    reason: NotCompared


FigurePerStep: TypeAlias = Annotated[Figure, doc("per step")]


class StepFigure(Document):
    """A figure of the step or of a GPU."""

    name: Annotated[str, doc("which figure; its end tells the unit")]
    device: Annotated[Count | None, doc("the GPU")]
    before: FigureBefore
    after: FigureAfter
    difference: Difference
    fraction: Fraction
    noise: Noise
    within_noise: WithinNoise
    range_before: RangeBefore
    range_after: RangeAfter
    reason: NotCompared


class Side(Document):
    """One of the two traces."""

    path: Annotated[str, doc("where it was read")]
    rank: Annotated[Count | None, doc("the rank")]
    torch_version: Annotated[str | None, doc("the torch that recorded it")]
    devices: Annotated[Sequence[Device], doc("the GPUs")]
    steps: Annotated[Count, doc("complete steps")]
    step_source: Annotated[Source, doc("how the step is known")]
    bound: Annotated[Bound | None, doc("what sets the pace")]


class WaitSite(Placed):
    """A place of a wait."""

    library: Annotated[Library | None, doc("where it waits in a library")]
    call: Annotated[str, doc("the CUDA call that blocked")]
    thread: Annotated[Thread, doc("the host thread")]
    verdict: Annotated[WaitVerdict, doc("whether the code asked for it, and whether it costs anything")]


class WaitChange(Document):
    """A wait before and after."""

    change: Status
    cause: WaitCause
    op: Annotated[str | None, doc("the op around it")]
    before: Annotated[Sequence[WaitSite], doc("its places before")]
    after: Annotated[Sequence[WaitSite], doc("its places after")]
    per_step: Annotated[Figure, doc("how many")]
    stall_ms: Annotated[Figure, doc("time in them per step")]
    bubble_ms: Annotated[Figure, doc("GPU idle time behind them per step")]


class CopyChange(Document):
    """The copies of one direction and host memory, before and after."""

    change: Annotated[str, one_of(STATUSES), doc("how they changed")]
    direction: Annotated[Direction, doc("from where to where")]
    host_memory: Annotated[Memory | None, doc("kind of the host's memory")]
    count: FigurePerStep
    bytes: FigurePerStep
    time_ms: FigurePerStep
    exposed_ms: FigurePerStep
    bandwidth_gbps: FigurePerStep


class Repinned(Document):
    """Copies whose host memory is of another kind after, per step."""

    direction: Annotated[Direction, doc("from where to where")]
    before: Annotated[Memory, doc("kind before")]
    after: Annotated[Memory, doc("kind after")]
    count: Annotated[float, doc("how many")]
    bytes: Annotated[Bytes | None, doc("how much")]


class FoundSite(Placed):
    """A place of a finding."""

    saving_ms: SavedMs


class Found(Document):
    """A finding in one of the traces."""

    severity: Annotated[Severity, doc("how grave it is")]
    file: File
    line: Line
    function: Function
    evidence: Annotated[Words, doc("what was seen")]
    saving_ms: SavedMs
    range_ms: Annotated[RangeMs | None, doc("where that lies")]
    sites: Annotated[Sequence[FoundSite], doc("its places")]


class FindingChange(Document):
    """A finding before and after."""

    change: Status
    rule: Annotated[str, doc("the rule, for `pinprof explain`")]
    title: Annotated[Words, doc("the rule in a few words")]
    before: Annotated[Sequence[Found], doc("as found before")]
    after: Annotated[Sequence[Found], doc("as found after")]
    saving_ms: Annotated[Figure, doc("what its fix saves per step")]


class Compare(Document, kw_only=True):
    """What `pinprof compare --json` writes; differences are after less before."""

    schema: Annotated[Literal["pinprof.compare/1"], doc("name and number of this schema")] = "pinprof.compare/1"
    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[Side, doc("the trace before")]
    after: Annotated[Side, doc("the trace after")]
    verdict: VerdictOnStep
    sentence: Annotated[Words, doc("the verdict in a sentence")]
    same_program: Annotated[bool | None, doc("whether the traces seem to be of one program")]
    kernels_alike: Annotated[Share | None, doc("kernels per step that both have, by name")]
    figures: Annotated[Sequence[StepFigure], doc("the step first, then its parts")]
    waits: Annotated[Sequence[WaitChange], doc("waits, each matched with itself")]
    waits_reason: WhyNot
    copies: Annotated[Sequence[CopyChange], doc("copies by direction and host memory")]
    copies_reason: WhyNot
    repinned: Annotated[Sequence[Repinned], doc("copies of another memory after")]
    findings: Annotated[Sequence[FindingChange], doc("findings, each matched with itself")]
    findings_reason: WhyNot


def to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON text; differences are after less before."""
    return encoded(compared(comparison))


def compared(comparison: Comparison) -> Compare:
    """Return the comparison for programs."""
    return Compare(
        before=_side(comparison.before),
        after=_side(comparison.after),
        verdict=comparison.verdict,
        sentence=verdict(comparison),
        same_program=comparison.is_same_program,
        kernels_alike=comparison.kernels_alike,
        figures=[
            filled(StepFigure, _figure(figure), name=figure.name, device=figure.device) for figure in comparison.figures
        ],
        waits=[_wait(change) for change in comparison.waits],
        waits_reason=comparison.waits_reason or None,
        copies=[_copies(change) for change in comparison.copies],
        copies_reason=comparison.copies_reason or None,
        repinned=[filled(Repinned, change) for change in comparison.repinned],
        findings=[_finding(change) for change in comparison.findings],
        findings_reason=comparison.findings_reason or None,
    )


def _side(profile: Profile) -> Side:
    return Side(
        path=profile.path,
        rank=profile.info.rank,
        torch_version=profile.info.torch_version,
        devices=[filled(Device, device) for device in profile.info.devices],
        steps=profile.steps.count,
        step_source=profile.estimate.source,
        bound=profile.bound,
    )


def _figure(figure: ComparedFigure) -> Figure:
    """Return two values of a figure, in the unit that its name tells."""
    unit = figure.unit
    return Figure(
        before=_number(unit, figure.before.value),
        after=_number(unit, figure.after.value),
        difference=_number(unit, figure.difference),
        fraction=figure.fraction,
        noise=_number(unit, figure.noise),
        within_noise=figure.is_within_noise,
        range_before=_range(unit, figure.before),
        range_after=_range(unit, figure.after),
        reason=figure.reason or None,
    )


def _number(unit: str, value: float | None) -> float | None:
    return value if value is None or unit != "ns" else ms(value)


def _range(unit: str, value: Value) -> list[float] | None:
    return range_ms(value.spread) if unit == "ns" else value.spread and list(value.spread)


def _wait(change: changes.WaitChange) -> WaitChange:
    site = change.sites[0]
    return WaitChange(
        change=change.status,
        cause=site.cause,
        op=site.op,
        before=[_site(site) for site in change.before],
        after=[_site(site) for site in change.after],
        per_step=_figure(change.count),
        stall_ms=_figure(change.stall),
        bubble_ms=_figure(change.bubble),
    )


def _site(site: Site) -> WaitSite:
    return filled(WaitSite, site, library=library(site.library))


def _copies(change: changes.CopyChange) -> CopyChange:
    return CopyChange(
        change=change.status,
        direction=change.direction,
        host_memory=None if change.host_memory == "none" else change.host_memory,
        count=_figure(change.count),
        bytes=_figure(change.bytes),
        time_ms=_figure(change.time),
        exposed_ms=_figure(change.exposed),
        bandwidth_gbps=_figure(change.rate),
    )


def _finding(change: changes.FindingChange) -> FindingChange:
    return FindingChange(
        change=change.status,
        rule=change.findings[0].rule.id,
        title=change.findings[0].title,
        before=[_found(finding) for finding in change.before],
        after=[_found(finding) for finding in change.after],
        saving_ms=_figure(change.saving),
    )


def _found(finding: rules.Finding) -> Found:
    evidence, saving = finding.evidence, finding.saving
    return Found(
        severity=finding.severity,
        **place_fields(evidence.place),
        evidence=evidence.text,
        saving_ms=_saved_ms(finding),
        range_ms=range_ms(saving.range_ns) if saving else None,
        sites=[FoundSite(*site.evidence.place, saving_ms=_saved_ms(site)) for site in finding.sites],
    )


def _saved_ms(found: rules.Finding | rules.FoundSite) -> float | None:
    return ms(found.saving.saving_ns) if found.saving else None
