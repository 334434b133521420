"""Which steps are unlike the others: with an evaluation, a checkpoint or compiling in them they make no usual step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pinprof.intervals import Intervals, covered
from pinprof.step_statistics import FEWEST, MOSTLY, unlike_others
from pinprof.trace.links import NO_WORK, work_ends
from pinprof.trace.run_log import RECORDED
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

AHEAD = 0.9
"""A host whose steps take less than this share of the GPU's runs ahead: they scatter, and the GPU's tell the length."""

GPU, HOST = "gpu", "host"
WHY = {
    GPU: "the GPU has more to do there, as in an evaluation",
    HOST: "the host does something else there, as logging, a checkpoint, or compiling",
}
"""Reasons why a step is unlike the others."""
WHY_SERVED = {
    GPU: "the GPU has more to do there, as in a prefill among decodes",
    HOST: "the host does something else there, or waits for requests",
}
"""The same of the batches of a server."""


@dataclass(frozen=True)
class IrregularStep:
    """A step that is unlike the others; times in ns."""

    step: int
    """Index into `Trace.steps`."""
    time_ns: int
    usual_ns: float
    reason: str
    """A key of `WHY`."""


def irregular_steps(trace: Trace, waiting_for_input: Callable[[], Intervals]) -> tuple[IrregularStep, ...]:
    """Return the complete steps that take much longer than the usual one, and not for want of input.

    Input that comes in bursts belongs to what a batch costs: a step that waits for it is one like any other.
    When the program waits is asked for only where some step is longer.
    """
    step, time = _times(trace)
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
        IrregularStep(int(step[place]), int(time[place]), usual, reasons[place])
        for place in np.flatnonzero(is_unlike).tolist()
    )


def without(trace: Trace, irregular: tuple[IrregularStep, ...]) -> Trace:
    """Return the trace such that these steps are measured no more."""
    if not irregular:
        return trace
    left_out: Bools = np.zeros(len(trace.steps), bool)
    left_out[[step.step for step in irregular]] = True
    return replace(trace, steps=replace(trace.steps, complete=trace.steps.complete & ~left_out, unlike=left_out))


def with_unlike(trace: Trace) -> Trace:
    """Return the trace such that all steps recorded whole are measured: the other way round of `without`."""
    return replace(trace, steps=replace(trace.steps, complete=trace.steps.whole, unlike=None))


def _times(trace: Trace) -> tuple[Int64s, Int64s]:
    """Return steps and how long each takes: to the next start on the host, or from end to end of their GPU work."""
    steps = trace.steps
    complete = np.flatnonzero(steps.complete)
    followed = steps.followed if steps.on_host else complete[:0]
    on_host = steps.start_ns[followed + 1] - steps.start_ns[followed]
    ends = work_ends(trace)
    working = complete[ends[complete] != NO_WORK]
    after = working[1:][np.diff(working) == 1]
    on_gpu = ends[after] - ends[after - 1]
    if len(on_gpu) >= FEWEST and (not len(on_host) or np.median(on_host) < AHEAD * np.median(on_gpu)):
        return after, on_gpu
    return followed, on_host


def _reasons(trace: Trace, step: Int64s, is_unlike: Bools, away: np.ndarray) -> list[str]:
    """Return for each step what most of its time beyond the usual one is for."""
    of_work = trace.links.activity_step
    worked = np.bincount(of_work[of_work != NONE], trace.gpu.duration_ns[of_work != NONE], minlength=len(trace.steps))[
        step
    ]
    more = worked - np.median(worked[~is_unlike])
    return [GPU if is_work else HOST for is_work in (more >= MOSTLY * away).tolist()]
