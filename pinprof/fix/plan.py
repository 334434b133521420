"""Choose a change for each finding, or give the reason why none is certain."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pinprof.fix.core.clocks import check_clocks
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import ALLOWED, Fix, LineFix, PlannedOutcome, at_lines, by_hand
from pinprof.fix.core.patch import joint_saving
from pinprof.fix.core.rewrite import ProgramChange, Refusal, RefusedPlace, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.fixes import fixes_of
from pinprof.rules.rule import Finding
from pinprof.rules.search import GUARDING


def planned(findings: Iterable[Finding], work: Work) -> tuple[list[ProgramChange], list[RefusedPlace]]:
    """Return the changes for findings in their order, and what is not changed."""
    changes: list[ProgramChange] = []
    refused: list[RefusedPlace] = []
    others: list[Finding] = []
    for finding in findings:
        if work.chosen.rules and finding.rule.id not in work.chosen.rules:
            others.append(finding)
            continue
        for outcome in _outcomes(finding, work):
            accepted = _accept(outcome, work) if isinstance(outcome, ProgramChange) else outcome
            if isinstance(accepted, ProgramChange):
                changes.append(accepted)
                continue
            changes = _also_doing(changes, outcome, work)
            if work.chosen.has(accepted.place):
                refused.append(accepted)
    for finding in others:
        for outcome in _outcomes(finding, work):
            changes = _also_doing(changes, outcome, work)
    return changes, refused


def proposed(
    findings: Iterable[Finding], refused: Iterable[RefusedPlace], work: Work
) -> tuple[list[ProgramChange], list[RefusedPlace]]:
    """Return proposals for refused places, and the places that stay refused.

    A proposal matches the form of a fix but is not certain. No two proposals are in the same place, and none is where a
    certain change is.
    """
    proposals: list[ProgramChange] = []
    asking = replace(work, doubts=[])
    for finding in findings:
        if finding.evidence.keep or (work.chosen.rules and finding.rule.id not in work.chosen.rules):
            continue
        for entry in finding.by_site:
            proposals += _first_proposal(entry, proposals, asking)
    places = {(change.rule.id, place.file, place.line) for change in proposals for place in change.places}
    remaining = [entry for entry in refused if (entry.rule.id, entry.place.file, entry.place.line) not in places]
    return proposals, remaining


def _first_proposal(finding: Finding, earlier: Sequence[ProgramChange], work: Work) -> list[ProgramChange]:
    """Return the changes of the first fix that proposes one for a finding at one site."""
    for fix in fixes_of(finding.rule.id):
        proposals: list[ProgramChange] = []
        work.doubts = []
        for outcome in fix.changes(finding, work):
            if isinstance(outcome, ProgramChange) and _is_proposal(outcome, [*earlier, *proposals], work):
                proposals.append(replace(outcome, doubts=tuple(dict.fromkeys(work.doubts))))
            work.doubts = []
        if proposals:
            return proposals
    return []


def _is_proposal(change: ProgramChange, earlier: Sequence[ProgramChange], work: Work) -> bool:
    """Return whether only doubts keep a change from being certain, and it does not overlap other changes."""
    if change.numbers == "different" or not any(work.chosen.has(place) for place in change.places):
        return False
    with work.condition():
        check_clocks(change.waits, work)
    keys = {rewrite.key for other in earlier for rewrite in other.rewrites}
    new = [rewrite for rewrite in _new(change, work) if rewrite.key not in keys]
    others = [*work.made, *(rewrite for other in earlier for rewrite in other.rewrites)]
    is_free = not any(_overlap(work.files.named(one.file), one, other) for one in new for other in others)
    return bool(work.doubts and new) and is_free


def _accept(change: ProgramChange, work: Work) -> PlannedOutcome:
    """Return a change without the rewrites of earlier ones, and note it in `work`; or return why it is not made."""
    if not any(work.chosen.has(place) for place in change.places):
        return RefusedPlace(change.rule, change.places[0], "it was not asked for")
    if change.numbers == "different" and not work.chosen.changes_numbers:
        return RefusedPlace(change.rule, change.places[0], f"{change.what}: {ALLOWED}")
    new = _new(change, work)
    if not new:
        rule = work.done[change.rewrites[0].key]
        return RefusedPlace(change.rule, change.places[0], f"the change for {rule} does it")
    for rewrite in new:
        other = next((other for other in work.made if _overlap(work.files.named(rewrite.file), rewrite, other)), None)
        if other is not None:
            rule = work.done[other.key]
            return RefusedPlace(change.rule, change.places[0], f"the change for {rule} is in the same place")
    try:
        check_clocks(change.waits, work)
    except Refusal as reason:
        return RefusedPlace(change.rule, change.places[0], str(reason))
    work.waits += change.waits
    for rewrite in new:
        work.done[rewrite.key] = change.rule.id
    work.made += new
    has_saving = change.saving is not None or change.edits is None
    saving = change.saving if has_saving else joint_saving([change], work.facts.analysis)
    return replace(change, rewrites=tuple(new), saving=saving)


def _new(change: ProgramChange, work: Work) -> list[Rewrite]:
    """Return the rewrites of a change that no earlier one does."""
    return [rewrite for rewrite in change.rewrites if rewrite.key not in work.done]


def _also_doing(changes: list[ProgramChange], outcome: PlannedOutcome, work: Work) -> list[ProgramChange]:
    """Add the edits and savings of an outcome to the change that makes it already, if one does."""
    if not isinstance(outcome, ProgramChange) or _new(outcome, work):
        return changes
    return [_joined(change, outcome, work) for change in changes]


def _joined(change: ProgramChange, other: ProgramChange, work: Work) -> ProgramChange:
    """Return a change with the edits and savings of another one, if it makes all its rewrites."""
    keys = {rewrite.key for rewrite in change.rewrites}
    includes_other = all(rewrite.key in keys for rewrite in other.rewrites)
    if not (includes_other and change.edits and other.edits):
        return change
    both = replace(change, edits=change.edits | other.edits)
    return replace(both, saving=joint_saving([both], work.facts.analysis)) if change.saving else both


def _overlap(source: SourceFile, one: Rewrite, other: Rewrite) -> bool:
    """Return whether two rewrites of different changes cannot both be made: one replaces the node of the other."""
    if one.file != other.file:
        return False
    if one.node is other.node:
        return one.whole or other.whole
    inside = other.whole and source.is_within(one.node, other.node)
    return inside or (one.whole and source.is_within(other.node, one.node))


def _refused_guards(finding: Finding, _work: Work) -> Iterator[RefusedPlace]:
    for site in finding.sites:
        yield RefusedPlace(finding.rule, site.evidence.place, GUARDS)


GUARDS = (
    "a copy of pinned memory is in flight when this wait begins: without it the host would use the memory too early; "
    f"pinprof explain {GUARDING} says what to do"
)


def _outcomes_of(fix: Fix, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
    """Yield the outcomes of a fix for a finding; a Refusal ends them, as a refused place for each site."""
    try:
        yield from fix.changes(finding, work)
    except Refusal as reason:
        yield from (RefusedPlace(finding.rule, site.evidence.place, str(reason)) for site in finding.sites)


def _outcomes(finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
    """Yield the outcomes of a finding: nothing is changed where one of its waits guards a copy in flight."""
    fixes = fixes_of(finding.rule.id)
    lines = [fix for fix in fixes if isinstance(fix, LineFix)]
    if finding.evidence.keep or finding.rule.mended == "kept":
        yield from _refused_guards(finding, work)
    elif lines:
        yield from at_lines(lines, finding, work)
    elif fixes:
        yield from (outcome for fix in fixes for outcome in _outcomes_of(fix, finding, work))
    else:
        yield from (RefusedPlace(finding.rule, site.evidence.place, by_hand(finding.rule.id)) for site in finding.sites)
