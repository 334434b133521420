"""What a trace's host did to its GPUs, as a program that can be run again: calls in order, with what each depends on.

The threads that launch work are one timeline: the main thread waits while the autograd thread runs backward.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pinprof.analyses.syncs import Stalls
from pinprof.intervals import Intervals, contains, covered, subtract, union
from pinprof.replay.events import find_event_uses
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, FREE, LAUNCH, MODULE_LOAD, PROFILER, QUEUE_FULL, STREAM
from pinprof.trace.pauses import OWN, long_ops, long_pauses, usual_launch_ns
from pinprof.trace.phases import torch_times
from pinprof.trace.tables import DTOH, HTOD, KERNEL, MEMCPY, NONE, PAGEABLE, Bools, Int32s, Int64s, Trace


class CallKind(Enum):
    """What a call does."""

    ISSUE = "launches"
    STREAM_WAIT = "waits for a stream"
    DEVICE_WAIT = "waits for the device"
    EVENT_WAIT = "waits for an event"
    STAGED = "stages a pageable copy"
    DRAIN = "waits for the device, then works"
    RECORD = "records an event"
    ORDER = "makes a stream wait for an event"
    OWN_WAIT = "waits for the kernel that it launched"
    PAUSE = "takes time"
    AHEAD = "copies for the next step, on a stream that waits for the copy of the step before"


ISSUE, STREAM_WAIT, DEVICE_WAIT, EVENT_WAIT, STAGED, DRAIN, RECORD, ORDER, OWN_WAIT, PAUSE, AHEAD = CallKind

SIDE = -2
"""This minus the device is the number of the stream on which copies are made ahead."""

Floats: TypeAlias = npt.NDArray[np.float64]
Launched: TypeAlias = tuple[tuple[int, int, int | None, float, float, float, bool, bool], ...]

DEFAULT_LAUNCH_NS = 5_000.0
"""A call that launches work and does not wait, where the trace has no such call."""
DEFAULT_LATENCY_NS = 6_000.0
"""From the start of a launch call to the start of its work on an idle GPU, where the trace has no such launch."""
DEFAULT_WAKE_NS = 3_000.0
"""From the end of the awaited work to the return of the call, where the trace shows no such wait."""
MOST_SPREAD = 2.5
"""Of the launches of a program: one that scatters more does so for reasons of its own."""
LOADING = 0.7
"""What a profiler costs in ops of a DataLoader, as a multiple of what it costs in ops that last as long and launch
kernels: chosen with 50 recordings of programs that load their data in their own process."""
ERROR_OF_ONE = 0.07
"""The standard error of a single step, as a share: the median of how steps scatter in 211 recordings."""
SHORT_GAP_NS = 1_500.0
"""Between two kernels on a stream that are both queued."""


@dataclass(slots=True)
class Work:
    """One activity of the GPU; times in ns."""

    row: int
    """Row in `Trace.gpu`."""
    queue: int
    """Its stream, counted over all devices."""
    engine: int
    """Copy engine: the direction of a copy between host and device; -1 for all else."""
    duration_ns: float
    latency_ns: float
    """From the start of its launch to its start, if nothing holds it up; for a staged copy, from when staging began."""
    gap_ns: float
    """From the end of what was before it on its stream to its start, if it is queued by then."""
    meeting: int = NONE
    """Of the kernel of a collective, its number among those of all ranks: it ends when it ends on all of them."""
    is_pageable: bool = False
    """Whether it is a copy of pageable memory, whose pace the host sets."""


@dataclass(slots=True)
class Call:
    """One call of the host that matters to the GPU; times in ns."""

    row: int
    """Row in `Trace.calls`."""
    kind: CallKind
    gap_ns: float
    """Host time since the launch before began, or since the end of the wait before."""
    input_ns: float = 0.0
    """The part of it in which it waited for input, or made it itself."""
    artefact_ns: float = 0.0
    """The part of it that no step without the profiler has: the profiler's buffers, loading of code, its step marks."""
    python_ns: float = 0.0
    """The part of it in long pauses between ops and calls, without the two above."""
    own_work_ns: float = 0.0
    """The part of it in which the program does its own work: very long pauses, and long ops that launch nothing, but
    for those of torch in optimizers and backward passes."""
    events: float = 0.0
    """What the profiler recorded in the gap outside of the input, in ops: a call counts as one, a Python function by
    its own cost."""
    input_events: float = 0.0
    """The same in the time of the input: many where the process loads its own data. Ops of a DataLoader are shorter
    than those that launch kernels, and a profiler costs less there: each counts by its share of their time."""
    queue: int = NONE
    own_ns: float = 0.0
    """Time that the call takes besides waiting."""
    wake_ns: float = DEFAULT_WAKE_NS
    """From the end of what it waits for to its return."""
    back: int = 0
    """For a wait or an order: the event is the one recorded so many records before."""
    works: list[Work] = field(default_factory=list)
    step: int = NONE
    in_graph: bool = False
    """Whether it is a node of a CUDA graph that was launched as a whole."""


