"""What a fix is, and what becomes of a finding: a change at one or more of its places, or why there is none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import ClassVar, TypeAlias, TypeVar

from pinprof.fix.core.clocks import check_clocks
from pinprof.fix.core.facts import Work
from pinprof.fix.core.files import RECORD_IT
from pinprof.fix.core.rewrite import Mend, NotThisForm, PlaceChange, Refusal, RefusedPlace, Rewrite, Waits
from pinprof.fix.core.source import SourceFile
from pinprof.prediction import Edits
from pinprof.rules.rule import Finding, FoundSite, Numbers, Saving
from pinprof.trace.lines import Place, Placed

MadeT = TypeVar("MadeT", bound=Placed)
Outcome: TypeAlias = Mend | RefusedPlace
Programs: TypeAlias = tuple[str, ...]

NOT_RECORDED = "the trace does not show where it was made; record the program anew with this version of pinprof run"
UNRECORDED = (RECORD_IT, NOT_RECORDED)
"""Reasons that another recording removes."""
ALLOWED = "it changes numbers; allow that with --changes-numbers"


class Fix:
    """A change of programs for the findings of some rules.

    Each module in `pinprof.fix.fixes` defines one class of it; nothing else has to name it. A program in `INVALID` and
    `VALID` says in comments what a trace would: `#? PIN201` marks the line of a finding, `#! loader` and
    `#! optimizer` where one is made, `#! loop` a loop that draws from the DataLoader.
    """

    rules: ClassVar[tuple[str, ...]]
    """The rules for whose findings it is; those fixes come first whose first rule is the finding's."""
    what: ClassVar[str]
    """What it does, in a few words; empty where its rewrites say so themselves."""
    safe_if: ClassVar[str]
    """What has to hold that the source does not show."""
    guide: ClassVar[tuple[tuple[str, str], ...]]
    """What the guide says of it: what it changes, and what becomes of the program's numbers."""
    INVALID: ClassVar[Programs]
    """Programs that it changes, and `# becomes` what behind a line of this comment."""
    VALID: ClassVar[Programs]
    """Programs that look alike and stay as they are: their last line, `# stays: `, is a part of the reason."""

    def mend(self, finding: Finding, work: Work) -> Iterator[Outcome]:
        """Yield the changes for a finding, and the places that stay as they are."""
        raise NotImplementedError


class LineFix(Fix):
    """A fix of lines, each by itself. Several of them may be for one rule, each for another form."""

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change for a line. Raises NotThisForm where it is not for that, otherwise NotSafe."""
        raise NotImplementedError

    def otherwise(self, finding: Finding, work: Work) -> Iterator[Outcome]:
        """Yield what can be changed for a finding none of whose lines is."""
        del finding, work
        yield from ()

    def mend(self, finding: Finding, work: Work) -> Iterator[Outcome]:
        """Yield one change for all lines of a finding, and the lines that stay as they are."""
        return at_lines([self], finding, work)


def by_hand(rule: str) -> str:
    """Return why a finding of a rule is for people where nothing else is known."""
    return f"no change is mechanical and certain; pinprof explain {rule} says what to do"


def at_lines(fixes: Sequence[LineFix], finding: Finding, work: Work) -> Iterator[Outcome]:
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
    for fix, here in changes.items():
        rewrites = [rewrite for _, change in here for rewrite in change.rewrites]
        numbers: Numbers = "rounding" if any(change.numbers == "rounding" for _, change in here) else "equal"
        waits = [change.waits for _, change in here]
        part = any(change.part for _, change in here)
        what = fix.what or ", ".join(dict.fromkeys(rewrite.what for rewrite in rewrites))
        yield mend_of(finding, what, rewrites, [site for site, _ in here], numbers, fix.safe_if, waits=waits, part=part)
    if not changes:
        for fix in fixes:
            yield from fix.otherwise(finding, work)


def _at_line(fixes: Sequence[LineFix], rule: str, place: Place, work: Work) -> tuple[LineFix, PlaceChange]:
    """Return the change of the first fix that has one. Raises Refusal: first what is not safe."""
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
    places = [*(site.evidence.place for site in mended), *(Place(rewrite.file, rewrite.line) for rewrite in rewrites)]
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
    edits = [finding.evidence.edits] if whole else [site.evidence.edits for site in mended]
    return reduce(or_, edits) if edits and all(edits) else None


def at_each(
    finding: Finding, made: Iterable[MadeT], change: Callable[[MadeT], list[Rewrite]]
) -> tuple[list[Rewrite], list[RefusedPlace]]:
    """Return the rewrites of what the program makes, and which of it stays as it is, with the reason."""
    rewrites: list[Rewrite] = []
    refused: list[RefusedPlace] = []
    for thing in made:
        try:
            rewrites += change(thing)
        except Refusal as reason:  # noqa: PERF203  the others are changed for all that
            refused.append(RefusedPlace(finding.rule, thing.place, str(reason)))
    return rewrites, refused
