"""The step without the profiler: measured in the recorded run, otherwise estimated by a calibrated replay."""

from collections.abc import Sequence
from dataclasses import dataclass

from pinprof.details import Details
from pinprof.replay.worlds import RangeNs
from pinprof.units import NS_PER_MS

SURE_RANGE_SHARE = 0.1
"""An estimate is sure if its range is at most this share of it."""


@dataclass(frozen=True)
class StepEstimate:
    """The step without the profiler, in ns; None where the trace does not show it."""

    step_ns: float | None
    source: str
    """`measured` by pinprof in the recorded run, `given` by the user, or `estimated`."""
    range_ns: RangeNs | None
    """The range of the step. If it was measured, it holds the step with 95 % confidence (for a few steps it is their
    scatter). Otherwise it is its range over the worlds, within the GPU's own work and the traced step."""

    @property
    def is_sure(self) -> bool:
        """Whether the step is measured, or its range is narrow."""
        if self.step_ns is None or self.range_ns is None:
            return False
        return self.source != "estimated" or self.range_ns[1] - self.range_ns[0] <= SURE_RANGE_SHARE * self.step_ns


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
