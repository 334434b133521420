"""How long a training step took on the host and on the GPU, and which steps of the trace are irregular."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pinprof.ground.intervals import Intervals, covered, length
from pinprof.ground.step_statistics import EXPLAINING_SHARE_OF_EXCESS, MIN_TIMES_WITH_SPREAD, unlike_others
from pinprof.trace.links import NO_WORK_NS, work_ends
from pinprof.trace.metadata.run_log import RECORDED
from pinprof.trace.tables import NONE, PAGEABLE, WHOLE_TRACE, Bools, Int64s, Steps, Trace

ADJACENT_STEP_MULTIPLE = 1.5
"""Next to an irregular step, a time from end to end belongs to that step if it is longer than this multiple of the
usual."""


@dataclass(frozen=True)
class StepTimes:
    """The length of the complete steps, in ns; None where the trace has no such time."""

    source: str
    marker: str
    count: int
    host_ns: float | None  # median time between the starts of consecutive steps on the host
    device_ns: float | None  # mean time between the ends of the GPU work that consecutive steps launched
    traced_ns: float | None  # the larger of the two: the step as the trace shows it, with the profiler's cost in it
    busy_ns: float | None
    """Mean time per step in which the busiest device worked on what the steps launched, without copies of pageable
    memory, whose pace the host sets. No change on the host makes a step shorter, and no profiler changes this time."""
    host_lengths_ns: Int64s  # time between the starts of consecutive complete steps

    @property
    def divisor(self) -> int:
        """The number by which sums over the trace are divided to get sums per step; 1 for a trace without steps."""
        return max(self.count, 1)

    @property
    def whole(self) -> str:
        """The noun for what counts as a step: the whole trace if no step was found in it."""
        return "trace" if self.source == WHOLE_TRACE else "step"

    @property
    def per(self) -> str:
        """The words after a sum that was divided by `divisor`."""
        return "in the whole trace" if self.source == WHOLE_TRACE else "per step"


def measure_steps(trace: Trace) -> StepTimes:
    """Return the length of the trace's complete steps.

    A step on the host lasts as long as the host takes to launch it. If the host runs ahead of the GPU, only the ends of
    the GPU work show the length of the step; if the host is late, both do.
    """
    steps = trace.steps
    complete = np.flatnonzero(steps.complete)
    lengths = _host_times(steps)
    host = float(np.median(lengths)) if steps.on_host and len(lengths) else None
    device = _device_time(trace, complete)
    traced = max((time for time in (host, device) if time is not None), default=None)
    return StepTimes(steps.source, steps.marker, len(complete), host, device, traced, _busy_time(trace), lengths)


def timed(steps: Steps) -> Int64s:
    """Return the complete steps that another step follows, whose length is known; all complete ones if none is."""
    return steps.followed if len(steps.followed) else np.flatnonzero(steps.complete)


def _host_times(steps: Steps) -> Int64s:
    """Return the times from the start of each complete step to the next start; for a single step, its length."""
    followed = steps.followed
    if len(followed) == 0:
        return (steps.end_ns - steps.start_ns)[steps.complete]
    return steps.start_ns[followed + 1] - steps.start_ns[followed]


def _device_time(trace: Trace, complete: Int64s) -> float | None:
    """Return the mean time between the last GPU ends of the first and the last complete step with GPU work.

    None where the work of the last one does not end after that of the first, as in a trace with wrong times.
    """
    ends = work_ends(trace)
    working = complete[ends[complete] != NO_WORK_NS]
    if len(working) == 0:
        return None
    first, last = working[0], working[-1]
    if first == last:
        return float(ends[first] - trace.gpu.start_ns[trace.links.activity_step == first].min())
    between, count = int(ends[last] - ends[first]), int(last - first)
    if trace.steps.unlike is not None:
        around_unlike = _around_unlike(ends[first : last + 1], trace.steps.unlike[first : last + 1])
        between, count = between - int(around_unlike.sum()), count - len(around_unlike)
    return between / count if between > 0 and count else None


def _around_unlike(ends: Int64s, unlike: Bools) -> Int64s:
    """Return the times between ends of GPU work that an irregular step makes longer, at its own end or at the next."""
    working = ends != NO_WORK_NS
    times = np.diff(ends)[working[1:] & working[:-1]]
    adjacent = (unlike[1:] | unlike[:-1])[working[1:] & working[:-1]]
    if not adjacent.any() or adjacent.all():
        return times[:0]
    return times[adjacent & (times > ADJACENT_STEP_MULTIPLE * np.median(times[~adjacent]))]


def _busy_time(trace: Trace) -> float | None:
    gpu, step = trace.gpu, trace.links.activity_step
    stepped = trace.steps.holds(step)
    if not stepped.any():
        return None
    stepped &= gpu.host_memory != PAGEABLE
    busy = [length(gpu.times(rows)) for of_device in gpu.of_device.values() for rows in [of_device[stepped[of_device]]]]
    return max(busy) / int(trace.steps.complete.sum())


HOST_SHARE_AHEAD = 0.9
"""If the host's steps take less than this share of the GPU's, the host runs ahead. Then its steps scatter, and the
GPU's times show which steps are irregular."""

