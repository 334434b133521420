"""What a patch does to planted faults: which it mends, what else it changes, and whether it applies."""

import ast
import subprocess
import tempfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from scripts.examination.planted import Planted

Row = dict[str, Any]

Lines = set[tuple[str, int]]
OF_WHAT_IS_MADE = ("PIN602", "PIN1", "PIN4")
"""Rules whose place is not that of the fault."""
RIGHT = {
    "mend": {True: "mended", False: "missed"},
    "permission": {True: "mended", False: "left"},
    "either": {True: "mended", False: "left"},
    "refuse": {True: "FALSE", False: "left"},
    "same": {True: "FALSE", False: "left"},
}
"""What a fault's outcome makes of whether its lines were changed."""


def judged(planted: Planted, patch: bytes, seen: "Lines | None" = None) -> Row:
    """Return what a patch does to a planted program: per fault, and the other lines that it changes.

    `seen` are the lines for which there was a finding, if that is known: a fault without one is `unseen`.
    """
    row = _judged_all(planted, patch)
    for fault in row.get("faults", []) if seen is not None else []:
        if fault["result"] == "missed" and not fault["rule"].startswith(OF_WHAT_IS_MADE):
            path = _resolved(planted.place.folder, fault["file"])
            lines = range(fault["line"], fault["line"] + fault.get("lines", 1))
            if not any((path, line) in (seen or ()) for line in lines):
                fault["result"] = "unseen"
    return row


def with_reasons(row: Row) -> Row:
    """Return a row in which each missed fault says why: what fix said of its line, or that nothing was found there."""
    for fault in row.get("faults", []):
        if fault["result"] == "missed":
            lines = range(fault["line"], fault["line"] + fault.get("lines", 1))
            said = [
                each["why"]
                for each in row["refused"]
                if (each["line"] in lines and Path(each["file"]).name == Path(fault["file"]).name)
                or (fault["rule"].startswith(OF_WHAT_IS_MADE) and _family(each["rule"]) == _family(fault["rule"]))
            ]
            fault["reason"] = said[0] if said else "no finding: it cost nothing in this recording"
    return row


def _family(rule: str) -> str:
    """Return which rules have one fix: those of copies, those of loaders, each other by itself."""
    return rule[:4] if rule.startswith(("PIN1", "PIN4")) else rule


def _judged_all(planted: Planted, patch: bytes) -> Row:
    faults: list[Row] = planted.truth["faults"]
    if not patch.strip():
        return {"applies": None, "faults": [_judged(each, touched=False) for each in faults], "beside": []}
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        _git("clone", "--quiet", "--shared", str(planted.place.repository), str(copy))
        applied = _git("-C", str(copy), "apply", "-", given=patch)
        if applied.returncode:
            return {"applies": False, "why": applied.stderr.decode(errors="replace").strip()}
        changed = _git("-C", str(copy), "diff", "--name-only").stdout.decode().split()
        lines = {file: _changed(planted.place.repository / file, copy / file) for file in changed}
    top, folder = planted.place.repository.resolve(), planted.place.folder.resolve()
    rows: list[Row] = []
    known: dict[str, set[int]] = {}
    for fault in faults:
        file = Path(_resolved(folder, fault["file"])).relative_to(top).as_posix()
        span = _span(top / file, fault["line"], fault["line"] + fault.get("lines", 1) - 1)
        rows.append(_judged(fault, touched=bool(span & lines.get(file, set()))))
        known.setdefault(file, set()).update(span)
    beside = [f"{file}:{line}" for file, each in lines.items() for line in sorted(each - known.get(file, set()))]
    return {"applies": True, "faults": rows, "beside": beside}


def _resolved(folder: Path, file: str) -> str:
    return str((folder / file).resolve())


def _judged(fault: Row, *, touched: bool) -> Row:
    return {**fault, "result": RIGHT[fault["outcome"]][touched]}


def _changed(before: Path, after: Path) -> set[int]:
    """Return the lines of a file, from 1, that are others in another version or are not there."""
    old, new = (path.read_text().split("\n") for path in (before, after))
    found: set[int] = set()
    for tag, start, stop, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in {"replace", "delete"}:
            found |= set(range(start + 1, stop + 1))
    return found


def _span(path: Path, first: int, last: int) -> set[int]:
    """Return these lines, with all lines of the statements without a body that stand on one of them."""
    lines = set(range(first, last + 1))
    for start, end in _statements(ast.parse(path.read_text())):
        if start <= last and first <= end:
            lines |= set(range(start, end + 1))
    return lines


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node.lineno, node.end_lineno or node.lineno


def _git(*arguments: str, given: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    command = ["git", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False)
