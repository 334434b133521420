"""Where the host waited: each stall, what it waited for, and the bubble that it left on the GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinprof.analyses.syncs.held import held_calls
from pinprof.analyses.syncs.queued import Queued
from pinprof.intervals import covered, union
from pinprof.trace.calls import (
    ALLOCATING,
    ASYNC_COPY,
    COPY,
    DEVICE,
    EVENT,
    HOST_MEMORY,
    LAUNCH,
    PROFILER,
    SMALL_COPY_BYTES,
    STREAM,
    call_kinds,
)
from pinprof.trace.gaps import Gaps, gaps_of
from pinprof.trace.tables import DIRECTIONS, DTOH, KERNEL, MEMCPY, NONE, PAGEABLE, Bools, Int32s, Int64s, Trace, rows_by

DTOD = DIRECTIONS.index("DtoD")

SKEW_NS = 2_000
"""GPU and host clocks agree to about a microsecond; a wait may seem to end this much before what it waited for."""


WAITING_COPY = "hipMemcpyWithStream"
"""What torch calls to copy between host and device and wait for it (c10/cuda/CUDAFunctions.h, memcpy_and_sync)."""

COPY_LOOK_BACK = 3
"""A blocking copy is an asynchronous one and a synchronize in the same op, at most this many calls apart."""


@dataclass(frozen=True)
class Stalls:
    """Host calls that can block, one row each, sorted by start; times in ns.

    `stall_ns == drain_ns + own_ns + overhead_ns`.
    """

    call: Int64s
    """Row in `Trace.calls`."""
    kind: Int64s
    """What the call may wait for, as `pinprof.trace.calls` numbers it."""
    copy: Int32s
    """Row in `Trace.gpu` of the copy that the call made or awaited, or the kernel that a launch waits for; else -1."""
    device: Int32s
    stream: Int64s
    """The stream that the call waits for; -1 for a device, and where it is unknown."""
    stall_ns: Int64s
    drain_ns: Int64s
    """Part in which earlier queued work of the stream or device was still to be done."""
    worked_ns: Int64s
    """Part of the drain in which the device worked, as far as that was recorded; in the rest of the drain that work
    waited for other work, or to start."""
    own_ns: Int64s
    """Part after that in which the call's own copy ran."""
    bubble_ns: Int64s
    """From the end of the awaited work to the next start of GPU work on the device; 0 if other work was running, or if
    the next work was already queued: then the wait did not delay it. A bubble after several stalls belongs to the last
    of them: each bubble is a whole gap in the work of its device, and no gap counts twice (`idle_gaps` has their
    causes)."""
    idle_ns: Int64s
    """The idle time of the device that the stall causes; no moment counts twice. It is the bubble without the times in
    which the host already stands in calls that get or give back memory and await no work; for each of these calls it is
    the idle time within the call."""
    awaited_end_ns: Int64s
    """End of the awaited work."""
    kept_busy: Bools
    """Whether kernels that were queued before the call still kept the device busy when it returned: the host waited for
    another stream or an event, and the GPU lost nothing."""
    profiler: Bools
    """The profiler's own synchronize, or its buffers; to be left out of every sum."""
    call_step: Int32s

    @cached_property
    def of_device(self) -> dict[int, Int64s]:
        """The rows of the stalls that wait for each device."""
        return {int(self.device[rows[0]]): rows for rows in rows_by(self.device)}

    def of_copies(self, copies: Int64s) -> Int64s:
        """Return the stalls that made or awaited these copies, each named once, in order."""
        order, copy = self._by_copy
        first, behind = (np.searchsorted(copy, copies, side=side) for side in ("left", "right"))
        count = behind - first
        return np.sort(order[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())])

    @cached_property
    def _by_copy(self) -> tuple[Int64s, Int32s]:
        order = np.argsort(self.copy, kind="stable")
        return order, self.copy[order]

    @property
    def overhead_ns(self) -> Int64s:
        """The rest: the call itself, staging of a copy, waking up."""
        return self.stall_ns - self.drain_ns - self.own_ns


