"""Host calls that wait for the GPU or were held up otherwise, and the work that they await."""

import numpy as np

from pinprof.ground.intervals import distinct, last_below
from pinprof.trace import calls as kinds
from pinprof.trace.calls import call_kinds
from pinprof.trace.tables import (
    DTOD,
    DTOH,
    KERNEL,
    MEMCPY,
    NONE,
    PAGEABLE,
    Bools,
    Int8s,
    Int32s,
    Int64s,
    Trace,
    rows_by,
)
from pinprof.trace.vendors import WAITING_COPY

CLOCK_SKEW_NS = 2_000
"""GPU and host clocks agree to about a microsecond; a wait may seem to end this much before the awaited work."""

NO_END_NS = np.iinfo(np.int64).min  # in place of a time where there was no work


def awaited_work(trace: Trace, call: Int64s, kind: Int64s, copy: Int32s) -> tuple[Int32s, Int64s, Int64s]:
    """Return the device and the stream that each call waits for, and when the work before its own copy ended, in ns.

    The stream is -1 where it is unknown. Without such work, the end is the start of the call.
    """
    device, stream = _targets(trace, call, copy)
    start, end = trace.calls.start_ns[call], trace.calls.end_ns[call]
    # the awaited work was launched before the call's own copy, or before the call
    issued = np.where(copy == NONE, start, trace.links.launched_ns[copy]) if len(trace.gpu) else start
    return device, stream, _prior_end(trace, kind, device, stream, start, end, issued)


def _targets(trace: Trace, rows: Int64s, copy: Int32s) -> tuple[Int32s, Int64s]:
    """Return the device and the stream that each call waits for; the stream is -1 where it is unknown.

    The call's own copy has both; CUPTI's record of the synchronization has the stream. Otherwise the device is that
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
        is_same_call = (trace.syncs.correlation[record] == calls.correlation[rows]) & (calls.correlation[rows] > 0)
        stream = np.where(is_same_call, trace.syncs.stream[record], stream)
    own = copy != NONE
    return np.where(own, gpu.device[copy], device).astype(np.int32), np.where(own, gpu.stream[copy], stream)


def _last_device(trace: Trace, rows: Int64s) -> Int32s:
    """Return the device of the last launch of the call's thread before it, or the first device of the trace."""
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
    """Return the end of the last awaited work that was launched before `issued`; the call's start if there is none.

    A synchronize of a known stream, or of the device, waits for all work launched there. If the target of a call is not
    known (an event, an unnamed stream, an allocation), only work that had ended when it returned counts as awaited. The
    same holds for work whose launch is not in the trace, as it may have been launched later.
    """
    gpu = trace.gpu
    latest = start.copy()
    for waits in rows_by(device):
        rows = gpu.of_device.get(int(device[waits[0]]), waits[:0])
        linked = trace.links.launch[rows] != NONE
        recorded, others = rows[linked], rows[~linked]
        queued = Queued(gpu.stream[recorded], trace.links.launched_ns[recorded], gpu.end_ns[recorded])
        ended = Queued(gpu.stream[others], gpu.end_ns[others], gpu.end_ns[others])
        named, unnamed = waits[stream[waits] != NONE], waits[stream[waits] == NONE]
        over = end + CLOCK_SKEW_NS
        before = np.where(kind[unnamed] == kinds.DEVICE, np.iinfo(np.int64).max, over[unnamed])
        for waiting, awaited in (
            (named, queued.last_on(stream[named], issued[named])),
            (named, ended.last_on(stream[named], over[named] + 1)),
            (unnamed, queued.last_before(issued[unnamed], before)),
            (unnamed, ended.last_before(over[unnamed] + 1, over[unnamed])),
        ):
            latest[waiting] = np.maximum(latest[waiting], awaited)
    return np.where(kind == kinds.HOST_MEMORY, start, latest)


