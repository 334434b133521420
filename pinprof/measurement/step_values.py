"""The value of each figure in each complete step of a trace, for sums per step and their spread."""

import numpy as np
import numpy.typing as npt

from pinprof.details import Details
from pinprof.ground.intervals import covered
from pinprof.trace.links import NO_WORK_NS, work_ends
from pinprof.trace.tables import NONE, PAGEABLE, Int32s, Int64s, Trace, rows_by

Floats = npt.NDArray[np.float64]

MIN_STEPS_WITH_SPREAD = 2
"""The fewest steps that have a spread."""


def sum_in_steps(trace: Trace, step: Int32s, weight: npt.NDArray[np.generic] | None = None) -> Floats:
    """Return the sum of the weights (or the number) of the rows of each complete step; `step` is that of each row."""
    inside = trace.steps.holds(step)
    weights = None if weight is None else weight[inside]
    return np.bincount(step[inside], weights, minlength=len(trace.steps)).astype(np.float64)[trace.steps.complete]


def with_work_after(trace: Trace, values: Floats) -> Floats:
    """Return the values of the complete steps without the last step of the trace, if two others are left.

    No work follows that step, so nothing overlaps a copy there, and a wait holds up nothing.
    """
    last = np.flatnonzero(trace.steps.complete)[-1:]
    is_cut = len(last) and trace.links.activity_step.max(initial=NONE) <= last[0]
    return values[:-1] if is_cut and len(values) > MIN_STEPS_WITH_SPREAD else values


def step_lengths(details: Details) -> Floats:
    """Return the lengths of the steps in the trace: those on the host or those on the GPU, whichever are longer."""
    steps = details.steps
    if steps.traced_ns == steps.host_ns:
        return steps.host_lengths_ns.astype(np.float64)
    ends = work_ends(details.trace)
    return np.diff(ends[details.trace.steps.complete & (ends != NO_WORK_NS)]).astype(np.float64)


def running_in_steps(trace: Trace, rows: Int64s) -> Floats:
    """Return for each complete step the time in ns during which one of these activities of a device runs.

    `rows` are of `Trace.gpu`, in order. If several run, the time belongs to the one that started first, so that the
    steps add up to the whole.
    """
    gpu, step = trace.gpu, trace.links.activity_step
    inside = rows[trace.steps.holds(step[rows])]
    own = np.zeros(len(inside), np.int64)
    for on_device in rows_by(gpu.device[inside]):
        chosen = inside[on_device]
        reach = np.maximum.accumulate(gpu.end_ns[chosen])
        free = np.concatenate((gpu.start_ns[chosen[:1]], reach[:-1]))
        own[on_device] = reach - np.maximum(gpu.start_ns[chosen], free)
    return sum_in_steps(trace, step[inside], own)


# Copies


def exposed_in_steps(details: Details) -> Floats:
    """Return how long the copies that count (`Overlap.counts`) are exposed in each complete step, in ns."""
    return _exposed_in_steps(details, details.overlap.exposed_ns * details.overlap.counts)


def _exposed_in_steps(details: Details, exposed_ns: Int64s) -> Floats:
    return sum_in_steps(details.trace, details.trace.links.activity_step[details.overlap.row], exposed_ns)


def overlapped_share_in_steps(details: Details) -> Floats:
    """Return the overlapped share of the copy time in each step that has such copies and is followed by work."""
    trace = details.trace
    copying = with_work_after(trace, running_in_steps(trace, np.flatnonzero(trace.gpu.is_transfer)))
    exposed = with_work_after(trace, _exposed_in_steps(details, details.overlap.exposed_ns))
    has_copies = copying > 0
    return np.clip(1 - exposed[has_copies] / copying[has_copies], 0.0, 1.0)


def pageable_bytes_in_steps(details: Details) -> Floats | None:
    """Return how much is copied from or to pageable memory in each complete step; None if a size is not recorded."""
    gpu = details.trace.gpu
    rows = np.flatnonzero(gpu.host_memory == PAGEABLE)
    if (gpu.bytes[rows] == NONE).any():
        return None
    return sum_in_steps(details.trace, details.trace.links.activity_step[rows], gpu.bytes[rows])


# Waits of the host


def waits_in_steps(details: Details, rows: Int64s) -> Floats:
    """Return how many waits each complete step has; several calls that wait for one copy are one wait."""
    syncs, steps = details.syncs, details.trace.steps
    inside = rows[steps.holds(syncs.stalls.call_step[rows])]
    weight = np.ones(len(inside), np.int64)
    copying = np.flatnonzero(syncs.stalls.copy[inside] != NONE)
    of_copy = syncs.site[inside[copying]] * len(details.trace.gpu) + syncs.stalls.copy[inside[copying]]
    weight[copying] = 0
    weight[copying[np.unique(of_copy, return_index=True)[1]]] = 1
    return sum_in_steps(details.trace, syncs.stalls.call_step[inside], weight)


def waited_in_steps(details: Details, rows: Int64s, times: Int64s) -> Floats:
    """Return the sum of `times` of the waits of each complete step; `times` is a column of `Syncs.stalls`."""
    return sum_in_steps(details.trace, details.syncs.stalls.call_step[rows], times[rows])


# The DataLoader


def loading_in_steps(details: Details) -> Floats:
    """Return how long the main thread waits for its DataLoader in each complete step, in ns."""
    steps = details.trace.steps
    return covered(details.loader.times, steps.start_ns, steps.end_ns)[steps.complete].astype(np.float64)
