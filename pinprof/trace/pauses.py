"""When the host runs no op and no call."""

from typing import Final

import numpy as np

from pinprof.intervals import Intervals, gaps, union
from pinprof.trace.tables import NONE, Int32s, Trace

LONG_NS: Final = 50_000
"""Between two ops, torch's own Python takes 5 to 30 us under a profiler; a longer pause is the program's."""


def long_pauses(trace: Trace, threads: Int32s) -> Intervals:
    """Return the times, none of them short, in which these threads run no op and no call."""
    tables = [(table, np.isin(table.thread, threads)) for table in (trace.ops, trace.calls)]
    starts, ends = (
        np.concatenate([getattr(table, column)[own] for table, own in tables]) for column in ("start_ns", "end_ns")
    )
    pauses = gaps(union(starts, ends))
    long = pauses.end - pauses.start >= LONG_NS
    return Intervals(pauses.start[long], pauses.end[long])


def launching_threads(trace: Trace) -> Int32s:
    """Return the numbers of the threads that launch work, but for those that only pin memory."""
    launch = trace.links.launch
    threads = np.unique(trace.calls.thread[launch[launch != NONE]])
    kept = [trace.threads[thread].role != "pin_memory" for thread in threads.tolist()]
    return threads[np.array(kept, dtype=bool)]
