"""Work that was queued before the recording began, beside which the host and its own work cannot be compared."""

import numpy as np

from pinprof.intervals import covered, gaps, union
from pinprof.measurement.trust.doubt import (
    BUSY,
    CAUSES,
    DRAIN,
    ESTIMATE,
    MATTERS,
    OVERLAP,
    STEP,
    Doubt,
    Seen,
    only_if,
)
from pinprof.measurement.trust.launches import may_await_host
from pinprof.measurement.trust.losses import at_start, lost_launches
from pinprof.replay.bound import GPU_BOUND, is_gpu_bound
from pinprof.trace.gaps import LATE_START_NS
from pinprof.trace.tables import NONE, WHOLE_TRACE, Bools, Trace
from pinprof.units import duration

APART = 0.5
"""Share of the time in which the host launches the work of several steps: if the GPU is not seen at work for so long,
most of what it does lies beside nothing that is recorded of the host."""

REMEDY = "record several steps in a row, with their GPU work from the start"


def queued_before(seen: Seen) -> Doubt | None:
    """Report that the GPU did, while the host launched, what was queued before and is not in the trace, or of no step.

    Several steps show by the ends of their work that the GPU is the limit; of a single one nothing tells what came
    before it.
    """
    found = seen.trace.steps.holds(seen.trace.links.activity_step) & (seen.trace.links.launch != NONE)
    if not found.any():
        return None
    times, alone, length = seen.times, seen.times.count == 1, seen.times.traced_ns or 0.0
    if not alone and is_gpu_bound(times.busy_ns or 0.0, length):
        return None
    unseen, launching = _unseen_ns(seen, found)
    if unseen > LATE_START_NS and unseen >= ((1 - GPU_BOUND) * length if alone else APART * launching):
        return _doubt(
            f"no GPU work for {duration(unseen)} after the first launch",
            "the GPU ran work that was queued before the recording began, or the clocks of host and GPU differ",
        )
    earlier = _earlier_ns(seen) if alone else 0
    if earlier and earlier >= (1 - GPU_BOUND) * length:
        return _doubt(
            f"no launch of {duration(earlier)} of GPU work in the only step",
            "the GPU ran work that was queued before the recording began",
        )
    return None


def lost_start(seen: Seen) -> Doubt | None:
    """Report that the GPU stood still at first, though work was queued: what it did then is not in the trace.

    Work that was queued before the recording began has no launch in the trace, so nothing else tells that its records
    are lost. Of 190 whole recordings, those of this project and of others, none has such a time of 2 ms or of 2 % of
    the trace; all that have are cut or sampled.
    """
    trace, times = seen.trace, seen.times
    if not len(trace.gpu) or not len(trace.calls) or may_await_host(trace.calls):
        return None
    span = int(trace.gpu.end_ns.max() - trace.gpu.start_ns.min())
    unseen = _queued_and_idle_ns(trace)
    if unseen <= LATE_START_NS or unseen < MATTERS * span:
        return None
    launches = lost_launches(seen)
    if launches is not None and BUSY in launches.withholds:  # the same loss
        return None
    of_step = unseen >= (1 - GPU_BOUND if times.count == 1 else APART * times.divisor) * (times.traced_ns or 0.0)
    return Doubt(
        f"no GPU work for {duration(unseen)} at the start, though some was queued",
        "the GPU ran work that was queued before the recording began, or whose records are lost: that is no idle time",
        at_start(trace),
        frozenset({BUSY, OVERLAP, CAUSES, DRAIN, ESTIMATE}) | only_if(of_step, STEP),
    )


def _queued_and_idle_ns(trace: Trace) -> int:
    """Return how long no GPU works although the next work of a stream is queued, until each has begun its own, in ns.

    A stream has begun when it runs what was launched in the trace.
    """
    gpu, launch, first_call = trace.gpu, trace.links.launch, int(trace.calls.start_ns[0])
    idle = gaps(union(gpu.start_ns, gpu.end_ns))
    following = np.searchsorted(gpu.start_ns, idle.end)
    begun = np.zeros(len(gpu), bool)
    for rows in gpu.of_stream:
        linked = np.flatnonzero(launch[rows] != NONE)
        begun[rows[linked[0] + 1 :] if len(linked) else rows] = True
    begun &= ~trace.in_flight
    queued = np.where(launch == NONE, first_call, trace.calls.end_ns[launch])[following]
    held = idle.end - np.maximum(idle.start, queued)
    return int(held[~begun[following] & (held > LATE_START_NS)].sum())


def _doubt(what: str, why: str) -> Doubt:
    return Doubt(
        what,
        f"{why}: that is no idle time, and it is unknown whether host or GPU is the limit",
        REMEDY,
        frozenset({STEP, ESTIMATE, CAUSES, DRAIN}),
    )


def _unseen_ns(seen: Seen, found: Bools) -> tuple[int, int]:
    """Return how long after the first of these launches the GPU begins to work, and how long they go on, in ns."""
    trace = seen.trace
    launched = trace.calls.end_ns[trace.links.launch[found]]
    first = int(launched.min())
    return int(trace.gpu.start_ns.min()) - first, int(launched.max()) - first


def _earlier_ns(seen: Seen) -> int:
    """Return how long work in flight runs in the only step, where the host tells its length, in ns.

    If the whole trace is the step, all work is its own; and a length that the GPU tells has none of that in it.
    """
    trace, times = seen.trace, seen.times
    if times.source == WHOLE_TRACE or times.host_ns is None or times.host_ns <= (times.device_ns or 0.0):
        return 0
    queued = trace.in_flight
    step = np.flatnonzero(trace.steps.complete)
    running = union(trace.gpu.start_ns[queued], trace.gpu.end_ns[queued])
    return int(covered(running, trace.steps.start_ns[step], trace.steps.end_ns[step]).sum())
