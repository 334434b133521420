"""One figure of two traces: before, after, and whether they differ by more than noise."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Range: TypeAlias = tuple[float, float]
Floats: TypeAlias = npt.NDArray[np.float64]

LOW, HIGH = 10, 90
"""The percentiles of the steps that bound a spread: those that a trace stores with a measured step."""


@dataclass(frozen=True)
class Value:
    """A figure of one trace; None with the reason if the trace does not tell."""

    value: float | None
    spread: Range | None = None
    """The range of the figure over the complete steps, or the stated range of the step; None for one step."""
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
    """Its GPU, if it belongs to one."""

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
        """What a difference must exceed to count: then the ranges of the two figures do not overlap.

        None if a side has no range, because a single step has no spread.
        """
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
        return Value(value, reason="" if value is not None else NO_STEPS)
    middle = float(values.mean()) if value is None else value
    if len(values) == 1:
        return Value(middle)
    low = float(np.percentile(values, LOW, method="lower"))
    high = float(np.percentile(values, HIGH, method="higher"))
    return Value(middle, (min(low, middle), max(high, middle)))


NO_STEPS = "no complete step"
NO_SIZES = "sizes of copies are not recorded"