def measure_stalls(trace: Trace) -> Stalls:
    """Return every call of the trace that can block the host, with its cost."""
    kind = call_kinds(trace.calls)
    copy = _own_copies(trace, kind)
    held = held_calls(trace)
    blocks = _can_block(trace, kind, copy)
    kind = np.where(blocks, kind, held)
    copy = np.where(kind == LAUNCH, _last_kernels(trace), np.where(blocks, copy, NONE))
    rows = np.flatnonzero(blocks | (held != NONE))
    kind, copy = kind[rows], copy[rows]
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    device, stream = _targets(trace, rows, copy)
    prior_end = _prior_end(trace, kind, device, stream, start, end, _issued(trace, rows, copy))
    drained = np.clip(prior_end, start, end)
    copied = np.where(copy == NONE, drained, np.clip(_gpu_end(trace, copy), drained, end))
    copying = np.where(copy == NONE, drained, np.clip(_gpu_start(trace, copy), drained, copied))
    drain, own = drained - start, copied - copying
    awaited_end = np.where(own > 0, _gpu_end(trace, copy), prior_end)
    profiler = _profilers_own(trace, rows, kind) | (kind == PROFILER)
    waited = drain + own > 0
    idle = {number: gaps_of(trace, number) for number in trace.gpu.of_device}
    bubble = _bubbles(idle, device, awaited_end, waited & ~profiler)
    holding = np.isin(kind, ALLOCATING) & ~waited & ~profiler
    return Stalls(
        call=rows,
        kind=kind.astype(np.int64),
        copy=copy,
        device=device,
        stream=stream,
        stall_ns=end - start,
        drain_ns=drain,
        worked_ns=_worked(trace, device, start, drained),
        own_ns=own,
        bubble_ns=bubble,
        idle_ns=_own_idle(idle, device, (start, end), (awaited_end, awaited_end + bubble), holding),
        awaited_end_ns=awaited_end,
        kept_busy=np.isin(kind, (STREAM, DEVICE, EVENT)) & (copy == NONE) & _kept_busy(trace, device, start, end),
        profiler=profiler,
        call_step=trace.links.call_step[rows],
    )


def _own_copies(trace: Trace, kind: np.ndarray) -> Int32s:
    """Return per call its own copy: what it launched, or for a stream synchronize the copy just before it in its op."""
    calls, links = trace.calls, trace.links
    copies = np.flatnonzero((trace.gpu.category == MEMCPY) & (links.launch != NONE))
    made = np.full(len(calls), NONE, np.int32)
    made[links.launch[copies]] = copies
    made[(kind != COPY) & (kind != ASYNC_COPY)] = NONE
    order = np.lexsort((calls.start_ns, calls.thread))
    own = made.copy()
    for distance in range(1, COPY_LOOK_BACK + 1):
        call, earlier = order[distance:], order[:-distance]
        same_op = (links.op[call] == links.op[earlier]) & (calls.thread[call] == calls.thread[earlier])
        if distance > 1:
            same_op &= links.op[call] != NONE
        awaits = (kind[call] == STREAM) & (own[call] == NONE) & same_op & (made[earlier] != NONE)
        own[call[awaits]] = made[earlier[awaits]]
    return own


def _can_block(trace: Trace, kind: np.ndarray, copy: Int32s) -> Bools:
    """Return the calls that can block: of asynchronous copies those of pageable memory that the driver must stage.

    Copies within the device do not block the host (CUDA Runtime API, "API synchronization behavior"). But HIP records a
    copy to pinned host memory as one within the device: `.item()` on an MI300. Such a copy blocks if the call waited
    for it.
    """
    staged = np.zeros(len(kind), bool)
    known = np.flatnonzero((kind == ASYNC_COPY) & (copy != NONE))
    gpu, rows = trace.gpu, copy[known]
    large = (gpu.direction[rows] == DTOH) | (gpu.bytes[rows] > SMALL_COPY_BYTES) | (gpu.bytes[rows] == NONE)
    staged[known] = (gpu.host_memory[rows] == PAGEABLE) & large
    within = np.zeros(len(kind), bool)
    within[copy != NONE] = gpu.direction[copy[copy != NONE]] == DTOD
    within &= ~_has_waited(trace, copy)
    return (kind != NONE) & ((kind != ASYNC_COPY) | staged) & ~((kind == COPY) & within)


def _has_waited(trace: Trace, copy: Int32s) -> Bools:
    """Return the calls of HIP's copy and wait in one that returned after their copy had ended."""
    result = np.zeros(len(copy), bool)
    rows = np.flatnonzero(trace.calls.named(WAITING_COPY.__eq__) & (copy != NONE))
    result[rows] = trace.calls.end_ns[rows] + SKEW_NS >= _gpu_end(trace, copy[rows])
    return result


