"""`pinprof compare --json --brief`: the verdict and what changed, in a few kB, with ids of the evidence."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pinprof.comparison import Comparison
from pinprof.comparison.changes import differing
from pinprof.document import Count, Document, Words, doc, encoded_within, filled
from pinprof.documents.fields import PlacedJson, Pointer, WaitCause
from pinprof.report.comparison import json as whole
from pinprof.report.comparison.text import notes
from pinprof.report.words import cut
from pinprof.version import VERSION

MOST_BYTES = 6000
LONGEST = 240
ROOMS = (8, 4, 2, 1)
"""The most changes of a kind in a brief: the first number with which it fits into `MOST_BYTES`."""


class BriefStepFigure(whole.BriefFigure):
    """A figure of the step or of a GPU."""

    id: Pointer
    name: whole.NameOfFigure
    device: whole.DeviceOfFigure


class BriefWait(PlacedJson):
    """A wait before and after."""

    id: Pointer
    change: whole.StatusField
    cause: WaitCause
    stall_ms: Annotated[whole.BriefFigure, doc("time in it per step")]


class BriefCopies(Document):
    """Copies before and after."""

    id: Pointer
    change: whole.StatusField
    direction: whole.CopyDirection
    host_memory: whole.CopyMemory
    time_ms: Annotated[whole.BriefFigure, doc("per step")]


class BriefFindingChange(PlacedJson):
    """A finding before and after."""

    id: Pointer
    change: whole.StatusField
    rule: whole.RuleId
    title: whole.RuleTitle
    saving_ms: Annotated[whole.BriefFigure, doc("what its fix saves per step")]


class CompareBrief(Document, kw_only=True, tag_field="schema", tag="pinprof.compare-brief/1"):
    """What `pinprof compare --json --brief` writes: at most 6 kB, and only what changed beyond noise."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    before: Annotated[whole.BriefSide, doc("the trace before")]
    after: Annotated[whole.BriefSide, doc("the trace after")]
    verdict: whole.VerdictOnStep
    sentence: whole.VerdictSentence
    same_program: whole.SameProgram
    figures: Annotated[Sequence[BriefStepFigure], doc("the step, then its parts")]
    waits: Annotated[Sequence[BriefWait], doc("waits")]
    copies: Annotated[Sequence[BriefCopies], doc("copies by direction and host memory")]
    findings: Annotated[Sequence[BriefFindingChange], doc("findings")]
    more_changes: Annotated[Count, doc("changes that do not fit here")]
    cannot_tell: Annotated[Sequence[Words], doc("what is not compared, and what the traces lack")]


def comparison_to_brief_json(comparison: Comparison) -> str:
    """Return the brief as JSON text of at most `MOST_BYTES`; an id is a JSON Pointer into the whole comparison."""
    document = whole.compared(comparison)
    return encoded_within(MOST_BYTES, (_document(comparison, document, room) for room in ROOMS))


def _document(comparison: Comparison, document: whole.Compare, room: int) -> CompareBrief:
    of_step = [index for index, figure in enumerate(document.figures) if not index or figure.within_noise is False]
    waits, copies = differing(comparison.waits), differing(comparison.copies)
    findings = differing(comparison.findings)
    return filled(
        CompareBrief,
        document,
        before=filled(whole.BriefSide, document.before, path=cut(document.before.path, LONGEST)),
        after=filled(whole.BriefSide, document.after, path=cut(document.after.path, LONGEST)),
        sentence=cut(document.sentence, LONGEST),
        figures=[filled(BriefStepFigure, document.figures[index], id=f"/figures/{index}") for index in of_step[:room]],
        waits=[_brief_wait(index, document.waits[index]) for index in waits[:room]],
        copies=[filled(BriefCopies, document.copies[index], id=f"/copies/{index}") for index in copies[:room]],
        findings=[_brief_finding(index, document.findings[index]) for index in findings[:room]],
        more_changes=sum(max(len(indices) - room, 0) for indices in (of_step, waits, copies, findings)),
        cannot_tell=[cut(sentence, LONGEST) for sentence in _not_known(comparison)][:room],
    )


def _brief_wait(index: int, wait: whole.WaitChangeJson) -> BriefWait:
    return filled(BriefWait, wait, id=f"/waits/{index}", **_place_fields(wait))


def _brief_finding(index: int, finding: whole.FindingChangeJson) -> BriefFindingChange:
    title, at = cut(finding.title, LONGEST), _place_fields(finding)
    return filled(BriefFindingChange, finding, id=f"/findings/{index}", title=title, **at)


def _place_fields(change: whole.WaitChangeJson | whole.FindingChangeJson) -> dict[str, Any]:
    """Return the fields of `PlacedJson` for a change: its place after, or before if it is gone."""
    at: PlacedJson = (change.after or change.before)[0]
    return {
        "file": at.file and cut(at.file, LONGEST),
        "line": at.line,
        "function": at.function and cut(at.function, LONGEST),
    }


def _not_known(comparison: Comparison) -> Iterator[str]:
    """Yield what is not compared, and the notes on the traces."""
    yield from (f"{kind} are not compared: {reason}" for kind, reason in comparison.reasons.items())
    yield from notes(comparison)
