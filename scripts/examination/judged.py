"""Judges what a patch does to planted faults: which it mends, which other lines it changes, and whether it applies."""

import ast
import subprocess
import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from scripts.examination.planted import Planted

Row = dict[str, Any]

Lines = set[tuple[str, int]]
WITHOUT_A_LINE = ("PIN602", "PIN1", "PIN4")
"""Rules whose findings are not at the line of the fault."""
RIGHT = {
    "mend": {True: "mended", False: "missed"},
    "permission": {True: "mended", False: "left"},
    "either": {True: "mended", False: "left"},
    "refuse": {True: "FALSE", False: "left"},
    "same": {True: "FALSE", False: "left"},
}
"""The result by the outcome that is right for a fault, and by whether its lines were changed."""


def judge_patch(planted: Planted, patch: bytes, seen: Lines | None = None) -> Row:
    """Return what a patch does to a planted program: to each fault, and which other lines it changes.

    `seen` are the lines for which there was a finding, if that is known: a fault without one is `unseen`.
    """
    row = _judged(planted, patch)
    for fault in row.get("faults", []) if seen is not None else []:
        if fault["result"] == "missed" and not fault["rule"].startswith(WITHOUT_A_LINE):
            path = _resolved(planted.place.folder, fault["file"])
            if not any((path, line) in (seen or ()) for line in _lines_of(fault)):
                fault["result"] = "unseen"
    return row


def _lines_of(fault: Row) -> range:
    return range(fault["line"], fault["line"] + fault.get("lines", 1))


def with_reasons(row: Row) -> Row:
    """Return a row in which each missed fault has the reason of fix for its line, or that it had no finding."""
    for fault in row.get("faults", []):
        if fault["result"] == "missed":
            reasons = [
                refused["why"]
                for refused in row["refused"]
                if (refused["line"] in _lines_of(fault) and Path(refused["file"]).name == Path(fault["file"]).name)
                or (fault["rule"].startswith(WITHOUT_A_LINE) and _family(refused["rule"]) == _family(fault["rule"]))
            ]
            fault["reason"] = reasons[0] if reasons else "no finding: it cost nothing in this recording"
    return row


def _family(rule: str) -> str:
    """Return which rules have one fix: those of copies, those of loaders, each other by itself."""
    return rule[:4] if rule.startswith(("PIN1", "PIN4")) else rule


def _judged(planted: Planted, patch: bytes) -> Row:
    faults: list[Row] = planted.truth["faults"]
    if not patch.strip():
        return {"applies": None, "faults": [_with_result(fault, touched=False) for fault in faults], "also_changed": []}
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        _git("clone", "--quiet", "--shared", str(planted.place.repository), str(copy))
        applied = _git("-C", str(copy), "apply", "-", given=patch)
        if applied.returncode:
            return {"applies": False, "why": applied.stderr.decode(errors="replace").strip()}
        changed = _git("-C", str(copy), "diff", "--name-only").stdout.decode().split()
        lines = {file: _changed_lines(planted.place.repository / file, copy / file) for file in changed}
    top, folder = planted.place.repository.resolve(), planted.place.folder.resolve()
    rows: list[Row] = []
    known: dict[str, set[int]] = {}
    for fault in faults:
        file = Path(_resolved(folder, fault["file"])).relative_to(top).as_posix()
        span = _statement_lines(top / file, fault["line"], _lines_of(fault)[-1])
        rows.append(_with_result(fault, touched=bool(span & lines.get(file, set()))))
        known.setdefault(file, set()).update(span)
    others = [f"{file}:{line}" for file, touched in lines.items() for line in sorted(touched - known.get(file, set()))]
    return {"applies": True, "faults": rows, "also_changed": others}


def _resolved(folder: Path, file: str) -> str:
    return str((folder / file).resolve())


def _with_result(fault: Row, *, touched: bool) -> Row:
    return {**fault, "result": RIGHT[fault["outcome"]][touched]}


def _changed_lines(before: Path, after: Path) -> set[int]:
    """Return the lines of a file, from 1, that another version changes or lacks."""
    old, new = (path.read_text().split("\n") for path in (before, after))
    edits = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return {line + 1 for tag, start, stop, _, _ in edits if tag in {"replace", "delete"} for line in range(start, stop)}


def _statement_lines(path: Path, first: int, last: int) -> set[int]:
    """Return these lines, with all lines of the statements without a body that stand on one of them."""
    lines = set(range(first, last + 1))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            end = node.end_lineno or node.lineno
            if node.lineno <= last and first <= end:
                lines |= set(range(node.lineno, end + 1))
    return lines


def _git(*arguments: str, given: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    command = ["git", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False)
