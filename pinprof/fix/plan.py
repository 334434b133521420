"""Which change is for which finding, and the reason where none is certain."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import TypeAlias, TypeVar

from pinprof.fix.constants import made_once_or_there
from pinprof.fix.files import RECORD_IT, Files
from pinprof.fix.later import cheap_first, read_where_used
from pinprof.fix.loaders import check_pinnable, more_workers, with_options
from pinprof.fix.optimizers import fewer_launches, zero_grads
from pinprof.fix.precision import with_tf32
from pinprof.fix.rewrite import Mend, NotSure, Numbers, Refused, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.fix.statements import without_empty_cache, without_second_wait
from pinprof.fix.sums import kept_on_gpu
from pinprof.fix.told import Told
from pinprof.fix.transfers import copies_of, non_blocking
from pinprof.rules.rule import Finding, FoundSite, Rule, Saving
from pinprof.trace.lines import Place, Placed
from pinprof.trace.made import MadeLoader

MadeT = TypeVar("MadeT", bound=Placed)

Outcome: TypeAlias = Mend | Refused
OfFinding: TypeAlias = "Callable[[Finding, Work], Iterator[Outcome]]"
OfPlace: TypeAlias = "Callable[[SourceFile, Place, Work], tuple[list[Rewrite], bool]]"
"""Returns the rewrites for a place, and whether they do only a part of what the finding asks for."""

NOT_RECORDED = "the trace does not show where it was made; record the program with pinprof run"
ALLOWED = "it changes numbers; allow that with --changes-numbers"


@dataclass(frozen=True)
class Chosen:
    """What the user wants changed: everything that is certain, if nothing is said."""

    rules: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()
    """`FILE:LINE`; the end of a path is enough."""
    changes_numbers: bool = False

    def has(self, place: Place) -> bool:
        """Return whether a place is wanted."""
        return not self.places or any(_is_named(named, place) for named in self.places)


def _is_named(named: str, place: Place) -> bool:
    file, _, line = named.rpartition(":")
    if place.file is None or line != str(place.line):
        return False
    wanted, parts = PurePath(file).parts, PurePath(place.file).parts
    shorter = min(len(wanted), len(parts))
    return shorter > 0 and wanted[-shorter:] == parts[-shorter:]


@dataclass
class Work:
    """All that the changes of one trace need."""

    told: Told
    files: Files
    chosen: Chosen
    done: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The rule for which each rewrite is made: by file, node and what it does."""
    made: list[Rewrite] = field(default_factory=list)


def planned(findings: Iterable[Finding], work: Work) -> tuple[list[Mend], list[Refused]]:
    """Return the changes for findings in their order, and what is not changed."""
    mends: list[Mend] = []
    refused: list[Refused] = []
    for finding in findings:
        if work.chosen.rules and finding.rule.id not in work.chosen.rules:
            continue
        for outcome in OF_RULE.get(finding.rule.id, _by_hand)(finding, work):
            taken = _taken(outcome, work) if isinstance(outcome, Mend) else outcome
            if isinstance(taken, Mend):
                mends.append(taken)
            elif work.chosen.has(taken.place):
                refused.append(taken)
    return mends, refused


def _taken(mend: Mend, work: Work) -> Outcome:
    """Return a change without what an earlier one does, or why it is not made."""
    if not any(work.chosen.has(place) for place in mend.places):
        return Refused(mend.rule, mend.places[0], "it was not asked for")
    if mend.numbers == "different" and not work.chosen.changes_numbers:
        return Refused(mend.rule, mend.places[0], f"{mend.what}: {ALLOWED}")
    new = [each for each in mend.rewrites if (each.file, id(each.node), each.what) not in work.done]
    if not new:
        first = mend.rewrites[0]
        rule = work.done[first.file, id(first.node), first.what]
        return Refused(mend.rule, mend.places[0], f"the change for {rule} does it")
    for rewrite in new:
        other = next((each for each in work.made if _overlap(work.files.taken(rewrite.file), rewrite, each)), None)
        if other is not None:
            rule = work.done[other.file, id(other.node), other.what]
            return Refused(mend.rule, mend.places[0], f"the change for {rule} is in the same place")
    for rewrite in new:
        work.done[rewrite.file, id(rewrite.node), rewrite.what] = mend.rule.id
    work.made += new
    return Mend(**{**vars(mend), "rewrites": tuple(new)})


def _overlap(source: SourceFile, one: Rewrite, other: Rewrite) -> bool:
    """Return whether two rewrites of different changes meet, and one of them looks at nothing within its node."""
    if one.file != other.file:
        return False
    if one.node is other.node:
        return one.whole or other.whole
    inside = other.whole and source.is_within(one.node, other.node)
    return inside or (one.whole and source.is_within(other.node, one.node))


def _by_hand(finding: Finding, _work: Work) -> Iterator[Refused]:
    for site in finding.sites:
        yield _refused(finding.rule, site.evidence.place, "")


def _refused(rule: Rule, place: Place, why: str) -> Refused:
    by_hand = f"no change is mechanical and certain; pinprof explain {rule.id} says what to do"
    return Refused(rule, place, why or by_hand)


