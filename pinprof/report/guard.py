"""What the guard found, for the program that started it."""

from pinprof.ab.tasks import GuardedRace, GuardedUse, GuardResult
from pinprof.document import encoded, filled
from pinprof.races.violation import Violation
from pinprof.races.watching import Guard
from pinprof.trace.lines import SourceLine


def to_json(guard: Guard) -> str:
    """Return what a guard found as JSON text."""
    races = [_race(violation) for violation in guard.violations]
    return encoded(filled(GuardResult, guard, notes=list(guard.notes), violations=races))


def _race(violation: Violation) -> GuardedRace:
    copy, access = map(_use, (violation.copy, violation.access), violation.sources)
    return filled(
        GuardedRace, violation, rule=violation.rule.id, certain=violation.is_certain, copy=copy, access=access
    )


def _use(place: SourceLine, text: str) -> GuardedUse:
    return filled(GuardedUse, place, text=text)
