"""Formats numbers as short texts with a fitting unit: times, sizes, rates, shares, counts; and shortens long names."""

from collections.abc import Iterable, Sequence
from math import floor, inf, log10
from typing import NamedTuple

NS_PER_MS = 1e6

TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
SIZE_UNITS = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))

MIN_GBPS_IN_GB = 0.1
"""Below this a rate reads in MB/s."""

TEN, HUNDRED = 10, 100
"""Below ten a number reads with two decimals, below a hundred with one: three digits that mean something."""

ALL_DIGITS = 3
"""Digits of a number whose range is unknown or narrow."""
MIN_WITH_DECIMALS = 0.1
"""An end of a range below this number of the unit has significant digits in place of decimals."""

ROUNDS_UP = {"s": 0.9995, "ms": 0.9995, "µs": 0.9995}
"""From this fraction of a unit on it is used: the smaller unit would read "1000". Binary units go on to 1023."""


def duration(ns: float, digits: int = 3) -> str:
    """Return a time given in ns, in the largest unit that leaves a digit before the point: "18.6 ms", "430 µs"."""
    return _in_units(_rounded(ns, digits) if digits < ALL_DIGITS else ns, TIME_UNITS, digits)


def milliseconds(ns: float) -> str:
    """Return a time given in ns in ms without the unit, for columns that say it: "18.6", "0.43", "1204"."""
    return _three_digits(ns / NS_PER_MS)


def ms(ns: float) -> float:
    """Return a time given in ns as a number of ms, to the nanosecond, for programs and charts."""
    return round(float(ns) / NS_PER_MS, 6)


def between(start_ns: float, end_ns: float, digits: int = 3) -> str:
    """Return two times given in ns in the unit of the longer one: "0.95 to 1.20 ms"; or one if they read alike."""
    first, last = duration(start_ns, digits), duration(end_ns, digits)
    if first == last:
        return first
    unit = _unit_of(max(start_ns, end_ns, key=abs), digits)
    return f"{_in_unit(start_ns, unit, digits)} to {_in_unit(end_ns, unit, digits)} {unit}"


MAX_EXACT_RATIO, MAX_CLOSE_RATIO, MIN_WIDE_RATIO = 1.02, 1.2, 3.0
"""Ratios of the ends of a range: up to the first the number stands alone, up to the second it has three digits, up to
the third two, beyond that one."""


class Ranged(NamedTuple):
    """A time with as many digits as its range justifies."""

    number: str
    """With its unit: "2.6 ms", "about 70 ms"."""
    range: str
    """The range in the unit of the number: "1.9 to 3.3"; empty if the number is exact enough."""

    def __str__(self) -> str:
        """Return both: "2.6 ms (1.9 to 3.3)"."""
        return f"{self.number} ({self.range})" if self.range else self.number


def digits_of(range_ns: tuple[float, float] | None) -> int:
    """Return how many digits of a time its range justifies, at least two."""
    return 2 if range_ns and range_ns[1] > MAX_CLOSE_RATIO * range_ns[0] else ALL_DIGITS


def ranged(ns: float, range_ns: tuple[float, float] | None) -> Ranged:
    """Return a time given in ns with as many digits as its range justifies: "2.6 ms (1.9 to 3.3)", "about 70 ms".

    The number and its range have one unit: that of the number, or that of an end with a thousand of these and more.
    """
    low, high = range_ns or (ns, ns)
    ratio = high / low if low > 0 else inf
    if not ns or high <= low or ratio <= MAX_EXACT_RATIO:
        return Ranged(duration(ns), "")
    digits = ALL_DIGITS if ratio <= MAX_CLOSE_RATIO else 2
    is_wide = ratio >= MIN_WIDE_RATIO
    has_one_digit = is_wide and not f"{ns:e}".startswith("1") and low <= _rounded(ns, 1) <= high
    unit = _unit_of(max(ns, low, high, key=abs), digits)
    number = f"{_in_unit(ns, unit, 1 if has_one_digit else digits)} {unit}"
    ends = " to ".join(_in_unit(end, unit, digits) for end in (low, high))
    return Ranged(f"about {number}" if is_wide else number, ends)


