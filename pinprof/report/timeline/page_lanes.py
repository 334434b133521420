"""The lanes of a page: with all events if they fit, otherwise with those of the steps that matter, the rest merged."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pinprof.analysis import Analysis
from pinprof.intervals import Intervals, union
from pinprof.report.timeline.kinds import PARTS
from pinprof.report.timeline.lane import BAND, STEPS, Drawing, Lane, length_merged, merge_narrow, narrow_limit
from pinprof.report.timeline.lanes import lay_out
from pinprof.report.timeline.steps import Window, step_range, whole_window
from pinprof.trace.tables import WHOLE_TRACE, Bools, Trace

MAX_EVENTS = 1_000_000
"""Rectangles in a page. A million takes about 7 MB of it; the page's 15 MB are plotly.js (4.5 MB) and these."""
FOLDED_SHARE = 0.15
"""The share of a page's rectangles for lanes that are folded at first: a recording has far more Python frames
than other events."""
FULL_SHARE = 0.7
"""The share of a page's rectangles for the steps that are there in full."""
FINEST_NS = 1_000
"""Merging begins with what is shorter than this."""


@dataclass(frozen=True)
class PageDrawing(Drawing):
    """All that is drawn of a whole trace, each lane sorted by start."""

    full: tuple[int, ...]
    """Steps whose events are all there, folded lanes apart; all steps if nothing is merged."""
    folded_narrow_ns: int = 0
    """Neighbours shorter than this are merged in lanes that are folded at first; 0 if nothing is merged."""
    folded_full: tuple[int, ...] = ()
    """Steps whose events are all in the folded lanes, if some events are merged."""


class _Thinned(NamedTuple):
    """What `_thin` merged, with the fields of `PageDrawing`."""

    narrow_ns: int
    full: tuple[int, ...]


def lanes_of_page(
    trace: Trace,
    analysis: Analysis,
    view: Window,
    max_events: int = MAX_EVENTS,
    wanted_ns: Iterable[int] = (),
    more: Sequence[Lane] = (),
) -> PageDrawing:
    """Return the lanes of a trace with at most `max_events` rectangles, unless there are more lanes.

    The steps around `wanted_ns` are kept in full. Lanes that are folded at first have a share of their own, so that
    they take nothing from the others. `more` lanes stand below the steps.
    """
    window = whole_window(trace)
    laid_out, left_out = lay_out(trace, analysis, window, nested=True)
    steps, others = ([lane for lane in laid_out if (lane.source is STEPS) == is_step] for is_step in (True, False))
    lanes = [*steps, *more, *others]
    del laid_out, steps, others  # each lane is given up as soon as a sorted or thinner one takes its place
    for place, lane in enumerate(lanes):
        lanes[place] = lane.by_start()
    inner = [place for place, lane in enumerate(lanes) if lane.folded]
    outer = [place for place, lane in enumerate(lanes) if not lane.folded]
    few = int(FOLDED_SHARE * max_events)
    rest = max_events - min(few, sum(len(lanes[place]) for place in inner))
    folded = _thin(lanes, inner, few, window, trace, lambda limit: _first_seen(view, limit))
    wanted = list(wanted_ns)
    unfolded = _thin(lanes, outer, rest, window, trace, lambda limit: _full_steps(trace, analysis, view, limit, wanted))
    folded_full = folded.full if folded.narrow_ns else ()
    merged = (unfolded.full, folded.narrow_ns, folded_full)
    return PageDrawing(window, tuple(lanes), unfolded.narrow_ns, tuple(left_out), *merged)


def _thin(
    lanes: list[Lane],
    places: list[int],
    most: int,
    window: Window,
    trace: Trace,
    full_steps: Callable[[int], list[int]],
) -> _Thinned:
    """Merge narrow events of the lanes at these places, to `most` rectangles; keep as many steps in full as fit."""
    total = sum(len(lanes[place]) for place in places)
    if total <= most:
        return _Thinned(0, tuple(range(len(trace.steps))))
    full = full_steps(int(len(trace.steps) * FULL_SHARE * most / total))
    spans = union(*np.array([step_range(trace, step, step) for step in full], np.int64).reshape(-1, 2).T)
    keep = {place: _within(spans, lanes[place]) for place in places}

    def count(narrow: int) -> int:
        return sum(length_merged(lanes[place], narrow, kept, mixed=True) for place, kept in keep.items())

    narrow = narrow_limit(count, most, FINEST_NS, window)
    for place, kept in keep.items():
        shares = PARTS if lanes[place].source is BAND else ()
        lanes[place] = merge_narrow(lanes[place], narrow, kept, mixed=True, shares=shares)
    return _Thinned(narrow, tuple(full))


def _first_seen(view: Window, limit: int) -> list[int]:
    """Return the steps of the first view, if they fit."""
    steps = list(range(view.first, view.last + 1))
    return steps if len(steps) <= limit else []


def _full_steps(trace: Trace, analysis: Analysis, view: Window, limit: int, wanted_ns: Iterable[int]) -> list[int]:
    """Return about `limit` steps: those of the first view, of the worst waits and copies, then the middle ones."""
    if trace.steps.source == WHOLE_TRACE:
        return []
    syncs = analysis.details.syncs
    cost = syncs.stalls.bubble_ns + syncs.stalls.stall_ns
    worst = [rows[cost[rows].argmax()] for rows in syncs.rows]
    overlap = analysis.details.overlap
    exposed = (np.flatnonzero(overlap.reason == code) for code in np.unique(overlap.reason))
    copies = [overlap.row[rows[overlap.exposed_ns[rows].argmax()]] for rows in exposed]
    wanted = [*range(view.first, view.last + 1)]
    wanted += [int(trace.steps.start_ns.searchsorted(time, side="right")) - 1 for time in wanted_ns]
    wanted += [int(syncs.stalls.call_step[row]) for row in worst]
    wanted += [int(trace.links.activity_step[row]) for row in copies]
    middle = (view.first + view.last) // 2
    nearest = np.argsort(np.abs(np.arange(len(trace.steps)) - middle), kind="stable").tolist()
    chosen = dict.fromkeys(step for step in (*wanted, *nearest) if step >= 0)
    return sorted(list(chosen)[: max(limit, view.last - view.first + 1)])


def _within(spans: Intervals, lane: Lane) -> Bools:
    """Return which events begin in these spans."""
    if not len(spans.start):
        return np.zeros(len(lane), bool)
    place = np.searchsorted(spans.start, lane.start_ns, side="right") - 1
    return (place >= 0) & (lane.start_ns < spans.end[np.clip(place, 0, None)])
