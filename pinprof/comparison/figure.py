"""One figure of two traces: before, after, and whether they differ by more than noise."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Range: TypeAlias = tuple[float, float]
Floats: TypeAlias = npt.NDArray[np.float64]

LOW, HIGH = 10, 90
"""Percentiles of the steps between which a figure lies: those that a measured step is stored with."""


@dataclass(frozen=True)
class Value:
    """A figure of one trace; None where the trace does not tell, with the reason."""

    value: float | None
    spread: Range | None = None
    """Where the figure lies: over the complete steps of the trace, or what is stated of the step; None of one step."""
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
    """The GPU that it is of, where it is of one."""

    @property
    def difference(self) -> float | None:
        """After less before; None where a side is not known."""
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
        """What a difference must exceed to be one: then the ranges in which both figures lie have nothing in common.

        None where a side has no range: a single step has no spread.
        """
        sides = (self.before.value, self.before.spread), (self.after.value, self.after.spread)
        smaller, larger = sides if (self.difference or 0) >= 0 else sides[::-1]
        if smaller[0] is None or smaller[1] is None or larger[0] is None or larger[1] is None:
            return None
        return max(smaller[1][1] - smaller[0], 0.0) + max(larger[0] - larger[1][0], 0.0)

    @property
    def is_within_noise(self) -> bool | None:
        """Whether the difference is noise; None where nothing tells. No difference at all always is."""
        if self.difference is None:
            return None
        if self.difference == 0:
            return True
        return None if self.noise is None else abs(self.difference) <= self.noise

    @property
    def has_changed(self) -> bool:
        """Whether the figure differs, and not by noise as far as that can be told."""
        return self.difference is not None and not self.is_within_noise

    @property
    def reason(self) -> str:
        """Why the figures cannot be compared; nothing if they can."""
        if self.difference is not None:
            return ""
        both = (("before", self.before), ("after", self.after))
        return "; ".join(f"{side}: {value.reason or 'none'}" for side, value in both if value.value is None)


def over_steps(values: Floats, value: float | None = None) -> Value:
    """Return the figure that has these values in the complete steps: `value`, or their mean, with their spread.

    Of few steps the spread is that of all of them: the percentiles are of steps, nothing lies between those.
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
