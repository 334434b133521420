"""Work of the host that a program does only once: starting CUDA, loading modules, compiling, capturing graphs."""

import re
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, contains, distinct, joined, union
from pinprof.trace.links import step_at
from pinprof.trace.tables import KERNEL, NONE, Bools, HostEvents, Int64s, Trace
from pinprof.trace.threads import STEP_MARK
from pinprof.trace.vendors import GRAPH_LAUNCH, LAUNCHES_OR_WAITS, LAUNCHES_WORK, LOADS_CODE, MAKES_GRAPH, RUNTIME_CALL

COMPILER_MARK: Final = re.compile(r"\(dynamo_timed\)$")
"""Ends the names of the work of torch's compilers: `_compile.compile_inner (dynamo_timed)`; not those of lookups."""
REGION_PREFIX: Final = "Torch-Compiled Region: "
"""Begins the names of ops that run compiled code; the number of the code follows as frame/version."""
GRAPH_CAPTURE_MARK: Final = re.compile(r"capture_\d+_[A-Z]+(?:_\w+)?")
"""How vLLM and SGLang, when they start, mark the capture of the graphs for one size of batch (`capture_32_FULL`)."""
MAX_WARM_UP_STEPS: Final = 2
"""Steps after the first one in which a program may still compile and capture for the first time."""


class ThreadTimes(NamedTuple):
    """Times of host threads; those of one thread do not overlap."""

    thread: Int64s
    start_ns: Int64s
    end_ns: Int64s


def compile_times(trace: Trace) -> ThreadTimes:
    """Return when each thread compiles."""
    rows = [(table, np.flatnonzero(is_compiling(table))) for table in (trace.ops, trace.annotations)]
    return _outermost(
        *(
            np.concatenate([getattr(table, column)[chosen] for table, chosen in rows]).astype(np.int64)
            for column in ("thread", "start_ns", "end_ns")
        )
    )


def capture_times(trace: Trace) -> ThreadTimes:
    """Return when each thread captures a graph, from the first call of the capture to the last, or instantiates one."""
    calls = trace.calls
    begins = np.flatnonzero(calls.named(lambda name: "StreamBeginCapture" in name))
    ends = np.flatnonzero(calls.named(lambda name: "StreamEndCapture" in name))
    makes = np.flatnonzero(calls.named(lambda name: "GraphInstantiate" in name))
    last = np.searchsorted(calls.start_ns[ends], calls.start_ns[begins])
    begins, last = begins[last < len(ends)], last[last < len(ends)]
    return _outermost(
        np.concatenate((calls.thread[begins], calls.thread[makes])).astype(np.int64),
        np.concatenate((calls.start_ns[begins], calls.start_ns[makes])),
        np.concatenate((calls.end_ns[ends[last]], calls.end_ns[makes])),
    )


def is_compiling(table: HostEvents) -> Bools:
    """Return for each row whether it is work of a compiler."""
    return table.named(COMPILER_MARK.search)


def compiled_before(trace: Trace) -> int | None:
    """Return when code was first compiled or run compiled, or a graph first made or launched; None if never."""
    ran = (
        (
            trace.ops,
            trace.ops.named(lambda name: name.startswith(REGION_PREFIX) or COMPILER_MARK.search(name) is not None),
        ),
        (trace.annotations, is_compiling(trace.annotations)),
        (trace.calls, trace.calls.named(lambda name: bool(MAKES_GRAPH.search(name) or GRAPH_LAUNCH.search(name)))),
    )
    times = [int(table.start_ns[chosen].min()) for table, chosen in ran if chosen.any()]
    return min(times, default=None)


def is_marked_capture(name: str) -> bool:
    """Return whether this is a name by which a server marks that it captures graphs."""
    return GRAPH_CAPTURE_MARK.fullmatch(name) is not None


def marked_captures(trace: Trace) -> Intervals:
    """Return when a server captures graphs, by its marks."""
    marks = trace.annotations.named(is_marked_capture)
    return trace.annotations.times(marks)


def compiles_again(trace: Trace) -> Bools:
    """Return for each whole step whether it compiles or captures although an earlier step ran compiled code."""
    ran = compiled_before(trace)
    if ran is None or not trace.steps.on_host:
        return np.zeros(len(trace.steps), bool)
    marked = marked_captures(trace)
    does = np.zeros(len(trace.steps), bool)
    for times in (compile_times(trace), capture_times(trace)):
        step = step_at(trace.steps, times.start_ns[~contains(marked, times.start_ns)])
        does[step[step != NONE]] = True
    return trace.steps.whole & does & _later(trace, ran, does)


def _later(trace: Trace, ran: int, compiles: Bools) -> Bools:
    """Return the steps that follow one in which compiled code ran, without those in which the code is still warming up.

    Code is compiled in the first step, and graphs are captured in the next ones: that is not compiling again, unless
    the program made more steps before.
    """
    steps = np.arange(len(trace.steps))
    if _steps_before(trace) > MAX_WARM_UP_STEPS:
        return steps >= 0
    first = int(step_at(trace.steps, np.array([ran]))[0])
    later = steps > first
    warm = steps[later & ~compiles]
    until = int(warm[0]) if len(warm) else len(steps)
    if first != NONE and compiles[first] and until - first - 1 <= MAX_WARM_UP_STEPS:
        return steps >= until
    return later


