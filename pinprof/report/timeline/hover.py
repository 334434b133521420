"""What one reads when hovering over a rectangle, and the short label that stands in it if it is wide enough."""

from collections.abc import Callable
from typing import NamedTuple

from pinprof.measure import Profile
from pinprof.report.timeline.facts import (
    Facts,
    activity_facts,
    activity_label,
    call_facts,
    event_facts,
    stall_facts,
    stall_label,
    step_facts,
    step_label,
)
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.timeline.lanes import Lane
from pinprof.report.timeline.names import short
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration


class Source(NamedTuple):
    """How the rows of a lane's source are named in few words (plain text) and described (lines of HTML)."""

    label: Callable[[Facts, int], str]
    describe: Callable[[Facts, int], list[str]]


SOURCES = {
    "steps": Source(step_label, step_facts),
    "stalls": Source(stall_label, stall_facts),
    "annotations": Source(
        lambda facts, row: short(facts.trace.annotations.name_of(row)),
        lambda facts, row: event_facts(facts, facts.trace.annotations, row),
    ),
    "ops": Source(
        lambda facts, row: short(facts.trace.ops.name_of(row)),
        lambda facts, row: event_facts(facts, facts.trace.ops, row),
    ),
    "calls": Source(lambda facts, row: short(facts.trace.calls.name_of(row)), call_facts),
    "gpu": Source(activity_label, activity_facts),
}


class Words(NamedTuple):
    """Texts of the rectangles of a lane, in their order."""

    hover: list[str]
    """HTML as plotly understands it; what comes from the trace is escaped."""
    label: list[str]
    """Plain text."""


def in_words(trace: Trace, profile: Profile, lanes: tuple[Lane, ...]) -> list[Words]:
    """Return the texts of the rectangles of each lane."""
    facts = Facts.of(trace, profile)
    return [_lane_words(facts, lane) for lane in lanes]


def _lane_words(facts: Facts, lane: Lane) -> Words:
    source = SOURCES.get(lane.source)
    columns = (lane.start_ns, lane.end_ns, lane.kind, lane.row, lane.count, lane.busy_ns)
    hover, label = [], []
    for start, end, code, row, count, busy in zip(*(column.tolist() for column in columns), strict=True):
        kind = KINDS[code].label
        lines = source.describe(facts, row) if source and row != NONE else []
        if count > 1:
            head = [f"<b>{count:,} of {kind}</b>, merged", f"{duration(busy)} in {duration(end - start)}"]
            lines = [*head, "the longest of them:", *lines] if lines else head
            label.append(f"{count:,} of {kind}")
        else:
            lines = lines or [f"<b>{kind}</b>", duration(busy)]
            label.append(source.label(facts, row) if source and row != NONE else kind)
        hover.append("<br>".join(lines))
    return Words(hover, label)