def _last_kernels(trace: Trace) -> Int32s:
    """Return per call the last kernel that it launched, -1 for none."""
    kernels = np.flatnonzero((trace.gpu.category == KERNEL) & (trace.links.launch != NONE))
    result = np.full(len(trace.calls), NONE, np.int32)
    result[trace.links.launch[kernels]] = kernels
    return result


def _kept_busy(trace: Trace, device: Int32s, start: Int64s, end: Int64s) -> Bools:
    """Return whether the busiest stream of the device still ran kernels, launched before the call, when it returned."""
    gpu, launched = trace.gpu, trace.launched_ns
    result = np.zeros(len(device), bool)
    for mine in rows_by(device):
        on_device = gpu.of_device.get(int(device[mine[0]]), mine[:0])
        kernels = on_device[gpu.category[on_device] == KERNEL]
        if len(kernels) == 0:
            continue
        streams, which = np.unique(gpu.stream[kernels], return_inverse=True)
        busiest = np.bincount(which, gpu.duration_ns[kernels]).argmax()
        queue = kernels[gpu.stream[kernels] == streams[busiest]]
        queue = queue[np.argsort(launched[queue], kind="stable")]
        ends = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(gpu.end_ns[queue])))
        result[mine] = ends[np.searchsorted(launched[queue], start[mine])] > end[mine] + SKEW_NS
    return result


def _worked(trace: Trace, device: Int32s, start: Int64s, end: Int64s) -> Int64s:
    """Return how long the device of each stall worked in a range."""
    gpu, result = trace.gpu, np.zeros(len(device), np.int64)
    for mine in rows_by(device):
        rows = gpu.of_device.get(int(device[mine[0]]), mine[:0])
        result[mine] = covered(union(gpu.start_ns[rows], gpu.end_ns[rows]), start[mine], end[mine])
    return result


def _gpu_start(trace: Trace, row: Int32s) -> Int64s:
    return trace.gpu.start_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)


def _gpu_end(trace: Trace, row: Int32s) -> Int64s:
    return trace.gpu.end_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)


def _issued(trace: Trace, rows: Int64s, copy: Int32s) -> Int64s:
    """Return the time before which work was issued that the call waits for: its own copy's launch, or its start."""
    start = trace.calls.start_ns[rows]
    return np.where(copy == NONE, start, trace.launched_ns[copy]) if len(trace.gpu) else start


def _targets(trace: Trace, rows: Int64s, copy: Int32s) -> tuple[Int32s, Int64s]:
    """Return device and stream that each call waits for; the stream is -1 where it is unknown.

    The call's own copy tells both; CUPTI's record of the synchronization tells the stream. Otherwise the device is that
    of the thread's last launch.
    """
    gpu, calls = trace.gpu, trace.calls
    if len(gpu) == 0:
        return np.full(len(rows), NONE, np.int32), np.full(len(rows), NONE, np.int64)
    device, stream = _last_device(trace, rows), np.full(len(rows), NONE, np.int64)
    if len(trace.syncs):
        order = np.argsort(trace.syncs.correlation, kind="stable")
        position = np.searchsorted(trace.syncs.correlation[order], calls.correlation[rows])
        record = order[np.minimum(position, len(order) - 1)]
        known = (trace.syncs.correlation[record] == calls.correlation[rows]) & (calls.correlation[rows] > 0)
        stream = np.where(known, trace.syncs.stream[record], stream)
    own = copy != NONE
    return np.where(own, gpu.device[copy], device).astype(np.int32), np.where(own, gpu.stream[copy], stream)


def _last_device(trace: Trace, rows: Int64s) -> Int32s:
    """Return the device of the last launch of the call's thread before it, else the first device of the trace."""
    gpu, calls, launch = trace.gpu, trace.calls, trace.links.launch
    device = np.full(len(calls), NONE, np.int32)
    device[launch[launch != NONE]] = gpu.device[launch != NONE]
    order = np.lexsort((calls.start_ns, calls.thread))
    last = np.maximum.accumulate(np.where(device[order] == NONE, NONE, np.arange(len(order))))
    same_thread = (last != NONE) & (calls.thread[order[last]] == calls.thread[order])
    result = np.full(len(calls), gpu.device[0], np.int32)
    result[order[same_thread]] = device[order[last[same_thread]]]
    return result[rows]


