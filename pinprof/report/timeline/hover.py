"""What one reads when hovering over a rectangle."""

from collections.abc import Callable, Iterator

from pinprof.analysis import Analysis
from pinprof.report.timeline.facts import (
    Facts,
    activity_facts,
    call_facts,
    event_facts,
    stall_facts,
    step_facts,
)
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.timeline.lanes import Lane
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration

DESCRIBED: dict[str, Callable[[Facts, int], list[str]]] = {
    "steps": step_facts,
    "stalls": stall_facts,
    "annotations": lambda facts, row: event_facts(facts, facts.trace.annotations, row),
    "ops": lambda facts, row: event_facts(facts, facts.trace.ops, row),
    "calls": call_facts,
    "gpu": activity_facts,
}
"""What describes the rows of a lane's source, as lines of HTML."""


def in_words(trace: Trace, analysis: Analysis, lanes: tuple[Lane, ...]) -> list[list[str]]:
    """Return the texts of the rectangles of each lane: HTML, in which what comes from the trace is escaped."""
    facts = Facts.of(trace, analysis)
    return [list(_texts(facts, lane)) for lane in lanes]


def _texts(facts: Facts, lane: Lane) -> Iterator[str]:
    described = DESCRIBED.get(lane.source)
    columns = (lane.start_ns, lane.end_ns, lane.kind, lane.row, lane.count, lane.busy_ns)
    for start, end, code, row, count, busy in zip(*(column.tolist() for column in columns), strict=True):
        kind = KINDS[code].label
        lines = described(facts, row) if described and row != NONE else []
        if count > 1:
            head = [f"<b>{count:,} of {kind}</b>, merged", f"{duration(busy)} in {duration(end - start)}"]
            lines = [*head, "the longest of them:", *lines] if lines else head
        yield "<br>".join(lines or (f"<b>{kind}</b>", duration(busy)))
