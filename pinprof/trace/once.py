"""What a program does only once: it starts CUDA, loads modules, launches for the first time, captures graphs."""

import re
from typing import Final

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.compiling import capture_times, compile_times, compiles_again, marked_captures
from pinprof.trace.links import step_at
from pinprof.trace.tables import KERNEL, NONE, Bools, Int64s, Trace

START, LOADING, FIRST, COMPILING, CAPTURE = "start", "loading", "first", "compiling", "capture"
KINDS: Final = {
    START: "CUDA's start",
    LOADING: "loading of modules",
    FIRST: "first launches of kernels",
    COMPILING: "compiling",
    CAPTURE: "the capture of graphs",
}
"""The kinds of work that is done once, and what they are called."""
SLOW_NS: Final = 1_000_000
"""A call that neither waits, copies nor launches takes some microseconds; one that takes this long starts or loads."""
SLOW_LAUNCH_NS: Final = 100_000
"""A launch takes 2 to 15 us, under a profiler on a slow host up to 50; one that loads its kernel takes from 100 us."""
TIMES: Final = 10
"""A launch that loads its kernel also takes so many times as long as the usual one."""
LOADS: Final = re.compile(r"(?:Module|Library)(?:Load|Get)|LazyLoad|hipCreateModule|hiprtc|nvrtc")
LOADING_NOTES: Final = re.compile(r"Module Loading|Lazy Function Loading")
"""Kineto's records of what loading costs (`Runtime Triggered Module Loading`)."""
WAITS: Final = re.compile(r"Synchronize|Memcpy|Memset|Launch|EventQuery|StreamQuery|StreamWait")
"""Calls that wait for work, or make it: what they take is no start."""
MAKES: Final = re.compile(r"Memcpy|Memset|Launch")
"""Calls that make work."""
NEVER: Final = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def one_time_work(trace: Trace, waits: Int64s) -> dict[str, Intervals]:
    """Return when the host does what a program does once, by kind; a time may be of several.

    `waits` are rows of `Trace.calls` that wait for work: whatever they last is no first launch. What is compiled or
    captured again is not done once.
    """
    calls = trace.calls
    free = np.ones(len(calls), bool)
    free[waits] = False
    notes = trace.overheads.named(LOADING_NOTES.search)
    rows = {START: _starts(trace), LOADING: _loads(trace) & free, FIRST: _first_launches(trace) & free}
    found = {kind: union(calls.start_ns[of_kind], calls.end_ns[of_kind]) for kind, of_kind in rows.items()}
    notes_ns = Intervals(trace.overheads.start_ns[notes], trace.overheads.end_ns[notes])
    found[LOADING] = _joined(found[LOADING], notes_ns)
    compiled, captured = compile_times(trace), capture_times(trace)
    again = compiles_again(trace).any()
    found[COMPILING] = union(*((compiled.start_ns, compiled.end_ns) if not again else NEVER))
    found[CAPTURE] = _joined(marked_captures(trace), NEVER if again else Intervals(captured.start_ns, captured.end_ns))
    return found


def _starts(trace: Trace) -> Bools:
    """Return the slow calls before the first launch; and those behind it, where such a one started CUDA.

    cuBLAS, cuDNN and the allocator then start too, each at its first use. What is slow in every step is no start.
    """
    calls = trace.calls
    slow = (calls.duration_ns >= SLOW_NS) & ~calls.named(WAITS.search)
    slow &= ~_recurring(trace, slow)
    launched = calls.start_ns[calls.named(MAKES.search)]  # also of work that is lost
    before = slow & (calls.start_ns < launched.min(initial=np.iinfo(np.int64).max))
    return slow if before.any() else before


def _recurring(trace: Trace, slow: Bools) -> Bools:
    """Return the calls whose function is slow in each complete step, as one that pins fresh memory; of two or more."""
    result = np.zeros(len(slow), bool)
    count = int(trace.steps.complete.sum())
    if count < 2 or not trace.steps.on_host:  # noqa: PLR2004
        return result
    step = step_at(trace.steps, trace.calls.start_ns)
    within = slow & trace.steps.holds(step)
    for name in np.unique(trace.calls.name[within]):
        theirs = trace.calls.name == name
        result |= theirs & (len(np.unique(step[within & theirs])) == count)
    return result


def _loads(trace: Trace) -> Bools:
    return trace.calls.named(LOADS.search)


def _first_launches(trace: Trace) -> Bools:
    """Return the slow launches of kernels that no earlier call of the trace launched."""
    calls, gpu = trace.calls, trace.gpu
    result = np.zeros(len(calls), bool)
    rows = np.flatnonzero((gpu.category == KERNEL) & (trace.links.launch != NONE))
    if not len(rows):
        return result
    launch = trace.links.launch[rows].astype(np.int64)
    order = np.argsort(calls.start_ns[launch], kind="stable")
    _, first = np.unique(gpu.name[rows[order]], return_index=True)
    result[launch[order[first]]] = True
    result &= ~calls.named(lambda name: "GraphLaunch" in name)
    others = np.unique(launch[~result[launch]])
    usual = float(np.median(calls.duration_ns[others])) if len(others) else 0.0
    return result & (calls.duration_ns >= max(SLOW_LAUNCH_NS, TIMES * usual))


def _joined(one: Intervals, other: Intervals) -> Intervals:
    return union(np.concatenate((one.start, other.start)), np.concatenate((one.end, other.end)))
