"""Changes of a program: as a text that `git apply` takes, whose lines with a # describe each diff, and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated

from pinprof.document import Document, Ms, Words, doc, encoded, filled, maybe_ms
from pinprof.documents.fields import FileField, LineField, PlacedJson, Saved, saving_fields
from pinprof.fix import Patches, ProgramChange, RefusedPlace
from pinprof.measurement.profile import Profile
from pinprof.report.words import NO_GPU_WORK, capitalized, effect_and_remedy
from pinprof.rules.rule import NumberEffect, Saving
from pinprof.units import counted, duration, percent
from pinprof.version import VERSION

NUMBERS = {
    "equal": "the program computes the same numbers",
    "rounding": "numbers differ by rounding",
    "different": "the program computes OTHER numbers",
}
WIDTH = 118
NOT_BY_PINPROF = (
    "The trace is not of pinprof run, which records the lines of waits and where DataLoaders and optimizers are made: "
    "record the program with it."
)


def fix_to_text(patches: Patches, profile: Profile) -> bytes:
    """Return the changes with their diffs, in the bytes of the files, and what is not changed."""
    parts = ["\n".join(_head(patches, profile)).encode() + b"\n"]
    parts += [
        ("\n" + "\n".join(lines_of_change(patch.change, profile.step_ns)) + "\n").encode() + patch.diff
        for patch in patches.patches
    ]
    return b"".join((*parts, *_proposed(patches, profile), not_changed(patches)))


def _proposed(patches: Patches, profile: Profile) -> Iterator[bytes]:
    """Yield the proposals with their diffs behind a #, so that a pipe into `git apply` does not apply them."""
    if patches.proposals:
        yield b"\n# Proposed, and not certain:\n"
    for patch in patches.proposals:
        yield ("#\n" + "\n".join(lines_of_change(patch.change, profile.step_ns)) + "\n").encode()
        yield commented(patch.diff)


def commented(diff: bytes) -> bytes:
    """Return a diff with a # before each line, so that no program applies it."""
    return b"".join(b"# | " + line + b"\n" for line in diff.removesuffix(b"\n").split(b"\n"))


def not_changed(patches: Patches) -> bytes:
    """Return what is not changed, with the reasons; empty if there is nothing."""
    if not patches.refused:
        return b""
    return ("\n# Not changed:\n" + "".join(_of_refusal(refused) for refused in patches.refused)).encode()


def _head(patches: Patches, profile: Profile) -> Iterator[str]:
    changes, kept = len(patches.patches), len({(refused.place, refused.rule.id) for refused in patches.refused})
    step = f" of a step of {duration(profile.step_ns)}" if profile.step_ns else ""
    offers = f"; {counted(len(patches.proposals), 'proposal')}" if patches.proposals else ""
    rest = f"; {counted(kept, 'place')} {'stays' if kept == 1 else 'stay'} as {'it is' if kept == 1 else 'they are'}"
    yield f"# pinprof fix: {counted(changes, 'change')}{step}{offers}{rest if kept else ''}"
    if changes > 1 and patches.saving:
        yield from folded(f"all together {_predicted(patches.saving, profile.step_ns)}")
    shared = profile.doubt("shared_gpu")
    if shared and changes:
        yield from folded(f"{shared.what}: {effect_and_remedy(shared)}.")
    cut = profile.doubt("truncated")
    if cut:
        yield from folded(f"{capitalized(cut.what)}: {effect_and_remedy(cut)}.")
    elif not profile.gpus:
        yield from folded(f"{capitalized(NO_GPU_WORK)}.")
    if not profile.info.by_pinprof:
        yield from folded(NOT_BY_PINPROF)


def lines_of_change(change: ProgramChange, step_ns: float | None) -> Iterator[str]:
    """Yield the description of a change, in lines with a #."""
    yield from folded(f"{change.rule.id} {change.rule.title}: {change.what}")
    where = ", ".join(dict.fromkeys(f"{place.file}:{place.line}" for place in change.places))
    yield from folded(f"at {where}", "  ")
    yield from folded(_saving_of(change, step_ns), "  ")
    yield f"#   {NUMBERS[change.numbers]}"
    yield from folded(f"safe if: {change.safe_if}", "  ")
    if change.doubts:
        yield from folded(f"not certain: {'; '.join(change.doubts)}", "  ")


def _saving_of(change: ProgramChange, step_ns: float | None) -> str:
    if change.saving is None:
        part = "this is a part of what the finding needs" if change.part else "it cannot be replayed"
        return f"predicted saving: not known, {part}"
    return _predicted(change.saving, step_ns)


def _predicted(saving: Saving, step_ns: float | None) -> str:
    low, high = (duration(max(bound, 0.0)) for bound in saving.range_ns)
    share = f", {percent(saving.saving_ns / step_ns)} of it" if step_ns else ""
    return f"predicted to save {duration(saving.saving_ns)} per step ({low} to {high}{share})"


def _of_refusal(refused: RefusedPlace) -> str:
    where = str(refused.place) or "place not known"
    return f"# {on_one_line(where)} {refused.rule.id}: {on_one_line(refused.why)}\n"


def folded(text: str, indent: str = "") -> Iterator[str]:
    """Yield a text as lines with a #."""
    yield from (f"# {indent}{line}" for line in wrap(on_one_line(text), WIDTH - len(indent)))


def on_one_line(text: str) -> str:
    """Return a text without line ends and control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


class FixPlace(Document):
    """A changed line."""

    file: FileField
    line: LineField


class FixChange(Saved):
    """A change without its diff."""

    rule: Annotated[str, doc("the rule whose finding it mends")]
    title: Annotated[Words, doc("the title of the rule")]
    what: Annotated[Words, doc("what it changes")]
    numbers: Annotated[NumberEffect, doc("whether the program computes the same numbers afterwards")]
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