def _each_place(rewrite: OfPlace, what: str, numbers: Numbers, safe_if: str) -> OfFinding:
    """Return what mends each place of a finding by itself, in one change."""

    def mend(finding: Finding, work: Work) -> Iterator[Outcome]:
        rewrites: list[Rewrite] = []
        mended: list[FoundSite] = []
        part = False
        for site in finding.sites:
            place = site.evidence.place
            if not work.chosen.has(place):
                continue
            try:
                new, partly = rewrite(work.files.at(place), place, work)
            except NotSure as reason:
                yield Refused(finding.rule, place, str(reason))
                continue
            rewrites += new
            mended.append(site)
            part = part or partly
        if rewrites:
            yield _mend(finding, what, rewrites, mended, numbers, safe_if, part=part)

    return mend


def _mend(
    finding: Finding,
    what: str,
    rewrites: Sequence[Rewrite],
    mended: Sequence[FoundSite],
    numbers: Numbers,
    safe_if: str,
    *,
    part: bool = False,
) -> Mend:
    saving = _saving(finding, mended) if not part else None
    places = [*(site.evidence.place for site in mended), *(Place(each.file, each.line) for each in rewrites)]
    known = tuple(place for place in dict.fromkeys(places) if place.line is not None)
    return Mend(finding.rule, what, tuple(rewrites), numbers, safe_if, known, saving, part or saving is None)


def _saving(finding: Finding, mended: Sequence[FoundSite]) -> Saving | None:
    """Return what mending these of the places of a finding saves, where a replay tells."""
    if len(mended) == len(finding.sites):
        return finding.saving
    return mended[0].saving if len(mended) == 1 else None


def _numbers_read(source: SourceFile, place: Place, work: Work) -> tuple[list[Rewrite], bool]:
    """Return the rewrites for a number that the host reads: a sum, a variable, or a condition."""
    line = place.line or 0
    reasons: list[str] = []
    for keep in (kept_on_gpu, read_where_used, cheap_first):
        try:
            found = keep(source, line)
        except NotSure as reason:
            reasons.append(str(reason))
            continue
        rewrites, still = found if isinstance(found, tuple) else (found, False)
        return rewrites, still and work.told.waits_in_a_loop(place)
    raise NotSure(_most_telling(reasons))


OTHER_FORM = ("the number does not go", "the number goes neither", "a decision in each step")
"""How reasons begin that say that the line is not of the form which a change is for."""


def _most_telling(reasons: Sequence[str]) -> str:
    return next((reason for reason in reasons if not reason.startswith(OTHER_FORM)), reasons[1])