def _prior_end(
    trace: Trace, kind: np.ndarray, device: Int32s, stream: Int64s, start: Int64s, end: Int64s, issued: Int64s
) -> Int64s:
    """Return the end of the last work that was issued before and that the call waited for; its start if none.

    A synchronize of a known stream, or of the device, waits for all that was issued there. If the target of a call is
    not known (an event, an unnamed stream, an allocation), only work that had ended when it returned was awaited. The
    same holds for work whose launch is not in the trace: whether it was issued before is unknown.
    """
    gpu = trace.gpu
    latest = start.copy()
    for waits in rows_by(device):
        rows = gpu.of_device.get(int(device[waits[0]]), waits[:0])
        linked = trace.links.launch[rows] != NONE
        recorded, others = rows[linked], rows[~linked]
        queued = Queued(gpu.stream[recorded], trace.launched_ns[recorded], gpu.end_ns[recorded])
        ended = Queued(gpu.stream[others], gpu.end_ns[others], gpu.end_ns[others])
        named, unnamed = waits[stream[waits] != NONE], waits[stream[waits] == NONE]
        over = end + SKEW_NS
        before = np.where(kind[unnamed] == DEVICE, np.iinfo(np.int64).max, over[unnamed])
        for some, awaited in (
            (named, queued.last_on(stream[named], issued[named])),
            (named, ended.last_on(stream[named], over[named] + 1)),
            (unnamed, queued.last_before(issued[unnamed], before)),
            (unnamed, ended.last_before(over[unnamed] + 1, over[unnamed])),
        ):
            latest[some] = np.maximum(latest[some], awaited)
    return np.where(kind == HOST_MEMORY, start, latest)


def _profilers_own(trace: Trace, rows: Int64s, kind: np.ndarray) -> Bools:
    """Return the device synchronizes that torch.profiler adds where its window ends.

    They are called outside of any op, and nothing is launched after them. With `ProfilerStep` marks they also come
    after the last step; without marks only the very last one is taken to be the profiler's.
    """
    calls, links = trace.calls, trace.links
    launches = links.launch[links.launch != NONE]
    last_launch = calls.start_ns[launches].max(initial=np.iinfo(np.int64).min)
    start = calls.start_ns[rows]
    own = (kind == DEVICE) & (links.op[rows] == NONE) & (start > last_launch)
    if trace.steps.source == "profiler_step":
        return own & (start >= trace.steps.end_ns[-1])
    return own & (np.arange(len(rows)) == np.max(np.flatnonzero(own), initial=NONE))


def _bubbles(idle_of: Mapping[int, Gaps], device: Int32s, awaited_end: Int64s, waited: Bools) -> Int64s:
    """Return the idle time of the device that begins where the awaited work of each stall ended."""
    bubble = np.zeros(len(device), np.int64)
    for mine in rows_by(device):
        if int(device[mine[0]]) not in idle_of:
            continue
        (idle, _, queued), stalls = idle_of[int(device[mine[0]])], mine[waited[mine]]
        gap = np.searchsorted(idle.start, awaited_end[stalls])
        begins = gap < len(idle.start)
        begins[begins] = (idle.start[gap[begins]] == awaited_end[stalls[begins]]) & ~queued[gap[begins]]
        stalls, gap = stalls[begins], gap[begins]
        _, last = np.unique(gap[::-1], return_index=True)
        owner = len(gap) - 1 - last
        bubble[stalls[owner]] = (idle.end - idle.start)[gap[owner]]
    return bubble


def _own_idle(
    idle_of: Mapping[int, Gaps],
    device: Int32s,
    call: tuple[Int64s, Int64s],
    bubble: tuple[Int64s, Int64s],
    holding: Bools,
) -> Int64s:
    """Return `Stalls.idle_ns`; `call` and `bubble` are starts and ends, `holding` are the calls that await nothing."""
    own = bubble[1] - bubble[0]
    for mine in rows_by(device):
        if int(device[mine[0]]) not in idle_of:
            continue
        idle, rows = idle_of[int(device[mine[0]])].times, mine[holding[mine]]
        start, end = call[0][rows], call[1][rows]
        reach = np.maximum.accumulate(end)
        begins = np.maximum(start, np.concatenate((start[:1], reach[:-1])))  # calls of other threads may run meanwhile
        own[mine] -= covered(union(start, end), bubble[0][mine], bubble[1][mine])
        own[rows] = covered(idle, begins, end)
    return own
