"""The numbers, words and files of a report that a run of an experiment tracker keeps, named as in the JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pinprof.measurement.figures import FIGURES, STEP_MS
from pinprof.measurement.trust.doubt import FIGURE_KINDS as KINDS
from pinprof.tracking import DOCUMENT, FOLDER, PAGE, Logged

ENDS = ("low", "high")
"""The names of the two ends of a range."""
NUMBERS: dict[str, tuple[str, ...]] = {
    **{figure.path: figure.withheld_by for figure in FIGURES if figure.is_tracked},
    "steps/range_ms/low": STEP_MS.withheld_by,
    "steps/range_ms/high": STEP_MS.withheld_by,
    "verdict/ms": ("estimate",),
    "verdict/fraction": ("estimate",),
    "joint/saving_ms": ("estimate",),
    "joint/range_ms/low": ("estimate",),
    "joint/range_ms/high": ("estimate",),
    "joint/predicted_step_ms": ("estimate",),
}
"""The numbers, by their path in the JSON of a trace, each with the kinds of doubts that withhold it."""
COUNT = "findings/count"
SEARCHED = tuple(kind for kind in KINDS if kind != "estimate")
"""The kinds of figures that rules need: without one of them, nobody knows how many findings there are."""
WORDS = ("verdict/cause", "verdict/headline", "verdict/do", "steps/bound", "steps/step_source", "path")
"""The paths of what is logged as words."""
OF_FINDING = ("saving_ms", "at_most_ms")
"""The fields of a finding that are logged."""
OF_JOB = ("world_size", "skew_ms")
WORDS_OF_JOB = ("slowest_rank", "reason", "shown_rank")
NOTHING = "nothing"
"""Logged if nothing is withheld: the run may still hold the words about an earlier trace."""


def to_logged(document: str, page: str | None) -> Logged:
    """Return what to log of a report, given its JSON and its page; of a job, the rank that the report shows."""
    report: dict[str, Any] = json.loads(document)
    ranks = report["ranks"]
    trace = _shown(report)
    numbers = {name: _value_at(trace, name) for name in NUMBERS} | _of_findings(trace)
    words = {name: _value_at(trace, name) for name in WORDS} | _of_trace(report, trace)
    if ranks:
        numbers |= {f"ranks/{name}": ranks[name] for name in OF_JOB}
        words |= {f"ranks/{name}": ranks[name] for name in WORDS_OF_JOB}
    return Logged(
        {f"{FOLDER}/{name}": float(value) for name, value in numbers.items() if value is not None},
        {f"{FOLDER}/{name}": str(value) for name, value in words.items() if value is not None},
        {**({PAGE: page} if page is not None else {}), DOCUMENT: document},
    )


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trace that the report is about; of a job, that of the rank to look at first."""
    traces, ranks = report["traces"], report["ranks"]
    if not ranks:
        return traces[0]
    path = next((row["path"] for row in ranks["rows"] if row["rank"] == ranks["shown_rank"]), None)
    return next((trace for trace in traces if trace["path"] == path), traces[0])


def _value_at(trace: Mapping[str, Any], name: str) -> Any:
    """Return the value at a path in the JSON; None if it, or an object around it, is null."""
    value: Any = trace
    for key in name.split("/"):
        if value is None:
            return None
        value = value[ENDS.index(key)] if isinstance(value, list) else value[key]
    return value


def _of_findings(trace: Mapping[str, Any]) -> dict[str, float | None]:
    """Return how many findings there are, and what the best of each rule saves."""
    findings = trace["findings"]
    saved: dict[str, float | None] = {}
    for finding in findings:  # the largest saving comes first
        for name in OF_FINDING:
            saved.setdefault(f"findings/{finding['rule']}/{name}", finding[name])
    silent = any(_invalidates(doubt, SEARCHED) for doubt in trace["missing"])
    return {COUNT: None if silent else len(findings), **saved}


def _of_trace(report: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, str | None]:
    devices = dict.fromkeys(device["name"] for device in trace["devices"] if device["name"])
    return {
        "pinprof_version": report["pinprof_version"],
        "devices": ", ".join(devices) or None,
        "withheld": _withheld(trace) or NOTHING,
    }


def _invalidates(doubt: Mapping[str, Any], kinds: Iterable[str]) -> bool:
    return not {*kinds}.isdisjoint(doubt["invalidates"])


def _withheld(trace: Mapping[str, Any]) -> str:
    """Return which numbers are withheld, each with the reason and the remedy."""
    names_of: dict[str, list[str]] = {}
    for name, kinds in (*NUMBERS.items(), (COUNT, SEARCHED)):
        reason = next((doubt for doubt in trace["missing"] if _invalidates(doubt, kinds)), None)
        if reason and (name == COUNT or _value_at(trace, name) is None):
            names_of.setdefault(f"{reason['what']}; {reason['remedy']}", []).append(name)
    return ". ".join(f"{', '.join(names)}: {why}" for why, names in names_of.items())
