"""The figures of two traces: before, after, and whether they differ by more than noise."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.ground.units import NS_PER_MS
from pinprof.measurement.figures import (
    FIGURES,
    NO_COMPLETE_STEP,
    STEP_MS,
    Floats,
    TraceFigure,
    running_in_steps,
    with_work_after,
)
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import FigureKind, given
from pinprof.trace.tables import KERNEL, Trace

FigureOutcome: TypeAlias = Literal["better", "worse"]

SMALL_DIFFERENCE = 0.02
"""A smaller difference is neither better nor worse: two runs of one program differ by as much."""
NOT_STEPPED = "no step was found; call profiler.step() once per training step"
LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
"""The percentiles of the steps that bound a spread: those that a trace stores with a measured step."""


@dataclass(frozen=True)
class Value:
    """A figure of one trace; None with the reason if it is unknown."""

    value: float | None
    spread: tuple[float, float] | None = None
    """The range over the complete steps, or the range of a measured or estimated step; None for a single step."""
    reason: str = ""


@dataclass(frozen=True)
class ComparedFigure:
    """A figure before and after; times in ns."""

    name: str
    """As in the report's JSON."""
    unit: str
    """`ns`, `bytes`, `count`, `share` (of 1) or `gbps`."""
    before: Value
    after: Value
    device: int | None = None
    label: str = ""
    more_is_better: bool = False

    @property
    def difference(self) -> float | None:
        """After minus before; None if a side is unknown."""
        if self.before.value is None or self.after.value is None:
            return None
        return self.after.value - self.before.value

    @property
    def fraction(self) -> float | None:
        """The difference as a share of the figure before."""
        if self.difference is None or not self.before.value:
            return None
        return self.difference / self.before.value

    @property
    def noise(self) -> float | None:
        """The difference from which on the two ranges do not overlap; None if a side is a single step."""
        sides = (self.before.value, self.before.spread), (self.after.value, self.after.spread)
        smaller, larger = sides if (self.difference or 0) >= 0 else sides[::-1]
        if smaller[0] is None or smaller[1] is None or larger[0] is None or larger[1] is None:
            return None
        return max(smaller[1][1] - smaller[0], 0.0) + max(larger[0] - larger[1][0], 0.0)

    @property
    def is_within_noise(self) -> bool | None:
        """Whether the difference is noise; None if unknown. A difference of 0 is noise."""
        if self.difference is None:
            return None
        if self.difference == 0:
            return True
        return None if self.noise is None else abs(self.difference) <= self.noise

    @property
    def has_changed(self) -> bool:
        """Whether the figure differs by more than noise, as far as that is known."""
        return self.difference is not None and not self.is_within_noise

    @property
    def is_small(self) -> bool:
        """Whether the difference is less than `SMALL_DIFFERENCE`: of the figure before, of a share in points."""
        share = self.difference if self.unit == "share" else self.fraction
        return share is not None and abs(share) < SMALL_DIFFERENCE

    @property
    def outcome(self) -> FigureOutcome | None:
        """Whether the figure became better or worse; None within noise, and where the difference is small."""
        if self.difference is None or not self.has_changed or self.is_small:
            return None
        return "better" if (self.difference > 0) == self.more_is_better else "worse"

    @property
    def reason(self) -> str:
        """Why the figures cannot be compared; empty if they can."""
        if self.difference is not None:
            return ""
        both = (("before", self.before), ("after", self.after))
        return "; ".join(f"{side}: {value.reason or 'none'}" for side, value in both if value.value is None)


def over_steps(values: Floats, value: float | None = None) -> Value:
    """Return a figure, `value` or the mean of these values of the complete steps, with their spread.

    The percentiles are values of steps, without interpolation, so few steps all lie in the spread.
    """
    if len(values) == 0:
        return Value(value, reason="" if value is not None else NO_COMPLETE_STEP)
    middle = float(values.mean()) if value is None else value
    if len(values) == 1:
        return Value(middle)
    low = float(np.percentile(values, LOW_PERCENTILE, method="lower"))
    high = float(np.percentile(values, HIGH_PERCENTILE, method="higher"))
    return Value(middle, (min(low, middle), max(high, middle)))


