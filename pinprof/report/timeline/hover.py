"""What one reads when hovering over a rectangle."""

from collections.abc import Callable, Iterator

from pinprof.analysis import Analysis
from pinprof.report.elements import Markup, bold
from pinprof.report.timeline.facts import Facts, activity_facts, call_facts, event_facts, stall_facts, step_facts
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
"""What describes the rows of a lane's source, as lines."""


def in_words(trace: Trace, analysis: Analysis, lanes: tuple[Lane, ...]) -> list[list[Markup]]:
    """Return the texts of the rectangles of each lane."""
    facts = Facts.of(trace, analysis)
    return [list(_texts(facts, lane)) for lane in lanes]


def _texts(facts: Facts, lane: Lane) -> Iterator[Markup]:
    described = DESCRIBED.get(lane.source)
    columns = (lane.start_ns, lane.end_ns, lane.kind, lane.row, lane.count, lane.busy_ns)
    for start, end, code, row, count, busy in zip(*(column.tolist() for column in columns), strict=True):
        kind = KINDS[code].label
        lines = described(facts, row) if described and row != NONE else []
        if count > 1:
            head = [bold(f"{count:,} of {kind}") + ", merged", f"{duration(busy)} in {duration(end - start)}"]
            lines = [*head, "the longest of them:", *lines] if lines else head
        yield Markup("<br>").join(lines or (bold(kind), duration(busy)))
