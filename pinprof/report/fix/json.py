"""Changes for programs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pinprof.fix import Mend, Patches
from pinprof.measurement.profile import Profile
from pinprof.report.fields import maybe_ms
from pinprof.rules.rule import Saving
from pinprof.version import VERSION

SCHEMA = "pinprof.fix/1"


def to_json(patches: Patches, profile: Profile, written: Iterable[Path] = (), backups: Iterable[Path] = ()) -> str:
    """Return the changes for a trace, what is not changed, and which files were written."""
    made = {
        "schema": SCHEMA,
        "pinprof_version": VERSION,
        "path": profile.path,
        "by_pinprof": profile.info.by_pinprof,
        "step_ms": maybe_ms(profile.step_ns) if profile.step_ns else None,
        "root": str(patches.root),
        "patches": [
            {**mend_fields(each.mend, profile.step_ns), "diff": each.diff.decode(errors="replace")}
            for each in patches.patches
        ],
        "refused": refused_fields(patches),
        **_saving_fields(patches.saving, profile.step_ns),
        "written": [str(each) for each in written],
        "backups": [str(each) for each in backups],
    }
    return json.dumps(made, indent=2) + "\n"


def refused_fields(patches: Patches) -> list[dict[str, Any]]:
    """Return what is not changed."""
    return [{"rule": each.rule.id, **each.place._asdict(), "why": each.why} for each in patches.refused]


def mend_fields(mend: Mend, step_ns: float | None) -> dict[str, Any]:
    """Return a change without its diff."""
    return {
        "rule": mend.rule.id,
        "title": mend.rule.title,
        "what": mend.what,
        "numbers": mend.numbers,
        "safe_if": mend.safe_if,
        "files": list(mend.files),
        "places": [
            {"file": file, "line": line} for file, line in dict.fromkeys((at.file, at.line) for at in mend.places)
        ],
        **_saving_fields(mend.saving, step_ns),
        "complete": not mend.part,
    }


def _saving_fields(saving: Saving | None, step_ns: float | None) -> dict[str, Any]:
    return {
        "saving_ms": maybe_ms(saving.saving_ns) if saving else None,
        "saving_fraction": saving.saving_ns / step_ns if saving and step_ns else None,
        "range_ms": [maybe_ms(bound) for bound in saving.range_ns] if saving else None,
    }