class Move(NamedTuple):
    """What a replay needs to know of a call, beside the host's time before it; times in ns."""

    row: int
    works: Launched
    """What it launches at once: of each the row, the queue, the copy engine or None, `Work.duration_ns`, `latency_ns`
    and `gap_ns`, whether it is a copy of pageable memory, and whether the host waits for room in the queue."""
    own_ns: float
    call: Call | None
    """Itself, if it does more than to launch these and to take its time."""


class HostTimes(NamedTuple):
    """Times of the host, one for each call; as the fields of `Call` with these names, in ns."""

    gap: Floats
    input: Floats
    artefact: Floats
    python: Floats
    events: Floats
    input_events: Floats
    own: Floats


@dataclass(frozen=True)
class Program:
    """Calls in order, and the work that the GPU still had when the first began."""

    calls: tuple[Call, ...]
    start_ns: int = 0
    """When the program begins, on the trace's clock: with the first step, or else the first call."""
    ready_ns: dict[int, float] = field(default_factory=dict)
    """Per queue, the end of work launched before the recording, since `start_ns`."""
    first: int = NONE
    """Row of the trace's first call: what the host did before it is known only as far as it is in the recording."""
    tail_ns: float = 0.0
    """What the host did in the last step after its last call."""
    device: dict[int, int] = field(default_factory=dict)
    """Device of each queue."""
    launch_ns: float = 0.0
    """Median time of the calls that launch one kernel and do not wait; 0 if there is none."""
    launch_spread: float = 1.0
    """How much longer the 90th percentile of them is: a host that does other work besides launches unevenly."""

    @cached_property
    def host(self) -> HostTimes:
        """The host's times, for replays at another speed."""
        rows = [
            (
                *(call.gap_ns, call.input_ns, call.artefact_ns, call.python_ns),
                *(call.events, call.input_events, call.own_ns),
            )
            for call in self.calls
        ]
        return HostTimes(*np.array(rows, dtype=np.float64).reshape(-1, len(HostTimes._fields)).T)

    @cached_property
    def step_error(self) -> float:
        """The standard error of the host's time in a step, as a share of its mean: how far few steps tell of all."""
        times: dict[int, float] = defaultdict(float)
        for call in self.calls:
            times[call.step] += call.gap_ns + call.own_ns
        if len(times) < 2:  # noqa: PLR2004  # one tells nothing of others
            return ERROR_OF_ONE
        mean = statistics.fmean(times.values())
        return statistics.stdev(times.values()) / (mean * math.sqrt(len(times))) if mean > 0 else 0.0

    @cached_property
    def moves(self) -> list[Move]:
        """The calls as a replay takes them, which is made dozens of times."""
        return [
            Move(call.row, self._launched(call), call.own_ns, None if call.kind in (ISSUE, PAUSE) else call)
            for call in self.calls
        ]

    @cached_property
    def meetings(self) -> dict[int, list[Work]]:
        """The kernels of collectives by the place of the call that launches them."""
        met = ((place, [work for work in call.works if work.meeting != NONE]) for place, call in enumerate(self.calls))
        return {place: works for place, works in met if works}

    def engine(self, work: Work, queue: int) -> int | None:
        """Return the number of the copy engine that makes a copy on a queue; None for other work."""
        return None if work.engine == NONE else 2 * self.device.get(queue, SIDE - queue) + work.engine

    def _launched(self, call: Call) -> Launched:
        if call.kind in (STAGED, AHEAD):
            return ()
        return tuple(
            (
                work.row,
                work.queue,
                self.engine(work, work.queue),
                work.duration_ns,
                work.latency_ns,
                work.gap_ns,
                work.is_pageable,
                not call.in_graph,
            )
            for work in call.works
        )

    def of_steps(self, steps: set[int]) -> "Program":
        """Return the calls of these steps alone, on an idle GPU.

        Before the first call of a trace the host did what it did before the first call of the next step, or after the
        last call if there is no other step.
        """
        chosen = [call for call in self.calls if call.step in steps]
        if chosen and chosen[0].row == self.first:
            first = chosen[0]
            other = next((call for call in chosen if call.step != first.step), None)
            other = other or replace(first, gap_ns=first.gap_ns + self.tail_ns)
            chosen[0] = replace(
                first,
                gap_ns=other.gap_ns,
                input_ns=other.input_ns,
                artefact_ns=other.artefact_ns,
                python_ns=other.python_ns,
                own_work_ns=other.own_work_ns,
                events=other.events,
                input_events=other.input_events,
            )
        return replace(self, calls=tuple(chosen), ready_ns={})


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
    calls = [builder.call(row) for row in rows[wanted].tolist()]
    _add_host_time(trace, stalls, rows, wanted, calls, waiting_for_input, python_cost)
    start = _beginning(trace, int(rows[0]))
    ready: dict[int, float] = {}
    for row in np.flatnonzero(trace.in_flight).tolist():
        queue = int(builder.queue[row])
        ready[queue] = max(ready.get(queue, 0.0), float(trace.gpu.end_ns[row] - start))
    device = dict(zip(builder.queue.tolist(), trace.gpu.device.tolist(), strict=True))
    last = int(rows[-1])
    step = int(trace.links.call_step[last])
    known = trace.steps.on_host and step != NONE
    tail = max(float(trace.steps.end_ns[step] - trace.calls.end_ns[last]), 0.0) if known else 0.0
    return Program(tuple(calls), start, ready, int(rows[0]), tail, device, *builder.kernel_launches())


