"""The course of the whole run as JSON: the regular step, what others add, and the ledger."""

from typing import Any

from pinprof.analyses.course import Course, Irregular
from pinprof.measurement.profile import Profile
from pinprof.units import ms
from pinprof.usual import CONFIDENCE


def course_of_run(profile: Profile) -> dict[str, Any]:
    """Return the keys of `steps` that tell of the whole run; null where pinprof did not record it."""
    return {
        "regular": _regular(profile.course),
        "irregular": [_irregular(row) for row in profile.unlike],
        "ledger": _ledger(profile.course),
    }


def _regular(course: Course | None) -> dict[str, Any] | None:
    """Return the regular step that was timed without the profiler; None where it was not."""
    timed = course.timed if course else None
    if timed is None:
        return None
    return {
        "count": timed.steps,
        "step_ms": ms(timed.step_ns),
        "range_ms": timed.range_ns and [ms(bound) for bound in timed.range_ns],
        "confidence": CONFIDENCE,
        "input_fraction": timed.input_fraction,
    }


def _irregular(row: Irregular) -> dict[str, Any]:
    return {
        "reason": row.reason,
        "count": row.count,
        "every": row.every,
        "ms": ms(row.ns),
        "per_step_ms": ms(row.per_step_ns),
        "sites": [place._asdict() for place in row.places],
    }


def _ledger(course: Course | None) -> list[dict[str, Any]] | None:
    """Return where the time of the whole run went; None where pinprof did not record it."""
    if course is None:
        return None
    return [
        {"what": entry.what, "ms": ms(entry.ns), "fraction": entry.ns / course.wall_ns, "steps": entry.steps}
        for entry in course.ledger
    ]
