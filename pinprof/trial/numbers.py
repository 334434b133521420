"""Compare what two versions of a program compute in their first steps: equal bits, rounding, or other numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan
from typing import Any, Literal, TypeAlias

import msgspec

from pinprof.errors import MeasureError

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
"""The distance from 1 to the next number of a type (IEEE 754; bfloat16 has 7 bits after the point)."""
ULPS = 4.0
"""Figures that differ by at most this many such distances differ by rounding: a sum of n numbers, each rounded by
itself, is off by some sqrt(n) roundings, and is divided by the sum of n magnitudes (Higham, Accuracy and Stability of
Numerical Algorithms, 2002, 4.2)."""
AMPLIFIED = 8.0
"""A difference up to this multiple of the one after a nudge of the last bits is rounding: two nudges of one program
differ by factors."""

FEWEST_LOSSES = 4
"""This many equal losses show that the steps between them did the same."""

NumbersVerdict: TypeAlias = Literal["equal", "rounding", "different", "cannot_tell"]
RunOriginalAgain: TypeAlias = "Callable[[], tuple[Numbers, Numbers]]"
"""Runs the original again, and once more with nudged numbers. Raises MeasureError."""


class ComputedSums(msgspec.Struct, frozen=True):
    """The numbers at one point of a program: sums over the loss, the parameters of an optimizer, or an output."""

    kind: str
    dtype: str
    bits: int
    sums: tuple[float, float, float]
    """The sum, the sum of magnitudes, and that of squares."""

    def distance(self, other: "ComputedSums") -> float:
        """Return how far another one is from this one, as a share; infinite if only one of them is NaN."""
        pairs = list(zip(self.sums, other.sums, strict=True))
        if self.bits == other.bits and all(a == b or (isnan(a) and isnan(b)) for a, b in pairs):
            return 0.0
        scales = (self.sums[1], self.sums[1], self.sums[2])
        return max(_share(a, b, scale) for (a, b), scale in zip(pairs, scales, strict=True))


def _share(one: float, other: float, scale: float) -> float:
    if one == other or (isnan(one) and isnan(other)):
        return 0.0
    share = abs(one - other) / scale if scale else float("inf")
    return float("inf") if isnan(share) else share


class Numbers(msgspec.Struct, frozen=True):
    """The numbers of a run's first steps, in order."""

    steps: int
    figures: tuple[ComputedSums, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Numbers":
        """Return the numbers that a run has written; outputs only if nothing was trained."""
        numbers = msgspec.convert(document, cls)
        trained = tuple(figure for figure in numbers.figures if figure.kind != "output")
        return cls(numbers.steps, trained or numbers.figures)

    @property
    def losses(self) -> tuple[ComputedSums, ...]:
        """The losses that backward was called on."""
        return tuple(figure for figure in self.figures if figure.kind == "loss")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of numbers: `loss`, `parameters`, `output`."""
        return tuple(dict.fromkeys(figure.kind for figure in self.figures))


@dataclass(frozen=True)
class NumbersComparison:
    """The result of comparing the numbers of two versions."""

    verdict: NumbersVerdict
    steps: int
    kinds: tuple[str, ...]
    why: str
    """What differs, or why that is unknown; a clause."""
    distance: float | None = None
    """The largest difference, as a share."""
    rounding: float | None = None
    """The largest difference after the last bits of the original were nudged."""
    repeated: float | None = None
    """The largest difference of two runs of the original; None if it ran once, because the numbers are equal."""


def compare_numbers(before: Numbers, after: Numbers, others: RunOriginalAgain) -> NumbersComparison:
    """Compare the numbers of a version before a change and after it.

    If their bits differ, `others` runs the original again, and once nudged: with the last bit of every parameter
    changed, and of every update if the change rounds updates. A difference no larger than these is rounding; the change
    is not to blame for what differs between two runs of the original.
    """
    if not before.figures or not after.figures:
        return NumbersComparison("cannot_tell", before.steps, before.kinds, _nothing_seen(before))
    before, after = _alike(before, after)
    if [figure.kind for figure in before.figures] != [figure.kind for figure in after.figures]:
        why = f"it makes other calls: {len(before.figures)} and {len(after.figures)} losses, steps and outputs"
        return NumbersComparison("different", before.steps, before.kinds, why)
    distances = _distances(before, after)
    if not any(distances) and _same_bits(before, after):
        return NumbersComparison("equal", before.steps, before.kinds, "", 0.0)
    try:
        repeated, rounded = (_distances(before, _of_kinds(other, before.kinds)) for other in others())
    except MeasureError as error:
        return NumbersComparison("cannot_tell", before.steps, before.kinds, str(error), max(distances))
    return _judged(before, distances, repeated, rounded)


def _alike(before: Numbers, after: Numbers) -> tuple[Numbers, Numbers]:
    """Return only the losses if one version has more optimizer steps: a GradScaler may have skipped them.

    With infinite gradients it calls only a fused optimizer, which skips the step itself. A step that is really missing
    shows in the losses after it.
    """
    if before.kinds[:1] != ("loss",) or after.kinds != before.kinds or len(before.figures) == len(after.figures):
        return before, after
    ours, theirs = before.losses, after.losses
    most = min(len(ours), len(theirs))
    if most < FEWEST_LOSSES:
        return before, after
    return Numbers(before.steps, ours[:most]), Numbers(after.steps, theirs[:most])


def _of_kinds(numbers: Numbers, kinds: tuple[str, ...]) -> Numbers:
    return Numbers(numbers.steps, tuple(figure for figure in numbers.figures if figure.kind in kinds))


def _nothing_seen(before: Numbers) -> str:
    whose = "the changed program" if before.figures else "the program"
    return f"{whose} neither calls backward, nor steps an optimizer, nor calls a module in the process that was started"


def _judged(
    before: Numbers, distances: Sequence[float], repeated: Sequence[float], rounded: Sequence[float]
) -> NumbersComparison:
    floors = [ULPS * EPSILON.get(figure.dtype, 0.0) for figure in before.figures]
    by_rounding = [AMPLIFIED * most + floor for most, floor in zip(accumulate(rounded, max), floors, strict=True)]
    largest = {
        "distance": max(distances),
        "rounding": max(rounded, default=0.0),
        "repeated": max(repeated, default=0.0),
    }
    if len(repeated) < len(distances) or _first_above(repeated, by_rounding) is not None:
        why = f"two runs of the original differ by {largest['repeated']:.2g}, which is more than rounding"
        return NumbersComparison("cannot_tell", before.steps, before.kinds, why, **largest)
    allowed = [max(one, AMPLIFIED * most) for one, most in zip(by_rounding, accumulate(repeated, max), strict=True)]
    index = _first_above(distances, allowed)
    if index is None:
        return NumbersComparison("rounding", before.steps, before.kinds, "", **largest)
    return NumbersComparison("different", before.steps, before.kinds, _where(before, index, distances), **largest)


def _where(before: Numbers, index: int, distances: Sequence[float]) -> str:
    kind = before.figures[index].kind
    number = sum(figure.kind == kind for figure in before.figures[: index + 1])
    what = {"loss": "loss", "parameters": "parameters after step", "output": "output"}[kind]
    return f"{what} {number}: by {distances[index]:.2g} of it"


def _distances(one: Numbers, other: Numbers) -> list[float]:
    return [a.distance(b) for a, b in zip(one.figures, other.figures, strict=False)]


def _same_bits(one: Numbers, other: Numbers) -> bool:
    return all(a.bits == b.bits for a, b in zip(one.figures, other.figures, strict=True))


def _first_above(values: Sequence[float], bounds: Sequence[float]) -> int | None:
    pairs = enumerate(zip(values, bounds, strict=False))
    return next((index for index, (value, bound) in pairs if value > bound), None)
