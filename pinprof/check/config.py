"""Limits that are kept in a project's pyproject.toml."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pinprof.check.limits import Limits
from pinprof.errors import PinprofError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = "[tool.pinprof.check]"
KEYS = tuple(field.name for field in fields(Limits))


def read_config(path: str | Path) -> Limits | None:
    """Return the limits in the table `[tool.pinprof.check]` of a TOML file, None if it has no such table.

    Keys are those of Limits, with dashes or underscores. Raises PinprofError, with the file's name, if the file cannot
    be read, or holds a key that is not known or not a number: a limit that is silently ignored would be kept for ever.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as exc:
        raise PinprofError(f"{path}: cannot be read ({exc.strerror})") from exc
    except (
        ValueError,
        RecursionError,
    ) as exc:  # also of a number with more digits than Python reads
        raise PinprofError(f"{path}: is not TOML ({exc})") from exc
    own = _table(_table(document.get("tool", {})).get("pinprof", {}))
    for key in own:
        if key.replace("-", "_") in KEYS:
            raise PinprofError(f"{path}: {key} stands in [tool.pinprof]; limits stand in {TABLE}")
    if "check" not in own:
        return None
    try:
        return _limits(own["check"])
    except PinprofError as exc:
        raise PinprofError(f"{path}: {TABLE} {exc}") from exc


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _limits(table: object) -> Limits:
    if not isinstance(table, Mapping):
        raise PinprofError("is no table")
    known = ", ".join(key.replace("_", "-") for key in KEYS)
    values: dict[str, float] = {}
    for written, value in table.items():
        key = written.replace("-", "_")
        if key not in KEYS:
            raise PinprofError(f"{written}: there is no such key; known are {known}")
        if key in values:
            raise PinprofError(f"{written}: stands there twice, with dashes and with underscores")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PinprofError(f"{written} = {value!r}: must be a number; known keys are {known}")
        values[key] = value
    return Limits(**values)
