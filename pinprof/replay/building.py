"""Builds the program of a trace: for each call, what it does, what it waits for, and how long it takes."""

from collections.abc import Collection

import numpy as np

from pinprof.analyses.syncs.blocking_calls import CLOCK_SKEW_NS
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.ground.intervals import Intervals, contains, covered, joined, subtract, union
from pinprof.replay.calibration import runs_in_optimizers
from pinprof.replay.cuda_events import find_event_uses
from pinprof.replay.program import (
    DEFAULT_LATENCY_NS,
    DEFAULT_WAKE_NS,
    QUEUED_GAP_NS,
    Call,
    CallKind,
    Floats,
    GpuWork,
    Program,
)
from pinprof.trace import calls as kinds
from pinprof.trace.spans.idle_times import long_ops, long_pauses, python_in_nodes, usual_launch_ns, very_long_pauses
from pinprof.trace.spans.phases import torch_times
from pinprof.trace.tables import (
    DTOH,
    HTOD,
    KERNEL,
    MEMCPY,
    NONE,
    PAGEABLE,
    Bools,
    Int64s,
    Trace,
    computed_once,
    rows_by,
)

MAX_SPREAD_OF_LAUNCHES = 2.5  # the largest spread of launches that counts: a larger one comes from the program


def build_program(
    trace: Trace, stalls: Stalls, waiting_for_input: Intervals, python_cost: float, steps: Collection[int] | None = None
) -> Program:
    """Return the program of a trace, or of some of its steps.

    `python_cost` is the profiler's cost of a Python function relative to an op's.
    """
    builder = _Builder(trace, stalls)
    rows = builder.rows
    if len(rows) == 0:
        return Program(())
    wanted = np.ones(len(rows), bool) if steps is None else np.isin(trace.links.call_step[rows], list(steps))
    calls = builder.calls(rows[wanted])
    add_host_time(trace, stalls, rows, wanted, calls, waiting_for_input, python_cost)
    start = beginning(trace, int(rows[0]))
    ready: dict[int, float] = {}
    for row in np.flatnonzero(trace.links.in_flight).tolist():
        queue = int(builder.queue[row])
        ready[queue] = max(ready.get(queue, 0.0), float(trace.gpu.end_ns[row] - start))
    device = dict(zip(builder.queue.tolist(), trace.gpu.device.tolist(), strict=True))
    last = int(rows[-1])
    step = int(trace.links.call_step[last])
    in_step = trace.steps.on_host and step != NONE
    tail = max(float(trace.steps.end_ns[step] - trace.calls.end_ns[last]), 0.0) if in_step else 0.0
    launches, depth = builder.kernel_launches(), builder.queue_depth()
    return Program(tuple(calls), start, ready, int(rows[0]), tail, device, *launches, depth)