def _beginning(trace: Trace, first: int) -> int:
    """Return when the step of the first call began, or the call itself if it is in none."""
    step = int(trace.links.call_step[first])
    started = int(trace.calls.start_ns[first])
    return min(int(trace.steps.start_ns[step]), started) if trace.steps.on_host and step != NONE else started


def _add_host_time(
    trace: Trace, stalls: Stalls, rows: Int64s, wanted: Bools, calls: list[Call], waiting: Intervals, python_cost: float
) -> None:
    """Note the time of the host before the wanted ones of all calls, and what was recorded in it."""
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    blocking = np.isin(rows, stalls.call)
    since = np.concatenate(([_beginning(trace, int(rows[0]))], np.where(blocking, end, start)[:-1]))
    gap = start - since
    loading = covered(waiting, since, start)
    overheads = trace.overheads
    profilers = union(overheads.start_ns, overheads.end_ns)
    artefact = covered(profilers, since, start)
    steps = trace.steps
    if steps.source == "profiler_step":  # between its steps the profiler marks them
        marks = union(steps.end_ns[:-1], steps.start_ns[1:])
        artefact += covered(marks, since, start)
    threads = np.unique(trace.calls.thread[rows])
    pauses = long_pauses(trace, threads)
    paused = covered(pauses, since, start)
    working = covered(_own_work(trace, threads), since, start)
    events, input_events = np.zeros(len(rows)), np.zeros(len(rows))
    for table, cost in ((trace.ops, 1.0), (trace.calls, 1.0), (trace.functions, python_cost)):
        times = table.start_ns[np.isin(table.thread, threads)]
        events += cost * _within(times, since, start)
        input_events += cost * _within(times[contains(waiting, times)], since, start)
    events -= input_events
    per_op = _per_event(np.maximum(gap - loading - artefact, 0.0), events) or 1.0
    input_events *= LOADING * min(_per_event(loading.astype(np.float64), input_events) / per_op, 1.0)
    for position, call in zip(np.flatnonzero(wanted).tolist(), calls, strict=True):
        call.gap_ns, call.input_ns = float(gap[position]), float(loading[position])
        call.artefact_ns = min(call.artefact_ns + float(artefact[position]), max(call.gap_ns - call.input_ns, 0.0))
        call.python_ns = max(float(paused[position]) - call.input_ns - call.artefact_ns, 0.0)
        call.own_work_ns = max(float(working[position]) - call.input_ns - call.artefact_ns, 0.0)
        call.events, call.input_events = float(events[position]), float(input_events[position])


