"""A chart of a page: bars, marks and lines over two axes, with a legend and a caption that says the same in words."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pinprof.ground.hues import HATCHES
from pinprof.report.html import Markup, inline_html
from pinprof.report.timeline.kinds import EVENT_KINDS

SYMBOLS = {
    "circle": "\u25cf",
    "circle-open": "\u25cb",
    "diamond": "\u25c6",
    "diamond-open": "\u25c7",
    "square": "\u25a0",
    "square-open": "\u25a1",
    "x": "\u2716",
    "x-open": "\u2715",
}
"""The text of each mark."""
ROUND_STEPS = (1, 2, 2.5, 5, 10)
"""Between labels of an axis, times a power of ten."""
MAX_AXIS_TICKS = 5


class Key(NamedTuple):
    """An entry of a legend: a colour, and a mark or a pattern for those who do not see colours.

    The colour may be a gradient of CSS: a scale.
    """

    label: str
    colour: str
    symbol: str = ""
    pattern: str = ""


def legend_key(kind: int) -> Key:
    """Return the entry of the legend for a kind of the timeline."""
    label, _, colour, pattern, *_ = EVENT_KINDS[kind]
    return Key(label, colour, pattern=pattern)


class Axis(NamedTuple):
    """A range of values, with labels at some of them; `low` and `high` of a logarithmic one are exponents of ten."""

    low: float
    high: float
    title: str = ""
    labels: tuple[tuple[float, str], ...] = ()
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return where a value stands: 0 at the low end, 1 at the high end."""
        at = math.log10(value) if self.is_log else value
        return (at - self.low) / ((self.high - self.low) or 1.0)


def round_axis(low: float, high: float, title: str = "", *, is_whole: bool = False) -> Axis:
    """Return an axis with labels at round values, which are whole numbers if `is_whole`."""
    return Axis(low, high, title, tuple(_round_labels(low, high, is_whole=is_whole)))


def _round_labels(low: float, high: float, *, is_whole: bool) -> Iterator[tuple[float, str]]:
    rough = (high - low) / MAX_AXIS_TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in ROUND_STEPS if times * power >= rough * 0.999)
    step = max(round(step), 1) if is_whole else step
    for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        value = number * step
        yield value, f"{value:,.10g}"


class PlotBars(NamedTuple):
    """Bars in the colour and the pattern of an entry of the legend."""

    key: Key
    place: Sequence[float]
    """The middle of each, on the axis across it."""
    length: Sequence[float]
    hover: Sequence[str]
    start: Sequence[float] = ()
    """Where each begins, if not at 0 or on the bars of the series before."""
    spread: Sequence[tuple[float, float]] = ()
    """The ends of a thin line over each."""


class PlotMarks(NamedTuple):
    """Marks with the looks of an entry of the legend."""

    key: Key
    x: Sequence[float]
    y: Sequence[float]
    hover: Sequence[str] = ()
    size: int = 8
    line: str = ""
    """The line that joins them: `solid`, `dot` or none."""


class Label(NamedTuple):
    """A text in the plot; its `share` is its place on the width, from 0 to 1."""

    text: str
    share: float
    y: float
    anchor: str = "start"
    is_below: bool = False


@dataclass(frozen=True)
class Chart:
    """What a page draws as SVG. Bars are drawn before marks."""

    caption: str
    height: int
    x: Axis
    y: Axis
    bars: Sequence[PlotBars] = ()
    marks: Sequence[PlotMarks] = ()
    keys: Sequence[Key] = ()
    lines: Sequence[float] = ()
    """Dashed lines across the plot, by their values on the axis y."""
    labels: Sequence[Label] = ()
    is_flat: bool = False
    """Whether bars lie, from left to right."""
    is_stacked: bool = False
    bar_width: float = 0.8
    """As a share of the distance between bars."""


def end_of(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: the end, which matters most of a path."""
    return text if len(text) <= longest else f"\u2026{text[1 - longest :]}"


def legend(keys: Iterable[Key]) -> Markup:
    """Return a legend; empty without entries."""
    entries = Markup().join(Markup("<li>{}{}</li>").format(_swatch(key), inline_html(key.label)) for key in keys)
    return Markup('<ul class="keys">{}</ul>').format(entries) if entries else entries


def _swatch(key: Key) -> Markup:
    if key.symbol:
        mark = Markup('<span class="symbol" style="color:{}" aria-hidden="true">{}</span>')
        return mark.format(key.colour, SYMBOLS[key.symbol])
    stripes = (
        f"repeating-linear-gradient({HATCHES[key.pattern]}deg,{key.colour} 0 3px,#fffb 3px 4px)"
        if key.pattern
        else key.colour
    )
    kind = "swatch scale" if key.colour.startswith("linear-gradient") else "swatch"
    return Markup('<span class="{}" style="background:{}"></span>').format(kind, stripes)
