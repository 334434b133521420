"""When the host compiles: Dynamo and Inductor at work, and CUDA graphs being captured."""

import re
from typing import Final, NamedTuple

import numpy as np

from pinprof.intervals import union
from pinprof.trace.tables import Bools, HostEvents, Int64s, Trace

COMPILING: Final = re.compile(r"\(dynamo_timed\)$")
"""torch names what its compilers do so: `_compile.compile_inner (dynamo_timed)`; a lookup of code is none of it."""
REGION: Final = "Torch-Compiled Region: "
"""Before the number of compiled code that runs: frame/version."""
CAPTURES: Final = re.compile(r"StreamBeginCapture|StreamEndCapture|GraphInstantiate")
"""Calls that make a graph."""
GRAPH_LAUNCH: Final = re.compile(r"GraphLaunch")


class HostTimes(NamedTuple):
    """Times of host threads, none of one thread within another."""

    thread: Int64s
    start_ns: Int64s
    end_ns: Int64s


def compile_times(trace: Trace) -> HostTimes:
    """Return when each thread compiles."""
    rows = [(table, np.flatnonzero(is_compiling(table))) for table in (trace.ops, trace.annotations)]
    return _outermost(
        *(
            np.concatenate([getattr(table, column)[chosen] for table, chosen in rows]).astype(np.int64)
            for column in ("thread", "start_ns", "end_ns")
        )
    )


def capture_times(trace: Trace) -> HostTimes:
    """Return when each thread captures a graph, from the first call that does to the last, and makes it runnable."""
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
    return table.named(lambda name: COMPILING.search(name) is not None)


def compiled_before(trace: Trace) -> int | None:
    """Return when compiled code was first run or made, or a graph launched or made; None if never."""
    ran = (
        (trace.ops, trace.ops.named(lambda name: name.startswith(REGION) or COMPILING.search(name) is not None)),
        (trace.annotations, is_compiling(trace.annotations)),
        (trace.calls, trace.calls.named(lambda name: bool(CAPTURES.search(name) or GRAPH_LAUNCH.search(name)))),
    )
    times = [int(table.start_ns[chosen].min()) for table, chosen in ran if chosen.any()]
    return min(times, default=None)


def _outermost(thread: Int64s, start: Int64s, end: Int64s) -> HostTimes:
    numbers = np.unique(thread).tolist()
    each = [union(start[thread == number], end[thread == number]) for number in numbers]
    whose = [np.full(len(times.start), number, np.int64) for number, times in zip(numbers, each, strict=True)]
    none = np.empty(0, np.int64)
    return HostTimes(
        np.concatenate([none, *whose]),
        np.concatenate([none, *(times.start for times in each)]),
        np.concatenate([none, *(times.end for times in each)]),
    )
