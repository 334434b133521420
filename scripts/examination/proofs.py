"""The tables of the planted faults: what became of each, and the shares of all."""

from collections import Counter
from collections.abc import Iterator, Mapping
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
    return f"{fault['result']}: {fault['kind']} ({fault['file']}:{fault['line']})"


def summary_of_mends(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield the shares of what was to be mended, and of what was not."""
    faults = [fault for row in rows.values() for fault in row.get("faults", [])]
    certain = [each for each in faults if each["outcome"] == "mend"]
    other = Counter(each["result"] for each in faults if each["outcome"] != "mend")
    mended = sum(each["result"] == "mended" for each in certain)
    yield f"- Mended: {mended} of {len(certain)} faults whose change is mechanical and certain."
    yield f"- Of {sum(other.values())} others: {other['mended']} mended, {other['left']} left, {other['FALSE']} FALSE."
    yield f"- Patches that do not apply: {sum(row.get('applies') is False for row in rows.values())}."
    yield f"- Programs without a result: {sum('faults' not in row for row in rows.values())} of {len(rows)}."