def _decisions(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    return cheap_first(source, place.line or 0), False


def _constants(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    return made_once_or_there(source, place.line or 0), False


def _synchronized(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    return without_second_wait(source, place.line or 0), True


def _allocations(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend memory that is given back in each step; where it grows for another reason, that is for people."""
    rewrites: list[Rewrite] = []
    reasons: list[str] = []
    for place in work.told.allocating:
        rewrites += _tried(partial(_emptied, place, work), reasons)
    if rewrites:
        yield _mend(finding, "without empty_cache()", rewrites, finding.sites, "equal", SAFE_CACHE)
    else:
        yield Refused(finding.rule, finding.evidence.place, next(iter(reasons), RECORD_IT))


def _emptied(place: Place, work: Work) -> list[Rewrite]:
    return without_empty_cache(work.files.at(place), place.line or 0)


def _zeroed(file: str, work: Work) -> list[Rewrite]:
    return zero_grads(work.files.taken(file))


def _copies(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend copies of batches: the DataLoader pins them, and the host does not wait for them."""
    rewrites: list[Rewrite] = []
    mended: list[FoundSite] = []
    for site in finding.sites:
        place = site.evidence.place
        if not work.chosen.has(place):
            continue
        try:
            copied = copies_of(work.files.at(place), place, work.told)
            loaders = {one.loader.place: one.loader for one in copied}.values()
            new = [each for loader in loaders for each in _pinned(loader, place, work)]
            new += [each for one in copied if (each := non_blocking(one))]
        except NotSure as reason:
            yield Refused(finding.rule, place, str(reason))
            continue
        if not new:
            yield Refused(finding.rule, place, "the source has pin_memory=True and non_blocking=True already")
            continue
        rewrites += new
        mended.append(site)
    if not mended and finding.rule.id == "PIN104":
        yield from _only_pinned(finding, work)
    elif rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        yield _mend(finding, what, rewrites, mended, "equal", SAFE_COPIES)


def _pinned(loader: MadeLoader, place: Place, work: Work) -> list[Rewrite]:
    """Return the rewrites that let a DataLoader pin; none if it does. Raises NotSure."""
    copies = work.told.copies_at(place)
    if loader.pin_memory:
        if copies is None or not copies.pinned:
            raise NotSure("the DataLoader pins, but the memory copied here is not pinned: PIN105 says why")
        if (loader.own_collate or loader.batch_size is None) and not loader.num_workers:
            raise NotSure("the batches are made by the program's own code, which may yield the same memory again")
        return []
    return _pinning(loader, work)


def _pinning(loader: MadeLoader, work: Work) -> list[Rewrite]:
    """Return the rewrites that make a DataLoader pin; none if it does. Raises NotSure."""
    if loader.pin_memory:
        return []
    check_pinnable(loader)
    return with_options(work.files, loader, {"pin_memory": "True"})


def _only_pinned(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend the DataLoaders of pageable batches alone, where their copies cannot be made non-blocking for certain."""
    rewrites, refused = _at_each(finding, work.told.drawn, lambda loader: _pinning(loader, work))
    yield from refused
    if rewrites:
        yield _mend(finding, "pin_memory=True", rewrites, (), "equal", SAFE_COPIES, part=True)


def _workers(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend DataLoaders that are too slow: more workers, which persist."""
    made = work.told.made
    if made is None or not made.drawn:
        yield Refused(finding.rule, finding.evidence.place, NOT_RECORDED)
        return
    rewrites, refused = _at_each(finding, made.drawn, lambda loader: _with_workers(loader, work))
    yield from refused
    if rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        yield _mend(finding, what, rewrites, finding.sites, "different", finding.rule.safe_if, part=True)


def _with_workers(loader: MadeLoader, work: Work) -> list[Rewrite]:
    cpus = work.told.made.cpus if work.told.made else None
    return with_options(work.files, loader, more_workers(loader, cpus, work.told.processes))


def _optimizers(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend optimizers that launch much; and gradients that are set to zero, where that is allowed."""
    made = work.told.made
    if made is None or not made.optimizers:
        yield Refused(finding.rule, finding.evidence.place, NOT_RECORDED)
        return
    rewrites, refused = _at_each(finding, made.optimizers, lambda each: fewer_launches(work.files, each, work.told))
    yield from refused
    if rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        yield _mend(finding, what, rewrites, finding.sites, "rounding", finding.rule.safe_if, part=bool(refused))
    files = dict.fromkeys(each.file for each in made.optimizers)
    zeroed = [each for file in files for each in _tried(partial(_zeroed, file, work), [])]
    if zeroed:
        yield _mend(
            finding, "gradients are set to None, not to zero", zeroed, (), "different", SAFE_GRADIENTS, part=True
        )


def _precision(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend products of float32: TF32, in the file that makes an optimizer or else a DataLoader."""
    made = work.told.made
    places = [each.place for each in made.optimizers if each.direct] if made else []
    places += [each.place for each in made.loaders if each.direct] if made else []
    if not places:
        yield Refused(finding.rule, finding.evidence.place, NOT_RECORDED)
        return
    try:
        rewrites = with_tf32(work.files.at(places[0]))
    except NotSure as reason:
        yield Refused(finding.rule, places[0], str(reason))
        return
    yield _mend(finding, "TF32", rewrites, finding.sites, "different", finding.rule.safe_if, part=True)


def _at_each(
    finding: Finding, made: Iterable[MadeT], change: Callable[[MadeT], list[Rewrite]]
) -> tuple[list[Rewrite], list[Refused]]:
    """Return the rewrites of what the program makes, and which of it stays as it is, with the reason."""
    rewrites: list[Rewrite] = []
    refused: list[Refused] = []
    for thing in made:
        reasons: list[str] = []
        rewrites += _tried(partial(change, thing), reasons)
        refused += [Refused(finding.rule, thing.place, reason) for reason in reasons]
    return rewrites, refused


def _tried(change: Callable[[], list[Rewrite]], reasons: list[str]) -> list[Rewrite]:
    """Return the rewrites of a change; none where it is not certain, and the reason goes to `reasons`."""
    try:
        return change()
    except NotSure as reason:
        reasons.append(str(reason))
        return []


SAFE_COPIES = (
    "The host has memory for the pinned batches, which cannot be swapped. No code outside of the source shown writes "
    "to a batch on the host while it is copied."
)
SAFE_SUM = (
    "Nothing else relies on the removed wait. The program reads the same Python number later; the GPU sums in "
    "float64, as Python does."
)
SAFE_CONSTANT = "No code outside of the source shown writes to the constant."
SAFE_CACHE = "No other process needs the GPU memory that torch keeps for the next step."
SAFE_GRADIENTS = (
    "Each parameter gets a gradient in each step: the optimizer then skips one without a gradient, instead of "
    "updating it with 0."
)

OF_RULE: dict[str, OfFinding] = {
    **dict.fromkeys(("PIN101", "PIN102", "PIN104", "PIN105"), _copies),
    "PIN201": _each_place(_numbers_read, "the number stays on the GPU until it is used", "equal", SAFE_SUM),
    "PIN202": _each_place(_decisions, "the cheap condition comes first", "equal", "Both conditions only look."),
    "PIN209": _each_place(_constants, "no step copies the constant", "equal", SAFE_CONSTANT),
    "PIN210": _each_place(_synchronized, "one of two waits in a row is left", "equal", "They wait for one device."),
    "PIN303": _allocations,
    "PIN401": _workers,
    "PIN402": _workers,
    "PIN602": _optimizers,
    "PIN701": _precision,
}
"""What mends the findings of each rule; the others are for people."""
