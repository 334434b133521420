"""A lane of the timeline: rectangles in a row, their sources, and how the narrow ones are merged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.report.timeline.lane_context import LaneContext, awaited_rows
from pinprof.report.timeline.steps import Window
from pinprof.trace.tables import NONE, Bools, Int64s, Table


class Names(NamedTuple):
    """A column of texts, many of them the same: names, and the code of each value."""

    names: Sequence[str]
    codes: np.ndarray


class RowLinks(NamedTuple):
    """A column of rows of another table that is drawn, `calls` or `gpu`; -1 is none."""

    table: str
    rows: np.ndarray


LaneColumn: TypeAlias = "np.ndarray | Names | RowLinks"
Columns: TypeAlias = dict[str, LaneColumn]
"""Facts on rectangles besides their times, a value for each."""


@dataclass(frozen=True)
class LaneSource:
    """What the rectangles of a lane stand for; `STEP_SOURCE` to `WORK_SOURCE` below are all there are."""

    name: str
    columns: Callable[[LaneContext, "Lane"], Columns]
    """The columns that the page gets; `event_text.js` makes sentences of them."""
    table: str = ""
    """The table of a trace whose rows they are, with names."""
    is_nested: bool = False
    """Whether they are nested, on a thread."""


@dataclass(frozen=True)
class Lane:
    """Rectangles in a row, sorted by kind, then by start; times in ns.

    Columns of a plain `ndarray` have the narrowest type that fits: a page begins with millions of rectangles.
    """

    group: str
    label: str
    source: LaneSource
    start_ns: Int64s
    end_ns: Int64s
    kind: np.ndarray
    """Index into EVENT_KINDS."""
    row: np.ndarray
    """The row of the event, of a block that of its longest event. Sources without a table have rows of `Stalls`
    or steps; the overlap band has -1."""
    count: np.ndarray
    """The number of events that it stands for."""
    busy_ns: Int64s
    """Their summed duration."""
    thread: int = NONE
    """The host thread of its events, as an index into `Trace.threads`."""
    folded: bool = False
    """Whether it is hidden until somebody unfolds it."""
    shares: Mapping[int, Int64s] = field(default_factory=dict)
    """The ns of each kind in each rectangle, in an overlap band with merged parts."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def taken(self, places: Int64s | Bools) -> "Lane":
        """Return the lane with some of its rectangles, in the order of their indices."""
        columns = (self.start_ns, self.end_ns, self.kind, self.row, self.count, self.busy_ns)
        start, end, kind, row, count, busy = (column[places] for column in columns)
        return replace(self, start_ns=start, end_ns=end, kind=kind, row=row, count=count, busy_ns=busy)

    def by_start(self) -> "Lane":
        """Return the lane sorted by start, whatever the kinds; itself if it is."""
        if (self.start_ns[1:] >= self.start_ns[:-1]).all():
            return self
        return self.taken(np.argsort(self.start_ns, kind="stable"))


def _names_of(table: Table, rows: Int64s) -> Names:
    return Names(table.names, table.name[rows])


def columns_of_events(context: LaneContext, lane: Lane) -> Columns:
    """Return the names of events of a thread, and what is around calls."""
    around = {"around": context.around.call[lane.row]} if lane.source.table == "calls" else {}
    return {"name": _names_of(getattr(context.trace, lane.source.table), lane.row), **around}


def columns_of_stalls(context: LaneContext, lane: Lane) -> Columns:
    """Return the calls of stalls, what is around them, and what the host waits for unless that is withheld."""
    stalls, rows, why = context.analysis.details.syncs.stalls, lane.row, context.analysis.profile.withheld
    columns: Columns = {"name": _names_of(context.trace.calls, stalls.call[rows]), "around": context.around.stall[rows]}
    if why.stalls or why.drain:
        return columns
    columns["awaited"] = RowLinks("gpu", awaited_rows(context.trace, stalls, rows))
    return {**columns, "drain": stalls.drain_ns[rows], "own": stalls.own_ns[rows], "bubble": stalls.bubble_ns[rows]}


def columns_of_work(context: LaneContext, lane: Lane) -> Columns:
    """Return names, launches, steps, sizes and surroundings of GPU work, and of copies the exposed time and why.

    Steps, sizes, times and reasons are stored plus one; 0 is none.
    """
    gpu, links, rows, why = context.trace.gpu, context.trace.links, lane.row, context.analysis.profile.withheld
    columns: Columns = {
        "name": _names_of(gpu, rows),
        "launch": RowLinks("calls", links.launch[rows]),
        "step": links.activity_step[rows] + 1,
        "bytes": gpu.bytes[rows] + 1,
        "around": context.around.activity[rows],
    }
    if why.overlap:
        return columns
    exposed, reason = np.zeros(len(gpu), np.int64), np.zeros(len(gpu), np.int64)
    overlap = context.analysis.details.overlap
    exposed[overlap.row] = overlap.exposed_ns + 1
    reason[overlap.row] = 0 if why.causes else overlap.reason + 1
    return {**columns, "exposed": exposed[rows], "reason": reason[rows]}


