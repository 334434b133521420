"""Changes within a step: numbers that the host reads, decisions, constants, synchronizations, memory given back."""

from collections.abc import Iterator, Sequence
from functools import partial

from pinprof.fix.constants import made_once_or_there
from pinprof.fix.copied import kept_until_copied
from pinprof.fix.files import RECORD_IT
from pinprof.fix.later import cheap_first, read_where_used
from pinprof.fix.lists import kept_in_list
from pinprof.fix.outcomes import Outcome, by_hand, mend_of, tried
from pinprof.fix.reads import as_read, why_it_waits
from pinprof.fix.rewrite import Change, NotSafe, NotThisForm, Refusal, Refused, Rewrite, Waits
from pinprof.fix.source import SourceFile
from pinprof.fix.statements import without_empty_cache, without_second_wait
from pinprof.fix.sums import kept_on_gpu
from pinprof.fix.timed import before_clocks, waits_at
from pinprof.fix.work import Work
from pinprof.rules.rule import Finding
from pinprof.trace.lines import Place

SAFE_CACHE = "No other process needs the GPU memory that torch keeps for the next step."


def numbers_read(source: SourceFile, place: Place, work: Work) -> Change:
    """Return the change for a number that the host reads: in a sum, a list, a variable, or a condition."""
    line = place.line or 0
    reasons: list[Refusal] = []
    for keep in (kept_on_gpu, kept_in_list, read_where_used, cheap_first):
        try:
            change = keep(source, line)
        except Refusal as reason:
            reasons.append(reason)
            continue
        if keep is kept_on_gpu:
            _check_is_of_one_gpu(work)
        return change._replace(part=change.part and work.told.waits_in_a_loop(place))
    raise _most_telling(reasons) or NotThisForm(why_it_waits(source, line))


def numbers_copied(source: SourceFile, place: Place, work: Work) -> Change:
    """Return the change for a number that each step copies to the host: in a sum, or where it is read at once."""
    line = place.line or 0
    reasons: list[Refusal] = []
    try:
        change = kept_until_copied(source, line)
    except Refusal as reason:
        reasons.append(reason)
    else:
        _check_is_of_one_gpu(work)
        return change
    if any(as_read(call) for call in source.calls(line)):
        return numbers_read(source, place, work)
    raise _most_telling(reasons) or NotThisForm(by_hand("PIN203"))


def _check_is_of_one_gpu(work: Work) -> None:
    if work.told.gpus > 1:
        raise NotSafe("the process uses several GPUs, and a sum must stay on one")


def _most_telling(reasons: Sequence[Refusal]) -> Refusal | None:
    """Return why the change that is for the form of a line is not safe; None where no change is for it."""
    return next((reason for reason in reasons if not isinstance(reason, NotThisForm)), None)


def decisions(source: SourceFile, place: Place, _work: Work) -> Change:
    """Return the rewrite of a decision that each step makes, where a cheap condition can come first."""
    return cheap_first(source, place.line or 0)


def constants(source: SourceFile, place: Place, _work: Work) -> Change:
    """Return the rewrites for a constant that each step makes."""
    return Change(made_once_or_there(source, place.line or 0), waits_at(source, place))


def synchronized(source: SourceFile, place: Place, _work: Work) -> Change:
    """Return the rewrite for a synchronization; another one may still wait there."""
    return Change(without_second_wait(source, place.line or 0), Waits(source.file, ()), part=True)


def allocations(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend memory that is given back in each step; where it grows for another reason, that is for people."""
    rewrites: list[Rewrite] = []
    waits: list[Waits] = []
    reasons: list[str] = []
    for place in sorted(work.told.allocating, key=finding.evidence.place.__ne__):  # its reason first
        emptied = tried(partial(_emptied, place, work), reasons)
        waits += [waits_at(work.files.at(place), place)] if emptied else []
        rewrites += emptied
    if rewrites:
        yield mend_of(finding, "without empty_cache()", rewrites, finding.sites, "equal", SAFE_CACHE, waits=waits)
    else:
        yield Refused(finding.rule, finding.evidence.place, next(iter(reasons), RECORD_IT))


def _emptied(place: Place, work: Work) -> list[Rewrite]:
    source = work.files.at(place)
    change = Change(without_empty_cache(source, place.line or 0), waits_at(source, place))
    return before_clocks(change, work).rewrites
