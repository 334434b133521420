"""The step as it is without the profiler: measured in the recorded run, else what a calibrated replay makes of it."""

from dataclasses import dataclass

from pinprof.analyses.steps import StepTimes
from pinprof.trace.tables import Info
from pinprof.whatif.calibrate import Calibration
from pinprof.whatif.program import Program
from pinprof.whatif.replay import pace

SURE = 0.1
"""An estimate whose range is no wider than this share of it needs no remark."""

NOISE = 0.03
"""Two runs of a program differ by this share of the step, whatever the trace says."""

CERTAIN = 0.98
"""The step without profiler lies between the GPU's own work and the traced step. Where these differ by no more than two
percent, the traced step is it: the profiler only slows the host, and the host is not the limit."""


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


def estimate_step(info: Info, times: StepTimes, program: Program, steps: int, calibration: Calibration) -> StepEstimate:
    """Return the step of a trace; `program` is that of so many of its complete steps."""
    plain = info.plain_step
    if plain is not None:
        low, high = plain.p10_ms or plain.mean_ms, plain.p90_ms or plain.mean_ms
        spread = (min(low, plain.mean_ms) * 1e6, max(high, plain.mean_ms) * 1e6)
        return StepEstimate(plain.mean_ms * 1e6, "measured", spread)
    if times.traced_ns is None or times.busy_ns is None:
        return StepEstimate(None, "estimated", None)
    least, most = min(times.busy_ns, times.traced_ns), times.traced_ns
    if times.busy_ns >= CERTAIN * times.traced_ns:
        return StepEstimate(times.traced_ns, "estimated", (least, most * (1 + NOISE)))
    if not program.calls:
        return StepEstimate(None, "estimated", (least, most))
    paces = (pace(program, steps, cost).step_ns for cost in (calibration.high, calibration.cost, calibration.low))
    low, middle, high = (min(max(step, least), most) for step in paces)
    return StepEstimate(middle, "estimated", (max(low * (1 - NOISE), least), high * (1 + NOISE)))
