"""Thins what is drawn: events narrower than a fraction of a pixel become blocks that say how many they hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from pinprof.report.timeline.lane import Lane, LeftOut
from pinprof.report.timeline.window import Window
from pinprof.trace.tables import Bools, Int64s


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

    `thin` returns the lanes for a number of ns, of which `finest_ns` is the first.
    """
    narrow, lanes = finest_ns, tuple(thin(finest_ns))
    while sum(map(len, lanes)) > max_rectangles and narrow < window.span_ns:
        narrow *= 2
        lanes = tuple(thin(narrow))
    return lanes, narrow


def thinned(lane: Lane, narrow: int, keep: Bools | None = None, *, mixed: bool = False) -> Lane:
    """Return a lane in which neighbours of one kind, or of any if `mixed`, are merged if shorter than `narrow` ns.

    Those that begin in the same stretch of `narrow` ns become one block, so that no block is longer than twice that and
    every event lies in the drawing no further from its true place than a block is long. Those of `keep` stay alone.
    Kind and row of a block are those of its longest event.
    """
    if len(lane) == 0:
        return lane
    first = blocks(lane, narrow, keep, mixed=mixed)
    block = np.repeat(np.arange(len(first)), np.diff(first, append=len(lane)))
    longest = np.lexsort((lane.busy_ns, block))[np.append(first[1:], len(lane)) - 1]
    return replace(
        lane,
        start_ns=lane.start_ns[first],
        end_ns=np.maximum.reduceat(lane.end_ns, first),
        kind=lane.kind[longest],
        row=lane.row[longest],
        count=np.add.reduceat(lane.count, first),
        busy_ns=np.add.reduceat(lane.busy_ns, first),
    )


def blocks(lane: Lane, narrow: int, keep: Bools | None = None, *, mixed: bool = False) -> Int64s:
    """Return where each block of a thinned lane begins."""
    merges = lane.busy_ns < narrow if keep is None else (lane.busy_ns < narrow) & ~keep
    stretch = np.where(merges, lane.start_ns // narrow, -1)
    joins = (stretch[1:] == stretch[:-1]) & (stretch[1:] != -1) & (mixed | (lane.kind[1:] == lane.kind[:-1]))
    return np.flatnonzero(np.concatenate(([True], ~joins)))
