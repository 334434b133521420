"""What becomes of a finding: a change at one or more of its places, or the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import or_
from typing import TypeAlias, TypeVar

from pinprof.fix.files import RECORD_IT
from pinprof.fix.rewrite import Change, Mend, Refusal, Refused, Rewrite, Waits
from pinprof.fix.source import SourceFile
from pinprof.fix.timed import before_clocks
from pinprof.fix.work import Work
from pinprof.rules.rule import Finding, FoundSite, Numbers, Saving
from pinprof.trace.lines import Place, Placed
from pinprof.whatif import Edits

MadeT = TypeVar("MadeT", bound=Placed)

Outcome: TypeAlias = Mend | Refused
OfFinding: TypeAlias = "Callable[[Finding, Work], Iterator[Outcome]]"
OfPlace: TypeAlias = "Callable[[SourceFile, Place, Work], Change]"

NOT_RECORDED = "the trace does not show where it was made; record the program anew with this version of pinprof run"
UNRECORDED = (RECORD_IT, NOT_RECORDED)
"""Reasons that another recording removes."""


def by_hand(rule: str) -> str:
    """Return why a finding of a rule is for people where nothing else is known."""
    return f"no change is mechanical and certain; pinprof explain {rule} says what to do"


def each_place(change: OfPlace, what: str, safe_if: str) -> OfFinding:
    """Return what mends each place of a finding by itself, in one change."""

    def mend(finding: Finding, work: Work) -> Iterator[Outcome]:
        changes: list[Change] = []
        mended: list[FoundSite] = []
        for site in finding.sites:
            place = site.evidence.place
            if not work.chosen.has(place):
                continue
            try:
                changes.append(before_clocks(change(work.files.at(place), place, work), work))
            except Refusal as reason:
                yield Refused(finding.rule, place, str(reason))
                continue
            mended.append(site)
        if changes:
            rewrites = [rewrite for each in changes for rewrite in each.rewrites]
            numbers: Numbers = "rounding" if any(each.numbers == "rounding" for each in changes) else "equal"
            waits = [each.waits for each in changes]
            part = any(each.part for each in changes)
            yield mend_of(finding, what, rewrites, mended, numbers, safe_if, waits=waits, part=part)

    return mend


def mend_of(
    finding: Finding,
    what: str,
    rewrites: Sequence[Rewrite],
    mended: Sequence[FoundSite],
    numbers: Numbers,
    safe_if: str,
    *,
    waits: Sequence[Waits],
    part: bool = False,
) -> Mend:
    """Return the change for a finding at some of its places, with what was predicted for all of them or for one."""
    saving, edits = (_saving(finding, mended), _edits(finding, mended)) if not part else (None, None)
    places = [*(site.evidence.place for site in mended), *(Place(each.file, each.line) for each in rewrites)]
    known = tuple(place for place in dict.fromkeys(places) if place.line is not None)
    less = part or len(mended) < len(finding.sites)
    return Mend(finding.rule, what, tuple(rewrites), numbers, safe_if, known, tuple(waits), saving, less, edits)


def _saving(finding: Finding, mended: Sequence[FoundSite]) -> Saving | None:
    """Return what mending these of the places of a finding saves, where a replay has been made of it."""
    if len(mended) == len(finding.sites):
        return finding.saving
    return mended[0].saving if len(mended) == 1 else None


def _edits(finding: Finding, mended: Sequence[FoundSite]) -> Edits | None:
    """Return what mending these of the places of a finding does to the trace; None where nobody can tell."""
    whole = len(mended) == len(finding.sites)
    each = [finding.evidence.edits] if whole else [site.evidence.edits for site in mended]
    return reduce(or_, each) if each and all(each) else None


def at_each(
    finding: Finding, made: Iterable[MadeT], change: Callable[[MadeT], list[Rewrite]]
) -> tuple[list[Rewrite], list[Refused]]:
    """Return the rewrites of what the program makes, and which of it stays as it is, with the reason."""
    rewrites: list[Rewrite] = []
    refused: list[Refused] = []
    for thing in made:
        reasons: list[str] = []
        rewrites += tried(partial(change, thing), reasons)
        refused += [Refused(finding.rule, thing.place, reason) for reason in reasons]
    return rewrites, refused


def tried(change: Callable[[], list[Rewrite]], reasons: list[str]) -> list[Rewrite]:
    """Return the rewrites of a change; none where it is not certain, and the reason goes to `reasons`."""
    try:
        return change()
    except Refusal as reason:
        reasons.append(str(reason))
        return []