MORE_GPU_WORK, CPU_TAKEN, SLOW_HOST = "gpu", "off_cpu", "host"
WHY = {
    MORE_GPU_WORK: "the GPU has more to do there",
    CPU_TAKEN: "the machine was busy there: other threads or programs had the CPU of the host's thread",
    SLOW_HOST: "the host takes longer there, and nothing that was recorded says why",
}


@dataclass(frozen=True)
class IrregularStep:
    """An irregular step; times in ns."""

    step: int  # index into `Trace.steps`
    time_ns: int
    usual_ns: float
    reason: str  # a key of `WHY`


def irregular_steps(trace: Trace, waiting_for_input: Callable[[], Intervals]) -> tuple[IrregularStep, ...]:
    """Return the complete steps that take much longer than the usual one, and not because of input.

    Input that comes in bursts is a part of the cost of a batch, so a step that waits for it is regular.
    `waiting_for_input` is called only if some step is longer.
    """
    step, time = _step_lengths(trace)
    noted = trace.run.unusual_in(RECORDED) if trace.run else []
    is_unlike = unlike_others(
        time,
        np.array(noted, bool)[step] if len(noted) == len(trace.steps) else np.zeros(len(step), bool),
        lambda: covered(waiting_for_input(), trace.steps.start_ns[step], trace.steps.end_ns[step]),
    )
    if not is_unlike.any():
        return ()
    usual = float(np.median(time[~is_unlike]))
    reasons = _reasons(trace, step, is_unlike, time - usual)
    return tuple(
        IrregularStep(int(step[number]), int(time[number]), usual, reasons[number])
        for number in np.flatnonzero(is_unlike).tolist()
    )


def without_irregular(trace: Trace, irregular: tuple[IrregularStep, ...]) -> Trace:
    """Return the trace in which these steps do not count as complete, so that they are not measured."""
    if not irregular:
        return trace
    left_out: Bools = np.zeros(len(trace.steps), bool)
    left_out[[step.step for step in irregular]] = True
    whole, complete = trace.steps.whole, trace.steps.complete & ~left_out
    return replace(trace, steps=replace(trace.steps, complete=complete, unlike=whole & ~complete))


def with_irregular(trace: Trace) -> Trace:
    """Return the trace in which all steps that were recorded whole count: it undoes `without_irregular`."""
    return replace(trace, steps=replace(trace.steps, complete=trace.steps.whole, unlike=None))


def _step_lengths(trace: Trace) -> tuple[Int64s, Int64s]:
    steps = trace.steps
    complete = np.flatnonzero(steps.complete)
    followed = steps.followed if steps.on_host else complete[:0]
    on_host = steps.start_ns[followed + 1] - steps.start_ns[followed]
    ends = work_ends(trace)
    working = complete[ends[complete] != NO_WORK_NS]
    after = working[1:][np.diff(working) == 1]
    on_gpu = ends[after] - ends[after - 1]
    if len(on_gpu) >= MIN_TIMES_WITH_SPREAD and (
        not len(on_host) or np.median(on_host) < HOST_SHARE_AHEAD * np.median(on_gpu)
    ):
        return after, on_gpu
    return followed, on_host


def _reasons(trace: Trace, step: Int64s, is_unlike: Bools, excess: np.ndarray) -> list[str]:
    """Return per step the reason for most of its `excess`, its time beyond the usual one in ns."""
    off_cpu = np.array(trace.run.off_cpu_in(RECORDED) if trace.run else [], np.int64)
    off_cpu = off_cpu[step] if len(off_cpu) == len(trace.steps) else np.zeros(len(step), np.int64)
    of_work = trace.links.activity_step
    worked = np.bincount(of_work[of_work != NONE], trace.gpu.duration_ns[of_work != NONE], minlength=len(trace.steps))[
        step
    ]
    more = worked - np.median(worked[~is_unlike])
    return np.select(
        [more >= EXPLAINING_SHARE_OF_EXCESS * excess, off_cpu >= EXPLAINING_SHARE_OF_EXCESS * excess],
        [MORE_GPU_WORK, CPU_TAKEN],
        SLOW_HOST,
    ).tolist()