def size(count: float) -> str:
    """Return a number of bytes in binary units: "48.0 MiB", "512 B"."""
    return _in_units(count, SIZE_UNITS)


def sizes(count: float | None, unsized: int) -> str:
    """Return a sum of sizes, without `unsized` unknown ones: "48.0 MiB", "at least 48.0 MiB", "unknown size"."""
    if count is None:
        return "unknown size"
    return f"at least {size(count)}" if unsized else size(count)


def rate(gbps: float) -> str:
    """Return a bandwidth given in GB/s (10^9 bytes): "55.3 GB/s", of tiny copies "2.55 MB/s"."""
    if 0 < gbps < MIN_GBPS_IN_GB:
        return f"{_three_digits(gbps * 1000)} MB/s"
    return f"{_three_digits(gbps)} GB/s"


def percent(fraction: float) -> str:
    """Return a share, 1 being all, in whole percent; "<1 %" and ">99 %" where it would round to nothing or all."""
    whole = round(fraction * 100)
    if whole == 0 and fraction > 0:
        return "<1 %"
    if whole == 100 and fraction < 1:  # noqa: PLR2004  all
        return ">99 %"
    return f"{whole} %"


def how_many(count: float) -> str:
    """Return a count, or a mean of counts with up to three digits: "1", "0.833", "14.8", "1,600"."""
    return f"{count:,.0f}" if count == round(count) or count >= HUNDRED else f"{count:.3g}"


def counted(count: float, one: str, several: str = "") -> str:
    """Return a number with what it counts: "1 step", "1,200 copies"; `several` where it is not `one` and an "s"."""
    shown = how_many(count)
    return f"{shown} {one if shown == '1' else several or one + 's'}"


def one_line(what: str, parts: Iterable[str]) -> str:
    """Return the repr of an object: what it is, and its main values; empty parts are left out."""
    return f"<pinprof {what}: {', '.join(filter(None, parts))}>"


def listed(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` of some names, and how many more there are: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def _in_units(value: float, units: Sequence[tuple[float, str]], digits: int = ALL_DIGITS) -> str:
    smallest, unit = units[-1]
    for scale, name in units[:-1]:
        if abs(value) >= scale * ROUNDS_UP.get(name, 1):
            return f"{_digits(value / scale, digits)} {name}"
    return f"{round(value / smallest)} {unit}"  # an int, as a float would read "-0"


def _unit_of(ns: float, digits: int) -> str:
    return duration(ns, digits).split(" ")[1]


def _in_unit(ns: float, unit: str, digits: int) -> str:
    value = ns / next(scale for scale, name in TIME_UNITS if name == unit)
    if unit == TIME_UNITS[-1][1]:
        return f"{round(value)}"
    return _digits(value, digits if abs(value) >= MIN_WITH_DECIMALS else min(digits, 2))


def _digits(value: float, digits: int) -> str:
    if digits >= ALL_DIGITS:
        return _three_digits(value)
    value = _rounded(value, digits)
    return f"{value:.{max(digits - 1 - floor(log10(abs(value))), 0)}f}" if value else "0"


def _rounded(value: float, digits: int) -> float:
    return round(value, digits - 1 - floor(log10(abs(value)))) if value else 0.0


def _three_digits(value: float) -> str:
    if abs(value) >= HUNDRED - 0.05 or value == 0:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < TEN - 0.005 else f"{value:.1f}"


def shortened(text: str, longest: int) -> str:
    """Return a text, cut in its middle if it has more characters than `longest`."""
    return f"{text[: longest * 2 // 3]} … {text[3 - longest // 3 :]}" if len(text) > longest else text


def uncoded(text: str) -> str:
    """Return a text without its backticks, for labels."""
    return text.replace("`", "")