@dataclass(frozen=True)
class Side:
    """One of the two traces, with its measurements and findings."""

    analysis: Analysis
    is_stepped: bool = True
    """False for a trace without steps if the other one has steps, since its whole trace is not comparable to a step."""

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def details(self) -> Details:
        """Its measurements by row."""
        return self.analysis.details

    @property
    def profile(self) -> Profile:
        """Its sums."""
        return self.analysis.profile

    def why_not(self, *kinds: FigureKind) -> str:
        """Return why the trace does not have a figure that these kinds withhold; empty if it has one."""
        doubt = self.profile.withheld.reason(kinds)
        if doubt:
            return f"{doubt.what}; {doubt.remedy}"
        return "" if self.profile.steps.count else NO_COMPLETE_STEP

    def why_not_stepped(self, *kinds: FigureKind) -> str:
        """Return why the trace does not have such a figure per step; empty if it has one."""
        if not self.is_stepped and not self.profile.withheld.reason(kinds):
            return NOT_STEPPED
        return self.why_not(*kinds)

    def per_step(self, values: Floats, *kinds: FigureKind, depends_on_end: bool = False) -> Value:
        """Return the mean and the spread of values of the complete steps, unless one of these kinds withholds them.

        `depends_on_end` is as for a `TraceFigure`: the last step of the trace counts for the mean alone.
        """
        reason = self.why_not_stepped("per_step", *kinds)
        if reason:
            return Value(None, reason=reason)
        if depends_on_end:
            return over_steps(with_work_after(self.trace, values), float(values.mean()))
        return over_steps(values)


# The figures of the step


def all_figures(before: Side, after: Side) -> Iterator[ComparedFigure]:
    """Yield every figure that comparisons show, the step without the profiler first."""
    for figure in FIGURES:
        if figure.label:
            values = _value(before, figure), _value(after, figure)
            more_is_better = figure.more_is_better
            yield ComparedFigure(figure.name, figure.unit, *values, label=figure.label, more_is_better=more_is_better)
        if figure.name == "traced_ms":
            yield from _of_devices(before, after)


def _value(side: Side, figure: TraceFigure) -> Value:
    if figure is STEP_MS:
        return _step(side)
    reason = (side.why_not if figure.of_trace else side.why_not_stepped)(*figure.withheld_by)
    value, values = given(figure.of(side.profile)), figure.in_steps(side.details) if figure.in_steps else None
    if reason or value is None or values is None:
        return Value(None, reason=reason or figure.absent)
    return over_steps(with_work_after(side.trace, values) if figure.depends_on_end else values, value)


def _step(side: Side) -> Value:
    """Return the step without profiler: measured with its p10 and p90, or estimated with the range of the estimate."""
    step = side.profile.estimate
    if step.step_ns is not None and side.is_stepped:
        return Value(step.step_ns, _spread(side))
    return Value(None, step.range_ns, side.why_not_stepped(*STEP_MS.withheld_by) or NO_COMPLETE_STEP)


def _spread(side: Side) -> tuple[float, float] | None:
    """Return the range of the step in other runs: of a measured step, the 10th to 90th percentile of its steps.

    The confidence interval of the mean would be too narrow, since runs differ by more.
    """
    step, plain = side.profile.estimate, side.profile.info.plain_step
    percentiles = (plain.p10_ms, plain.p90_ms) if plain and step.source == "measured" else (None, None)
    if step.step_ns is None or percentiles[0] is None or percentiles[1] is None:
        return step.range_ns
    return min(percentiles[0] * NS_PER_MS, step.step_ns), max(percentiles[1] * NS_PER_MS, step.step_ns)


def _of_devices(before: Side, after: Side) -> Iterator[ComparedFigure]:
    """Yield for each GPU of either trace the time per step that it worked, and that kernels ran."""
    figures = (("busy_ms", "GPU busy", None), ("kernel_ms", "GPU in kernels", KERNEL))
    for device in sorted({entry.device for side in (before, after) for entry in side.profile.gpus}):
        for name, label, category in figures:
            values = _time_on_gpu(before, device, category), _time_on_gpu(after, device, category)
            yield ComparedFigure(name, "ns", *values, device=device, label=label)


def _time_on_gpu(side: Side, device: int, category: int | None) -> Value:
    gpu = side.trace.gpu
    if device not in gpu.of_device:
        return Value(None, reason=side.why_not("busy") or "nothing ran on this GPU")
    rows = gpu.of_device[device]
    counted = rows if category is None else rows[gpu.category[rows] == category]
    return side.per_step(running_in_steps(side.trace, counted), "busy")
