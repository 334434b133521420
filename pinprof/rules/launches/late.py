"""How long the GPU waits for the host, and what the host does meanwhile."""

import numpy as np

from pinprof.details import Details
from pinprof.intervals import Intervals, covered, subtract, union
from pinprof.measurement.profile import Profile
from pinprof.rules.sums import in_complete_steps
from pinprof.trace.compiling import capture_times, compile_times
from pinprof.trace.pauses import launching_threads, long_ops, long_pauses
from pinprof.trace.tables import Bools, Int64s

IDLE = 0.1
"""A GPU that is idle for a smaller share of the step does not wait for launches."""


def late_ns(details: Details, profile: Profile) -> float:
    """Return how long a step the busiest GPU is idle because the next launch comes late; 0 where it hardly is."""
    step, busy = profile.step_ns, profile.steps.busy_ns
    busiest = max(details.devices, key=lambda device: device.busy_ns, default=None)
    if not step or busy is None or busiest is None or step - busy < IDLE * step:
        return 0.0
    late = dict(busiest.idle_by_cause).get("host_wait", 0) / profile.steps.divisor
    return min(late, step - busy)


def pauses(details: Details) -> Intervals:
    """Return the long pauses of the threads that launch, but for waits for input and the work of compilers."""
    idle = subtract(long_pauses(details.trace, launching_threads(details.trace)), details.loader.times)
    return subtract(idle, compiling(details))


def compiling(details: Details) -> Intervals:
    """Return when any thread compiles, or captures a graph."""
    compiled, captured = compile_times(details.trace), capture_times(details.trace)
    return union(
        np.concatenate((compiled.start_ns, captured.start_ns)), np.concatenate((compiled.end_ns, captured.end_ns))
    )


def host_ops(details: Details) -> Int64s:
    """Return the long outermost ops of the complete steps, on threads that launch, in which no call is made."""
    trace = details.trace
    rows = long_ops(trace, launching_threads(trace))
    return rows[in_complete_steps(trace, trace.ops.start_ns[rows]) & ~_compiles(details, rows)]


def _compiles(details: Details, rows: Int64s) -> Bools:
    """Return for each of these ops whether it is mostly the work of a compiler."""
    ops = details.trace.ops
    return 2 * covered(compiling(details), ops.start_ns[rows], ops.end_ns[rows]) > ops.duration_ns[rows]
