"""Figures: how two compare, how they are written, and rates that say nothing, as no link can carry them."""

from collections.abc import Sequence
from math import exp, hypot, inf, log, prod
from typing import Annotated, Literal

from msgspec import Struct

from pinprof.bench.results import Bench, Figure, Result
from pinprof.document import Count, Words, doc
from pinprof.pci_express import Link
from pinprof.units import NS_PER_MS, between, duration, rate, size

SAME = 0.03
"""Medians that differ by less than this share are the same: two runs of a program differ by as much."""
MATTERS = 0.1
"""A difference of this share matters: figures are the same only if their spreads exclude such a difference."""
ALL = 100.0
"""Differences of percentages count in points: that 1 % is ten times 0.1 % does not matter."""

NUMBERS = {"%": "{:.0f} %", "times": "{:.3g} times"}
"""The formats of values in plain units."""

Order = Literal["less", "more", "same", "unsure"]


def order(first: Figure, second: Figure) -> Order:
    """Return whether the first figure is less or more than the second.

    It is if their medians differ by more than the spreads explain. They are the `same` if their medians hardly differ
    and the spreads exclude a difference that matters. Everything else is `unsure`.
    """
    least, most = _apart(first, second)
    if not alike(first, second):
        return "less" if most < 0 else "more" if least > 0 else "unsure"
    return "same" if max(most, -least) <= MATTERS else "unsure"


def _apart(first: Figure, second: Figure) -> tuple[float, float]:
    """Return by which share the first figure is more than the second, at least and at most, within their spreads.

    A spread holds the median of another bench in nine of ten cases. Independent errors add by their squares: if both
    bounds have the same sign, another bench agrees in 19 of 20 cases.
    """
    if first.unit != "%" and min(first.low, second.low) > 0:
        least, most = ratios(first, second)
        return least - 1, most - 1
    whole = _whole(first, second) or 1.0
    middle = first.median - second.median
    return (
        (middle - hypot(first.median - first.low, second.high - second.median)) / whole,
        (middle + hypot(first.high - first.median, second.median - second.low)) / whole,
    )


def ratios(first: Figure, second: Figure) -> tuple[float, float]:
    """Return the first figure divided by the second, at least and at most, within their spreads.

    The most is infinite if the second may be zero.
    """
    return _quotient((first,), (second,))


def ratios_of_ratios(first: tuple[Figure, Figure], second: tuple[Figure, Figure]) -> tuple[float, float]:
    """Return the ratio of the first two figures divided by that of the second two, at least and at most."""
    return _quotient((first[0], second[1]), (first[1], second[0]))


def _quotient(over: Sequence[Figure], under: Sequence[Figure]) -> tuple[float, float]:
    """Return the product of some figures divided by that of others, at least and at most; see `_apart`."""
    if min(figure.low for figure in (*over, *under)) <= 0:
        most_under, least_under = prod(figure.high for figure in under), prod(figure.low for figure in under)
        return (
            prod(figure.low for figure in over) / most_under if most_under > 0 else inf,
            prod(figure.high for figure in over) / least_under if least_under > 0 else inf,
        )
    middle = prod(figure.median for figure in over) / prod(figure.median for figure in under)
    below = hypot(
        *(log(figure.median / figure.low) for figure in over), *(log(figure.high / figure.median) for figure in under)
    )
    above = hypot(
        *(log(figure.high / figure.median) for figure in over), *(log(figure.median / figure.low) for figure in under)
    )
    return middle * exp(-below), middle * exp(above)


def alike(first: Figure, second: Figure) -> bool:
    """Return whether the medians of two figures hardly differ, regardless of their spreads."""
    return abs(first.median - second.median) <= SAME * _whole(first, second)


def _whole(first: Figure, second: Figure) -> float:
    """Return the whole that a difference of the two is compared with."""
    return ALL if first.unit == "%" else max(abs(first.median), abs(second.median))


def by_size(result: Result, name: str) -> list[Figure]:
    """Return the figures of this name that were measured at several sizes, the smallest first."""
    sized = [(figure.size, figure) for figure in result.figures if figure.name == name and figure.size is not None]
    return [figure for _, figure in sorted(sized, key=lambda pair: pair[0])]


def times(more: float, less: float) -> str:
    """Return how many times one number is another: "1.17 times", "6,820 times"."""
    return f"{float(f'{more / less:.3g}'):,g} times" if less > 0 else "many times"


def shown(figure: Figure) -> str:
    """Return the median of a figure with its unit."""
    return amount(figure.unit, figure.median, figure.runs)


def amount(unit: str, value: float, runs: int = 0) -> str:
    """Return a value with the unit of a figure; `runs` is the number of tries, where wrong values are counted."""
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


def lead(ahead: Figure) -> str:
    """Return how long something was before a moment, or after it: "30.0 ms before"."""
    return f"{amount(ahead.unit, abs(ahead.median))} {'after' if ahead.median < 0 else 'before'}"


WAYS = ("HtoD", "DtoH")
ON_THE_GPU = "DtoD"
"""Copies that do not go over the link."""
LARGE_BYTES = 1024**2
"""From this size on a copy shows the rate of the link; below it the time to start decides."""


class Refused(Struct, frozen=True):
    """A rate that is not used, as its spread goes beyond what the link carries."""

    number: Annotated[str, doc("the experiment, `E1` to `E15`")]
    figure: Annotated[str, doc("the figure's name")]
    size: Annotated[Count | None, doc("at which size, where it was measured at several")]
    text: Annotated[Words, doc("why, with figures")]


def refused(bench: Bench) -> list[Refused]:
    """Return the rates of a bench that are not used."""
    return [
        Refused(result.number, figure.name, figure.size, reason)
        for result in bench.results
        for figure in result.figures
        if (reason := why_refused(bench, figure))
    ]


def why_refused(bench: Bench, figure: Figure) -> str:
    """Return why a rate is not used: its spread goes beyond what the link carries. Empty if it is used."""
    link = bench.machine.link
    if link is None or figure.unit != "GB/s" or figure.name == ON_THE_GPU or figure.high <= link.theoretical:
        return ""
    if is_faster_than_reported(bench, link):
        return ""
    at = f" at {size(figure.size)}" if figure.size is not None else ""
    return (
        f"the rounds differ too much: {figure.name}{at} {shown(figure)} ({spread(figure) or 'one run'}), where "
        f"{link.name} carries {rate(link.theoretical)}"
    )


def is_faster_than_reported(bench: Bench, link: Link) -> bool:
    """Return whether copies go faster than the link that the driver reports, as that of an idle one may be slower.

    All of one rate's spread says so, or the medians of most rates of large pinned copies.
    """
    result = bench.result("E13")
    figures = [figure for way in WAYS for figure in (by_size(result, f"{way} pinned") if result else ())]
    large = [figure for figure in figures if (figure.size or 0) >= LARGE_BYTES]
    beyond = sum(figure.median > link.theoretical for figure in large)
    return any(figure.low > link.theoretical for figure in large) or 2 * beyond > len(large)


def usable(bench: Bench, figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures without the rates that are refused."""
    return [figure for figure in figures if not why_refused(bench, figure)]
