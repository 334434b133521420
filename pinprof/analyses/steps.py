"""How long a training step took on the host and on the GPU."""

from dataclasses import dataclass

import numpy as np

from pinprof.intervals import length, union
from pinprof.trace.links import NO_WORK, work_ends
from pinprof.trace.tables import PAGEABLE, WHOLE_TRACE, Bools, Int64s, Steps, Trace

LONGER = 1.5
"""Next to an irregular step, a time from end to end belongs to that step if it is longer than this multiple of the
usual."""


@dataclass(frozen=True)
class StepTimes:
    """The length of the complete steps, in ns; None where the trace has no such time."""

    source: str
    marker: str
    count: int
    host_ns: float | None
    """Median time between the starts of consecutive steps on the host."""
    device_ns: float | None
    """Mean time between the ends of the GPU work that consecutive steps launched."""
    traced_ns: float | None
    """The larger of the two: the step as the trace shows it, with the profiler's cost in it."""
    busy_ns: float | None
    """Mean time per step in which the busiest device worked on what the steps launched, without copies of pageable
    memory, whose pace the host sets: nothing on the host can make the step shorter, nor does a profiler lengthen it."""
    each_ns: Int64s
    """Time between the starts of consecutive complete steps."""

    @property
    def divisor(self) -> int:
        """What divides sums over the trace into sums per step; 1 without steps, for the whole trace."""
        return max(self.count, 1)

    @property
    def whole(self) -> str:
        """What counts as a step, in words: one, or the trace in which none was found."""
        return "trace" if self.source == WHOLE_TRACE else "step"

    @property
    def per(self) -> str:
        """What sums that are divided by `divisor` refer to, in words."""
        return "in the whole trace" if self.source == WHOLE_TRACE else "per step"


def measure_steps(trace: Trace) -> StepTimes:
    """Return the length of the trace's complete steps.

    A step's range on the host says how long the host took to issue it. Where the host runs ahead of the GPU, only the
    ends of the GPU work tell the length; where the host is late, both do.
    """
    steps = trace.steps
    complete = np.flatnonzero(steps.complete)
    lengths = _host_times(steps)
    host = float(np.median(lengths)) if steps.on_host and len(lengths) else None
    device = _device_time(trace, complete)
    traced = max((time for time in (host, device) if time is not None), default=None)
    return StepTimes(steps.source, steps.marker, len(complete), host, device, traced, _busy_time(trace), lengths)


def _host_times(steps: Steps) -> Int64s:
    """Return the times from the start of each complete step to the next start; of a single step its own length."""
    followed = steps.followed
    if len(followed) == 0:
        return (steps.end_ns - steps.start_ns)[steps.complete]
    return steps.start_ns[followed + 1] - steps.start_ns[followed]


def _device_time(trace: Trace, complete: Int64s) -> float | None:
    """Return the mean time between the last GPU ends of the first and the last complete step with GPU work.

    None where the work of the last one does not end after that of the first, as in a trace with wrong times.
    """
    ends = work_ends(trace)
    working = complete[ends[complete] != NO_WORK]
    if len(working) == 0:
        return None
    first, last = working[0], working[-1]
    if first == last:
        return float(ends[first] - trace.gpu.start_ns[trace.links.activity_step == first].min())
    between, count = int(ends[last] - ends[first]), int(last - first)
    if trace.steps.unlike is not None:
        apart = _around_unlike(ends[first : last + 1], trace.steps.unlike[first : last + 1])
        between, count = between - int(apart.sum()), count - len(apart)
    return between / count if between > 0 and count else None


def _around_unlike(ends: Int64s, unlike: Bools) -> Int64s:
    """Return the times from end to end that a step unlike the others makes long: before its own work, or after it."""
    working = ends != NO_WORK
    times = np.diff(ends)[working[1:] & working[:-1]]
    adjacent = (unlike[1:] | unlike[:-1])[working[1:] & working[:-1]]
    if not adjacent.any() or adjacent.all():
        return times[:0]
    return times[adjacent & (times > LONGER * np.median(times[~adjacent]))]


def _busy_time(trace: Trace) -> float | None:
    """Return the mean busy time of the busiest device in the complete steps."""
    gpu, step = trace.gpu, trace.links.activity_step
    stepped = trace.steps.holds(step)
    if not stepped.any():
        return None
    stepped &= gpu.host_memory != PAGEABLE
    busy = [
        length(union(gpu.start_ns[rows], gpu.end_ns[rows]))
        for of_device in gpu.of_device.values()
        for rows in [of_device[stepped[of_device]]]
    ]
    return max(busy) / int(trace.steps.complete.sum())
