"""The numbers of a report by name, as trackers of experiments take them: the names are places in the JSON."""

from collections.abc import Iterator
from typing import Any

from pinprof.documents.report import TraceJson
from pinprof.measurement.figures import FIGURES
from pinprof.measurement.trust.doubt import FIGURE_KINDS

PREFIX = "pinprof/"
"""Trackers group numbers by the part before a slash."""
PREDICTED = ("verdict/ms", "verdict/fraction", "joint/saving_ms", "joint/predicted_step_ms")
RANGES = ("steps/range_ms", "joint/range_ms")
SEARCHED_KINDS = FIGURE_KINDS.keys() - {"estimate"}
"""The kinds of figures that rules need: without one of them, nobody knows how many findings there are."""


def scalars_of(trace: TraceJson) -> dict[str, float]:
    """Return the numbers of a trace's document; those that the trace does not tell are left out, and never 0."""
    return {f"{PREFIX}{name}": float(value) for name, value in _named(trace) if value is not None}


def _named(trace: TraceJson) -> Iterator[tuple[str, float | None]]:
    for path in (*(figure.path for figure in FIGURES), *PREDICTED):
        yield path, _value_at(trace, path)
    for path in RANGES:
        for end, value in zip(("low", "high"), _value_at(trace, path) or (), strict=False):
            yield f"{path}/{end}", value
    if all(SEARCHED_KINDS.isdisjoint(lack.invalidates) for lack in trace.missing):
        yield "findings/count", len(trace.findings)
    first_of_rule = {finding.rule: finding for finding in reversed(trace.findings)}  # it has the largest saving
    for rule, finding in first_of_rule.items():
        yield f"findings/{rule}/saving_ms", finding.saving_ms
        yield f"findings/{rule}/at_most_ms", finding.at_most_ms


def _value_at(trace: TraceJson, path: str) -> Any:
    """Return what stands at a place in the document; None if it, or an object around it, is null."""
    value: Any = trace
    for name in path.split("/"):
        value = None if value is None else getattr(value, name)
    return value
