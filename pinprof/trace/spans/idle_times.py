"""The times in which a device has no work, and those in which the host runs neither an op nor a call."""

import re
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, covered, gaps, intersect, joined, length, subtract, union
from pinprof.trace.frames import is_torch_builtin
from pinprof.trace.links import ROUNDING_NS, enclosing
from pinprof.trace.spans.one_time_work import NO_TIMES_AT_ALL
from pinprof.trace.spans.phases import NODE_PREFIX
from pinprof.trace.tables import NONE, Bools, Int64s, Trace, computed_once

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
    return Gaps(times, following, (trace.links.launched_ns[following] <= times.start) | waited_most)


MIN_PAUSE_NS: Final = 50_000
"""Between two ops, torch's own Python takes 5 to 30 us under a profiler; a pause of this length is the program's."""
LONG_OP_NS: Final = 500_000
"""No op takes this long to launch one kernel: the host does other work in it, such as an op on the CPU."""
MIN_PAUSE_LAUNCHES: Final = 10
"""A pause also takes at least this multiple of the usual launch (5 us): on a slow host torch's Python takes longer."""
COMPILED_NODE: Final = "CompiledFunctionBackward"
"""The node that runs the backward of compiled code: the Python around that is torch's own."""
NATIVE_NODE: Final = re.compile(r"Backward\d+$")
"""Ends the names of the nodes that torch's own ops record, such as ConvolutionBackward0."""
MAX_HOOKS_OF_NODE: Final = 4
"""A hook takes few long times of a node. More are of modules that a node runs again, as activation checkpointing does:
between two of their ops is Python for up to `MODULE_PAUSE_RATIO` times the least length of a pause."""
MIN_HOOKS_SHARE_OF_STEPS: Final = 0.05
"""Slow hooks took 12 to 44 % of the steps of five programs. Without any, such long times took up to 3 % in 190
recordings: the CPU was taken, or the memory of the GPU grew."""
MODULE_PAUSE_RATIO: Final = 10
"""A module's Python between two ops of its forward pass takes up to 10 times as long as torch's own: 50 to 300 us
in networks of transformers, under a profiler on a slow host."""


@computed_once
def long_pauses(trace: Trace) -> Intervals:
    """Return the long times in which launching threads run no op and no call; Python within an op counts."""
    ops, calls = (table.times(np.isin(table.thread, trace.launching_threads)) for table in (trace.ops, trace.calls))
    return _long(gaps(joined(subtract(ops, _python(trace)), calls)), trace)


def very_long_pauses(trace: Trace) -> Intervals:
    """Return the long pauses that are no Python of a module between two of its ops."""
    return _long(long_pauses(trace), trace, MODULE_PAUSE_RATIO)


@computed_once
def _python(trace: Trace) -> Intervals:
    return joined(python_in_ops(trace), python_in_nodes(trace))


@computed_once
def python_in_ops(trace: Trace) -> Intervals:
    """Return when launching threads run Python functions that an op calls: a backward of the program's own, a hook."""
    ops, functions, threads = trace.ops, trace.functions, trace.launching_threads
    if not len(functions) or not len(ops):
        return NO_TIMES_AT_ALL
    outer = enclosing(ops, functions)
    called = (outer != NONE) & (functions.end_ns <= ops.end_ns[outer] + ROUNDING_NS)
    called &= np.isin(functions.thread, threads) & ~functions.named(is_torch_builtin)
    called_ops = np.append(called, False)[trace.links.op_function] & np.isin(ops.thread, threads)
    return subtract(functions.times(called), ops.times(called_ops))


@computed_once
def python_in_nodes(trace: Trace) -> Intervals:
    """Return when nodes of the autograd engine call Python code for long; Python functions need not be recorded.

    The engine's own code between two ops takes some microseconds. What takes most of a node's time, and runs neither an
    op nor a call, is a hook, or the backward of a function that is written in Python. Nodes in C++ call none.
    """
    ops, threads = trace.ops, trace.launching_threads
    of_threads = np.isin(ops.thread, threads)
    nodes = of_threads & ops.named(lambda name: name.startswith(NODE_PREFIX) and not name.endswith(COMPILED_NODE))
    if not nodes.any():
        return NO_TIMES_AT_ALL
    numbers = {name: number for number, name in enumerate(ops.names)}
    body_of = np.array([numbers.get(name.removeprefix(NODE_PREFIX), NONE) for name in ops.names], np.int64)
    around = trace.links.op_parent
    is_body = of_threads & (around != NONE) & ~ops.named(NATIVE_NODE.search)
    is_body &= np.append(nodes, False)[around] & (ops.name == np.append(body_of[ops.name], NONE)[around])
    others = joined(ops.times(of_threads & ~nodes & ~is_body), trace.calls.times(np.isin(trace.calls.thread, threads)))
    rows = np.flatnonzero(nodes)
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    python = _long(subtract(union(start, end), others), trace)
    many = np.searchsorted(python.start, end) - np.searchsorted(python.start, start) > MAX_HOOKS_OF_NODE
    modules = union(start[many], end[many])
    python = joined(subtract(python, modules), _long(intersect(python, modules), trace, MODULE_PAUSE_RATIO))
    mostly = 2 * covered(python, start, end) >= end - start
    python = intersect(python, union(start[mostly], end[mostly]))
    complete = union(trace.steps.start_ns[trace.steps.complete], trace.steps.end_ns[trace.steps.complete])
    if length(intersect(python, complete)) < MIN_HOOKS_SHARE_OF_STEPS * length(complete):
        return NO_TIMES_AT_ALL
    return intersect(python, python_in_ops(trace)) if len(trace.functions) else python


def _long(pauses: Intervals, trace: Trace, times: int = 1) -> Intervals:
    """Return the pauses of at least `times` the least length."""
    long = pauses.end - pauses.start >= times * max(MIN_PAUSE_NS, MIN_PAUSE_LAUNCHES * usual_launch_ns(trace))
    return Intervals(pauses.start[long], pauses.end[long])


@computed_once
def long_ops(trace: Trace) -> Int64s:
    """Return the rows of the long outermost ops of launching threads in which no call is made, and mostly no Python."""
    ops, calls, threads = trace.ops, trace.calls, trace.launching_threads
    long = (ops.duration_ns >= LONG_OP_NS) & (trace.links.op_parent == NONE) & np.isin(ops.thread, threads)
    rows = np.flatnonzero(long)
    launches = np.searchsorted(calls.start_ns, ops.end_ns[rows]) - np.searchsorted(calls.start_ns, ops.start_ns[rows])
    rows = rows[launches == 0]
    in_python = covered(_python(trace), ops.start_ns[rows], ops.end_ns[rows])
    return rows[2 * in_python < ops.duration_ns[rows]]


@computed_once
def usual_launch_ns(trace: Trace) -> float:
    """Return the median time of a call that launches work; 0 without one."""
    times = trace.calls.duration_ns[trace.launches_work]
    return float(np.median(times)) if len(times) else 0.0
