"""The step without the profiler: measured in the recorded run, otherwise estimated by a calibrated replay."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from pinprof.analyses.steps import StepTimes
from pinprof.details import Details
from pinprof.replay.calibration import Calibration
from pinprof.replay.machine import pace
from pinprof.replay.program import Program
from pinprof.units import NS_PER_MS

SURE = 0.1
"""An estimate is sure if its range is at most this share of it."""

SHORT_OF_TRUTH = 0.03
"""The traced step may be shorter than the step of another run by up to this share."""

CERTAIN = 0.98
"""The step without the profiler lies between the GPU's own work and the traced step. If these differ by at most two
percent, it is the traced step: the profiler only slows the host, and the host is not the limit."""


@dataclass(frozen=True)
class StepEstimate:
    """The step without the profiler, in ns; None where the trace does not show it."""

    step_ns: float | None
    source: str
    """`measured` by pinprof in the recorded run, `given` by the user, or `estimated`."""
    range_ns: tuple[float, float] | None
    """The range of the step. If it was measured, it holds the step with 95 % confidence (for a few steps it is their
    scatter). Otherwise it lies between the replays with the most and the least that a profiler may have cost, and
    within the GPU's own work and the traced step."""

    @property
    def is_sure(self) -> bool:
        """Whether the step is measured, or its range is narrow."""
        if self.step_ns is None or self.range_ns is None:
            return False
        return self.source != "estimated" or self.range_ns[1] - self.range_ns[0] <= SURE * self.step_ns


def measured_step(ranks: Sequence[Details]) -> StepEstimate | None:
    """Return the regular step that pinprof measured in the recorded run, the mean of all ranks; None if it did not."""
    measured = [step for step in map(_measured, ranks) if step is not None]
    if not measured:
        return None
    mean = sum(step for step, *_ in measured) / len(measured)
    return StepEstimate(mean, "measured", (min(low for _, low, _ in measured), max(high for *_, high in measured)))


def _measured(rank: Details) -> tuple[float, float, float] | None:
    """Return the measured step of a rank and the ends of its range, in ns; None if it was not measured.

    Recordings of old versions have the mean of all steps, and the scatter of single steps.
    """
    timed = rank.whole_run.timed if rank.whole_run else None
    if timed is not None and timed.range_ns is not None:
        return timed.step_ns, *timed.range_ns
    plain = rank.trace.info.plain_step
    if plain is None:
        return None
    mean = timed.step_ns if timed else plain.mean_ms * NS_PER_MS
    low, high = ((percentile_ms or plain.mean_ms) * NS_PER_MS for percentile_ms in (plain.p10_ms, plain.p90_ms))
    return mean, min(low, mean), max(high, mean)


def estimate_step(
    times: Sequence[StepTimes],
    programs: Sequence[Program],
    steps: int,
    calibration: Calibration,
    waiting_for_nobody: Program | None = None,
    *,
    fed_by_workers: bool = False,
) -> StepEstimate:
    """Return the step of a job by the times of its ranks; `programs` are those of `steps` complete steps.

    A profiler slows the workers of a DataLoader, too, so the least possible step never waits for input. It slows the
    host more, so that workers seem to keep up: in a job that is `fed_by_workers`, the longest possible step is the
    traced one.

    The step of a single rank is at least as long as its GPU worked; with several ranks, they waited for each other in a
    part of that time. If a single rank waited for others whose traces are not given, it is unknown how much of that the
    profiler caused: the least possible step is then the one without such waits.
    """
    estimate = _by_replay(times, programs, steps, calibration, inf if fed_by_workers else 1.0)
    if waiting_for_nobody is None or estimate.range_ns is None:
        return estimate
    low, high = estimate.range_ns
    least = pace([waiting_for_nobody], steps, calibration.high)
    unsure = calibration.unsure(high / least.step_ns - 1 if least.step_ns else 0.0)
    return replace(estimate, range_ns=(min(max(least.step_ns * (1 - unsure), least.busy_ns), low), high))


def _by_replay(
    times: Sequence[StepTimes], programs: Sequence[Program], steps: int, calibration: Calibration, at_most: float
) -> StepEstimate:
    """Return the step by replay; it takes at most `at_most` times the longest replay, and at most the traced step."""
    traced = [of_rank.traced_ns for of_rank in times if of_rank.traced_ns is not None]
    busy = [of_rank.busy_ns for of_rank in times if of_rank.busy_ns is not None]
    if not traced or not busy:
        return StepEstimate(None, "estimated", None)
    most = max(traced)
    fastest = pace(programs, steps, replace(calibration.high, input_speed=inf))
    least = min(busy[0] if len(times) == 1 else fastest.busy_ns, most)
    if least >= CERTAIN * most:
        return StepEstimate(most, "estimated", (least, most * (1 + SHORT_OF_TRUTH)))
    if not fastest.step_ns:
        return StepEstimate(None, "estimated", (least, most))
    runs = (fastest, *(pace(programs, steps, cost) for cost in (calibration.cost, calibration.low)))
    low, middle, high = (min(max(run.step_ns, least), most) for run in runs)
    unsure = calibration.unsure(most / middle - 1 if middle else 0.0)
    low, high = low * (1 - unsure), high * (1 + unsure) * at_most
    return StepEstimate(middle, "estimated", (max(low, least), min(high, most * (1 + SHORT_OF_TRUTH))))
