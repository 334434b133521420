"""Thins what is drawn: events narrower than a fraction of a pixel become blocks that say how many they hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from pinprof.analysis import Analysis
from pinprof.report.timeline.lane import Lane, LeftOut
from pinprof.report.timeline.lanes import lay_out, merged, not_drawn
from pinprof.report.timeline.window import Window, choose_window
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.units import duration

PIXELS = 1200
"""Width of the plot on a laptop's screen."""
FRACTION = 1 / 16
"""Events narrower than this part of a pixel of the full view are merged, so that one can zoom in 16 times and still see
each; the part doubles until what is drawn is few enough."""
MAX_RECTANGLES = 5_000
"""Chromium on two cores draws 20,000 bars in 0.85 s, and zooms in 0.6 s; a notebook may show several figures."""


@dataclass(frozen=True)
class Drawing:
    """All that is drawn of a trace, and what is not."""

    window: Window
    lanes: tuple[Lane, ...]
    narrow_ns: int
    """Neighbours shorter than this are merged; 0 if nothing is merged."""
    left_out: tuple[LeftOut, ...]


def arrange(
    trace: Trace, analysis: Analysis, window: Window | None = None, max_rectangles: int = MAX_RECTANGLES
) -> Drawing:
    """Return what to draw of a part of a trace, by default of some steps.

    There are no more rectangles than given, unless there are more lanes and kinds.
    """
    window = window or choose_window(trace)
    lanes, left_out = lay_out(trace, analysis, window)
    finest_ns = max(int(window.span_ns * FRACTION / PIXELS), 1)
    thin, narrow = fitted(lambda narrow: [thinned(lane, narrow) for lane in lanes], max_rectangles, finest_ns, window)
    return Drawing(window, thin, narrow, tuple(left_out))


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


def in_words(drawing: Drawing) -> str:
    """Return in plain text what is drawn, what is merged and what is left out."""
    window = drawing.window
    sentences = [_drawn(window)]
    events, blocks = merged(drawing.lanes)
    if blocks:
        what = f"{events:,} events shorter than {duration(drawing.narrow_ns)} are merged into {blocks:,} blocks"
        sentences.append(f"{what}: hover over a block to read how many it holds.")
    return " ".join((*sentences, *not_drawn(drawing.left_out)))


def _drawn(window: Window) -> str:
    if window.steps == 1:
        return f"Drawn: the only step of the trace, {duration(window.span_ns)}."
    which = (
        f"step {window.first + 1}" if window.first == window.last else f"steps {window.first + 1} to {window.last + 1}"
    )
    return f"Drawn: {which} of {window.steps}, with the GPU work that they launched, {duration(window.span_ns)}."