def _steps_before(trace: Trace) -> int:
    """Return how many steps the program made before the recorded ones, as far as the trace shows."""
    numbers = (STEP_MARK.fullmatch(name) for name in trace.annotations.names)
    return max(min((int(match[1]) for match in numbers if match), default=0), trace.info.steps_before or 0)


def time_per_step(trace: Trace, times: ThreadTimes) -> Int64s:
    """Return how much of these times each step has, in ns, all threads together."""
    step = step_at(trace.steps, times.start_ns)
    took = (times.end_ns - times.start_ns)[step != NONE]
    return np.bincount(step[step != NONE], took, minlength=len(trace.steps)).astype(np.int64)


def _outermost(thread: Int64s, start: Int64s, end: Int64s) -> ThreadTimes:
    numbers = np.unique(thread).tolist()
    by_thread = [union(start[thread == number], end[thread == number]) for number in numbers]
    threads = [np.full(len(times.start), number, np.int64) for number, times in zip(numbers, by_thread, strict=True)]
    none = np.empty(0, np.int64)
    return ThreadTimes(
        np.concatenate([none, *threads]),
        np.concatenate([none, *(times.start for times in by_thread)]),
        np.concatenate([none, *(times.end for times in by_thread)]),
    )


CUDA_START, MODULE_LOADING, FIRST_LAUNCH, COMPILING, GRAPH_CAPTURE = "start", "loading", "first", "compiling", "capture"
ONE_TIME_KINDS: Final = {
    CUDA_START: "CUDA's start",
    MODULE_LOADING: "loading of modules",
    FIRST_LAUNCH: "first launches of kernels",
    COMPILING: "compiling",
    GRAPH_CAPTURE: "the capture of graphs",
}
"""The kinds of one-time work, in words."""
SLOW_CALL_NS: Final = 1_000_000
"""A call that neither waits, copies nor launches takes some microseconds; a call of this length starts or loads."""
SLOW_LAUNCH_NS: Final = 100_000
"""A launch takes 2 to 15 us, under a profiler on a slow host up to 50; one that loads its kernel takes at least 100."""
MIN_FIRST_LAUNCH_RATIO: Final = 10
"""A launch that loads its kernel also takes at least this multiple of the usual launch."""
LOADING_NOTES: Final = re.compile(r"Module Loading|Lazy Function Loading")
"""Kineto's records of the cost of loading (`Runtime Triggered Module Loading`)."""
NO_TIMES_AT_ALL: Final = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def one_time_work(trace: Trace, waits: Int64s) -> dict[str, Intervals]:
    """Return when the host does one-time work, by kind; a time may be of several kinds.

    `waits` are rows of `Trace.calls` that wait for work: none of them is a first launch. If the program compiles or
    captures again and again, that is not one-time work.
    """
    calls = trace.calls
    free = np.ones(len(calls), bool)
    free[waits] = False
    notes = trace.overheads.times(trace.overheads.named(LOADING_NOTES.search))
    rows = {
        CUDA_START: _starts(trace),
        MODULE_LOADING: calls.named(LOADS_CODE.search) & free,
        FIRST_LAUNCH: _first_launches(trace) & free,
    }
    times = {kind: calls.times(of_kind) for kind, of_kind in rows.items()}
    times[MODULE_LOADING] = joined(times[MODULE_LOADING], notes)
    compiled, captured = compile_times(trace), capture_times(trace)
    repeats = compiles_again(trace).any()
    times[COMPILING] = union(*((compiled.start_ns, compiled.end_ns) if not repeats else NO_TIMES_AT_ALL))
    times[GRAPH_CAPTURE] = joined(
        marked_captures(trace), NO_TIMES_AT_ALL if repeats else Intervals(captured.start_ns, captured.end_ns)
    )
    return times


def _starts(trace: Trace) -> Bools:
    """Return the slow calls before the first launch and, if there are some, the later slow calls, too.

    If CUDA starts, then cuBLAS, cuDNN and the allocator also start, each at its first use. Calls of a function that is
    slow in every step are not a start.
    """
    calls = trace.calls
    slow = (
        (calls.duration_ns >= SLOW_CALL_NS) & calls.named(RUNTIME_CALL.match) & ~calls.named(LAUNCHES_OR_WAITS.search)
    )
    slow &= ~_recurring(trace, slow)
    launched = calls.start_ns[calls.named(LAUNCHES_WORK.search)]  # also launches of lost work
    before = slow & (calls.start_ns < launched.min(initial=np.iinfo(np.int64).max))
    return slow if before.any() else before


def _recurring(trace: Trace, slow: Bools) -> Bools:
    """Return the calls whose function is slow in each of several complete steps, as one that pins fresh memory."""
    result = np.zeros(len(slow), bool)
    count = int(trace.steps.complete.sum())
    if count < 2 or not trace.steps.on_host:  # noqa: PLR2004
        return result
    step = step_at(trace.steps, trace.calls.start_ns)
    within = slow & trace.steps.holds(step)
    for name in np.unique(trace.calls.name[within]):
        of_name = trace.calls.name == name
        result |= of_name & (len(distinct(step[within & of_name])) == count)
    return result


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
    others = distinct(launch[~result[launch]])
    usual = float(np.median(calls.duration_ns[others])) if len(others) else 0.0
    return result & (calls.duration_ns >= max(SLOW_LAUNCH_NS, MIN_FIRST_LAUNCH_RATIO * usual))
