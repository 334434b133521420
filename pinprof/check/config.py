"""Reads limits from a project's pyproject.toml."""

import os
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pinprof.check.limits import QUANTITIES, Limits
from pinprof.errors import PinprofError
from pinprof.git import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE = "pyproject.toml"
OWN, CHECK = "pinprof", "check"
TABLE = f"[tool.{OWN}.{CHECK}]"
KEYS = tuple(quantity.name for quantity in QUANTITIES.values())
LIKE = 0.8
"""How similar a name must be to pinprof's to count as a typing error; `pyprof` is 0.77 like `pinprof`."""


def find_config(folder: Path) -> tuple[Path | None, Limits | None]:
    """Return the nearest pyproject.toml with a table [tool.pinprof], in this folder or above, and its limits.

    Like ruff, it ignores files without the table; like black, it does not look above the top folder of a repository.
    Returns None for both if no such file exists. Raises PinprofError as `read_config` does.
    """
    for above in (folder, *folder.parents):
        path = above / PROJECT_FILE
        if os.path.lexists(path):  # a link to nothing is an error, not the absence of limits
            limits = read_config(path)
            if limits is not None:
                return path, limits
        if (above / REPOSITORY).exists():
            break
    return None, None


def read_config(path: str | Path) -> Limits | None:
    """Return the limits in the table `[tool.pinprof.check]` of a TOML file, None if it has no table `[tool.pinprof]`.

    The keys are those of Limits, with dashes or underscores. Raises PinprofError with the file's name if the file
    cannot be read, if an unknown table or key seems meant for pinprof, or if a limit is invalid: no trace could break a
    limit that is silently ignored.
    """
    document = _document(path)
    try:
        own = _own(document)
        return None if own is None else _limits(own.get(CHECK, {}))
    except PinprofError as exc:
        raise PinprofError(f"{path}: {exc}") from exc


def _document(path: str | Path) -> Mapping[str, Any]:
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise PinprofError(f"{path}: cannot be read ({exc.strerror})") from exc
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise PinprofError(f"{path}: is not TOML (line {line} is not UTF-8)") from exc
    except (ValueError, RecursionError) as exc:  # also for numbers and lists beyond Python's bounds
        last = data.count(b"\n", 0, len(data.rstrip())) + 1
        why = str(exc).replace("at end of document", f"at line {last}, the last")
        raise PinprofError(f"{path}: is not TOML ({why})") from exc


def _own(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table [tool.pinprof] of a document, or None. Raises PinprofError if a similar name seems meant."""
    tools = document.get("tool", {})
    names = tools if isinstance(tools, Mapping) else {}
    slip = _like(OWN, names.keys() - {OWN})
    if slip:
        raise PinprofError(f"pinprof does not read [tool.{slip}]; put limits into {TABLE}")
    for name in document.keys() - {"tool"}:
        if name == OWN or (name.lower() == "tool" and _like(OWN, document[name])):
            raise PinprofError(f"pinprof does not read [{name}]; put limits into {TABLE}")
    return _known(names[OWN]) if OWN in names else None


def _known(own: object) -> Mapping[str, Any]:
    """Return the table [tool.pinprof]. Raises PinprofError if it is not a table of the table of limits alone."""
    if not isinstance(own, Mapping):
        raise PinprofError(f"tool.{OWN} is not a table; put limits into {TABLE}")
    for key in own:
        if key.replace("_", "-") in KEYS:
            raise PinprofError(f"{key} is in [tool.{OWN}]; put limits into {TABLE}")
        if key != CHECK:
            raise PinprofError(f"[tool.{OWN}] has no key {key}; put limits into {TABLE}")
    return own


def _like(name: str, others: object) -> str | None:
    """Return the name that seems to be a typing error for this one, or None."""
    if not isinstance(others, Iterable):
        return None
    by_letters = {other.lower().replace("-", "").replace("_", ""): other for other in others if isinstance(other, str)}
    close = get_close_matches(name, by_letters, n=1, cutoff=LIKE)
    return by_letters[close[0]] if close else None


def _limits(table: object) -> Limits:
    if not isinstance(table, Mapping):
        raise PinprofError(f"{TABLE} is not a table")
    values: dict[str, float] = {}
    for written, value in table.items():
        key = written.replace("_", "-")
        if key not in KEYS:
            raise PinprofError(f"{TABLE} {written}: unknown key; {_instead(key)}")
        field = key.replace("-", "_")
        if field in values:
            raise PinprofError(f"{TABLE} {written}: occurs twice, with dashes and with underscores")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PinprofError(f"{TABLE} {written} = {value!r}: must be a number without a unit")
        values[field] = value
    try:
        return Limits(**values)
    except PinprofError as exc:
        raise PinprofError(f"{TABLE} {exc}") from exc


def _instead(key: str) -> str:
    close = get_close_matches(key.lower(), KEYS, n=1)
    return f"{f'perhaps you mean {close[0]}; ' if close else ''}the keys are {', '.join(KEYS)}"
