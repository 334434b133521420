"""`pinprof fix --json`: the changes of a program, as diffs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pinprof.document import Document, Ms, Words, doc, encoded, filled, maybe_ms
from pinprof.documents.fields import File, Line, PlacedJson, Saved, saving_fields
from pinprof.fix import Patches, ProgramChange
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Numbers
from pinprof.version import VERSION


class FixPlace(Document):
    """A changed line."""

    file: File
    line: Line


class FixChange(Saved):
    """A change without its diff."""

    rule: Annotated[str, doc("the rule whose finding it mends")]
    title: Annotated[Words, doc("the title of the rule")]
    what: Annotated[Words, doc("what it changes")]
    numbers: Annotated[Numbers, doc("whether the program computes the same numbers afterwards")]
    safe_if: Annotated[Words, doc("on what condition it is right")]
    files: Annotated[Sequence[str], doc("the files that it changes")]
    places: Annotated[Sequence[FixPlace], doc("where it changes them, the place of the finding first")]
    complete: Annotated[bool, doc("whether it mends all places of the finding")]


class FixPatch(FixChange):
    """A change."""

    diff: Annotated[str, doc("the change as a unified diff, which applies after those before it")]


class FixProposal(FixPatch):
    """A change that is not certain."""

    doubts: Annotated[Sequence[Words], doc("why it is not certain")]


class FixRefused(PlacedJson):
    """A place that stays as it is."""

    rule: Annotated[str, doc("the rule of the finding")]
    why: Annotated[Words, doc("why it is not changed")]


class FixJson(Saved, kw_only=True, tag_field="schema", tag="pinprof.fix/1"):
    """What `pinprof fix --json` writes; the saving is that of all changes together."""

    pinprof_version: Annotated[str, doc("the pinprof that wrote this")] = VERSION
    path: Annotated[str, doc("the trace")]
    by_pinprof: Annotated[bool, doc("whether pinprof recorded it, and with it the lines of waits and copies")]
    step_ms: Annotated[Ms | None, doc("the step without the profiler; null where it is not known")]
    root: Annotated[str, doc("the folder to which the paths in the diffs are relative")]
    patches: Annotated[Sequence[FixPatch], doc("the changes, in the order in which they apply")]
    proposals: Annotated[
        Sequence[FixProposal],
        doc("with --propose: changes that are not certain; each applies behind all patches, by itself"),
    ]
    refused: Annotated[Sequence[FixRefused], doc("what is not changed")]
    written: Annotated[Sequence[str], doc("the files that --write wrote")]
    backups: Annotated[Sequence[str], doc("the copies of them that --backup made")]


def fix_to_json(patches: Patches, profile: Profile, written: Iterable[Path] = (), backups: Iterable[Path] = ()) -> str:
    """Return the changes for a trace, what is not changed, and which files were written, as JSON text."""
    step_ns = profile.step_ns
    document = FixJson(
        path=profile.path,
        by_pinprof=profile.info.by_pinprof,
        step_ms=maybe_ms(step_ns or None),
        root=str(patches.root),
        patches=[
            filled(FixPatch, change_json(patch.change, step_ns), diff=patch.diff.decode(errors="replace"))
            for patch in patches.patches
        ],
        proposals=[
            filled(
                FixProposal,
                change_json(patch.change, step_ns),
                diff=patch.diff.decode(errors="replace"),
                doubts=list(patch.change.doubts),
            )
            for patch in patches.proposals
        ],
        refused=refused(patches),
        **saving_fields(patches.saving, step_ns),
        written=[str(path) for path in written],
        backups=[str(path) for path in backups],
    )
    return encoded(document)


def refused(patches: Patches) -> list[FixRefused]:
    """Return what is not changed."""
    return [filled(FixRefused, place, rule=place.rule.id) for place in patches.refused]


def change_json(change: ProgramChange, step_ns: float | None) -> FixChange:
    """Return a change without its diff."""
    lines = dict.fromkeys((place.file, place.line) for place in change.places)
    return filled(
        FixChange,
        change,
        rule=change.rule.id,
        title=change.rule.title,
        places=[FixPlace(file, line) for file, line in lines],
        **saving_fields(change.saving, step_ns),
        complete=not change.part,
    )
