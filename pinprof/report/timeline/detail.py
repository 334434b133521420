"""Which events are in the page in full: all, if they are few enough, else those of the steps that matter."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from pinprof.analysis import Analysis
from pinprof.intervals import union
from pinprof.report.timeline.kinds import BOTH, COLLECTIVE_ONLY, COMPUTE_ONLY, COPY_ONLY, IDLE, MEMSET_ONLY
from pinprof.report.timeline.lanes import Lane, lay_out
from pinprof.report.timeline.thin import Drawing, blocks, fitted, thinned
from pinprof.report.timeline.window import Window, step_range, whole_window
from pinprof.trace.tables import WHOLE_TRACE, Bools, Int64s, Trace

MAX_EVENTS = 1_000_000
"""Rectangles in a page. A million takes about 7 MB of it; the page's 15 MB are plotly.js (4.5 MB) and these."""
FULL_SHARE = 0.7
"""Of the rectangles that may be in a page, for the steps that are there in full."""
BAND = (IDLE, MEMSET_ONLY, COMPUTE_ONLY, COLLECTIVE_ONLY, COPY_ONLY, BOTH)
FINEST_NS = 1_000
"""Merging begins with what is shorter than this."""


@dataclass(frozen=True)
class Detail(Drawing):
    """All that is drawn of a whole trace, each lane sorted by start."""

    full: tuple[int, ...]
    """Steps whose events are all there; all steps if nothing is merged."""
    shares: dict[int, Int64s] = field(default_factory=dict)
    """Of merged overlap bands, by the place of the lane: ns of each of BAND in each rectangle, one row per kind."""


def detailed(
    trace: Trace, analysis: Analysis, view: Window, max_events: int = MAX_EVENTS, wanted_ns: Iterable[int] = ()
) -> Detail:
    """Return the lanes of a trace with no more rectangles than given, unless there are more lanes.

    The steps of `wanted_ns` are among those that are there in full.
    """
    window = whole_window(trace)
    found, left_out = lay_out(trace, analysis, window)
    bare = analysis.profile.withheld.busy or analysis.profile.withheld.overlap
    lanes = [by_start(lane) for lane in found if not (bare and lane.source == "overlap")]
    total = sum(map(len, lanes))
    if total <= max_events:
        return Detail(window, tuple(lanes), 0, tuple(left_out), tuple(range(len(trace.steps))))
    limit = int(len(trace.steps) * FULL_SHARE * max_events / total)
    full = _full_steps(trace, analysis, view, limit, wanted_ns)
    keep = [_within(trace, full, lane) for lane in lanes]
    pairs = list(zip(lanes, keep, strict=True))
    thin, narrow = fitted(
        lambda narrow: [thinned(lane, narrow, kept, mixed=True) for lane, kept in pairs], max_events, FINEST_NS, window
    )
    shares = {
        place: band_shares(lane, blocks(lane, narrow, kept, mixed=True))
        for place, (lane, kept) in enumerate(pairs)
        if lane.source == "overlap"
    }
    return Detail(window, thin, narrow, tuple(left_out), tuple(full), shares)


def by_start(lane: Lane) -> Lane:
    """Return a lane sorted by start, whatever the kinds."""
    order = np.argsort(lane.start_ns, kind="stable")
    return replace(
        lane,
        start_ns=lane.start_ns[order],
        end_ns=lane.end_ns[order],
        kind=lane.kind[order],
        row=lane.row[order],
        count=lane.count[order],
        busy_ns=lane.busy_ns[order],
    )


def band_shares(lane: Lane, first: Int64s) -> Int64s:
    """Return how long each kind of the overlap band lasts in each block, one row per kind of BAND."""
    return np.stack([np.add.reduceat(np.where(lane.kind == kind, lane.busy_ns, 0), first) for kind in BAND])


def _full_steps(trace: Trace, analysis: Analysis, view: Window, limit: int, wanted_ns: Iterable[int]) -> list[int]:
    """Return about so many steps: those of the first sight, of the worst waits and copies, then the middle ones."""
    if trace.steps.source == WHOLE_TRACE:
        return []
    syncs = analysis.details.syncs
    cost = syncs.stalls.bubble_ns + syncs.stalls.stall_ns
    worst = [rows[cost[rows].argmax()] for rows in map(np.flatnonzero, _by_site(syncs.site, len(syncs.sites)))]
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


def _by_site(site: Int64s, count: int) -> Iterable[Bools]:
    return (site == number for number in range(count))


def _within(trace: Trace, steps: list[int], lane: Lane) -> Bools:
    """Return which events lie in the time of some steps and of the GPU work that they launched."""
    if not steps:
        return np.zeros(len(lane), bool)
    start, end = np.array([step_range(trace, step, step) for step in steps], np.int64).T
    spans = union(start, end)
    place = np.searchsorted(spans.start, lane.start_ns, side="right") - 1
    return (place >= 0) & (lane.start_ns < spans.end[np.clip(place, 0, None)])
