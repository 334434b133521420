"""Links between the rows of a trace: launch of an activity, op and Python function around a call, step."""

from typing import NamedTuple

import numpy as np

from pinprof.trace import tables
from pinprof.trace.tables import EVERY, NONE, Activities, Bools, Calls, HostEvents, Int32s, Int64s, Links, Steps, Trace

ROUNDING_NS = 1000  # successive ranges overlap by up to this in traces with times in whole microseconds
NO_WORK_NS = int(np.iinfo(np.int64).min)  # stands for the end of the GPU work of a step without any
USUAL_DEPTH = 64
"""Levels of nesting that are walked one at a time, which is fast for few rows; only recursive code nests deeper."""


class RecordedWork(NamedTuple):
    """The tables in which steps and the calls of a model are found."""

    ops: HostEvents
    annotations: HostEvents
    functions: HostEvents
    calls: Calls
    gpu: Activities
    launch: Int32s  # per activity: the call that launched it, -1 for none


def find_links(recorded: RecordedWork, steps: Steps) -> Links:
    """Return all links of a trace, given those from activities to their launches.

    Where the whole trace is the only step, what was queued before the recording began is its work too. Without any
    link, work belongs to the step in whose time it starts.
    """
    ops, functions, calls, launch = recorded.ops, recorded.functions, recorded.calls, recorded.launch
    call_step = step_at(steps, calls.start_ns) if steps.on_host else np.full(len(calls), NONE, np.int32)
    launched_in = follow(call_step, launch)
    in_flight, launched_ns = _launch_times(calls, recorded.gpu, launch)
    by_launch = steps.on_host and steps.source != tables.WHOLE_TRACE and bool((launch != NONE).any())
    in_ops, in_functions = Nesting(ops), Nesting(functions)
    return Links(
        launch=launch,
        op=in_ops.around(calls),
        op_parent=in_ops.around(ops),
        function=in_functions.around(calls),
        function_parent=in_functions.around(functions),
        op_function=in_functions.around(ops),
        call_step=call_step,
        activity_step=launched_in if by_launch else step_at(steps, recorded.gpu.start_ns),
        in_flight=in_flight,
        launched_ns=launched_ns,
    )


def _launch_times(calls: Calls, gpu: Activities, launch: Int32s) -> tuple[Bools, Int64s]:
    """Return which activities were queued before the recording began, and when each was launched.

    The trace has no launch of work in flight, nor of any work before it on its stream, which runs in order. On a stream
    without any launch, only work that began before the first call certainly was in flight. Other work without a launch
    in the trace (the profiler lost it, or there are no calls) has the latest possible time: when the next work on its
    stream was launched, or its own start if that is earlier.
    """
    is_linked = launch != NONE
    launched_ns = gpu.start_ns.copy()
    launched_ns[is_linked] = calls.start_ns[launch[is_linked]]
    in_flight: Bools = np.zeros(len(gpu), bool)
    if not len(gpu):
        return in_flight, launched_ns
    order = np.lexsort((gpu.stream, gpu.device))  # stable, and the table is sorted by start
    is_new = (np.diff(gpu.device[order]) != 0) | (np.diff(gpu.stream[order]) != 0)
    stream = np.cumsum(np.append(0, is_new))
    place, linked = np.arange(len(order)), np.flatnonzero(is_linked[order])
    following = np.append(linked, len(order))[np.searchsorted(linked, place)]
    place = np.flatnonzero((following < len(order)) & ~is_linked[order])
    place = place[stream[following[place]] == stream[place]]
    launched_ns[order[place]] = np.minimum(launched_ns[order[place]], launched_ns[order[following[place]]])
    if len(calls):
        first = np.full(len(order), len(order))
        np.minimum.at(first, stream[linked], linked)
        in_flight[order] = (np.arange(len(order)) < first[stream]) & (first[stream] < len(order))
        in_flight = (in_flight | (gpu.start_ns < calls.start_ns[0])) & ~is_linked
        launched_ns[in_flight] = min(calls.start_ns[0], gpu.start_ns[0]) - 1
    launched_ns.setflags(write=False)
    return in_flight, launched_ns