class Queued:
    """The work of one device by stream, launch and end; times in ns."""

    def __init__(self, stream: Int64s, launched_ns: Int64s, end_ns: Int64s) -> None:
        self._streams, queue = np.unique(stream, return_inverse=True)
        self._launches = np.sort(launched_ns)
        self._ends, rank = np.unique(end_ns, return_inverse=True)
        order = np.lexsort((launched_ns, queue.ravel()))
        self._width = len(order) + 1
        begin = queue.ravel()[order] * self._width
        self._keys = begin + np.searchsorted(self._launches, launched_ns[order])
        self._reach_rank = np.maximum.accumulate(begin + rank.ravel()[order]) - begin
        self._launched = launched_ns[order]

    def last_on(self, stream: Int64s, issued_ns: Int64s) -> Int64s:
        """Return for each wait when the last work launched on its stream before a time ended; NO_END_NS for none."""
        queue = np.searchsorted(self._streams, stream)
        is_on_stream = np.append(self._streams, 0)[queue] == stream
        is_on_stream &= queue < len(self._streams)
        begin = queue * self._width
        index = np.searchsorted(self._keys, begin + np.searchsorted(self._launches, issued_ns)) - 1
        is_known = is_on_stream & (index >= 0)
        is_known[is_known] = self._keys[index[is_known]] >= begin[is_known]
        result = np.full(len(stream), NO_END_NS)
        result[is_known] = self._ends[self._reach_rank[index[is_known]]]
        return result

    def last_before(self, issued_ns: Int64s, ended_ns: Int64s) -> Int64s:
        """Return for each wait the last end of work that was launched before one time and had ended by another.

        Work counts as ended only together with all earlier work of its stream. NO_END_NS if there is none.
        """
        order = np.argsort(self._reach_rank, kind="stable")
        reach, launched = self._ends[self._reach_rank[order]], self._launched[order]
        index = last_below(launched, np.searchsorted(reach, ended_ns, side="right"), issued_ns)
        return np.append(reach, NO_END_NS)[index]


def gpu_start(trace: Trace, row: Int32s) -> Int64s:
    """Return when activities begin, by row; zeros in a trace without any."""
    return trace.gpu.start_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)


def gpu_end(trace: Trace, row: Int32s) -> Int64s:
    """Return when activities end, by row; zeros in a trace without any."""
    return trace.gpu.end_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)


MAX_CALLS_AFTER_COPY = 3
"""A blocking copy is an asynchronous one and a synchronize in the same op, at most this many calls apart."""

KIND_OF_OVERHEAD = {
    "Command Buffer Full": kinds.QUEUE_FULL,
    "Driver Compiler": kinds.MODULE_LOAD,
    "Lazy Function Loading": kinds.MODULE_LOAD,
    "Runtime Triggered Module Loading": kinds.MODULE_LOAD,
}
"""Kinds by the names of overheads; all others (`Activity Buffer Request`, `Buffer Flush`, `Instrumentation`,
`Resource`) are costs of profiling."""

NEARLY_FULL_LAUNCHES = kinds.QUEUE_DEPTH - 22
"""A stream with this number of pending launches has a full queue: a few launches may be the profiler's own."""

LONG_LAUNCH_NS = 50_000  # a launch takes 4 µs under the profiler; a longer one than this was held up

SURE_KERNEL_NS = 20_000
"""A launch returns long before a kernel of this length can have ended, unless the launch waits for it."""


def blocking_calls(trace: Trace) -> tuple[Int64s, Int64s, Int32s]:
    """Return the calls that can block, what each may wait for, and the copy that it made or awaits, -1 for none.

    Calls are rows of `Trace.calls`; kinds are constants of `pinprof.trace.calls`. For a launch that waits, its kernel
    takes the place of the copy.
    """
    kind, held_up = call_kinds(trace.calls), _held_up(trace)
    copy = _own_copies(trace, kind)
    blocks = _can_block(trace, kind, copy)
    kind = np.where(blocks, kind, held_up)
    copy = np.where(kind == kinds.LAUNCH, _last_kernels(trace), np.where(blocks, copy, NONE))
    rows = np.flatnonzero(blocks | (held_up != NONE))
    return rows, kind[rows].astype(np.int64), copy[rows]


def _own_copies(trace: Trace, kind: np.ndarray) -> Int32s:
    """Return per call its own copy: what it launched, or for a stream synchronize the copy just before it in its op."""
    calls, links = trace.calls, trace.links
    copies = np.flatnonzero((trace.gpu.category == MEMCPY) & (links.launch != NONE))
    launched = np.full(len(calls), NONE, np.int32)
    launched[links.launch[copies]] = copies
    launched[(kind != kinds.COPY) & (kind != kinds.ASYNC_COPY)] = NONE
    order = np.lexsort((calls.start_ns, calls.thread))
    own = launched.copy()
    for distance in range(1, MAX_CALLS_AFTER_COPY + 1):
        call, earlier = order[distance:], order[:-distance]
        same_op = (links.op[call] == links.op[earlier]) & (calls.thread[call] == calls.thread[earlier])
        if distance > 1:
            same_op &= links.op[call] != NONE
        awaits = (kind[call] == kinds.STREAM) & (own[call] == NONE) & same_op & (launched[earlier] != NONE)
        own[call[awaits]] = launched[earlier[awaits]]
    return own


