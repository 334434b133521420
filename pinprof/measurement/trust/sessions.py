"""Doubts about the contents of a file: several recordings or processes, or work that a program does only once."""

import numpy as np

from pinprof.ground.intervals import Intervals, covered, gaps, joined, subtract, union
from pinprof.ground.units import counted, duration, listed, percent
from pinprof.measurement.trust.doubt import FIGURE_KINDS, Doubt, TrustFacts, figure_kinds, only_if
from pinprof.measurement.trust.launches import launching
from pinprof.trace.spans.one_time_work import NO_TIMES_AT_ALL, ONE_TIME_KINDS, marked_captures, one_time_work
from pinprof.trace.tables import NONE, WHOLE_TRACE, Int64s, Trace
from pinprof.trace.threads import STEP_MARK

PAUSE_NS = 3_600 * 10**9
"""No program under a profiler stands still for an hour: NCCL gives up after 10 minutes, gloo after 30."""
MUCH_OF_STEPS = 0.1
"""If one-time work takes this share of the recorded steps, later steps are shorter, and a change saves less there. A
finding of this cost is of high severity."""
MAX_ONE_TIME_SHARE = 0.5
"""If one-time work takes this share, no sum over these steps is given."""
NAMED_SHARE = 0.1
"""A kind is named if it has at least this share of the one-time work."""

AFTER_FIRST = "record steps behind the first ones: torch.profiler.schedule(wait=5, warmup=2, active=5)"
AFTER_CAPTURE = "record batches after the server has started"


def step_numbers(trace: Trace) -> Int64s:
    """Return the numbers of the `ProfilerStep#N` marks of the steps in order, empty where steps have none."""
    marks = trace.annotations
    if trace.steps.source != "profiler_step":
        return np.empty(0, np.int64)
    number = np.array([int(match[1]) if (match := STEP_MARK.fullmatch(name)) else -1 for name in marks.names], np.int64)
    marked = np.flatnonzero(number[marks.name] >= 0)
    if not len(marked):
        return np.empty(0, np.int64)
    thread = np.bincount(marks.thread[marked]).argmax()
    marked = marked[(marks.thread[marked] == thread) & np.isin(marks.start_ns[marked], trace.steps.start_ns)]
    return number[marks.name[marked]]


def several_processes(facts: TrustFacts) -> Doubt | None:
    """Report several processes that launch GPU work: a profiler records its own process only."""
    trace = facts.trace
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
        frozenset(FIGURE_KINDS) if shared else figure_kinds("step", "estimate", "per_step", "causes"),
    )


def several_sessions(facts: TrustFacts) -> Doubt | None:
    """Report steps whose numbers start again, and pauses longer than any program makes."""
    trace = facts.trace
    restarts = int((np.diff(step_numbers(trace)) <= 0).sum())
    pause = _longest_pause(trace)
    if not restarts and pause < PAUSE_NS:
        return None
    what = "the step numbers start again" if restarts else f"nothing for {pause / PAUSE_NS:.1f} hours"
    return Doubt(
        f"several recordings in one file: {what}",
        "the time between them counts as idle time and as part of a step",
        "give each recording as its own file: one file for each cycle of the profiler",
        figure_kinds("step", "estimate", "busy", "causes"),
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
    """Return the longest time in which nothing is recorded, in ns; 0 if the whole trace is shorter than `PAUSE_NS`."""
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0
    starts, ends = (np.concatenate(columns) for columns in zip(*((t.start_ns, t.end_ns) for t in tables), strict=True))
    if ends.max() - starts.min() < PAUSE_NS:
        return 0
    idle = gaps(union(starts, np.maximum(ends, starts + 1)))
    return int((idle.end - idle.start).max(initial=0))


def one_time(facts: TrustFacts) -> Doubt | None:
    """Report steps in which the host starts CUDA, loads modules, launches for the first time, compiles or captures."""
    trace, steps = facts.trace, facts.trace.steps
    if not len(trace.calls) or not steps.on_host:
        return None
    length = int((steps.end_ns - steps.start_ns)[steps.complete].sum())
    kinds = one_time_work(trace, facts.syncs.stalls.call)
    once = _within(trace, joined(*kinds.values()))
    if not length or once < MUCH_OF_STEPS * length:
        return None
    named = _by_kind(trace, kinds)
    whole = "the trace" if steps.source == WHOLE_TRACE else "the recorded steps"
    kinds_ns = [(ONE_TIME_KINDS[kind], ns) for kind, ns in named if ns >= NAMED_SHARE * once]
    words = [f"{words} {duration(ns)}" if len(kinds_ns) > 1 else words for words, ns in kinds_ns]
    return Doubt(
        f"{duration(once)} ({percent(once / length)}) of {whole} is one-time work ({listed(words, len(words))})",
        "later steps do not have it, so no change of the program saves it",
        AFTER_CAPTURE if len(marked_captures(trace).start) else AFTER_FIRST,
        figure_kinds("estimate", "causes") | only_if(once >= MAX_ONE_TIME_SHARE * length, "per_step", "drain"),
    )


def _by_kind(trace: Trace, kinds: dict[str, Intervals]) -> list[tuple[str, int]]:
    """Return how long each kind takes in the steps, the longest first; a time of several kinds counts to the last."""
    counted_times, times = NO_TIMES_AT_ALL, []
    for kind in reversed(ONE_TIME_KINDS):
        times.append((kind, _within(trace, subtract(kinds[kind], counted_times))))
        counted_times = joined(counted_times, kinds[kind])
    return sorted(times, key=lambda of_kind: -of_kind[1])


def _within(trace: Trace, times: Intervals) -> int:
    """Return how much of these times lies in the complete steps, in ns."""
    steps = trace.steps
    return int(covered(times, steps.start_ns[steps.complete], steps.end_ns[steps.complete]).sum())
