"""A lane of the timeline: rectangles in a row, and how events are put into rows."""

from dataclasses import dataclass, replace

import numpy as np

from pinprof.trace.tables import NONE, Bools, Int64s, Table


@dataclass(frozen=True)
class Lane:
    """Rectangles in a row, sorted by kind, then by start; times in ns."""

    group: str
    label: str
    source: str
    """What `row` counts: rows of `ops`, `annotations`, `frames` (`Trace.functions`), `calls`, `gpu`, `steps` or
    `stalls`; of `changes` what stands in `names`; nothing in an `overlap`."""
    start_ns: Int64s
    end_ns: Int64s
    kind: Int64s
    """Index into KINDS."""
    row: Int64s
    """The event; of a block of merged ones the longest."""
    count: Int64s
    """How many events it stands for."""
    busy_ns: Int64s
    """Their summed duration."""
    folded: bool = False
    """Whether it is only seen on request."""
    names: tuple[str, ...] = ()
    """Of `changes`: what `row` counts."""

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class LeftOut:
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
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end[rest])[:-1]))
        outer = start[rest] >= reach
        level[rest[outer]] = depth
        rest = rest[~outer]
    return level


def chosen(lane: Lane, kept: Bools) -> Lane:
    """Return a lane with some of its rectangles."""
    columns = (lane.start_ns, lane.end_ns, lane.kind, lane.row, lane.count, lane.busy_ns)
    start, end, kind, row, count, busy = (column[kept] for column in columns)
    return replace(lane, start_ns=start, end_ns=end, kind=kind, row=row, count=count, busy_ns=busy)


def lane_of(
    group: str, label: str, source: str, table: Table, rows: Int64s, kind: Int64s | int, *, folded: bool = False
) -> Lane:
    """Return rows of a table as a lane."""
    kind = np.broadcast_to(np.asarray(kind, np.int64), rows.shape)
    made = lane_at(group, label, source, table.start_ns[rows], table.end_ns[rows], kind, rows)
    return replace(made, folded=folded)


def lane_at(group: str, label: str, source: str, start: Int64s, end: Int64s, kind: Int64s, row: Int64s) -> Lane:
    """Return a lane of rectangles at these times."""
    order = np.lexsort((start, kind))
    start, end = start[order], end[order]
    return Lane(group, label, source, start, end, kind[order], row[order], np.ones(len(order), np.int64), end - start)
