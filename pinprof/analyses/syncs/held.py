"""Calls that do not wait by themselves, but were held up: by a full launch queue, by loading of code, by the profiler.

CUPTI records why (category `overhead`, from CUDA 12.4 on). Older traces are searched for what a full queue looks like.
"""

import numpy as np

from pinprof.intervals import last_below
from pinprof.trace.calls import LAUNCH, MODULE_LOAD, PROFILER, QUEUE_DEPTH, QUEUE_FULL
from pinprof.trace.tables import KERNEL, NONE, Int8s, Int64s, Trace

KIND_OF_OVERHEAD = {
    "Command Buffer Full": QUEUE_FULL,
    "Lazy Function Loading": MODULE_LOAD,
    "Runtime Triggered Module Loading": MODULE_LOAD,
}
"""The other names (`Activity Buffer Request`, `Buffer Flush`, `Instrumentation`, `Resource`) are costs of profiling."""

NEARLY_FULL = QUEUE_DEPTH - 22
"""A stream with this many pending launches has a full queue: a few may be the profiler's own."""

LONG_LAUNCH_NS = 50_000
"""A launch takes 4 µs under the profiler; one of this length was held up."""

SURE_KERNEL_NS = 20_000
"""A launch returns long before a kernel of this length can have ended, unless the launch waits for it."""


def held_calls(trace: Trace) -> Int8s:
    """Return per call what held it up, as `pinprof.trace.calls` numbers it; -1 for nothing."""
    held = np.full(len(trace.calls), NONE, np.int8)
    if len(trace.calls) == 0:
        return held
    if len(trace.overheads):
        _by_overhead(trace, held)
    else:
        held[_behind_full_queue(trace)] = QUEUE_FULL
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
    """Return the call around each range, on whatever thread: CUPTI does not say on which; of several the latest."""
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
    """Return the calls that launched something, in order, and when the last that each launched had ended."""
    rows = np.flatnonzero(trace.links.launch != NONE)
    last = np.full(len(trace.calls), np.iinfo(np.int64).min)
    np.maximum.at(last, trace.links.launch[rows], trace.gpu.end_ns[rows])
    launch = np.unique(trace.links.launch[rows]).astype(np.int64)
    return launch, last[launch]


def _waiting_launches(trace: Trace) -> Int64s:
    """Return the launches that returned after their kernels had ended, if most do: CUDA_LAUNCH_BLOCKING=1 is set."""
    kernels = np.flatnonzero((trace.gpu.category == KERNEL) & (trace.links.launch != NONE))
    launch = trace.links.launch[kernels]
    waited = trace.calls.end_ns[launch] >= trace.gpu.end_ns[kernels]
    sure = trace.gpu.duration_ns[kernels] >= SURE_KERNEL_NS
    if sure.sum() == 0 or 2 * (waited & sure).sum() <= sure.sum():
        return np.empty(0, np.int64)
    return np.unique(launch[waited]).astype(np.int64)
