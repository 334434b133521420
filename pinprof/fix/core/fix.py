"""The base classes of fixes, which turn a finding into changes or into the reasons why there are none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import ClassVar, TypeAlias, TypeVar

from pinprof.fix.core.clocks import check_clocks
from pinprof.fix.core.facts import Work
from pinprof.fix.core.files import RECORD_IT
from pinprof.fix.core.rewrite import NotThisForm, PlaceChange, ProgramChange, Refusal, RefusedPlace, Rewrite, Waits
from pinprof.fix.core.source import SourceFile
from pinprof.prediction import Edits
from pinprof.rules.rule import Finding, FoundSite, NumberEffect, Saving
from pinprof.trace.lines import Place, Placed

MadeT = TypeVar("MadeT", bound=Placed)
PlannedOutcome: TypeAlias = ProgramChange | RefusedPlace
Programs: TypeAlias = tuple[str, ...]

NOT_RECORDED = "the trace does not show where it was made; record the program again with this version of pinprof run"
UNRECORDED = (RECORD_IT, NOT_RECORDED)
"""Reasons that a new recording removes."""
ALLOWED = "it changes numbers; allow that with --changes-numbers"


class Fix:
    """A kind of change for the findings of some rules.

    Each module in `pinprof.fix.fixes` defines one subclass; nothing else has to name it. Comments in the programs of
    `INVALID` and `VALID` stand for the trace: `#? PIN201` marks the line of a finding, `#! loader` and `#! optimizer`
    the line that makes one, `#! loop` a loop over the DataLoader.
    """

    rules: ClassVar[tuple[str, ...]]
    """The rules whose findings it changes. For a finding, the fixes come first that have its rule first."""
    what: ClassVar[str]
    """What it does, in a few words; empty if its rewrites say so themselves."""
    safe_if: ClassVar[str]
    """What must hold that the source does not show."""
    guide: ClassVar[tuple[tuple[str, str], ...]]
    """Rows of the guide: what it changes, and what becomes of the program's numbers."""
    INVALID: ClassVar[Programs]
    """Programs that it changes: before and after, with the line `# becomes` between."""
    VALID: ClassVar[Programs]
    """Similar programs that stay as they are; the last line, `# stays: `, has a part of the reason."""

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the changes for a finding, and the places that stay as they are."""
        raise NotImplementedError


class LineFix(Fix):
    """A fix that changes each line by itself. A rule may have several, each for another form of code."""

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change for a line. Raises NotThisForm if it does not fit the line, NotSafe if it may be wrong."""
        raise NotImplementedError

    def otherwise(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield what can be changed for a finding if none of its lines can."""
        del finding, work
        yield from ()

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield one change for all lines of a finding, and the lines that stay as they are."""
        return at_lines([self], finding, work)


def by_hand(rule: str) -> str:
    """Return the reason for a finding that no fix changes."""
    return f"no change is mechanical and certain; pinprof explain {rule} says what to do"


def at_lines(fixes: Sequence[LineFix], finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
    """Yield one change of each fix for the lines of a finding that have its form, and the lines that stay."""
    changes: dict[LineFix, list[tuple[FoundSite, PlaceChange]]] = {}
    for site in finding.sites:
        place = site.evidence.place
        if not work.chosen.has(place):
            continue
        try:
            fix, change = _at_line(fixes, finding.rule.id, place, work)
        except Refusal as reason:
            yield RefusedPlace(finding.rule, place, str(reason))
            continue
        changes.setdefault(fix, []).append((site, change))
    for fix, changed in changes.items():
        rewrites = [rewrite for _, change in changed for rewrite in change.rewrites]
        numbers: NumberEffect = "rounding" if any(change.numbers == "rounding" for _, change in changed) else "equal"
        waits = [change.waits for _, change in changed]
        part = any(change.part for _, change in changed)
        what = fix.what or ", ".join(dict.fromkeys(rewrite.what for rewrite in rewrites))
        sites = [site for site, _ in changed]
        yield change_of(finding, what, rewrites, sites, numbers, fix.safe_if, waits=waits, part=part)
    if not changes:
        for fix in fixes:
            yield from fix.otherwise(finding, work)


def _at_line(fixes: Sequence[LineFix], rule: str, place: Place, work: Work) -> tuple[LineFix, PlaceChange]:
    """Return the change of the first fix that has one. Raises Refusal: a NotSafe before a NotThisForm."""
    source = work.files.at(place)
    refusals: list[Refusal] = []
    for fix in fixes:
        try:
            change = fix.change(source, place, work)
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        with work.condition():
            check_clocks([change.waits], work)
        return fix, change
    unsafe = next((refusal for refusal in refusals if not isinstance(refusal, NotThisForm)), None)
    raise unsafe or (refusals[0] if rule == fixes[0].rules[0] else NotThisForm(by_hand(rule)))


def change_of(
    finding: Finding,
    what: str,
    rewrites: Sequence[Rewrite],
    mended: Sequence[FoundSite],
    numbers: NumberEffect,
    safe_if: str,
    *,
    waits: Sequence[Waits],
    part: bool = False,
) -> ProgramChange:
    """Return the change for a finding at some of its places, with the saving that was predicted for all or for one."""
    saving, edits = (_saving(finding, mended), _edits(finding, mended)) if not part else (None, None)
    places = [*(site.evidence.place for site in mended), *(Place(rewrite.file, rewrite.line) for rewrite in rewrites)]
    with_line = tuple(place for place in dict.fromkeys(places) if place.line is not None)
    less = part or len(mended) < len(finding.sites)
    return ProgramChange(
        finding.rule, what, tuple(rewrites), numbers, safe_if, with_line, tuple(waits), saving, less, edits
    )


def _saving(finding: Finding, mended: Sequence[FoundSite]) -> Saving | None:
    """Return what mending these places of a finding saves; None if that was not replayed."""
    if len(mended) == len(finding.sites):
        return finding.saving
    return mended[0].saving if len(mended) == 1 else None


def _edits(finding: Finding, mended: Sequence[FoundSite]) -> Edits | None:
    """Return what mending these places of a finding does to the trace; None if unknown."""
    whole = len(mended) == len(finding.sites)
    edits = [finding.evidence.edits] if whole else [site.evidence.edits for site in mended]
    return reduce(or_, edits) if edits and all(edits) else None


def at_each(
    finding: Finding, made: Iterable[MadeT], change: Callable[[MadeT], list[Rewrite]]
) -> tuple[list[Rewrite], list[RefusedPlace]]:
    """Return the rewrites of the objects that the program makes, and which stay as they are, with the reason."""
    rewrites: list[Rewrite] = []
    refused: list[RefusedPlace] = []
    for constructed in made:
        try:
            rewrites += change(constructed)
        except Refusal as reason:  # noqa: PERF203  the others are changed all the same
            refused.append(RefusedPlace(finding.rule, constructed.place, str(reason)))
    return rewrites, refused
