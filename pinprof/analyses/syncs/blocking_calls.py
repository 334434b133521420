"""Host calls that can block, because they wait for the GPU or were held up for another reason."""

import numpy as np

from pinprof.analyses.syncs.awaited_work import SKEW_NS, gpu_end
from pinprof.intervals import distinct, last_below
from pinprof.trace.calls import (
    ASYNC_COPY,
    COPY,
    LAUNCH,
    MODULE_LOAD,
    PROFILER,
    QUEUE_DEPTH,
    QUEUE_FULL,
    SMALL_COPY_BYTES,
    STREAM,
    call_kinds,
)
from pinprof.trace.tables import DIRECTIONS, DTOH, KERNEL, MEMCPY, NONE, PAGEABLE, Bools, Int8s, Int32s, Int64s, Trace

DTOD = DIRECTIONS.index("DtoD")

WAITING_COPY = "hipMemcpyWithStream"
"""What torch calls to copy between host and device and wait for it (c10/cuda/CUDAFunctions.h, memcpy_and_sync)."""

COPY_LOOK_BACK = 3
"""A blocking copy is an asynchronous one and a synchronize in the same op, at most this many calls apart."""

KIND_OF_OVERHEAD = {
    "Command Buffer Full": QUEUE_FULL,
    "Driver Compiler": MODULE_LOAD,
    "Lazy Function Loading": MODULE_LOAD,
    "Runtime Triggered Module Loading": MODULE_LOAD,
}
"""Kinds by the names of overheads; all others (`Activity Buffer Request`, `Buffer Flush`, `Instrumentation`,
`Resource`) are costs of profiling."""

NEARLY_FULL = QUEUE_DEPTH - 22
"""A stream with this number of pending launches has a full queue: a few launches may be the profiler's own."""

LONG_LAUNCH_NS = 50_000
"""A launch takes 4 µs under the profiler; a longer one than this was held up."""

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
    copy = np.where(kind == LAUNCH, _last_kernels(trace), np.where(blocks, copy, NONE))
    rows = np.flatnonzero(blocks | (held_up != NONE))
    return rows, kind[rows].astype(np.int64), copy[rows]


def _own_copies(trace: Trace, kind: np.ndarray) -> Int32s:
    """Return per call its own copy: what it launched, or for a stream synchronize the copy just before it in its op."""
    calls, links = trace.calls, trace.links
    copies = np.flatnonzero((trace.gpu.category == MEMCPY) & (links.launch != NONE))
    launched = np.full(len(calls), NONE, np.int32)
    launched[links.launch[copies]] = copies
    launched[(kind != COPY) & (kind != ASYNC_COPY)] = NONE
    order = np.lexsort((calls.start_ns, calls.thread))
    own = launched.copy()
    for distance in range(1, COPY_LOOK_BACK + 1):
        call, earlier = order[distance:], order[:-distance]
        same_op = (links.op[call] == links.op[earlier]) & (calls.thread[call] == calls.thread[earlier])
        if distance > 1:
            same_op &= links.op[call] != NONE
        awaits = (kind[call] == STREAM) & (own[call] == NONE) & same_op & (launched[earlier] != NONE)
        own[call[awaits]] = launched[earlier[awaits]]
    return own


def _can_block(trace: Trace, kind: np.ndarray, copy: Int32s) -> Bools:
    """Return which calls can block; an asynchronous copy only if the driver must stage its pageable memory.

    Copies within the device do not block the host (CUDA Runtime API, "API synchronization behavior"). But HIP records a
    copy to pinned host memory as one within the device (`.item()` on an MI300). Such a copy blocks if the call waited
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
    """Return which calls of HIP's `WAITING_COPY` returned after their copy had ended."""
    result = np.zeros(len(copy), bool)
    rows = np.flatnonzero(trace.calls.named(WAITING_COPY.__eq__) & (copy != NONE))
    result[rows] = trace.calls.end_ns[rows] + SKEW_NS >= gpu_end(trace, copy[rows])
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
    held = np.full(len(trace.calls), NONE, np.int8)
    if len(trace.calls) == 0:
        return held
    _by_overhead(trace, held)
    if not (held == QUEUE_FULL).any():
        late = _behind_full_queue(trace)
        held[late[held[late] == NONE]] = QUEUE_FULL
    held[_waiting_launches(trace)] = LAUNCH
    return held


def _by_overhead(trace: Trace, held: Int8s) -> None:
    overheads = trace.overheads
    kind = np.array([KIND_OF_OVERHEAD.get(name, PROFILER) for name in overheads.names], np.int8)[overheads.name]
    around = _calls_around(trace, overheads.start_ns, overheads.end_ns)
    for row in np.argsort(overheads.duration_ns, kind="stable")[::-1].tolist():  # of several the longest is the reason
        if around[row] != NONE and held[around[row]] == NONE:
            held[around[row]] = kind[row]


def _calls_around(trace: Trace, start: Int64s, end: Int64s) -> Int64s:
    """Return the call around each range, the latest of several. All threads count: CUPTI does not record the thread."""
    calls = trace.calls
    return last_below(-calls.end_ns, np.searchsorted(calls.start_ns, start, side="right"), 1 - end)


def _behind_full_queue(trace: Trace) -> Int64s:
    """Return the long launches that came when the queue was full."""
    calls = trace.calls
    launched = trace.links.launch != NONE
    launch, last = _launches(trace)
    done = np.sort(last)
    pending = np.arange(len(launch)) - np.searchsorted(done, calls.start_ns[launch])
    long = calls.duration_ns[launch] > LONG_LAUNCH_NS
    return launch[long & (pending >= NEARLY_FULL)] if launched.any() else launch[:0]


def _launches(trace: Trace) -> tuple[Int64s, Int64s]:
    """Return the calls that launched work, in order, and when the last work of each ended."""
    rows = np.flatnonzero(trace.links.launch != NONE)
    last = np.full(len(trace.calls), np.iinfo(np.int64).min)
    np.maximum.at(last, trace.links.launch[rows], trace.gpu.end_ns[rows])
    launch = distinct(trace.links.launch[rows]).astype(np.int64)
    return launch, last[launch]


def _waiting_launches(trace: Trace) -> Int64s:
    """Return the launches that returned after their kernels had ended, if most do: CUDA_LAUNCH_BLOCKING=1 is set."""
    kernels = np.flatnonzero((trace.gpu.category == KERNEL) & (trace.links.launch != NONE))
    launch = trace.links.launch[kernels]
    waited = trace.calls.end_ns[launch] >= trace.gpu.end_ns[kernels]
    sure = trace.gpu.duration_ns[kernels] >= SURE_KERNEL_NS
    if sure.sum() == 0 or 2 * (waited & sure).sum() <= sure.sum():
        return np.empty(0, np.int64)
    return distinct(launch[waited]).astype(np.int64)
