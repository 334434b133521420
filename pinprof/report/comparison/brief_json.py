"""A comparison for programs that read little: the verdict and what changed, in a few kB, with ids of the evidence."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pinprof.comparison import Comparison
from pinprof.comparison.changes import SAME
from pinprof.report.comparison.brief import notes
from pinprof.report.comparison.json import fields
from pinprof.report.words import cut

SCHEMA = "pinprof.compare-brief/1"
MOST_BYTES = 6000
LONGEST = 240
ROOMS = (8, 4, 2, 1)
"""How many changes of a kind a brief has: the first that fits is taken."""
FIGURE = ("before", "after", "difference", "within_noise", "reason")


def to_json(comparison: Comparison) -> str:
    """Return the brief as JSON text of at most `MOST_BYTES`; an id is a JSON Pointer into the whole comparison."""
    whole = fields(comparison)
    for room in ROOMS:
        made = json.dumps(_document(whole, comparison, room), allow_nan=False, ensure_ascii=False) + "\n"
        if len(made.encode()) <= MOST_BYTES:
            break
    return made


def _document(whole: Mapping[str, Any], comparison: Comparison, room: int) -> dict[str, Any]:
    changed = {kind: _changed(whole[kind]) for kind in ("waits", "copies", "findings")}
    figures = [each for each in enumerate(whole["figures"]) if not each[0] or each[1]["within_noise"] is False]
    return {
        "schema": SCHEMA,
        "pinprof_version": whole["pinprof_version"],
        **{side: _side(whole[side]) for side in ("before", "after")},
        "verdict": whole["verdict"],
        "sentence": cut(whole["sentence"], LONGEST),
        "same_program": whole["same_program"],
        "figures": [_figure(number, each) for number, each in figures[:room]],
        "waits": [_wait(number, each) for number, each in changed["waits"][:room]],
        "copies": [_copies(number, each) for number, each in changed["copies"][:room]],
        "findings": [_finding(number, each) for number, each in changed["findings"][:room]],
        "more_changes": sum(max(len(each) - room, 0) for each in (figures, *changed.values())),
        "cannot_tell": [cut(each, LONGEST) for each in _untold(whole, comparison)][:room],
    }


def _changed(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    return [(number, row) for number, row in enumerate(rows) if row["change"] != SAME]


def _side(side: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": cut(side["path"], LONGEST), **{name: side[name] for name in ("step_source", "steps", "bound")}}


def _figure(number: int, figure: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": f"/figures/{number}", "name": figure["name"], "device": figure["device"], **_values(figure)}


def _values(figure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: figure[name] for name in FIGURE}


def _wait(number: int, wait: Mapping[str, Any]) -> dict[str, Any]:
    site = (wait["after"] or wait["before"])[0]
    return {
        "id": f"/waits/{number}",
        "change": wait["change"],
        "cause": wait["cause"],
        **_place(site),
        "stall_ms": _values(wait["stall_ms"]),
    }


def _place(site: Mapping[str, Any]) -> dict[str, Any]:
    file, function = site["file"], site["function"]
    return {"file": file and cut(file, LONGEST), "line": site["line"], "function": function and cut(function, LONGEST)}


def _copies(number: int, copies: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: copies[name] for name in ("change", "direction", "host_memory")}
    return {"id": f"/copies/{number}", **named, "time_ms": _values(copies["time_ms"])}


def _finding(number: int, finding: Mapping[str, Any]) -> dict[str, Any]:
    found = (finding["after"] or finding["before"])[0]
    return {
        "id": f"/findings/{number}",
        **{name: finding[name] for name in ("change", "rule")},
        "title": cut(finding["title"], LONGEST),
        **_place(found),
        "saving_ms": _values(finding["saving_ms"]),
    }


def _untold(whole: Mapping[str, Any], comparison: Comparison) -> Iterator[str]:
    """Yield what is not compared, and what to know of the traces."""
    for kind in ("waits", "copies", "findings"):
        if whole[f"{kind}_reason"]:
            yield f"{kind} are not compared: {whole[f'{kind}_reason']}"
    yield from notes(comparison)
