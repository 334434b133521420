"""Lanes of the timeline: which events are drawn where, and which lanes are folded at first."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from pinprof.analysis import Analysis
from pinprof.ground.intervals import Intervals, gaps, intersect, subtract, union
from pinprof.report.timeline import kinds
from pinprof.report.timeline.lane import (
    ANNOTATION_SOURCE,
    BAND_SOURCE,
    CALL_SOURCE,
    FRAME_SOURCE,
    MEASURE_SOURCES,
    MEMORY_SOURCE,
    OP_SOURCE,
    STALL_SOURCE,
    STEP_SOURCE,
    WORK_SOURCE,
    Drawing,
    HiddenEvents,
    Lane,
    LaneSource,
    lane_at,
    levels,
)
from pinprof.report.timeline.steps import Window
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.frames import MODULE_PREFIX, frame, origin_of
from pinprof.trace.tables import (
    HOST_MEMORIES,
    MEMCPY,
    MEMSET,
    NONE,
    WHOLE_TRACE,
    Bools,
    Int64s,
    Table,
    Trace,
    computed_once,
)
from pinprof.trace.threads import STEP_PREFIX

OP_LEVELS, ANNOTATION_LEVELS, CALL_LEVELS, STREAM_LEVELS = 4, 2, 1, 3
"""The levels of nested (or, on a stream, overlapping) events that are drawn; deeper ones are counted."""
MAX_THREADS, MAX_STREAMS = 4, 12
"""The busiest host threads, and streams per device, that are drawn; the others are counted."""

DEEPEST_OP, DEEPEST_FRAME = 24, 64
"""The levels of ops and frames in folded lanes; deeper ones are counted."""
ROLES = ("main", "autograd", "pin_memory", "other")


def lay_out(analysis: Analysis, window: Window, *, nested: bool = False) -> tuple[list[Lane], list[HiddenEvents]]:
    """Return all lanes with events in the window from top to bottom, and the events without a lane.

    `nested` adds the lanes that are folded at first, and the memory of the GPUs.
    """
    hosts = _host_lanes(analysis, window, nested=nested)
    gpus = _gpu_lanes(analysis, window, with_memory=nested)
    lanes, left_out = [], []
    for entry in chain([_step_lane(analysis.trace, window)], hosts, gpus):
        if isinstance(entry, HiddenEvents):
            left_out += [entry] if entry.count else []
        elif len(entry):
            lanes.append(_clipped(entry, window))
    return lanes, left_out


def what_is_drawn(analysis: Analysis, drawing: Drawing, steps: str, merged: Iterable[str]) -> str:
    """Return sentences on what is drawn: steps, merged events, and events without a lane."""
    sentences, counts = [steps, *merged], Counter[str]()
    for entry in drawing.left_out:
        counts[entry.what] += entry.count
    if counts:
        sentences.append(f"Not drawn: {'; '.join(f'{count:,} {what}' for what, count in counts.items())}.")
    reason = why_no_band(analysis)
    if reason and len(analysis.trace.gpu):
        sentences.append(f"The overlap of copies is not drawn: {reason}.")
    return " ".join(sentences)


def in_blocks(lanes: Iterable[Lane], short: str) -> str:
    """Return how many short events are merged into how many blocks; empty if none are.

    Measures (the overlap band, memory) do not count.
    """
    blocks = [lane.count[lane.count > 1] for lane in lanes if lane.source not in MEASURE_SOURCES]
    count, into = sum(int(counts.sum()) for counts in blocks), sum(map(len, blocks))
    return f"{count:,} {short} are merged into {into:,} blocks" if into else ""


def why_no_band(analysis: Analysis) -> str:
    """Return why the overlap band is not drawn; empty if it is."""
    why = analysis.profile.withheld
    reason = analysis.profile.gravest(why.busy, why.overlap)
    return reason.what if reason else ""


def _clipped(lane: Lane, window: Window) -> Lane:
    if lane.source is FRAME_SOURCE:  # its text gives the whole length; most frames begin before the steps
        return lane
    start, end = (np.clip(times, window.start_ns, window.end_ns) for times in (lane.start_ns, lane.end_ns))
    return replace(lane, start_ns=start, end_ns=end)


def _step_lane(trace: Trace, window: Window) -> Lane:
    steps = trace.steps
    marked = steps.source != WHOLE_TRACE
    rows = np.flatnonzero(window.holds(steps.start_ns, steps.end_ns) & marked)
    kind = np.full(len(rows), kinds.STEP_KIND)
    where = "host" if steps.on_host else "GPU"
    return lane_at("Steps", where, STEP_SOURCE, steps.start_ns[rows], steps.end_ns[rows], kind, rows)


def _host_lanes(analysis: Analysis, window: Window, *, nested: bool) -> Iterator[Lane | HiddenEvents]:
    trace = analysis.trace
    tables = (trace.annotations, trace.ops, trace.calls)
    in_window = [np.flatnonzero(window.holds(table.start_ns, table.end_ns)) for table in tables]
    threads = np.concatenate([table.thread[rows] for table, rows in zip(tables, in_window, strict=True)])
    per_thread = np.bincount(threads, minlength=len(trace.threads))
    used = [index for index in range(len(trace.threads)) if per_thread[index]]
    used.sort(key=lambda index: (ROLES.index(trace.threads[index].role), -per_thread[index]))
    for index in used[:MAX_THREADS]:
        of_thread = [rows[table.thread[rows] == index] for table, rows in zip(tables, in_window, strict=True)]
        thread = f"thread {trace.threads[index].tid} ({trace.threads[index].role})"
        frames = _frame_lanes(trace, window, index, f"Python frames, {thread}") if nested else ()
        for lane in (*_thread_lanes(analysis, thread, of_thread, nested=nested), *frames):
            yield lane if isinstance(lane, HiddenEvents) else replace(lane, thread=index)
    others = used[MAX_THREADS:]
    yield HiddenEvents(int(sum(per_thread[index] for index in others)), f"events of {len(others)} more host threads")


def _thread_lanes(
    analysis: Analysis, thread: str, rows: list[Int64s], *, nested: bool
) -> Iterator[Lane | HiddenEvents]:
    trace, syncs, (annotations, ops, calls) = analysis.trace, analysis.details.syncs, rows
    group = f"Host {thread}"
    stalled = np.flatnonzero(np.isin(syncs.stalls.call, calls))
    kind = np.where(syncs.stalls.profiler, kinds.PROFILER_KIND, kinds.FIRST_STALL_KIND + syncs.cause)[stalled]
    call = syncs.stalls.call[stalled]
    yield lane_at(group, "stalls", STALL_SOURCE, trace.calls.start_ns[call], trace.calls.end_ns[call], kind, stalled)
    no_step = ~trace.annotations.named(lambda name: name.startswith(STEP_PREFIX))[annotations]
    for source, events, of_kind, limit in (
        (ANNOTATION_SOURCE, annotations[no_step], kinds.ANNOTATION_KIND, ANNOTATION_LEVELS),
        (OP_SOURCE, ops, kinds.OP_KIND, OP_LEVELS),
        (CALL_SOURCE, calls, kinds.CALL_KIND, CALL_LEVELS),
    ):
        deeper = f"{source.name} nested deeper than {limit}"
        stack = _Stack(group, source, getattr(trace, source.table), events, of_kind, (source.name,))
        yield from stack.lanes(range(limit), "" if nested and source is OP_SOURCE else deeper)
    if nested:
        depths = tuple(f"depth {depth}" for depth in range(1, DEEPEST_OP + 1))
        inner = _Stack(f"Ops further inside, {thread}", OP_SOURCE, trace.ops, ops, kinds.OP_KIND, depths, folded=True)
        yield from inner.lanes(range(OP_LEVELS, DEEPEST_OP), f"ops nested deeper than {DEEPEST_OP}")


class _Stack(NamedTuple):
    """Rows of a table that are nested on a thread, or overlap on a stream, for one lane per level."""

    group: str
    source: LaneSource
    table: Table
    rows: Int64s
    kind: Int64s | int
    labels: tuple[str, ...]
    """The labels of the first lanes; the others have none."""
    folded: bool = False

    def lanes(self, depths: range, deeper: str) -> Iterator[Lane | HiddenEvents]:
        """Yield a lane for each level in `depths`, and the count of `deeper` events unless that is empty."""
        level = levels(self.table.start_ns[self.rows], self.table.end_ns[self.rows], depths.stop)
        kind = np.broadcast_to(np.asarray(self.kind, np.int64), level.shape)
        for depth in range(depths.start, int(level.max(initial=NONE)) + 1):
            label = self.labels[depth] if depth < len(self.labels) else ""
            rows, of_kind = self.rows[level == depth], kind[level == depth]
            times = self.table.start_ns[rows], self.table.end_ns[rows]
            yield replace(lane_at(self.group, label, self.source, *times, of_kind, rows), folded=self.folded)
        if deeper:
            yield HiddenEvents(int((level == NONE).sum()), deeper)


def _gpu_lanes(analysis: Analysis, window: Window, *, with_memory: bool) -> Iterator[Lane | HiddenEvents]:
    trace = analysis.trace
    gpu, memory = trace.gpu, trace.memory.of_gpu if with_memory else {}
    in_window = np.flatnonzero(window.holds(gpu.start_ns, gpu.end_ns))
    named = {device.index: device.name for device in trace.info.devices}
    for device in np.unique(gpu.device[in_window]):
        rows = in_window[gpu.device[in_window] == device]
        name = named.get(int(device))
        group = f"GPU {device}" + (f" ({name})" if name else "")
        if not why_no_band(analysis):
            yield _overlap_lane(trace, window, group, rows)
        if int(device) in memory:
            yield _memory_lane(trace, window, group, memory[int(device)])
        streams, counts = np.unique(gpu.stream[rows], return_counts=True)
        drawn = np.sort(np.argsort(-counts, kind="stable")[:MAX_STREAMS])
        for stream in streams[drawn]:
            yield from _stream_lanes(trace, group, int(stream), rows[gpu.stream[rows] == stream])
        left_out = int(counts.sum() - counts[drawn].sum())
        yield HiddenEvents(left_out, f"activities of {len(streams) - len(drawn)} more streams of GPU {device}")


def _stream_lanes(trace: Trace, group: str, stream: int, rows: Int64s) -> Iterator[Lane | HiddenEvents]:
    """Yield a lane for a stream, and more if its activities overlap (kernels of a graph, dependent launches)."""
    gpu = trace.gpu
    copy = kinds.FIRST_COPY_KIND + gpu.direction[rows].astype(np.int64) * len(HOST_MEMORIES) + gpu.host_memory[rows]
    category = gpu.category[rows]
    kernel = np.where(is_collective_kernel(gpu)[rows], kinds.COLLECTIVE_KIND, kinds.KERNEL_KIND)
    kind = np.select((category == MEMCPY, category == MEMSET), (copy, kinds.MEMSET_KIND), kernel)
    stack = _Stack(group, WORK_SOURCE, gpu, rows, kind, (f"stream {stream}",))
    return stack.lanes(range(STREAM_LEVELS), f"activities of stream {stream} that overlap {STREAM_LEVELS} others")


def _overlap_lane(trace: Trace, window: Window, group: str, rows: Int64s) -> Lane:
    """Return the band that shows when a device computed, copied, did both or was idle, from its first work on."""
    gpu = trace.gpu

    def times(chosen: Bools) -> Intervals:
        return union(gpu.start_ns[rows[chosen]], gpu.end_ns[rows[chosen]])

    computes, is_collective = gpu.is_compute[rows], is_collective_kernel(gpu)[rows]
    kernels, copies, memsets = map(times, (computes, gpu.is_transfer[rows], gpu.category[rows] == MEMSET))
    without_copies, compute = subtract(kernels, copies), times(computes & ~is_collective)
    parts = {
        kinds.IDLE_KIND: gaps(union(gpu.start_ns[rows], gpu.end_ns[rows])),
        kinds.MEMSET_ONLY_KIND: subtract(subtract(memsets, kernels), copies),
        kinds.COMPUTE_ONLY_KIND: intersect(without_copies, compute),
        kinds.COLLECTIVE_ONLY_KIND: subtract(without_copies, compute),
        kinds.EXPOSED_COPY_KIND: subtract(copies, kernels),
        kinds.OVERLAPPED_COPY_KIND: intersect(kernels, copies),
    }
    start, end = (np.concatenate([part[side] for part in parts.values()]) for side in (0, 1))
    kind = np.repeat(list(parts), [len(part.start) for part in parts.values()])
    inside = window.holds(start, end)
    row = np.full(int(inside.sum()), NONE, np.int64)
    return lane_at(group, "overlap", BAND_SOURCE, start[inside], end[inside], kind[inside], row)


def _memory_lane(trace: Trace, window: Window, group: str, rows: Int64s) -> Lane:
    start = trace.memory.at_ns[rows]
    end = np.append(start[1:], max(window.end_ns, int(start[-1])))
    inside = window.holds(start, end)
    kind = np.full(int(inside.sum()), kinds.MEMORY_KIND)
    return lane_at(group, "memory", MEMORY_SOURCE, start[inside], end[inside], kind, rows[inside])


def _frame_lanes(trace: Trace, window: Window, index: int, group: str) -> Iterator[Lane | HiddenEvents]:
    """Yield a lane for each level of the Python frames of a thread, the outermost first."""
    functions = trace.functions
    rows = np.flatnonzero(window.holds(functions.start_ns, functions.end_ns) & (functions.thread == index))
    stack = _Stack(group, FRAME_SOURCE, functions, rows, _frame_kinds(trace)[rows], ("frames",), folded=True)
    return stack.lanes(range(DEEPEST_FRAME), f"Python frames nested deeper than {DEEPEST_FRAME}")


@computed_once
def _frame_kinds(trace: Trace) -> Int64s:
    functions = trace.functions
    of_name = np.full(len(functions.names), kinds.PACKAGE_CODE_KIND, np.int64)
    for code in np.unique(functions.name).tolist():
        of_name[code] = _kind_of_function(functions.names[code])
    return of_name[functions.name]


def _kind_of_function(name: str) -> int:
    function = frame(name)
    if function is None:
        is_torch = name.startswith(MODULE_PREFIX) or " of Tensor object" in name or "torch" in name
        return kinds.TORCH_CODE_KIND if is_torch else kinds.PACKAGE_CODE_KIND
    return kinds.KIND_OF_ORIGIN[origin_of(function.file)]
