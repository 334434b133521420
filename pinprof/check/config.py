"""Limits that are kept in a project's pyproject.toml."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pinprof.check.limits import Limits
from pinprof.errors import PinprofError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE = "pyproject.toml"
REPOSITORY = ".git"
"""What the top folder of a repository has: a folder, in worktrees and submodules a file."""
OWN, CHECK = "pinprof", "check"
TABLE = f"[tool.{OWN}.{CHECK}]"
KEYS = tuple(field.name.replace("_", "-") for field in fields(Limits))
LIKE = 0.8
"""How like a name of pinprof another has to be to be taken for a slip; `pyprof` is 0.77 like `pinprof`."""


def find_config(folder: Path) -> tuple[Path | None, Limits | None]:
    """Return the nearest pyproject.toml with a table [tool.pinprof], in this folder or above, and its limits.

    As ruff does, files without the table are passed by; as black does, nothing above the top folder of a repository is
    looked at. Nones if there is no such file. Raises PinprofError as `read_config` does.
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

    Keys are those of Limits, with dashes or underscores. Raises PinprofError, with the file's name, if the file cannot
    be read, if a table or key is none of pinprof's but seems meant for it, or if a limit is none: a limit that is
    silently ignored would be kept for ever.
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
    except (ValueError, RecursionError) as exc:  # also of numbers and lists beyond what Python takes
        last = data.count(b"\n", 0, len(data.rstrip())) + 1
        why = str(exc).replace("at end of document", f"at line {last}, the last")
        raise PinprofError(f"{path}: is not TOML ({why})") from exc


def _own(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table [tool.pinprof] of a document, None if there is none; an error if another seems to be meant."""
    tools = document.get("tool", {})
    names = tools if isinstance(tools, Mapping) else {}
    slip = _like(OWN, names.keys() - {OWN})
    if slip:
        raise PinprofError(f"[tool.{slip}] is not read; limits stand in {TABLE}")
    for name in document.keys() - {"tool"}:
        if name == OWN or (name.lower() == "tool" and _like(OWN, document[name])):
            raise PinprofError(f"[{name}] is not read; limits stand in {TABLE}")
    return _known(names[OWN]) if OWN in names else None


def _known(own: object) -> Mapping[str, Any]:
    """Return the table [tool.pinprof]; an error if it is none, or holds anything but the table of limits."""
    if not isinstance(own, Mapping):
        raise PinprofError(f"tool.{OWN} is no table; limits stand in {TABLE}")
    for key in own:
        if key.replace("_", "-") in KEYS:
            raise PinprofError(f"{key} stands in [tool.{OWN}]; limits stand in {TABLE}")
        if key != CHECK:
            raise PinprofError(f"there is no key {key} in [tool.{OWN}]; limits stand in {TABLE}")
    return own


def _like(name: str, others: object) -> str | None:
    """Return which of the names seems to be a slip for this one, None if none does."""
    if not isinstance(others, Iterable):
        return None
    by_letters = {other.lower().replace("-", "").replace("_", ""): other for other in others if isinstance(other, str)}
    close = get_close_matches(name, by_letters, n=1, cutoff=LIKE)
    return by_letters[close[0]] if close else None


def _limits(table: object) -> Limits:
    if not isinstance(table, Mapping):
        raise PinprofError(f"{TABLE} is no table")
    values: dict[str, float] = {}
    for written, value in table.items():
        key = written.replace("_", "-")
        if key not in KEYS:
            raise PinprofError(f"{TABLE} {written}: there is no such key; {_instead(key)}")
        field = key.replace("-", "_")
        if field in values:
            raise PinprofError(f"{TABLE} {written}: stands there twice, with dashes and with underscores")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PinprofError(f"{TABLE} {written} = {value!r}: must be a number without a unit")
        values[field] = value
    try:
        return Limits(**values)
    except PinprofError as exc:
        raise PinprofError(f"{TABLE} {exc}") from exc


def _instead(key: str) -> str:
    close = get_close_matches(key.lower(), KEYS, n=1)
    return f"{f'meant is perhaps {close[0]}; ' if close else ''}known are {', '.join(KEYS)}"