def launches(calls: Calls, gpu: Activities) -> Int32s:
    """Return per activity the row of the call with the same correlation, -1 if there is none.

    A graph launch has many activities. Where several calls share a correlation, a counter wrapped or the traces of
    several processes are merged: then calls of threads that surely launch to the activity's device come first, and the
    last of these that began before the activity is taken.
    """
    usable = np.flatnonzero(calls.correlation > 0)
    launch = _last_before(calls, gpu, usable)
    correlation, uses = np.unique(calls.correlation[usable], return_counts=True)
    shared = np.isin(gpu.correlation, correlation[uses > 1])
    sure = (launch != NONE) & ~shared
    for device in np.unique(gpu.device[shared]) if sure.any() else ():
        threads = np.unique(calls.thread[launch[sure & (gpu.device == device)]])
        by_order = _last_before(calls, gpu, usable[np.isin(calls.thread[usable], threads)])
        launch = np.where(shared & (gpu.device == device) & (by_order != NONE), by_order, launch)
    return launch


def _last_before(calls: Calls, gpu: Activities, usable: Int64s) -> Int32s:
    """Return per activity the last of the usable calls with its correlation that began before it, else the first."""
    order = usable[np.argsort(calls.correlation[usable], kind="stable")]
    correlation = calls.correlation[order]
    first = np.searchsorted(correlation, gpu.correlation, side="left")
    is_found = np.searchsorted(correlation, gpu.correlation, side="right") > first
    # One number holds the correlation, as its first position, and the time, as the row: calls are sorted by start.
    rows = len(calls) + 1
    placed = np.searchsorted(correlation, correlation, side="left") * rows + order
    began = np.searchsorted(calls.start_ns, gpu.start_ns, side="right")
    position = np.maximum(np.searchsorted(placed, first * rows + began, side="left") - 1, first)
    launch = np.full(len(gpu), NONE, np.int32)
    launch[is_found] = order[position[is_found]]
    return launch


def follow(values: Int32s, links: Int32s) -> Int32s:
    """Return `values[links]`, with -1 where the link is -1."""
    if len(values) == 0:
        return np.full(len(links), NONE, np.int32)
    result = values[links].astype(np.int32, copy=False)
    result[links == NONE] = NONE
    return result


def within(flagged: Bools, rows: Int32s, parents: Int32s) -> Bools:
    """Return per row whether it, or a row around it, is flagged; never for -1."""
    return outermost(flagged, rows, parents) != NONE


def outermost(flagged: Bools, rows: Int32s, parents: Int32s) -> Int32s:
    """Return per row the outermost flagged one of it and the rows around it, -1 for none."""
    result = np.full(len(rows), NONE, np.int32)
    for _ in range(USUAL_DEPTH):
        if not (rows != NONE).any():
            return result
        result = np.where((rows != NONE) & flagged[rows], rows, result)
        rows = follow(parents, rows)
    above = follow(_outermost_of_all(flagged, parents), rows)
    return np.where(above != NONE, above, result)


def _outermost_of_all(flagged: Bools, parents: Int32s) -> Int32s:
    """Return `outermost` of all rows, in as many rounds as the logarithm of the depth: each looks twice as far up."""
    result = np.where(flagged, np.arange(len(parents), dtype=np.int32), np.int32(NONE))
    reach = parents
    while (reach != NONE).any():
        further = follow(result, reach)
        result = np.where(further != NONE, further, result)
        reach = follow(reach, reach)
    return result


def step_at(steps: Steps, time: Int64s) -> Int32s:
    """Return the step that contains each time, -1 for none."""
    if len(steps) == 0:
        return np.full(len(time), NONE, np.int32)
    step = np.searchsorted(steps.start_ns, time, side="right") - 1
    inside = (step >= 0) & (time < steps.end_ns[step])
    return np.where(inside, step, NONE).astype(np.int32)


