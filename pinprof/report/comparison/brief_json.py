"""`pinprof compare --json --brief`: the verdict and what changed, in a few kB, with ids of the evidence."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeVar

from pinprof.comparison import Comparison
from pinprof.comparison.changes import SAME
from pinprof.documents.fields import (
    Bound,
    Count,
    Direction,
    Document,
    File,
    Function,
    Line,
    Memory,
    Placed,
    PlaceFields,
    Pointer,
    Source,
    WaitCause,
    Words,
    doc,
    encoded_briefly,
    filled,
)
from pinprof.report.comparison import json as whole
from pinprof.report.comparison.json import Difference, NotCompared, Status, VerdictOnStep, compared
from pinprof.report.comparison.text import notes
from pinprof.report.words import cut
from pinprof.version import VERSION

MOST_BYTES = 6000
LONGEST = 240
ROOMS = (8, 4, 2, 1)
"""How many changes of a kind a brief has: the first that fits is taken."""

Before = Annotated[float | None, doc("before")]
After = Annotated[float | None, doc("after")]
WithinNoise = Annotated[bool | None, doc("whether the difference may be chance")]


class BriefFigure(Document):
    """Two values of a figure."""

    before: Before
    after: After
    difference: Difference
    within_noise: WithinNoise
    reason: NotCompared


class BriefStepFigure(Document):
    """A figure of the step or of a GPU."""

    id: Pointer
    name: Annotated[str, doc("which")]
    device: Annotated[Count | None, doc("the GPU")]
    before: Before
    after: After
    difference: Difference
    within_noise: WithinNoise
    reason: NotCompared


class BriefWait(Document):
    """A wait before and after."""

    id: Pointer
    change: Status
    cause: WaitCause
    file: File
    line: Line
    function: Function
    stall_ms: Annotated[BriefFigure, doc("time in it per step")]


class BriefCopies(Document):
    """Copies before and after."""

    id: Pointer
    change: Status
    direction: Annotated[Direction, doc("from where to where")]
    host_memory: Annotated[Memory | None, doc("kind of the host's memory")]
    time_ms: Annotated[BriefFigure, doc("per step")]


class BriefFindingChange(Document):
    """A finding before and after."""

    id: Pointer
    change: Status
    rule: Annotated[str, doc("the rule, for `pinprof explain`")]
    title: Annotated[Words, doc("the rule in a few words")]
    file: File
    line: Line
    function: Function
    saving_ms: Annotated[BriefFigure, doc("what its fix saves per step")]


class BriefSide(Document):
    """One of the two traces."""

    path: Annotated[str, doc("where it was read")]
    step_source: Annotated[Source, doc("how the step is known")]
    steps: Annotated[Count, doc("complete steps")]
    bound: Annotated[Bound | None, doc("what sets the pace")]


class CompareBrief(Document, kw_only=True):
    """What `pinprof compare --json --brief` writes: at most 6 kB, and only what changed beyond noise."""

    schema: Annotated[Literal["pinprof.compare-brief/1"], doc("name and number of this schema")] = (
        "pinprof.compare-brief/1"
    )
    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[BriefSide, doc("the trace before")]
    after: Annotated[BriefSide, doc("the trace after")]
    verdict: VerdictOnStep
    sentence: Annotated[Words, doc("the verdict in a sentence")]
    same_program: Annotated[bool | None, doc("whether the traces seem to be of one program")]
    figures: Annotated[Sequence[BriefStepFigure], doc("the step, then its parts")]
    waits: Annotated[Sequence[BriefWait], doc("waits")]
    copies: Annotated[Sequence[BriefCopies], doc("copies by direction and host memory")]
    findings: Annotated[Sequence[BriefFindingChange], doc("findings")]
    more_changes: Annotated[Count, doc("changes that have no room here")]
    cannot_tell: Annotated[Sequence[Words], doc("what is not compared, and what the traces lack")]


def to_json(comparison: Comparison) -> str:
    """Return the brief as JSON text of at most `MOST_BYTES`; an id is a JSON Pointer into the whole comparison."""
    document = compared(comparison)
    untold = [cut(sentence, LONGEST) for sentence in _untold(document, comparison)]
    for room in ROOMS:
        text = encoded_briefly(_brief(document, untold, room))
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def _brief(document: whole.Compare, untold: Sequence[str], room: int) -> CompareBrief:
    waits, copies, findings = _changed(document.waits), _changed(document.copies), _changed(document.findings)
    figures = [
        (place, figure) for place, figure in enumerate(document.figures) if not place or figure.within_noise is False
    ]
    return CompareBrief(
        before=_side(document.before),
        after=_side(document.after),
        verdict=document.verdict,
        sentence=cut(document.sentence, LONGEST),
        same_program=document.same_program,
        figures=[filled(BriefStepFigure, figure, id=f"/figures/{place}") for place, figure in figures[:room]],
        waits=[
            filled(BriefWait, wait, id=f"/waits/{place}", **_place(wait), stall_ms=filled(BriefFigure, wait.stall_ms))
            for place, wait in waits[:room]
        ],
        copies=[
            filled(BriefCopies, group, id=f"/copies/{place}", time_ms=filled(BriefFigure, group.time_ms))
            for place, group in copies[:room]
        ],
        findings=[
            filled(
                BriefFindingChange,
                finding,
                id=f"/findings/{place}",
                title=cut(finding.title, LONGEST),
                **_place(finding),
                saving_ms=filled(BriefFigure, finding.saving_ms),
            )
            for place, finding in findings[:room]
        ],
        more_changes=sum(max(len(rows) - room, 0) for rows in (figures, waits, copies, findings)),
        cannot_tell=untold[:room],
    )


Change = TypeVar("Change", whole.WaitChange, whole.CopyChange, whole.FindingChange)


def _changed(rows: Sequence[Change]) -> list[tuple[int, Change]]:
    """Return the rows that changed, each with its place among all."""
    return [(place, row) for place, row in enumerate(rows) if row.change != SAME]


def _side(side: whole.Side) -> BriefSide:
    return filled(BriefSide, side, path=cut(side.path, LONGEST))


def _place(change: whole.WaitChange | whole.FindingChange) -> PlaceFields:
    """Return where a change is: after, or before if it is gone."""
    at: Placed | whole.Found = (change.after or change.before)[0]
    return PlaceFields(
        file=at.file and cut(at.file, LONGEST),
        line=at.line,
        function=at.function and cut(at.function, LONGEST),
    )


def _untold(document: whole.Compare, comparison: Comparison) -> Iterator[str]:
    """Yield what is not compared, and what to know of the traces."""
    reasons = (
        ("waits", document.waits_reason),
        ("copies", document.copies_reason),
        ("findings", document.findings_reason),
    )
    yield from (f"{kind} are not compared: {reason}" for kind, reason in reasons if reason)
    yield from notes(comparison)