def _per_event(times: Floats, events: Floats) -> float:
    """Return the mean time per event of those calls that have some."""
    some = events > 0
    return float(times[some].sum() / events[some].sum()) if some.any() else 0.0


def _within(times: Int64s, since: Int64s, until: Int64s) -> Int64s:
    """Return how many of the sorted times lie from each of these on, before each of those."""
    return np.maximum(np.searchsorted(times, until) - np.searchsorted(times, since), 0)


def _own_work(trace: Trace, threads: Int32s) -> Intervals:
    """Return the times in which the program does work of its own on the host, that no graph of a network replaces."""
    pauses, ops = long_pauses(trace, threads, OWN), long_ops(trace, threads)
    starts, ends = (pauses.start, trace.ops.start_ns[ops]), (pauses.end, trace.ops.end_ns[ops])
    return subtract(union(np.concatenate(starts), np.concatenate(ends)), torch_times(trace, threads))


class _Builder:
    """Looks up what is known of each call."""

    def __init__(self, trace: Trace, stalls: Stalls) -> None:
        self.trace, self.stalls = trace, stalls
        gpu, launch = trace.gpu, trace.links.launch
        pairs = np.stack((gpu.device.astype(np.int64), gpu.stream))
        self.queue = np.unique(pairs, axis=1, return_inverse=True)[1].ravel() if len(gpu) else np.empty(0, np.int64)
        self.stall_of = np.full(len(trace.calls), NONE, np.int64)
        self.stall_of[stalls.call] = np.arange(len(stalls.call))
        self.works_of: dict[int, list[int]] = {}
        for row in np.flatnonzero(launch != NONE).tolist():
            self.works_of.setdefault(int(launch[row]), []).append(row)
        self.uses = find_event_uses(trace, self.queue, stalls)
        self.free_ns = self._free()
        self.latency_ns = self._usual_latency()
        self.usual_launch_ns = usual_launch_ns(trace)
        self.rows = self._rows()
        self.current = self._current_queues()

    def _rows(self) -> Int64s:
        """Return the calls that launch, wait or use events, on threads that launch, by their start."""
        trace, stalls = self.trace, self.stalls
        rows = np.array(sorted({*self.works_of, *stalls.call.tolist(), *self.uses.of_call}), dtype=np.int64)
        launching = np.zeros(len(trace.threads), bool)
        launching[trace.calls.thread[np.array(list(self.works_of), dtype=np.int64)]] = True
        launching &= np.array([thread.role != "pin_memory" for thread in trace.threads], dtype=bool)
        own = np.zeros(len(trace.calls), bool)
        own[stalls.call[stalls.profiler & (stalls.kind != PROFILER)]] = True
        return rows[launching[trace.calls.thread[rows]] & ~own[rows]]

    def _free(self) -> Int64s:
        """Return per activity when its stream was free for it: the end of what ran before, or of what an event awaited.

        The first on a stream finds it free from the beginning.
        """
        trace = self.trace
        order = np.lexsort((trace.gpu.start_ns, self.queue))
        free = np.full(len(trace.gpu), np.iinfo(np.int64).min)
        same = self.queue[order[1:]] == self.queue[order[:-1]]
        free[order[1:][same]] = trace.gpu.end_ns[order[:-1][same]]
        for launch, released in self.uses.released_ns.items():
            for row in self.works_of.get(launch, ()):
                free[row] = max(free[row], released)
        return free

    def _usual_latency(self) -> float:
        """Return the median time from launch to start of work that found its stream free."""
        trace = self.trace
        rows = np.flatnonzero(trace.links.launch != NONE)
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
        return float(usual), min(float(long) / max(float(usual), 1.0), MOST_SPREAD)

    def _current_queues(self) -> dict[int, int]:
        """Return per call the stream of the last launch of its thread before it: mostly PyTorch's current stream."""
        last: dict[int, int] = {}
        current = {}
        for row in self.rows.tolist():
            thread = int(self.trace.calls.thread[row])
            current[row] = last.get(thread, NONE)
            if row in self.works_of:
                last[thread] = int(self.queue[self.works_of[row][-1]])
        return current

    def call(self, row: int) -> Call:
        """Return one call, without the host's time before it."""
        made = Call(row, ISSUE, 0.0, step=int(self.trace.links.call_step[row]))
        made.works = [self._work(row, activity) for activity in self.works_of.get(row, ())]
        use, stall = self.uses.of_call.get(row), int(self.stall_of[row])
        if use is not None:
            made.kind = {"record": RECORD, "order": ORDER, "wait": EVENT_WAIT}[use.kind]
            made.queue, made.back = use.queue, use.back
            if stall != NONE:
                self._add_wait(made, stall)
        elif stall != NONE:
            self._add_stall(made, stall)
        return made

    def _work(self, call: int, row: int) -> Work:
        trace = self.trace
        start, issued, free = (
            int(time) for time in (trace.gpu.start_ns[row], trace.calls.start_ns[call], self.free_ns[row])
        )
        if free <= issued:
            latency, gap = float(start - issued), min(float(start - free), SHORT_GAP_NS)
        else:
            latency, gap = min(float(start - issued), self.latency_ns), float(start - free)
        direction = int(trace.gpu.direction[row])
        engine = direction if trace.gpu.category[row] == MEMCPY and direction in (HTOD, DTOH) else NONE
        duration = float(trace.gpu.end_ns[row]) - start
        made = Work(row, int(self.queue[row]), engine, duration, max(latency, 0.0), max(gap, 0.0))
        made.is_pageable = bool(trace.gpu.host_memory[row] == PAGEABLE)
        return made

    def _add_stall(self, made: Call, stall: int) -> None:
        """Note what a call that can block waits for."""
        stalls, trace = self.stalls, self.trace
        kind, copy = int(stalls.kind[stall]), int(stalls.copy[stall])
        stall_ns, drain_ns = float(stalls.stall_ns[stall]), float(stalls.drain_ns[stall])
        if kind in (STREAM, DEVICE, EVENT):
            made.queue = int(self.queue[copy]) if copy != NONE else self.current[made.row]
            made.kind = DEVICE_WAIT if kind == DEVICE else STREAM_WAIT
            if kind != DEVICE and copy == NONE and (made.queue == NONE or (kind == EVENT and drain_ns == 0)):
                made.kind, made.own_ns = PAUSE, stall_ns
                return
            self._add_wait(made, stall)
        elif kind in (COPY, ASYNC_COPY) and made.works:
            made.kind, made.own_ns = STAGED, stall_ns - drain_ns
            for work in made.works:
                waited = float(trace.calls.start_ns[made.row]) + drain_ns
                work.latency_ns = max(float(trace.gpu.start_ns[work.row]) - waited, 0.0)
        elif kind in (QUEUE_FULL, MODULE_LOAD, PROFILER):
            made.own_ns = self.usual_launch_ns if kind == QUEUE_FULL else stall_ns
            made.artefact_ns = max(stall_ns - self.usual_launch_ns, 0.0) if kind != QUEUE_FULL else 0.0
        elif kind == LAUNCH:
            made.kind = OWN_WAIT
            self._add_wait(made, stall)
        else:
            waits = kind == FREE and drain_ns > 0
            made.kind, made.own_ns = DRAIN if waits else PAUSE, stall_ns - drain_ns if waits else stall_ns

    def _add_wait(self, made: Call, stall: int) -> None:
        """Note how long the call takes at least, and how long it takes to wake up."""
        stalls = self.stalls
        if stalls.drain_ns[stall] + stalls.own_ns[stall] > 0:
            returned = float(self.trace.calls.end_ns[stalls.call[stall]] - stalls.awaited_end_ns[stall])
            made.wake_ns = max(returned, 0.0)
            made.own_ns = min(made.wake_ns, DEFAULT_WAKE_NS)
        else:
            made.own_ns = float(stalls.stall_ns[stall])
            made.wake_ns = min(made.own_ns, DEFAULT_WAKE_NS)
