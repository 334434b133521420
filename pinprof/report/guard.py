"""What the guard found, for programs."""

import json
from typing import Any

from pinprof.races.violation import Violation
from pinprof.races.watching import Guard
from pinprof.trace.lines import SourceLine


def to_json(guard: Guard) -> str:
    """Return what a guard found as JSON text."""
    document = {
        "followed": guard.followed,
        "has_gpu": guard.has_gpu,
        "notes": list(guard.notes),
        "violations": [_fields(each) for each in guard.violations],
    }
    return json.dumps(document, indent=2) + "\n"


def _fields(found: Violation) -> dict[str, Any]:
    return {
        "rule": found.rule.id,
        "headline": found.headline,
        "certain": found.is_certain,
        "times": found.times,
        "copy": _place(found.copy, found.sources[0]),
        "access": _place(found.access, found.sources[1]),
    }


def _place(place: SourceLine, text: str) -> dict[str, Any]:
    return {"file": place.file, "line": place.line, "function": place.function, "text": text}
