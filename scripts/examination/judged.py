"""Judges what a patch does to planted faults: which it mends, which other lines it changes, and whether it applies.

The tables of the exam of `pinprof fix` and `pinprof try` have the result for each planted fault, and totals.
"""

import ast
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
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
    spans: dict[str, set[int]] = {}
    for fault in faults:
        file = Path(_resolved(folder, fault["file"])).relative_to(top).as_posix()
        span = _statement_lines(top / file, fault["line"], _lines_of(fault)[-1])
        rows.append(_with_result(fault, touched=bool(span & lines.get(file, set()))))
        spans.setdefault(file, set()).update(span)
    others = [f"{file}:{line}" for file, touched in lines.items() for line in sorted(touched - spans.get(file, set()))]
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


def table_of_mends(rows: Mapping[str, Row]) -> str:
    """Return what `pinprof fix` did to each program, and the totals."""
    lines = ["| program | faults | also changed | applies |", "| --- | --- | --- | --- |"]
    for name, row in rows.items():
        results = row.get("error") or row.get("why") or "<br>".join(map(_fault_cell, row["faults"]))
        applies = {True: "yes", False: "NO", None: "-"}[row.get("applies")]
        lines.append(f"| {name} | {results} | {', '.join(row.get('also_changed', []))} | {applies} |")
    return "\n".join([*lines, "", *summary_of_mends(rows), ""])


def _fault_cell(fault: Row) -> str:
    reason = f": {fault['reason']}" if "reason" in fault else ""
    return f"{fault['result']}: {fault['kind']} ({fault['file']}:{fault['line']}){reason}"


def summary_of_mends(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield how many faults were mended: of those with a certain change, and of the others."""
    faults = [fault for row in rows.values() for fault in row.get("faults", [])]
    certain = [fault for fault in faults if fault["outcome"] == "mend" and fault["result"] != "unseen"]
    other = Counter(fault["result"] for fault in faults if fault["outcome"] != "mend")
    mended = sum(fault["result"] == "mended" for fault in certain)
    yield f"- Mended: {mended} of {len(certain)} faults whose change is mechanical and certain."
    yield f"- Of {sum(other.values())} others: {other['mended']} mended, {other['left']} left, {other['FALSE']} FALSE."
    unfound = sum(fault.get("reason", "").startswith("no finding") for fault in certain)
    yield f"- Missed because they cost nothing in the recording, and so had no finding: {unfound}."
    yield f"- Unseen in the steps that ran, and not counted: {sum(fault['result'] == 'unseen' for fault in faults)}."
    yield f"- Patches that do not apply: {sum(row.get('applies') is False for row in rows.values())}."
    yield f"- Programs without a result: {sum('faults' not in row for row in rows.values())} of {len(rows)}."


def difference(folder: Path, name: str) -> str:
    """Return how far the parameters after a patch are from those before, as a share of their magnitudes."""
    notes = [folder / f"{name}_{side}.json" for side in ("before", "after")]
    if not all(note.exists() for note in notes):
        return "not run"
    before, after = (json.loads(note.read_text())["numbers"] for note in notes)
    if len(before) != len(after):
        return f"{len(before)} and {len(after)} steps of optimizers"
    if before == after:
        return f"equal in {len(before)} steps of optimizers" if before else "no optimizer"
    largest = max(abs(one[0] - other[0]) / (one[1] or 1.0) for one, other in zip(before, after, strict=True))
    return f"off by at most {largest:.1e} of the magnitude"


def judged_part(answer: Row) -> Row:
    """Return the part of an answer of `pinprof try` that is judged."""
    numbers, guard, measured = answer["numbers"] or {}, answer["guard"] or {}, answer["measured"] or {}
    return {
        "verdict": answer["verdict"],
        "gpu": answer["gpu"],
        "before_ms": answer["before_ms"],
        "after_ms": answer["after_ms"],
        "ratio": measured.get("ratio"),
        "ratio_range": measured.get("range"),
        "predicted": answer["predicted_saving_fraction"],
        "predicted_range": answer["predicted_range"],
        "as_predicted": answer["as_predicted"],
        "numbers": numbers.get("verdict"),
        "numbers_reason": numbers.get("reason"),
        "guard": guard.get("ran"),
        "guard_reason": guard.get("reason"),
        "new_races": [race["headline"] for race in guard.get("races", []) if race["certain"] and race["new"]],
        "dropped": [f"{fix['rule']} {fix['what']}: {fix['fate']}" for fix in answer["fixes"] if fix["diff"] is None],
        "seconds": answer["seconds"],
    }


PROOF_HEAD = (
    "| program | verdict | faults | left out | also changed | applies | step, ms | saved (range) | predicted (range) "
    "| numbers | guard | s |"
)


def table_of_proofs(rows: Mapping[str, Row]) -> str:
    """Return what `pinprof try` said of each program, and the totals."""
    lines = [PROOF_HEAD, "| --- " * (PROOF_HEAD.count("|") - 1) + "|"]
    lines += [_of_proof(name, row) for name, row in rows.items()]
    return "\n".join([*lines, "", *summary_of_mends(rows), *_summary_of_proofs(rows), ""])


def _of_proof(name: str, row: Row) -> str:
    if "verdict" not in row:
        return f"| {name} | {row.get('error', '')} |" + " |" * (PROOF_HEAD.count("|") - 3)
    cells = (
        row["verdict"],
        "<br>".join(map(_fault_cell, row.get("faults", []))) or row.get("why", ""),
        "<br>".join(row["dropped"]),
        ", ".join(row.get("also_changed", [])),
        {True: "yes", False: "NO", None: "-"}[row.get("applies")],
        " → ".join(f"{value:.2f}" if value else "?" for value in (row["before_ms"], row["after_ms"])),
        _share(row["ratio"] and 1 - row["ratio"], [1 - ratio for ratio in reversed(row["ratio_range"] or [])]),
        _share(row["predicted"], row["predicted_range"] or []),
        row["numbers"] or "-",
        "; ".join(row["new_races"])
        or {True: "passed", False: row["guard_reason"] or "did not run", None: "-"}[row["guard"]],
        f"{row['seconds']:.0f}",
    )
    return f"| {name} | {' | '.join(cells)} |"


def _share(value: float | None, bounds: list[float]) -> str:
    if value is None:
        return "-"
    inner = f" ({bounds[0]:.1%} to {bounds[1]:.1%})" if len(bounds) == len(("low", "high")) else ""
    return f"{value:.1%}{inner}"


def _summary_of_proofs(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield what the patches did to numbers, races and steps, in how many programs, and how long it took."""
    patched = [row for row in rows.values() if row.get("applies")]
    verdicts = Counter(row["numbers"] or "not compared" for row in patched)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    yield f"- Numbers of {len(patched)} patched programs: {counts}"
    passed = sum(bool(row["guard"]) and not row["new_races"] for row in patched)
    yield f"- The guard ran and found no new race in {passed} of them."
    measured = Counter(row["verdict"] for row in rows.values() if "verdict" in row)
    yield "- Verdicts: " + ", ".join(f"{count} {name}" for name, count in measured.items())
    as_predicted = [row["as_predicted"] for row in rows.values() if row.get("as_predicted") is not None]
    yield f"- Measured within the predicted range: {sum(as_predicted)} of {len(as_predicted)} where both are known."
    seconds = sorted(row["seconds"] for row in rows.values() if "seconds" in row)
    if seconds:
        yield f"- Seconds: {seconds[0]:.0f} to {seconds[-1]:.0f}, {seconds[len(seconds) // 2]:.0f} in the middle."
