"""The tables of the planted faults: what became of each, and the shares of all."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def table_of_mends(rows: Mapping[str, Row]) -> str:
    """Return what `pinprof fix` did to each program, and the shares of all."""
    lines = ["| program | faults | changed beside | applies |", "| --- | --- | --- | --- |"]
    for name, row in rows.items():
        said = row.get("error") or row.get("why") or "<br>".join(_of_fault(each) for each in row["faults"])
        applies = {True: "yes", False: "NO", None: "-"}[row.get("applies")]
        lines.append(f"| {name} | {said} | {', '.join(row.get('beside', []))} | {applies} |")
    return "\n".join([*lines, "", *summary_of_mends(rows), ""])


def _of_fault(fault: Row) -> str:
    reason = f": {fault['reason']}" if "reason" in fault else ""
    return f"{fault['result']}: {fault['kind']} ({fault['file']}:{fault['line']}){reason}"


def summary_of_mends(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield the shares of what was to be mended, and of what was not."""
    faults = [fault for row in rows.values() for fault in row.get("faults", [])]
    certain = [each for each in faults if each["outcome"] == "mend" and each["result"] != "unseen"]
    other = Counter(each["result"] for each in faults if each["outcome"] != "mend")
    mended = sum(each["result"] == "mended" for each in certain)
    yield f"- Mended: {mended} of {len(certain)} faults whose change is mechanical and certain."
    yield f"- Of {sum(other.values())} others: {other['mended']} mended, {other['left']} left, {other['FALSE']} FALSE."
    unfound = sum(each.get("reason", "").startswith("no finding") for each in certain)
    yield f"- Of those that were missed, {unfound} cost nothing in the recording, so nothing was found there."
    yield f"- Unseen in the steps that ran, and not counted: {sum(each['result'] == 'unseen' for each in faults)}."
    yield f"- Patches that do not apply: {sum(row.get('applies') is False for row in rows.values())}."
    yield f"- Programs without a result: {sum('faults' not in row for row in rows.values())} of {len(rows)}."


def difference(folder: Path, name: str) -> str:
    """Return how far the parameters after a patch are from those before, as a share of their magnitudes."""
    notes = [folder / f"{name}_{side}.json" for side in ("before", "after")]
    if not all(each.exists() for each in notes):
        return "not run"
    before, after = (json.loads(each.read_text())["numbers"] for each in notes)
    if len(before) != len(after):
        return f"{len(before)} and {len(after)} steps of optimizers"
    if before == after:
        return f"equal in {len(before)} steps of optimizers" if before else "no optimizer"
    largest = max(abs(one[0] - other[0]) / (one[1] or 1.0) for one, other in zip(before, after, strict=True))
    return f"off by at most {largest:.1e} of the magnitude"


def of_trial(said: Row) -> Row:
    """Return what of an answer of `pinprof try` is judged."""
    numbers, guard, measured = said["numbers"] or {}, said["guard"] or {}, said["measured"] or {}
    return {
        "verdict": said["verdict"],
        "gpu": said["gpu"],
        "before_ms": said["before_ms"],
        "after_ms": said["after_ms"],
        "ratio": measured.get("ratio"),
        "ratio_range": measured.get("range"),
        "predicted": said["predicted_saving_fraction"],
        "predicted_range": said["predicted_range"],
        "as_predicted": said["as_predicted"],
        "numbers": numbers.get("verdict"),
        "numbers_reason": numbers.get("reason"),
        "guard": guard.get("ran"),
        "guard_reason": guard.get("reason"),
        "new_races": [race["headline"] for race in guard.get("races", []) if race["certain"] and race["new"]],
        "dropped": [f"{each['rule']} {each['what']}: {each['fate']}" for each in said["fixes"] if each["diff"] is None],
        "seconds": said["seconds"],
    }


PROOF_HEAD = (
    "| program | verdict | faults | left out | changed beside | applies | step, ms | saved (range) | predicted (range) "
    "| numbers | guard | s |"
)


def table_of_proofs(rows: Mapping[str, Row]) -> str:
    """Return what `pinprof try` said of each program, and the shares of all."""
    lines = [PROOF_HEAD, "| --- " * (PROOF_HEAD.count("|") - 1) + "|"]
    lines += [_of_proof(name, row) for name, row in rows.items()]
    return "\n".join([*lines, "", *summary_of_mends(rows), *_summary_of_proofs(rows), ""])


def _of_proof(name: str, row: Row) -> str:
    if "verdict" not in row:
        return f"| {name} | {row.get('error', '')} |" + " |" * (PROOF_HEAD.count("|") - 3)
    cells = (
        row["verdict"],
        "<br>".join(_of_fault(each) for each in row.get("faults", [])) or row.get("why", ""),
        "<br>".join(row["dropped"]),
        ", ".join(row.get("beside", [])),
        {True: "yes", False: "NO", None: "-"}[row.get("applies")],
        " → ".join(f"{value:.2f}" if value else "?" for value in (row["before_ms"], row["after_ms"])),
        _share(row["ratio"] and 1 - row["ratio"], [1 - each for each in reversed(row["ratio_range"] or [])]),
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
    told = Counter(row["numbers"] or "not told" for row in patched)
    yield f"- Numbers of {len(patched)} patched programs: " + ", ".join(
        f"{count} {name}" for name, count in told.items()
    )
    passed = sum(bool(row["guard"]) and not row["new_races"] for row in patched)
    yield f"- The guard ran and found no new race in {passed} of them."
    measured = Counter(row["verdict"] for row in rows.values() if "verdict" in row)
    yield "- Verdicts: " + ", ".join(f"{count} {name}" for name, count in measured.items())
    known = [row["as_predicted"] for row in rows.values() if row.get("as_predicted") is not None]
    yield f"- Measured within the predicted range: {sum(known)} of {len(known)} where both are known."
    seconds = sorted(row["seconds"] for row in rows.values() if "seconds" in row)
    if seconds:
        yield f"- Seconds: {seconds[0]:.0f} to {seconds[-1]:.0f}, {seconds[len(seconds) // 2]:.0f} in the middle."
