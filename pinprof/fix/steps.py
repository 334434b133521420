"""Changes within a step: numbers that the host reads, decisions, constants, synchronizations, memory given back."""

from collections.abc import Iterator, Sequence
from functools import partial

from pinprof.fix.constants import made_once_or_there
from pinprof.fix.files import RECORD_IT
from pinprof.fix.later import cheap_first, read_where_used
from pinprof.fix.outcomes import Outcome, mend_of, tried
from pinprof.fix.rewrite import NotSure, Refused, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.fix.statements import without_empty_cache, without_second_wait
from pinprof.fix.sums import kept_on_gpu
from pinprof.fix.work import Work
from pinprof.rules.rule import Finding
from pinprof.trace.lines import Place

SAFE_CACHE = "No other process needs the GPU memory that torch keeps for the next step."


def numbers_read(source: SourceFile, place: Place, work: Work) -> tuple[list[Rewrite], bool]:
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


def decisions(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    """Return the rewrite of a decision that each step makes, where a cheap condition can come first."""
    return cheap_first(source, place.line or 0), False


def constants(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    """Return the rewrites for a constant that each step makes."""
    return made_once_or_there(source, place.line or 0), False


def synchronized(source: SourceFile, place: Place, _work: Work) -> tuple[list[Rewrite], bool]:
    """Return the rewrite for a synchronization; another one may still wait there."""
    return without_second_wait(source, place.line or 0), True


def allocations(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend memory that is given back in each step; where it grows for another reason, that is for people."""
    rewrites: list[Rewrite] = []
    reasons: list[str] = []
    for place in work.told.allocating:
        rewrites += tried(partial(_emptied, place, work), reasons)
    if rewrites:
        yield mend_of(finding, "without empty_cache()", rewrites, finding.sites, "equal", SAFE_CACHE)
    else:
        yield Refused(finding.rule, finding.evidence.place, next(iter(reasons), RECORD_IT))


def _emptied(place: Place, work: Work) -> list[Rewrite]:
    return without_empty_cache(work.files.at(place), place.line or 0)
