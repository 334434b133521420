"""Recordings that were made apart and lie in one file."""

import numpy as np

from pinprof.intervals import gaps, union
from pinprof.measurement.trust.doubt import BUSY, CAUSES, ESTIMATE, FIGURES, PER_STEP, STEP, Doubt, Seen
from pinprof.measurement.trust.launches import launching
from pinprof.measurement.trust.marks import step_numbers
from pinprof.trace.tables import NONE, Trace
from pinprof.units import counted

PAUSE_NS = 3_600 * 10**9
"""No program under a profiler stands still for an hour: NCCL gives up after 10 minutes, gloo after 30."""


def several_processes(seen: Seen) -> Doubt | None:
    """Report several processes that launch GPU work: a profiler records its own process only."""
    trace = seen.trace
    process = _process_of_calls(trace)
    launched = np.flatnonzero(launching(trace.calls))
    number = len(np.unique(process[launched])) if len(launched) else 0
    if number < 2:  # noqa: PLR2004  one is usual
        return None
    linked = trace.links.launch != NONE
    users = np.unique(np.stack((trace.gpu.device[linked], process[trace.links.launch[linked]])), axis=1)
    shared = len(users.T) > len(np.unique(users[0]))
    collisions = _collisions(trace, process)
    same = f"; {counted(collisions, 'correlation')} in several of them" if collisions else ""
    return Doubt(
        f"{number} processes in one file{same}",
        "pinprof cannot tell their GPUs of the same number apart, nor their steps"
        if shared
        else "the steps come from one process, the GPU work from all",
        "give the trace of each process as its own file",
        frozenset(FIGURES) if shared else frozenset({STEP, ESTIMATE, PER_STEP, CAUSES}),
    )


def several_sessions(seen: Seen) -> Doubt | None:
    """Report steps whose numbers repeat, and pauses that no program makes."""
    trace = seen.trace
    again = int((np.diff(step_numbers(trace)) <= 0).sum())
    pause = _longest_pause(trace)
    if not again and pause < PAUSE_NS:
        return None
    what = "the step numbers start again" if again else f"nothing for {pause / PAUSE_NS:.1f} hours"
    return Doubt(
        f"several recordings in one file: {what}",
        "the time between them counts as idle time and as part of a step",
        "give each recording as its own file: one file for each cycle of the profiler",
        frozenset({STEP, ESTIMATE, BUSY, CAUSES}),
    )


def _process_of_calls(trace: Trace) -> np.ndarray:
    """Return per call a number of its process."""
    numbers: dict[object, int] = {}
    of_thread = np.array([numbers.setdefault(thread.pid, len(numbers)) for thread in trace.threads], np.int64)
    return of_thread[trace.calls.thread] if len(trace.calls) else np.empty(0, np.int64)


def _collisions(trace: Trace, process: np.ndarray) -> int:
    """Return how many correlations of GPU work occur in calls of several processes."""
    calls = trace.calls
    used = np.isin(calls.correlation, trace.gpu.correlation) & (calls.correlation > 0)
    pairs = np.unique(np.stack((calls.correlation[used], process[used])), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


def _longest_pause(trace: Trace) -> int:
    """Return the longest time in which nothing is recorded, in ns; 0 if the whole trace is too short to matter."""
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0
    starts, ends = (np.concatenate(columns) for columns in zip(*((t.start_ns, t.end_ns) for t in tables), strict=True))
    if ends.max() - starts.min() < PAUSE_NS:
        return 0
    idle = gaps(union(starts, np.maximum(ends, starts + 1)))
    return int((idle.end - idle.start).max(initial=0))
