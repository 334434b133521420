"""Which of two figures is less, or that their spreads do not tell; and how figures read."""

from typing import Literal

from pinprof.bench.results import Figure, Result
from pinprof.units import NS_PER_MS, between, duration, rate

SAME = 0.03
"""Medians that differ by less than this share are the same: two runs of a program differ by as much."""
MATTERS = 0.1
"""A difference of this share matters: figures are the same only if their spreads allow none as large."""
ALL = 100.0
"""Of shares of a whole, differences are counted in points: 1 % is not ten times 0.1 % in any way that matters."""

NUMBERS = {"%": "{:.0f} %", "times": "{:.3g} times"}
"""How values of plain units read."""

Order = Literal["less", "more", "same", "unsure"]


def order(first: Figure, second: Figure) -> Order:
    """Return whether the first figure is less or more than the second.

    It is if their medians differ and their spreads do not overlap. They are the `same` if their medians hardly differ
    and no difference that their spreads allow matters. All else is `unsure`.
    """
    whole = _whole(first, second)
    if not alike(first, second):
        if first.high < second.low:
            return "less"
        return "more" if first.low > second.high else "unsure"
    most = max(first.high - second.low, second.high - first.low)
    return "same" if most <= MATTERS * whole else "unsure"


def alike(first: Figure, second: Figure) -> bool:
    """Return whether the medians of two figures hardly differ, whatever their spreads."""
    return abs(first.median - second.median) <= SAME * _whole(first, second)


def _whole(first: Figure, second: Figure) -> float:
    """Return what a difference of the two is a share of."""
    return ALL if first.unit == "%" else max(abs(first.median), abs(second.median))


def by_size(result: Result, name: str) -> list[Figure]:
    """Return the figures of this name that were measured at several sizes, the smallest first."""
    sized = [(figure.size, figure) for figure in result.figures if figure.name == name and figure.size is not None]
    return [figure for _, figure in sorted(sized, key=lambda each: each[0])]


def times(more: float, less: float) -> str:
    """Return how many times one number is another: "1.17 times", "6,820 times"."""
    return f"{float(f'{more / less:.3g}'):,g} times" if less > 0 else "many times"


def shown(figure: Figure) -> str:
    """Return the median of a figure with its unit."""
    return amount(figure.unit, figure.median, figure.runs)


def amount(unit: str, value: float, runs: int = 0) -> str:
    """Return a value in the unit of a figure as it reads; `runs` are the tries of those that count wrong values."""
    if unit == "ms":
        return duration(value * NS_PER_MS)
    if unit == "GB/s":
        return rate(value)
    if unit in NUMBERS:
        return NUMBERS[unit].format(value)
    if unit == "wrong":
        return f"{value:g} of {runs} wrong"
    if unit == "yes":
        return "yes" if value else "no"
    return f"{value:.4g}"


def spread(figure: Figure) -> str:
    """Return the range of a figure; empty if it is not a median of several runs."""
    if figure.runs < 2 or figure.unit in {"wrong", "yes"} or figure.low == figure.high:  # noqa: PLR2004
        return ""
    if figure.unit == "ms":
        return between(figure.low * NS_PER_MS, figure.high * NS_PER_MS)
    return f"{amount(figure.unit, figure.low)} to {amount(figure.unit, figure.high)}"