def _can_block(trace: Trace, kind: np.ndarray, copy: Int32s) -> Bools:
    """Return which calls can block; an asynchronous copy only if the driver must stage its pageable memory.

    Copies within the device do not block the host (CUDA Runtime API, "API synchronization behavior"). But HIP records a
    copy to pinned host memory as one within the device (`.item()` on an MI300). Such a copy blocks if the call waited
    for it.
    """
    staged = np.zeros(len(kind), bool)
    copying = np.flatnonzero((kind == kinds.ASYNC_COPY) & (copy != NONE))
    gpu, rows = trace.gpu, copy[copying]
    large = (gpu.direction[rows] == DTOH) | (gpu.bytes[rows] > kinds.SMALL_COPY_BYTES) | (gpu.bytes[rows] == NONE)
    staged[copying] = (gpu.host_memory[rows] == PAGEABLE) & large
    within = np.zeros(len(kind), bool)
    within[copy != NONE] = gpu.direction[copy[copy != NONE]] == DTOD
    within &= ~_has_waited(trace, copy)
    return (kind != NONE) & ((kind != kinds.ASYNC_COPY) | staged) & ~((kind == kinds.COPY) & within)


def _has_waited(trace: Trace, copy: Int32s) -> Bools:
    """Return which calls of HIP's `WAITING_COPY` returned after their copy had ended."""
    result = np.zeros(len(copy), bool)
    rows = np.flatnonzero(trace.calls.named(WAITING_COPY.__eq__) & (copy != NONE))
    result[rows] = trace.calls.end_ns[rows] + CLOCK_SKEW_NS >= gpu_end(trace, copy[rows])
    return result


def _last_kernels(trace: Trace) -> Int32s:
    """Return per call the last kernel that it launched, -1 for none."""
    kernels = np.flatnonzero((trace.gpu.category == KERNEL) & (trace.links.launch != NONE))
    result = np.full(len(trace.calls), NONE, np.int32)
    result[trace.links.launch[kernels]] = kernels
    return result


# Calls that do not wait by themselves, but were held up


def _held_up(trace: Trace) -> Int8s:
    """Return per call what held it up, a constant of `pinprof.trace.calls`; -1 for nothing.

    CUPTI records the reason (category `overhead`) from CUDA 12.4 on. Where it records no full queue, long launches show
    one.
    """
    holds = np.full(len(trace.calls), NONE, np.int8)
    if len(trace.calls) == 0:
        return holds
    _by_overhead(trace, holds)
    if not (holds == kinds.QUEUE_FULL).any():
        late = _behind_full_queue(trace)
        holds[late[holds[late] == NONE]] = kinds.QUEUE_FULL
    holds[_waiting_launches(trace)] = kinds.LAUNCH
    return holds


def _by_overhead(trace: Trace, holds: Int8s) -> None:
    calls, overheads = trace.calls, trace.overheads
    kind = np.array([KIND_OF_OVERHEAD.get(name, kinds.PROFILER) for name in overheads.names], np.int8)[overheads.name]
    # the call around each overhead, the latest of several; all threads count: CUPTI does not record the thread
    begun = np.searchsorted(calls.start_ns, overheads.start_ns, side="right")
    around = last_below(-calls.end_ns, begun, 1 - overheads.end_ns)
    for row in np.argsort(overheads.duration_ns, kind="stable")[::-1].tolist():  # of several the longest is the reason
        if around[row] != NONE and holds[around[row]] == NONE:
            holds[around[row]] = kind[row]


def _behind_full_queue(trace: Trace) -> Int64s:
    calls, rows = trace.calls, np.flatnonzero(trace.links.launch != NONE)
    ends = np.full(len(calls), NO_END_NS)
    np.maximum.at(ends, trace.links.launch[rows], trace.gpu.end_ns[rows])
    launch = distinct(trace.links.launch[rows]).astype(np.int64)
    pending = np.arange(len(launch)) - np.searchsorted(np.sort(ends[launch]), calls.start_ns[launch])
    return launch[(calls.duration_ns[launch] > LONG_LAUNCH_NS) & (pending >= NEARLY_FULL_LAUNCHES)]


def _waiting_launches(trace: Trace) -> Int64s:
    """Return the launches that returned after their kernels had ended, if most do: CUDA_LAUNCH_BLOCKING=1 is set."""
    kernels = np.flatnonzero((trace.gpu.category == KERNEL) & (trace.links.launch != NONE))
    launch = trace.links.launch[kernels]
    waited = trace.calls.end_ns[launch] >= trace.gpu.end_ns[kernels]
    sure = trace.gpu.duration_ns[kernels] >= SURE_KERNEL_NS
    if sure.sum() == 0 or 2 * (waited & sure).sum() <= sure.sum():
        return np.empty(0, np.int64)
    return distinct(launch[waited]).astype(np.int64)