def columns_of_memory(context: LaneContext, lane: Lane) -> Columns:
    """Return the most bytes that were allocated and reserved in each stretch; of the latter one more, 0 is none."""
    memory = context.trace.memory
    rows = np.flatnonzero(memory.device == memory.device[lane.row[0]])
    first = np.searchsorted(memory.at_ns[rows], lane.start_ns, side="right") - 1
    end = np.searchsorted(memory.at_ns[rows], lane.end_ns, side="left")
    bounds = np.column_stack((np.maximum(first, 0), np.maximum(end, first + 1))).ravel()

    def most(values: Int64s) -> Int64s:
        return np.maximum.reduceat(np.append(values[rows], 0), bounds)[::2]

    return {"allocated": most(memory.allocated), "reserved": most(memory.reserved) + 1}


STEP_SOURCE = LaneSource("steps", lambda _, lane: {"step": lane.row})
GPU_STEP_SOURCE = LaneSource("gpu_steps", lambda _, lane: {"step": lane.row})
STALL_SOURCE = LaneSource("stalls", columns_of_stalls)
ANNOTATION_SOURCE = LaneSource("annotations", columns_of_events, "annotations", is_nested=True)
OP_SOURCE = LaneSource("ops", columns_of_events, "ops", is_nested=True)
CALL_SOURCE = LaneSource("calls", columns_of_events, "calls", is_nested=True)
FRAME_SOURCE = LaneSource("frames", columns_of_events, "functions", is_nested=True)
BAND_SOURCE = LaneSource("overlap", lambda *_: {})
MEMORY_SOURCE = LaneSource("memory", columns_of_memory)
WORK_SOURCE = LaneSource("gpu", columns_of_work, "gpu")
MEASURE_SOURCES = frozenset((BAND_SOURCE, MEMORY_SOURCE))
"""Lanes that show a measure over time, not events."""


@dataclass(frozen=True)
class HiddenEvents:
    """Events in the window that no lane shows."""

    count: int
    what: str


def levels(start: Int64s, end: Int64s, limit: int) -> Int64s:
    """Return the level of each event (sorted by start) among those that it overlaps, -1 from `limit` on.

    Of properly nested events this is the depth. Events of one level never overlap.
    """
    level = np.full(len(start), NONE, np.int64)
    rest = np.arange(len(start))
    for depth in range(limit):
        if len(rest) == 0:
            break
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        inner = start < reach
        level[rest[~inner]] = depth
        rest, start, end = rest[inner], start[inner], end[inner]
    return level


def lane_at(group: str, label: str, source: LaneSource, start: Int64s, end: Int64s, kind: Int64s, row: Int64s) -> Lane:
    """Return a lane of rectangles at these times."""
    order = np.argsort(start, kind="stable")  # as `lexsort`, which is slow with what is in order, and with few kinds
    order = order[np.argsort(kind[order].astype(np.int16), kind="stable")]
    start, end = start[order], end[order]
    kind, row, count = kind[order].astype(np.int16), row[order].astype(np.int32), np.ones(len(order), np.int32)
    return Lane(group, label, source, start, end, kind, row, count, end - start)


@dataclass(frozen=True)
class Drawing:
    """All that is drawn of a trace, and what is not."""

    window: Window
    lanes: tuple[Lane, ...]
    narrow_ns: int
    """Neighbours shorter than this are merged; 0 if nothing is merged."""
    left_out: tuple[HiddenEvents, ...]


def merge_narrow(
    lane: Lane, narrow: int, keep: Bools | None = None, *, mixed: bool = False, shares: Iterable[int] = ()
) -> Lane:
    """Return a lane in which neighbours of one kind, or of any if `mixed`, are merged if shorter than `narrow` ns.

    Those that begin in the same stretch of `narrow` ns become one block, so that no block is longer than twice that and
    every event lies in the drawing no further from its true place than a block is long. Those of `keep` stay alone.
    Kind and row of a block are those of its longest event; `shares` are kinds whose times in each block are kept.
    """
    if len(lane) == 0:
        return lane
    first = first_of_blocks(lane, narrow, keep, mixed=mixed)
    block = np.repeat(np.arange(len(first)), np.diff(first, append=len(lane)))
    is_longest = lane.busy_ns == np.maximum.reduceat(lane.busy_ns, first)[block]
    longest = first.copy()
    longest[block[is_longest]] = np.flatnonzero(is_longest)  # of equal ones the last: that assignment holds
    return replace(
        lane.taken(longest),
        start_ns=lane.start_ns[first],
        end_ns=np.maximum.reduceat(lane.end_ns, first),
        count=np.add.reduceat(lane.count, first),
        busy_ns=np.add.reduceat(lane.busy_ns, first),
        shares={kind: np.add.reduceat(np.where(lane.kind == kind, lane.busy_ns, 0), first) for kind in shares},
    )


def first_of_blocks(lane: Lane, narrow: int, keep: Bools | None, *, mixed: bool) -> Int64s:
    """Return the index of the first event of each block, which `merge_narrow` makes a rectangle."""
    if len(lane) == 0:
        return np.zeros(0, np.int64)
    merges = lane.busy_ns < narrow if keep is None else (lane.busy_ns < narrow) & ~keep
    stretch = np.where(merges, lane.start_ns // narrow, -1)
    joins = (stretch[1:] == stretch[:-1]) & (stretch[1:] != -1) & (mixed | (lane.kind[1:] == lane.kind[:-1]))
    return np.flatnonzero(np.concatenate(([True], ~joins)))
