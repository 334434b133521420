"""The step as it is without the profiler: measured in the recorded run, else what a calibrated replay makes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinprof.analyses.steps import StepTimes
from pinprof.replay.calibration import Calibration
from pinprof.replay.machine import pace
from pinprof.replay.program import Program
from pinprof.trace.tables import Info

SURE = 0.1
"""An estimate whose range is no wider than this share of it needs no remark."""

NOISE = 0.03
"""Two runs of a program differ by this share of the step, whatever the trace says."""

CERTAIN = 0.98
"""The step without profiler lies between the GPU's own work and the traced step. Where these differ by no more than two
percent, it is the traced step: the profiler only slows the host, and the host is not the limit."""


@dataclass(frozen=True)
class StepEstimate:
    """The step as it is without the profiler, in ns; None where the trace cannot tell."""

    step_ns: float | None
    source: str
    """`measured` if pinprof measured it in the recorded run, `given` by the user, else `estimated`."""
    range_ns: tuple[float, float] | None
    """Where the step lies: of a measured step its spread, else between the replays with the most and the least that a
    profiler may have cost, within the GPU's own work and the traced step."""

    @property
    def is_sure(self) -> bool:
        """Whether the step is measured, or hardly any other is possible."""
        if self.step_ns is None or self.range_ns is None:
            return False
        return self.source != "estimated" or self.range_ns[1] - self.range_ns[0] <= SURE * self.step_ns


def measured_step(ranks: Sequence[Info]) -> StepEstimate | None:
    """Return the step that pinprof measured in the recorded run, the mean of all ranks; None if it did not."""
    plain = [info.plain_step for info in ranks if info.plain_step is not None]
    if not plain:
        return None
    mean = sum(step.mean_ms for step in plain) / len(plain)
    low = min(min(step.p10_ms or step.mean_ms, step.mean_ms) for step in plain)
    high = max(max(step.p90_ms or step.mean_ms, step.mean_ms) for step in plain)
    return StepEstimate(mean * 1e6, "measured", (low * 1e6, high * 1e6))


def estimate_step(
    times: Sequence[StepTimes],
    programs: Sequence[Program],
    steps: int,
    calibration: Calibration,
    waiting_for_nobody: Program | None = None,
) -> StepEstimate:
    """Return the step of a job by the times of its ranks; `programs` are those of so many of their complete steps.

    Of a single rank the time in which its GPU worked is the least that the step can be; of several, part of that was
    waiting for each other. If a single rank waited for others whose traces are not given, it is unknown how much of
    that the profiler caused: the least is then the step in which it waits for nobody.
    """
    estimate = _by_replay(times, programs, steps, calibration)
    if waiting_for_nobody is None or estimate.range_ns is None:
        return estimate
    low, high = estimate.range_ns
    least = pace([waiting_for_nobody], steps, calibration.high)
    return replace(estimate, range_ns=(min(max(least.step_ns * (1 - NOISE), least.busy_ns), low), high))


def _by_replay(
    times: Sequence[StepTimes], programs: Sequence[Program], steps: int, calibration: Calibration
) -> StepEstimate:
    traced, busy = ([time for time in each if time is not None] for each in zip(*map(_times, times), strict=True))
    if not traced or not busy:
        return StepEstimate(None, "estimated", None)
    most = max(traced)
    fastest = pace(programs, steps, calibration.high)
    least = min(busy[0] if len(times) == 1 else fastest.busy_ns, most)
    if least >= CERTAIN * most:
        return StepEstimate(most, "estimated", (least, most * (1 + NOISE)))
    if not fastest.step_ns:
        return StepEstimate(None, "estimated", (least, most))
    runs = (fastest, *(pace(programs, steps, cost) for cost in (calibration.cost, calibration.low)))
    low, middle, high = (min(max(run.step_ns, least), most) for run in runs)
    return StepEstimate(middle, "estimated", (max(low * (1 - NOISE), least), high * (1 + NOISE)))


def _times(times: StepTimes) -> tuple[float | None, float | None]:
    return times.traced_ns, times.busy_ns
