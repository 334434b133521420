"""The times in which a device has no work, and those in which the host runs neither an op nor a call."""

from typing import Final, NamedTuple

import numpy as np

from pinprof.intervals import Intervals, covered, gaps, joined, subtract
from pinprof.trace.frames import is_torch_builtin
from pinprof.trace.links import ROUNDING_NS, enclosing
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s, Trace

LATE_START_NS = 100_000
"""Work starts on an idle GPU within tens of microseconds after its launch; work that starts later than this waited for
other work."""


class Gaps(NamedTuple):
    """The gaps between the first and the last work of a device, in order."""

    times: Intervals
    following: Int64s
    """The row of the first work after each gap."""
    queued: Bools
    """Whether that work was launched before the gap began, or waited during most of it: then no wait of the host caused
    the gap."""


def gaps_of(trace: Trace, device: int) -> Gaps:
    """Return the gaps in which a device had no work."""
    gpu = trace.gpu
    rows = gpu.of_device[device]
    times = gaps(gpu.times(rows))
    following = rows[np.searchsorted(gpu.start_ns[rows], times.end)] if len(times.start) else rows[:0]
    launch = trace.links.launch[following]
    waited = np.where(launch == NONE, 0, times.end - trace.calls.end_ns[launch]) if len(trace.calls) else 0
    waited_most = (waited > LATE_START_NS) & (2 * waited > times.end - times.start)
    return Gaps(times, following, (trace.launched_ns[following] <= times.start) | waited_most)


LONG_NS: Final = 50_000
"""Between two ops, torch's own Python takes 5 to 30 us under a profiler; a pause of this length is the program's."""
LONG_OP_NS: Final = 500_000
"""No op takes this long to launch one kernel: the host does other work in it, such as an op on the CPU."""
LAUNCHES: Final = 10
"""A pause also takes at least this multiple of the usual launch (5 us): on a slow host torch's Python takes longer."""
OWN: Final = 10
"""A module's Python between two ops of its forward pass takes up to 10 times as long as torch's own: 50 to 300 us
in networks of transformers, under a profiler on a slow host."""


def long_pauses(trace: Trace, threads: Int32s, times: int = 1) -> Intervals:
    """Return the pauses, in which these threads run no op and no call, of at least `times` the least length.

    Python code that an op calls, such as a hook of its gradient, counts as a pause.
    """
    ops, calls = (table.times(np.isin(table.thread, threads)) for table in (trace.ops, trace.calls))
    pauses = gaps(joined(subtract(ops, python_in_ops(trace, threads)), calls))
    long = pauses.end - pauses.start >= times * max(LONG_NS, LAUNCHES * usual_launch_ns(trace))
    return Intervals(pauses.start[long], pauses.end[long])


def python_in_ops(trace: Trace, threads: Int32s) -> Intervals:
    """Return when these threads run Python functions that an op calls: a backward of the program's own, a hook."""
    ops, functions = trace.ops, trace.functions
    if not len(functions) or not len(ops):
        return Intervals(ops.start_ns[:0], ops.end_ns[:0])
    outer = enclosing(ops, functions)
    called = (outer != NONE) & (functions.end_ns <= ops.end_ns[outer] + ROUNDING_NS)
    called &= np.isin(functions.thread, threads) & ~functions.named(is_torch_builtin)
    around = enclosing(functions, ops)
    again = np.append(called, False)[around] & np.isin(ops.thread, threads)
    return subtract(functions.times(called), ops.times(again))


def long_ops(trace: Trace, threads: Int32s) -> Int64s:
    """Return the rows of the long outermost ops of these threads in which no call is made, and mostly no Python."""
    ops, calls = trace.ops, trace.calls
    long = (ops.duration_ns >= LONG_OP_NS) & (trace.links.op_parent == NONE) & np.isin(ops.thread, threads)
    rows = np.flatnonzero(long)
    launches = np.searchsorted(calls.start_ns, ops.end_ns[rows]) - np.searchsorted(calls.start_ns, ops.start_ns[rows])
    rows = rows[launches == 0]
    return rows[
        2 * covered(python_in_ops(trace, threads), ops.start_ns[rows], ops.end_ns[rows]) < ops.duration_ns[rows]
    ]


def usual_launch_ns(trace: Trace) -> float:
    """Return the median time of a call that launches work; 0 without one."""
    times = trace.calls.duration_ns[trace.launches_work]
    return float(np.median(times)) if len(times) else 0.0


def launching_threads(trace: Trace) -> Int32s:
    """Return the numbers of the threads that launch work, except for those that pin memory."""
    threads = np.unique(trace.calls.thread[trace.launches_work])
    return threads[~trace.has_role("pin_memory")[threads]]
