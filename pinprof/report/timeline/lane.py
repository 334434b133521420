"""A lane of the timeline: rectangles in a row, what they can be, and how those too thin to see are merged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.report.timeline.facts import Facts
from pinprof.report.timeline.steps import Window
from pinprof.trace.tables import NONE, Bools, Int64s


class Names(NamedTuple):
    """A column of texts, many of them the same: names, and the code of each value."""

    names: Sequence[str]
    codes: np.ndarray


class Links(NamedTuple):
    """A column of rows of a table that is drawn, too: `calls` or `gpu`; -1 is none."""

    table: str
    rows: np.ndarray


class Rising(NamedTuple):
    """A column of numbers that mostly rise."""

    values: np.ndarray


Column: TypeAlias = "np.ndarray | Names | Links | Rising"
Columns: TypeAlias = dict[str, Column]
"""What there is to say of rectangles besides their times, a value for each."""


@dataclass(frozen=True)
class Source:
    """What the rectangles of a lane can be; the rows are in `sources.py`."""

    name: str
    columns: Callable[[Facts, "Lane"], Columns]
    """What the page has of them; what it says of one is in `words.js`."""
    table: str = ""
    """The table of a trace whose rows they are, with names and args."""
    is_nested: bool = False
    """Whether they are around each other, on a thread."""


@dataclass(frozen=True)
class Lane:
    """Rectangles in a row, sorted by kind, then by start; times in ns."""

    group: str
    label: str
    source: Source
    start_ns: Int64s
    end_ns: Int64s
    kind: Int64s
    """Index into KINDS."""
    row: Int64s
    """The event; of a block of merged ones the longest. Of a source without a table it is a row of `Stalls`, a step, or
    a place in `names`, and nothing in an overlap band."""
    count: Int64s
    """How many events it stands for."""
    busy_ns: Int64s
    """Their summed duration."""
    thread: int = NONE
    """The host thread of its events, as an index into `Trace.threads`."""
    folded: bool = False
    """Whether it is only seen on request."""
    names: tuple[str, ...] = ()
    """Of changes: what `row` counts."""
    shares: Mapping[int, Int64s] = field(default_factory=dict)
    """Of an overlap band with merged parts: ns of each kind in each rectangle."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def taken(self, places: Int64s | Bools) -> "Lane":
        """Return the lane with some of its rectangles, in the order of their places."""
        columns = (self.start_ns, self.end_ns, self.kind, self.row, self.count, self.busy_ns)
        start, end, kind, row, count, busy = (column[places] for column in columns)
        return replace(self, start_ns=start, end_ns=end, kind=kind, row=row, count=count, busy_ns=busy)


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


def lane_at(group: str, label: str, source: Source, start: Int64s, end: Int64s, kind: Int64s, row: Int64s) -> Lane:
    """Return a lane of rectangles at these times."""
    order = np.lexsort((start, kind))
    start, end = start[order], end[order]
    return Lane(group, label, source, start, end, kind[order], row[order], np.ones(len(order), np.int64), end - start)


@dataclass(frozen=True)
class Drawing:
    """All that is drawn of a trace, and what is not."""

    window: Window
    lanes: tuple[Lane, ...]
    narrow_ns: int
    """Neighbours shorter than this are merged; 0 if nothing is merged."""
    left_out: tuple[LeftOut, ...]


def fitted(
    thin: Callable[[int], Iterable[Lane]], max_rectangles: int, finest_ns: int, window: Window
) -> tuple[tuple[Lane, ...], int]:
    """Return lanes that are thinned until they are few enough, and below how many ns events are merged in them.

    `thin` returns the lanes for a number of ns, which begins at `finest_ns` and doubles.
    """
    narrow, lanes = finest_ns, tuple(thin(finest_ns))
    while sum(map(len, lanes)) > max_rectangles and narrow < window.span_ns:
        narrow *= 2
        lanes = tuple(thin(narrow))
    return lanes, narrow


def thinned(
    lane: Lane, narrow: int, keep: Bools | None = None, *, mixed: bool = False, shares: Iterable[int] = ()
) -> Lane:
    """Return a lane in which neighbours of one kind, or of any if `mixed`, are merged if shorter than `narrow` ns.

    Those that begin in the same stretch of `narrow` ns become one block, so that no block is longer than twice that and
    every event lies in the drawing no further from its true place than a block is long. Those of `keep` stay alone.
    Kind and row of a block are those of its longest event; `shares` are kinds whose times in each block are kept.
    """
    if len(lane) == 0:
        return lane
    merges = lane.busy_ns < narrow if keep is None else (lane.busy_ns < narrow) & ~keep
    stretch = np.where(merges, lane.start_ns // narrow, -1)
    joins = (stretch[1:] == stretch[:-1]) & (stretch[1:] != -1) & (mixed | (lane.kind[1:] == lane.kind[:-1]))
    first = np.flatnonzero(np.concatenate(([True], ~joins)))
    block = np.repeat(np.arange(len(first)), np.diff(first, append=len(lane)))
    longest = np.lexsort((lane.busy_ns, block))[np.append(first[1:], len(lane)) - 1]
    return replace(
        lane.taken(longest),
        start_ns=lane.start_ns[first],
        end_ns=np.maximum.reduceat(lane.end_ns, first),
        count=np.add.reduceat(lane.count, first),
        busy_ns=np.add.reduceat(lane.busy_ns, first),
        shares={kind: np.add.reduceat(np.where(lane.kind == kind, lane.busy_ns, 0), first) for kind in shares},
    )
