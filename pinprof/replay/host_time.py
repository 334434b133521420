"""The time of the host before each call of a program, and what the profiler recorded in it."""

import numpy as np

from pinprof.analyses.syncs import Stalls
from pinprof.intervals import Intervals, contains, covered, subtract, union
from pinprof.replay.program import Call, Floats
from pinprof.trace.pauses import OWN, long_ops, long_pauses
from pinprof.trace.phases import torch_times
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s, Trace

LOADING = 0.7
"""What a profiler costs in ops of a DataLoader, as a multiple of what it costs in ops that last as long and launch
kernels: chosen with 50 recordings of programs that load their data in their own process."""


def add_host_time(
    trace: Trace, stalls: Stalls, rows: Int64s, wanted: Bools, calls: list[Call], waiting: Intervals, python_cost: float
) -> None:
    """Note the time of the host before the wanted ones of all calls, and what was recorded in it."""
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    blocking = np.isin(rows, stalls.call)
    since = np.concatenate(([beginning(trace, int(rows[0]))], np.where(blocking, end, start)[:-1]))
    threads = np.unique(trace.calls.thread[rows])
    gap, loading = start - since, covered(waiting, since, start)
    artefact = _artefacts(trace, since, start)
    paused = covered(long_pauses(trace, threads), since, start)
    working = covered(_own_work(trace, threads), since, start)
    events, input_events = _events(trace, threads, waiting, (since, start), python_cost)
    per_op = _per_event(np.maximum(gap - loading - artefact, 0.0), events) or 1.0
    input_events *= LOADING * min(_per_event(loading.astype(np.float64), input_events) / per_op, 1.0)
    for position, call in zip(np.flatnonzero(wanted).tolist(), calls, strict=True):
        call.gap_ns, call.input_ns = float(gap[position]), float(loading[position])
        call.artefact_ns = min(call.artefact_ns + float(artefact[position]), max(call.gap_ns - call.input_ns, 0.0))
        call.python_ns = max(float(paused[position]) - call.input_ns - call.artefact_ns, 0.0)
        call.own_work_ns = max(float(working[position]) - call.input_ns - call.artefact_ns, 0.0)
        call.events, call.input_events = float(events[position]), float(input_events[position])


def _artefacts(trace: Trace, since: Int64s, until: Int64s) -> Int64s:
    """Return what the profiler itself took between these times: its buffers, and the marks between its steps."""
    overheads, steps = trace.overheads, trace.steps
    artefact = covered(union(overheads.start_ns, overheads.end_ns), since, until)
    if steps.source == "profiler_step":
        artefact += covered(union(steps.end_ns[:-1], steps.start_ns[1:]), since, until)
    return artefact


def _events(
    trace: Trace, threads: Int32s, waiting: Intervals, between: tuple[Int64s, Int64s], python_cost: float
) -> tuple[Floats, Floats]:
    """Return what was recorded between these times, in ops: outside of the waiting for input, and in it."""
    events, input_events = np.zeros(len(between[0])), np.zeros(len(between[0]))
    for table, cost in ((trace.ops, 1.0), (trace.calls, 1.0), (trace.functions, python_cost)):
        times = table.start_ns[np.isin(table.thread, threads)]
        events += cost * _within(times, *between)
        input_events += cost * _within(times[contains(waiting, times)], *between)
    return events - input_events, input_events


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


def beginning(trace: Trace, first: int) -> int:
    """Return when the step of the first call began, or the call itself if it is in none."""
    step = int(trace.links.call_step[first])
    started = int(trace.calls.start_ns[first])
    return min(int(trace.steps.start_ns[step]), started) if trace.steps.on_host and step != NONE else started
