"""Which change is for which finding, and the reason where none is certain."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pinprof.fix.core.clocks import check_clocks
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import ALLOWED, Fix, LineFix, Outcome, at_lines, by_hand
from pinprof.fix.core.patch import joint_saving
from pinprof.fix.core.rewrite import Mend, Refusal, RefusedPlace, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.fixes import fixes_of
from pinprof.rules.rule import Finding
from pinprof.rules.search import GUARDING


def planned(findings: Iterable[Finding], work: Work) -> tuple[list[Mend], list[RefusedPlace]]:
    """Return the changes for findings in their order, and what is not changed."""
    mends: list[Mend] = []
    refused: list[RefusedPlace] = []
    others: list[Finding] = []
    for finding in findings:
        if work.chosen.rules and finding.rule.id not in work.chosen.rules:
            others.append(finding)
            continue
        for outcome in _outcomes(finding, work):
            taken = _taken(outcome, work) if isinstance(outcome, Mend) else outcome
            if isinstance(taken, Mend):
                mends.append(taken)
                continue
            mends = _also_doing(mends, outcome, work)
            if work.chosen.has(taken.place):
                refused.append(taken)
    for finding in others:
        for outcome in _outcomes(finding, work):
            mends = _also_doing(mends, outcome, work)
    return mends, refused


def proposed(
    findings: Iterable[Finding], refused: Iterable[RefusedPlace], work: Work
) -> tuple[list[Mend], list[RefusedPlace]]:
    """Return changes for refused places that match the form of a fix and are not certain, and what stays refused.

    None of them is in the same place as a certain change or as another proposal.
    """
    proposals: list[Mend] = []
    asking = replace(work, doubts=[])
    for finding in findings:
        if finding.evidence.keep or (work.chosen.rules and finding.rule.id not in work.chosen.rules):
            continue
        for one in finding.by_site:
            proposals += _first_proposal(one, proposals, asking)
    places = {(mend.rule.id, place.file, place.line) for mend in proposals for place in mend.places}
    left = [one for one in refused if (one.rule.id, one.place.file, one.place.line) not in places]
    return proposals, left


def _first_proposal(finding: Finding, earlier: Sequence[Mend], work: Work) -> list[Mend]:
    """Return the changes of the first fix that proposes one for a finding at one site."""
    for fix in fixes_of(finding.rule.id):
        proposals: list[Mend] = []
        work.doubts = []
        for outcome in fix.mend(finding, work):
            if isinstance(outcome, Mend) and _is_proposal(outcome, [*earlier, *proposals], work):
                proposals.append(replace(outcome, doubts=tuple(dict.fromkeys(work.doubts))))
            work.doubts = []
        if proposals:
            return proposals
    return []


def _is_proposal(mend: Mend, earlier: Sequence[Mend], work: Work) -> bool:
    """Return whether a change is only a matter of doubts, and is not a part of others or in their way."""
    if mend.numbers == "different" or not any(work.chosen.has(place) for place in mend.places):
        return False
    with work.condition():
        check_clocks(mend.waits, work)
    keys = {rewrite.key for other in earlier for rewrite in other.rewrites}
    new = [rewrite for rewrite in _new(mend, work) if rewrite.key not in keys]
    others = [*work.made, *(rewrite for other in earlier for rewrite in other.rewrites)]
    is_free = not any(_overlap(work.files.taken(one.file), one, other) for one in new for other in others)
    return bool(work.doubts and new) and is_free


def _taken(mend: Mend, work: Work) -> Outcome:
    """Return a change without what an earlier one does, or why it is not made."""
    if not any(work.chosen.has(place) for place in mend.places):
        return RefusedPlace(mend.rule, mend.places[0], "it was not asked for")
    if mend.numbers == "different" and not work.chosen.changes_numbers:
        return RefusedPlace(mend.rule, mend.places[0], f"{mend.what}: {ALLOWED}")
    new = _new(mend, work)
    if not new:
        rule = work.done[mend.rewrites[0].key]
        return RefusedPlace(mend.rule, mend.places[0], f"the change for {rule} does it")
    for rewrite in new:
        other = next((other for other in work.made if _overlap(work.files.taken(rewrite.file), rewrite, other)), None)
        if other is not None:
            rule = work.done[other.key]
            return RefusedPlace(mend.rule, mend.places[0], f"the change for {rule} is in the same place")
    try:
        check_clocks(mend.waits, work)
    except Refusal as reason:
        return RefusedPlace(mend.rule, mend.places[0], str(reason))
    work.waits += mend.waits
    for rewrite in new:
        work.done[rewrite.key] = mend.rule.id
    work.made += new
    known = mend.saving is not None or mend.edits is None
    saving = mend.saving if known else joint_saving([mend], work.facts.analysis)
    return replace(mend, rewrites=tuple(new), saving=saving)


def _new(mend: Mend, work: Work) -> list[Rewrite]:
    """Return what of a change no earlier one does."""
    return [rewrite for rewrite in mend.rewrites if rewrite.key not in work.done]


def _also_doing(mends: list[Mend], outcome: Outcome, work: Work) -> list[Mend]:
    """Return the changes with what an outcome asks for, if it is a change that they make already."""
    if not isinstance(outcome, Mend) or _new(outcome, work):
        return mends
    return [_doing(mend, outcome, work) for mend in mends]


def _doing(mend: Mend, other: Mend, work: Work) -> Mend:
    """Return a change with what it does to the trace, and saves there, if it does all of another one, too."""
    done = {rewrite.key for rewrite in mend.rewrites}
    does = all(rewrite.key in done for rewrite in other.rewrites)
    if not (does and mend.edits and other.edits):
        return mend
    both = replace(mend, edits=mend.edits | other.edits)
    return replace(both, saving=joint_saving([both], work.facts.analysis)) if mend.saving else both


def _overlap(source: SourceFile, one: Rewrite, other: Rewrite) -> bool:
    """Return whether two rewrites of different changes meet, and one of them looks at nothing within its node."""
    if one.file != other.file:
        return False
    if one.node is other.node:
        return one.whole or other.whole
    inside = other.whole and source.is_within(one.node, other.node)
    return inside or (one.whole and source.is_within(other.node, one.node))


def _guarding(finding: Finding, _work: Work) -> Iterator[RefusedPlace]:
    for site in finding.sites:
        yield RefusedPlace(finding.rule, site.evidence.place, GUARDS)


GUARDS = (
    "a copy of pinned memory is in flight when this wait begins: without it the host would use the memory too early; "
    f"pinprof explain {GUARDING} says what to do"
)


def _mended(fix: Fix, finding: Finding, work: Work) -> Iterator[Outcome]:
    """Yield what a fix makes of a finding; if it meets what it cannot read, that is the last."""
    try:
        yield from fix.mend(finding, work)
    except Refusal as reason:
        yield from (RefusedPlace(finding.rule, site.evidence.place, str(reason)) for site in finding.sites)


def _outcomes(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Yield what becomes of a finding: nothing is changed where one of its waits guards a copy in flight."""
    fixes = fixes_of(finding.rule.id)
    lines = [fix for fix in fixes if isinstance(fix, LineFix)]
    if finding.evidence.keep or finding.rule.mended == "kept":
        yield from _guarding(finding, work)
    elif lines:
        yield from at_lines(lines, finding, work)
    elif fixes:
        yield from (outcome for fix in fixes for outcome in _mended(fix, finding, work))
    else:
        yield from (RefusedPlace(finding.rule, site.evidence.place, by_hand(finding.rule.id)) for site in finding.sites)
