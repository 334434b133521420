"""Which change is for which finding, and the reason where none is certain."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pinprof.fix.constants import SAFE_CONSTANT
from pinprof.fix.inputs import ALLOWED, copies, workers
from pinprof.fix.joint import joint_saving
from pinprof.fix.outcomes import OfFinding, Outcome, by_hand, each_place
from pinprof.fix.rewrite import Mend, Refusal, Refused, Rewrite
from pinprof.fix.settings import optimizers, precision
from pinprof.fix.source import SourceFile
from pinprof.fix.steps import allocations, constants, decisions, numbers_copied, numbers_read, synchronized
from pinprof.fix.timed import check_clocks
from pinprof.fix.work import Work
from pinprof.rules.rule import Finding
from pinprof.rules.wait_sites import GUARDING


def planned(findings: Iterable[Finding], work: Work) -> tuple[list[Mend], list[Refused]]:
    """Return the changes for findings in their order, and what is not changed."""
    mends: list[Mend] = []
    refused: list[Refused] = []
    others: list[Finding] = []
    for finding in findings:
        if work.chosen.rules and finding.rule.id not in work.chosen.rules:
            others.append(finding)
            continue
        for outcome in _of(finding)(finding, work):
            taken = _taken(outcome, work) if isinstance(outcome, Mend) else outcome
            if isinstance(taken, Mend):
                mends.append(taken)
                continue
            mends = _also_doing(mends, outcome, work)
            if work.chosen.has(taken.place):
                refused.append(taken)
    for finding in others:
        for outcome in _of(finding)(finding, work):
            mends = _also_doing(mends, outcome, work)
    return mends, refused


def _taken(mend: Mend, work: Work) -> Outcome:
    """Return a change without what an earlier one does, or why it is not made."""
    if not any(work.chosen.has(place) for place in mend.places):
        return Refused(mend.rule, mend.places[0], "it was not asked for")
    if mend.numbers == "different" and not work.chosen.changes_numbers:
        return Refused(mend.rule, mend.places[0], f"{mend.what}: {ALLOWED}")
    new = _new(mend, work)
    if not new:
        first = mend.rewrites[0]
        rule = work.done[first.file, id(first.node), first.what]
        return Refused(mend.rule, mend.places[0], f"the change for {rule} does it")
    for rewrite in new:
        other = next((each for each in work.made if _overlap(work.files.taken(rewrite.file), rewrite, each)), None)
        if other is not None:
            rule = work.done[other.file, id(other.node), other.what]
            return Refused(mend.rule, mend.places[0], f"the change for {rule} is in the same place")
    try:
        check_clocks(mend.waits, work)
    except Refusal as reason:
        return Refused(mend.rule, mend.places[0], str(reason))
    work.waits += mend.waits
    for rewrite in new:
        work.done[rewrite.file, id(rewrite.node), rewrite.what] = mend.rule.id
    work.made += new
    known = mend.saving is not None or mend.edits is None
    saving = mend.saving if known else joint_saving([mend], work.told.analysis)
    return replace(mend, rewrites=tuple(new), saving=saving)


def _new(mend: Mend, work: Work) -> list[Rewrite]:
    """Return what of a change no earlier one does."""
    return [each for each in mend.rewrites if (each.file, id(each.node), each.what) not in work.done]


def _also_doing(mends: list[Mend], outcome: Outcome, work: Work) -> list[Mend]:
    """Return the changes with what an outcome asks for, if it is a change that they make already."""
    if not isinstance(outcome, Mend) or _new(outcome, work):
        return mends
    return [_doing(mend, outcome, work) for mend in mends]


def _doing(mend: Mend, other: Mend, work: Work) -> Mend:
    """Return a change with what it does to the trace, and saves there, if it does all of another one, too."""
    done = {(each.file, id(each.node), each.what) for each in mend.rewrites}
    does = all((each.file, id(each.node), each.what) in done for each in other.rewrites)
    if not (does and mend.edits and other.edits):
        return mend
    both = replace(mend, edits=mend.edits | other.edits)
    return replace(both, saving=joint_saving([both], work.told.analysis)) if mend.saving else both


def _overlap(source: SourceFile, one: Rewrite, other: Rewrite) -> bool:
    """Return whether two rewrites of different changes meet, and one of them looks at nothing within its node."""
    if one.file != other.file:
        return False
    if one.node is other.node:
        return one.whole or other.whole
    inside = other.whole and source.is_within(one.node, other.node)
    return inside or (one.whole and source.is_within(other.node, one.node))


def _of(finding: Finding) -> OfFinding:
    """Return what mends a finding: nothing where one of its waits guards a copy in flight."""
    guards = finding.evidence.keep or finding.rule.mended == "kept"
    return _guarding if guards else OF_RULE.get(finding.rule.id, _by_hand)


def _by_hand(finding: Finding, _work: Work) -> Iterator[Refused]:
    for site in finding.sites:
        yield Refused(finding.rule, site.evidence.place, by_hand(finding.rule.id))


def _guarding(finding: Finding, _work: Work) -> Iterator[Refused]:
    for site in finding.sites:
        yield Refused(finding.rule, site.evidence.place, GUARDS)


SAFE_SUM = (
    "Nothing else relies on the removed wait. The program reads the same Python number later; the GPU sums in "
    "float64, as Python does. A list keeps 512 bytes of GPU memory per number until it is read."
)

SAFE_COPY = (
    "Nothing else relies on the removed wait. The GPU adds the same numbers in the same order, of the type that they "
    "have on the host (float64, if Python adds them), and the program reads the sum where it uses it."
)

GUARDS = (
    "a copy of pinned memory is in flight when this wait begins: without it the host would use the memory too early; "
    f"pinprof explain {GUARDING} says what to do"
)

OF_RULE: dict[str, OfFinding] = {
    **dict.fromkeys(("PIN101", "PIN102", "PIN104", "PIN105"), copies),
    "PIN201": each_place(numbers_read, "the number stays on the GPU until it is used", SAFE_SUM),
    "PIN202": each_place(decisions, "the cheap condition comes first", "Both conditions only look."),
    "PIN203": each_place(numbers_copied, "the number stays on the GPU until it is used", SAFE_COPY),
    "PIN209": each_place(constants, "no step copies the constant", SAFE_CONSTANT),
    "PIN210": each_place(synchronized, "one of two waits in a row is left", "They wait for one device."),
    "PIN303": allocations,
    "PIN401": workers,
    "PIN402": workers,
    "PIN602": optimizers,
    "PIN701": precision,
}
"""What mends the findings of each rule; the others are for people."""