def enclosing(outer: HostEvents, inner: HostEvents) -> Int32s:
    """Return per row of `inner` the innermost range of `outer` on the same thread around it, -1 for none.

    A range does not enclose itself; of equal ranges the earlier row is the outer one. Each range is taken to enclose
    what starts inside of it. Old traces are rounded to microseconds, so that a range may overlap the next one by 1 µs:
    it is then taken to end where the next one starts.
    """
    return Nesting(outer).around(inner)


class Nesting:
    """The ranges of a table, in which the innermost ones around other rows are found.

    A stack would need a loop over the events. Instead, all threads are laid end to end and the open ranges are counted
    at each start. The range around something that starts at depth d is the last one that started at depth d - 1: one
    search among all ranges, sorted by depth.
    """

    def __init__(self, outer: HostEvents) -> None:
        self._outer = outer
        self._first, self._last = (int(outer.start_ns[0]), int(outer.end_ns.max())) if len(outer) else (0, 0)
        start = self._laid_out(outer)
        self._order = np.argsort(start, kind="stable")  # of equal starts the table has the outer range first
        self._start = start[self._order]
        end = _without_overlap(self._start, self._start + outer.duration_ns[self._order])
        self._ends = np.maximum(end, self._start + 1)  # an empty range is open at its own start
        self._ends.sort(kind="stable")  # they are nearly in order
        self._depth = np.arange(len(outer)) - np.searchsorted(self._ends, self._start, side="right")
        self._by_depth = _by_depth(self._depth)
        self._keys = self._depth[self._by_depth] * len(outer) + self._by_depth

    def _laid_out(self, events: HostEvents) -> Int64s:
        """Return when events start, with all threads laid end to end; events outside of all ranges lie in between."""
        since = np.clip(events.start_ns, self._first - 1, self._last + 1) - self._first
        return since + events.thread.astype(np.int64) * (self._last - self._first + 3)

    def around(self, inner: HostEvents) -> Int32s:
        """Return what `enclosing` does."""
        outer, order, result = self._outer, self._order, np.full(len(inner), NONE, np.int32)
        if len(outer) == 0 or len(inner) == 0:
            return result
        if outer is inner:
            rows, begun, depth = order[self._by_depth], self._by_depth, self._depth[self._by_depth]
        else:
            key = self._laid_out(inner)
            begun = np.searchsorted(self._start, key, side="right")
            depth = begun - np.searchsorted(self._ends, key, side="right")
            rows = _by_depth(depth)  # in this order each search begins near the one before
            begun, depth = begun[rows], depth[rows]
        position = np.searchsorted(self._keys, (depth - 1) * len(outer) + begun) - 1
        is_found = (depth > 0) & (position >= 0)
        is_found[is_found] = self._keys[position[is_found]] >= (depth[is_found] - 1) * len(outer)
        result[rows[is_found]] = order[self._by_depth[position[is_found]]]
        badly_nested = (result != NONE) & (outer.end_ns[result] < inner.start_ns)
        return np.where(badly_nested, NONE, result)


def _by_depth(depth: Int64s) -> Int64s:
    """Return the rows by their depth; numpy sorts numbers of 16 bits in a tenth of the time."""
    is_narrow = depth.max(initial=0) <= np.iinfo(np.int16).max
    return np.argsort(depth.astype(np.int16) if is_narrow else depth, kind="stable")


def _without_overlap(start: Int64s, end: Int64s) -> Int64s:
    """Return the ends, each cut back to the start of a range that begins just before it and outlasts it."""
    last = len(start) - 1
    following = np.maximum(np.searchsorted(start, end - ROUNDING_NS), np.arange(len(start)) + 1)
    next_start, next_end = start[np.minimum(following, last)], end[np.minimum(following, last)]
    return np.where((following <= last) & (next_start < end) & (next_end > end), next_start, end)


def work_ends(trace: Trace, rows: Int64s | slice = EVERY) -> Int64s:
    """Return per step when the last of its GPU work ends, of these rows of `Trace.gpu`; `NO_WORK_NS` if it has none."""
    step = trace.links.activity_step[rows]
    launched = step != NONE
    ends = np.full(len(trace.steps), NO_WORK_NS)
    np.maximum.at(ends, step[launched], trace.gpu.end_ns[rows][launched])
    return ends