class _Builder:
    """Builds the calls of a program."""

    def __init__(self, trace: Trace, stalls: Stalls) -> None:
        self.trace, self.stalls = trace, stalls
        gpu, launch = trace.gpu, trace.links.launch
        streams, stream = np.unique(gpu.stream, return_inverse=True)
        pairs = gpu.device.astype(np.int64) * len(streams) + stream
        self.queue = np.unique(pairs, return_inverse=True)[1]
        self.stall_of = np.full(len(trace.calls), NONE, np.int64)
        self.stall_of[stalls.call] = np.arange(len(stalls.call))
        self.launched = np.flatnonzero(launch != NONE)
        self._by_call = self.launched[np.argsort(launch[self.launched], kind="stable")]
        self._first = np.searchsorted(launch[self._by_call], np.arange(len(trace.calls) + 1))
        """Where the activities of each call begin in `_by_call`."""
        self.uses = find_event_uses(trace, self.queue, stalls)
        self.free_ns = self._free()
        self.latency_ns = self._usual_latency()
        self.usual_launch_ns = usual_launch_ns(trace)
        self.rows = self._replayed_calls()
        self.current_queue = self._current_queues()

    def _replayed_calls(self) -> Int64s:
        trace, stalls = self.trace, self.stalls
        launches, uses = trace.links.launch[self.launched], np.array(list(self.uses.of_call), np.int64)
        rows = np.unique(np.concatenate((launches, stalls.call, uses))).astype(np.int64)
        launching = np.zeros(len(trace.threads), bool)
        launching[trace.calls.thread[launches]] = True
        launching &= ~trace.has_role("pin_memory")
        own = np.zeros(len(trace.calls), bool)
        own[stalls.call[stalls.profiler & (stalls.kind != kinds.PROFILER)]] = True
        return rows[launching[trace.calls.thread[rows]] & ~own[rows]]

    def _free(self) -> Int64s:
        """Return per activity when its stream was free for it: when the work before, or the work of an event, ended.

        Before its first activity, a stream has been free since half of the least int64: that is before any time of a
        trace, and differences from it still fit 64 bits.
        """
        trace = self.trace
        order = np.lexsort((trace.gpu.start_ns, self.queue))
        free = np.full(len(trace.gpu), np.iinfo(np.int64).min // 2)
        same = self.queue[order[1:]] == self.queue[order[:-1]]
        free[order[1:][same]] = trace.gpu.end_ns[order[:-1][same]]
        for launch, released in self.uses.released_ns.items():
            for row in self.works_of(launch):
                free[row] = max(free[row], released)
        return free

    def _usual_latency(self) -> float:
        trace = self.trace
        rows = self.launched
        issued = trace.calls.start_ns[trace.links.launch[rows]]
        latency = (trace.gpu.start_ns[rows] - issued)[self.free_ns[rows] <= issued]
        return float(np.median(latency)) if len(latency) else DEFAULT_LATENCY_NS

    def kernel_launches(self) -> tuple[float, float]:
        """Return the program's `launch_ns` and `launch_spread`."""
        trace = self.trace
        kernels = (trace.gpu.category == KERNEL) & (trace.links.launch != NONE)
        calls, count = np.unique(trace.links.launch[kernels], return_counts=True)
        times = trace.calls.duration_ns[calls[(count == 1) & (self.stall_of[calls] == NONE)]]
        if not len(times):
            return 0.0, 1.0
        usual, long = np.percentile(times, [50, 90])
        return float(usual), min(float(long) / max(float(usual), 1.0), MAX_SPREAD_OF_LAUNCHES)

    def queue_depth(self) -> int:
        """Return how many launches a stream holds: `QUEUE_DEPTH`, or more if a stream held more.

        Streams of AMD's GPUs hold many thousands.
        """
        trace, rows, depth = self.trace, self.launched, kinds.QUEUE_DEPTH
        for queue in np.unique(self.queue[rows]).tolist():
            of_queue = rows[self.queue[rows] == queue]
            calls, launch_of = np.unique(trace.links.launch[of_queue], return_inverse=True)
            if len(calls) <= kinds.QUEUE_DEPTH:
                continue
            ends = np.full(len(calls), np.iinfo(np.int64).min)
            np.maximum.at(ends, launch_of.ravel(), trace.gpu.end_ns[of_queue])
            ended = np.searchsorted(np.sort(ends), trace.calls.end_ns[calls], side="right")
            depth = max(depth, int((np.arange(1, len(calls) + 1) - ended).max()))
        return depth

    def works_of(self, call: int) -> list[int]:
        """Return the activities that a call launched."""
        return self._by_call[self._first[call] : self._first[call + 1]].tolist()

    def _current_queues(self) -> Int64s:
        """Return per call the stream of its thread's last launch before it: mostly PyTorch's current stream."""
        calls = self.trace.calls
        current_queue, queue = np.full(len(calls), NONE, np.int64), np.full(len(calls), NONE, np.int64)
        queue[self.trace.links.launch[self.launched]] = self.queue[self.launched]
        for rows in rows_by(calls.thread[self.rows]):
            of_thread = self.rows[rows]
            last = np.maximum.accumulate(np.where(queue[of_thread] != NONE, np.arange(len(rows)), NONE))
            launched = np.append(NONE, last[:-1])
            current_queue[of_thread] = np.where(launched != NONE, queue[of_thread[launched]], NONE)
        return current_queue

    def calls(self, rows: Int64s) -> list[Call]:
        """Return these calls, in the order of their rows, without the host's time before them."""
        launch = self.trace.links.launch[self._by_call]
        works = self._works(self._by_call[np.isin(launch, rows)])
        count = self._first[rows + 1] - self._first[rows]
        ends = np.cumsum(count)
        columns = (rows, self.trace.links.call_step[rows], ends - count, ends)
        return [
            self._call(row, step, works[begin:end])
            for row, step, begin, end in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _call(self, row: int, step: int, works: list[GpuWork]) -> Call:
        call = Call(row, CallKind.ISSUE, 0.0, step=step, works=works)
        use, stall = self.uses.of_call.get(row), int(self.stall_of[row])
        if use is not None:
            call.kind, call.queue, call.back = use
            if stall != NONE:
                self._add_wait(call, stall)
        elif stall != NONE:
            self._add_stall(call, stall)
        return call

    def _works(self, rows: Int64s) -> list[GpuWork]:
        gpu = self.trace.gpu
        start, end, free = gpu.start_ns[rows], gpu.end_ns[rows], self.free_ns[rows]
        issued = self.trace.calls.start_ns[self.trace.links.launch[rows]]
        latency, gap = start - issued, start - free
        idle = free <= issued
        latency = np.where(idle, latency, np.minimum(latency, self.latency_ns))
        gap = np.where(idle, np.minimum(gap, QUEUED_GAP_NS), gap)
        copies = (gpu.category[rows] == MEMCPY) & np.isin(gpu.direction[rows], (HTOD, DTOH))
        columns = (
            *(rows, self.queue[rows], np.where(copies, gpu.direction[rows], NONE), (end - start).astype(np.float64)),
            *(np.maximum(latency, 0.0), np.maximum(gap, 0.0)),
        )
        works = list(map(GpuWork, *(column.tolist() for column in columns)))
        for index in np.flatnonzero(gpu.host_memory[rows] == PAGEABLE).tolist():
            works[index].is_pageable = True
        return works

    def _add_stall(self, call: Call, stall: int) -> None:
        stalls = self.stalls
        kind, copy = int(stalls.kind[stall]), int(stalls.copy[stall])
        stall_ns, drain_ns = float(stalls.stall_ns[stall]), float(stalls.drain_ns[stall])
        if kind in (kinds.STREAM, kinds.DEVICE, kinds.EVENT):
            call.queue = int(self.queue[copy]) if copy != NONE else int(self.current_queue[call.row])
            call.kind = CallKind.DEVICE_WAIT if kind == kinds.DEVICE else CallKind.STREAM_WAIT
            is_unknown = call.queue == NONE or (kind == kinds.EVENT and drain_ns == 0)
            if kind != kinds.DEVICE and copy == NONE and is_unknown:
                call.kind, call.own_ns = CallKind.PAUSE, stall_ns
                return
            self._add_wait(call, stall)
        elif kind in (kinds.COPY, kinds.ASYNC_COPY) and call.works:
            self._add_staging(call, stall_ns)
        elif kind in (kinds.QUEUE_FULL, kinds.MODULE_LOAD, kinds.PROFILER):
            call.own_ns = self.usual_launch_ns if kind == kinds.QUEUE_FULL else stall_ns
            call.artefact_ns = max(stall_ns - self.usual_launch_ns, 0.0) if kind != kinds.QUEUE_FULL else 0.0
        elif kind == kinds.LAUNCH:
            call.kind = CallKind.OWN_WAIT
            self._add_wait(call, stall)
        else:
            waits = kind == kinds.FREE and drain_ns > 0
            call.kind = CallKind.DRAIN if waits else CallKind.PAUSE
            call.own_ns = stall_ns - drain_ns if waits else stall_ns

    def _add_staging(self, call: Call, stall_ns: float) -> None:
        """Note how long a call stages its copy once the stream is free.

        If the stream waits for another one, the host waits, too. A call that returned while the stream was still at
        work did not wait for it: the driver keeps the data of some copies slightly larger than `SMALL_COPY_BYTES`.
        """
        trace = self.trace
        start, end = int(trace.calls.start_ns[call.row]), int(trace.calls.end_ns[call.row])
        free = max(int(self.free_ns[call.works[0].row]), start)
        if free > end + CLOCK_SKEW_NS:
            call.own_ns = stall_ns
            return
        call.kind, call.own_ns = CallKind.STAGED, max(stall_ns - (free - start), 0.0)
        for work in call.works:
            work.latency_ns = max(float(trace.gpu.start_ns[work.row]) - free, 0.0)

    def _add_wait(self, call: Call, stall: int) -> None:
        stalls = self.stalls
        if stalls.drain_ns[stall] + stalls.own_ns[stall] > 0:
            returned = float(self.trace.calls.end_ns[stalls.call[stall]] - stalls.awaited_end_ns[stall])
            call.wake_ns = max(returned, 0.0)
            call.own_ns = min(call.wake_ns, DEFAULT_WAKE_NS)
        else:
            call.own_ns = float(stalls.stall_ns[stall])
            call.wake_ns = min(call.own_ns, DEFAULT_WAKE_NS)


LONGER_REST_FACTOR = 2.0
"""The rest of a step is its time after the last call. If a left-out step has a rest this many times that of the last
wanted step, the latter takes its place."""
LOADING_COST_FACTOR = 0.7
"""The profiler's cost in ops of a DataLoader as a multiple of its cost in ops of the same length that launch kernels;
chosen with 50 recordings of programs that load their data in their own process."""


def add_host_time(
    trace: Trace, stalls: Stalls, rows: Int64s, wanted: Bools, calls: list[Call], waiting: Intervals, python_cost: float
) -> None:
    """Note the host's time before each wanted call, and what was recorded in it; `calls` are the wanted ones."""
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    until = np.where(np.isin(rows, stalls.call), end, start)
    since = np.concatenate(([beginning(trace, int(rows[0]))], until[:-1]))
    spans = [(since, start)]
    if trace.steps.on_host and not wanted.all():
        spans = _without_steps_left_out(trace, rows, wanted, (since, start), until)
    gap, loading, artefact, paused, working, events, input_events = (
        sum(columns) for columns in zip(*(_host_time(trace, waiting, span, python_cost) for span in spans), strict=True)
    )
    per_op = _per_event(np.maximum(gap - loading - artefact, 0.0), events) or 1.0
    input_events *= LOADING_COST_FACTOR * min(_per_event(loading.astype(np.float64), input_events) / per_op, 1.0)
    columns = (gap, loading, artefact, paused, working, events, input_events)
    times = zip(*(column[wanted].astype(np.float64).tolist() for column in columns), strict=True)
    for call, (gap_ns, input_ns, artefact_ns, paused_ns, working_ns, *recorded) in zip(calls, times, strict=True):
        call.gap_ns, call.input_ns = gap_ns, input_ns
        call.artefact_ns = min(call.artefact_ns + artefact_ns, max(gap_ns - input_ns, 0.0))
        call.python_ns = max(paused_ns - input_ns - call.artefact_ns, 0.0)
        call.own_work_ns = max(working_ns - input_ns - call.artefact_ns, 0.0)
        call.events, call.input_events = recorded


def _without_steps_left_out(
    trace: Trace, rows: Int64s, wanted: Bools, span: tuple[Int64s, Int64s], until: Int64s
) -> list[tuple[Int64s, Int64s]]:
    """Return the spans of time before calls as if each wanted step came right after the wanted step before it.

    This changes only the first call of a wanted step behind one that is left out, and only if that one has a much
    longer rest (`LONGER_REST_FACTOR`). Then a second span per call is the rest of the last wanted step; for all other
    calls it is empty.
    """
    since, start = span[0].copy(), span[1]
    rest = np.zeros_like(since), np.zeros_like(since)
    is_replaced = False
    left_out = ~wanted & (trace.links.call_step[rows] != NONE)
    for row in np.flatnonzero(wanted[1:] & left_out[:-1]) + 1:
        begin, before = beginning(trace, int(rows[row])), np.flatnonzero(wanted[:row])
        last = int(before[-1]) if len(before) else row - 1
        end = max(int(trace.steps.end_ns[trace.links.call_step[rows[last]]]), int(until[last]))
        if begin - until[row - 1] > LONGER_REST_FACTOR * (end - until[last]):
            since[row], rest[0][row], rest[1][row] = begin, until[last], end
            is_replaced = True
    return [(since, start), rest] if is_replaced else [span]


def _host_time(
    trace: Trace, waiting: Intervals, span: tuple[Int64s, Int64s], python_cost: float
) -> tuple[Int64s | Floats, ...]:
    """Return the host's time in spans: all, for input, the profiler's, in pauses, in own work; and recorded events."""
    return (
        span[1] - span[0],
        covered(waiting, *span),
        _artefacts(trace, *span),
        covered(long_pauses(trace), *span),
        covered(_own_work(trace), *span),
        *_recorded_events(trace, waiting, span, python_cost),
    )


def _artefacts(trace: Trace, since: Int64s, until: Int64s) -> Int64s:
    overheads, steps = trace.overheads, trace.steps
    artefact = covered(overheads.times(), since, until)
    if steps.source == "profiler_step":
        artefact += covered(union(steps.end_ns[:-1], steps.start_ns[1:]), since, until)
    return artefact


def _recorded_events(
    trace: Trace, waiting: Intervals, between: tuple[Int64s, Int64s], python_cost: float
) -> tuple[Floats, Floats]:
    """Return the recorded events between these times, in units of ops: outside of waits for input, and in them."""
    events, input_events = np.zeros(len(between[0])), np.zeros(len(between[0]))
    for table, cost in ((trace.ops, 1.0), (trace.calls, 1.0), (trace.functions, python_cost)):
        times = table.start_ns[np.isin(table.thread, trace.launching_threads)]
        events += cost * _within(times, *between)
        input_events += cost * _within(times[contains(waiting, times)], *between)
    return events - input_events, input_events


def _per_event(times: Floats, events: Floats) -> float:
    has_events = events > 0
    return float(times[has_events].sum() / events[has_events].sum()) if has_events.any() else 0.0


def _within(times: Int64s, since: Int64s, until: Int64s) -> Int64s:
    """Return how many of the sorted times lie in each range from `since` to `until`."""
    return np.maximum(np.searchsorted(times, until) - np.searchsorted(times, since), 0)


@computed_once
def _own_work(trace: Trace) -> Intervals:
    """Return the times in which the program does its own work on the host, which no CUDA graph replaces."""
    pauses, ops = very_long_pauses(trace), trace.ops.times(long_ops(trace))
    times = torch_times(trace)
    of_torch = times.backward if runs_in_optimizers(trace.info.host) else times.both
    return joined(subtract(joined(pauses, ops), of_torch), python_in_nodes(trace))


def beginning(trace: Trace, first: int) -> int:
    """Return when the step of the first call began; if it is in no step, when the call began."""
    step = int(trace.links.call_step[first])
    started = int(trace.calls.start_ns[first])
    return min(int(trace.steps.start_ns[step]), started) if trace.steps.on_host and step != NONE else started
