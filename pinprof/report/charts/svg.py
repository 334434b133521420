"""Charts as SVG in the page: bars, marks and lines, drawn once and without a script.

Across, all is in percent of the width, so that a chart fits any screen; down, in pixels. What a mark says is its
`<title>`, which browsers show on hover.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

from pinprof.hues import HATCHES
from pinprof.report.charts.chart import SYMBOLS, Chart, legend
from pinprof.report.html import Markup, hue, inline_html

TOP_PIXELS, AXIS_PIXELS, TITLE_PIXELS, RIGHT_PIXELS, LEFT_PIXELS = 16, 22, 16, 14, 10
"""Pixels around the plot: above it, of the labels and of the title below it, and at its sides."""
LETTER_PIXELS, GAP_PIXELS = 7.2, 8
"""Pixels of a letter of a label, and between a label and the plot."""
MAX_AXIS_TICKS = 5
ROUND_STEPS = (1, 2, 2.5, 5, 10)
"""Between labels, times a power of ten."""
NARROWEST_PLOT_PIXELS = 260
"""The width of a plot on a phone, on which no label of the axis x may touch the next."""


class Axis(NamedTuple):
    """A range, whose values stand at shares of the length of the axis; a logarithmic one has its exponents."""

    low: float
    high: float
    is_log: bool = False
    labels: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Return where a value stands: 0 at the low end, 1 at the high end."""
        at = math.log10(value) if self.is_log else value
        return (at - self.low) / ((self.high - self.low) or 1.0)


class Plot(NamedTuple):
    """The plot of a chart: its axes, and its height in pixels."""

    x: Axis
    y: Axis
    height: float

    def across(self, value: float) -> str:
        """Return the place of a value on the axis x."""
        return _percent(self.x.share(value))

    def down(self, value: float) -> float:
        """Return the place of a value on the axis y, in pixels from the top."""
        return round((1 - self.y.share(value)) * self.height, 1)


class Below(NamedTuple):
    """A piece of SVG below the axis of a chart, as wide as its plot."""

    height: float
    drawn: Markup


def chart_svg(chart: Chart, below: Below | None = None, *, min_width: int = 0) -> Markup:
    """Return a chart as a figure of a page, with its caption and its legend; `min_width` is in pixels."""
    plot, height = _plot(chart), chart.layout["height"] - TOP_PIXELS
    labels = max([len(text) for _, text in plot.y.labels], default=0) * LETTER_PIXELS + GAP_PIXELS
    left = LEFT_PIXELS + (TITLE_PIXELS if _title(chart, "yaxis") else 0) + (labels if plot.y.labels else 0)
    name = f"hatch-{crc32(chart.caption.encode()):x}"
    patterns = sorted({of.get("marker", {}).get("pattern", {}).get("shape", "") for of in chart.data} - {""})
    drawn = (
        *_grid_lines(chart, plot, left),
        *_hatches(name, patterns),
        *_series(chart, plot, name),
        *_remarks(chart, plot),
        Markup('<svg y="{}" width="100%" height="{}">{}</svg>').format(height, *below) if below else "",
    )
    figure = Markup(
        '<figure class="chart{}"><figcaption>{}</figcaption>{}'
        '<div class="canvas" style="padding:{}px {}px 0 {:.0f}px{}">'
        '<svg role="img" aria-label="{}" width="100%" height="{}">{}</svg></div></figure>'
    )
    return figure.format(
        " wide" if below else "",
        inline_html(chart.caption),
        legend(chart.keys),
        TOP_PIXELS,
        RIGHT_PIXELS,
        left,
        f";min-width:{min_width}px" if min_width else "",
        chart.caption,
        height + (below.height if below else 0),
        Markup().join(drawn),
    )


def _plot(chart: Chart) -> Plot:
    shape = chart.layout
    is_stacked = shape.get("barmode") == "stack"
    xs = [value for of in chart.data for value in of["x"]]
    ys = [value for of in chart.data for value in of["y"] if not isinstance(value, str)]
    sums = _sums(chart) if is_stacked else {}
    flat = any(map(_is_flat, chart.data))
    x_values = [*sums.values()] if flat and sums else [*xs, *chain.from_iterable(map(_ends, chart.data))]
    y_values = ys if flat else [*ys, *sums.values()]
    x_axis = _axis(shape["xaxis"], x_values, is_bars=not flat and _has_bars(chart))
    y_axis = _axis(shape["yaxis"], y_values, is_rows=flat)
    title = TITLE_PIXELS if _title(chart, "xaxis") else 0
    return Plot(x_axis, y_axis, shape["height"] - TOP_PIXELS - AXIS_PIXELS - title - GAP_PIXELS)


def _is_flat(of: dict[str, Any]) -> bool:
    """Return whether the bars of a series lie, from left to right."""
    return of.get("orientation") == "h"


def _ends(of: dict[str, Any]) -> list[float]:
    """Return where bars of a series end that have a beginning."""
    return [start + length for start, length in zip(of.get("base", ()), of["x"], strict=False)]


def _has_bars(chart: Chart) -> bool:
    return any(of["type"] == "bar" for of in chart.data)


def _sums(chart: Chart) -> dict[float, float]:
    """Return the length of each stack by its place."""
    sums: dict[float, float] = {}
    for of in chart.data:
        if of["type"] == "bar":
            flat = _is_flat(of)
            for at, value in zip(of["y" if flat else "x"], of["x" if flat else "y"], strict=True):
                sums[at] = sums.get(at, 0.0) + value
    return sums


def _axis(shape: dict[str, Any], values: Sequence[float], *, is_bars: bool = False, is_rows: bool = False) -> Axis:
    least, most = min(values, default=0.0), max(values, default=1.0)
    low, high = shape.get("range") or ((least - 0.6, most + 0.6) if is_bars else (min(least, 0.0), 1.04 * most))
    is_log = shape.get("type") == "log"
    if "tickvals" in shape:
        texts = shape.get("ticktext") or [f"{value:,}" for value in shape["tickvals"]]
        return Axis(low, high, is_log, tuple(zip(shape["tickvals"], texts, strict=True)))
    if shape.get("visible") is False or is_rows:
        return Axis(low, high, is_log)
    return Axis(low, high, is_log, tuple(_ticks(low, high, is_whole=is_bars or shape.get("tickformat") == "d")))


def _ticks(low: float, high: float, *, is_whole: bool) -> Iterator[tuple[float, str]]:
    """Yield round values with their labels."""
    rough = (high - low) / MAX_AXIS_TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in ROUND_STEPS if times * power >= rough * 0.999)
    step = max(round(step), 1) if is_whole else step
    for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        value = number * step
        yield value, f"{value:,.10g}"


def _title(chart: Chart, axis: str) -> str:
    return str((chart.layout[axis].get("title") or {}).get("text", ""))


def _grid_lines(chart: Chart, plot: Plot, left: float) -> Iterator[Markup]:
    """Yield the axes: their lines, labels and titles."""
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    is_flat = any(map(_is_flat, chart.data))
    for value, text in plot.y.labels:
        y = plot.down(value)
        if not is_flat:
            yield line.format("0%", "100%", y, y)
        yield Markup('<text class="ytick" x="{}" y="{}" text-anchor="end" dy="0.35em">{}</text>').format(
            -GAP_PIXELS, y, text
        )
    yield line.format("0%", "100%", plot.height, plot.height)
    end = -math.inf
    for value, text in plot.x.labels:
        share, half = plot.x.share(value), LETTER_PIXELS * len(text) / 2 / NARROWEST_PLOT_PIXELS
        if not 0 <= round(share, 6) <= 1 or share - half < end:
            continue
        end = share + half
        if is_flat or plot.x.is_log:
            yield line.format(_percent(share), _percent(share), 0, plot.height)
        label = Markup('<text class="xtick" x="{}" y="{}" text-anchor="middle">{}</text>')
        yield label.format(_percent(share), plot.height + 16, text)
    bottom = plot.height + AXIS_PIXELS + TITLE_PIXELS - 4
    if text := _title(chart, "xaxis"):
        yield Markup('<text class="xtitle" x="50%" y="{}" text-anchor="middle">{}</text>').format(bottom, text)
    if text := _title(chart, "yaxis"):
        turned = Markup(
            '<text class="ytitle" transform="translate({:.0f} {:.0f}) rotate(-90)" text-anchor="middle">{}</text>'
        )
        yield turned.format(12 - left, plot.height / 2, text)


def _hatches(name: str, patterns: Sequence[str]) -> Iterator[Markup]:
    """Yield the stripes over bars of a kind, for those who do not see colours."""
    for pattern in patterns:
        yield Markup(
            '<pattern id="{}-{}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate({})">'
            '<path d="M0 0H7" stroke="#fffb" stroke-width="2"/></pattern>'
        ).format(name, HATCHES[pattern], HATCHES[pattern])


def _series(chart: Chart, plot: Plot, name: str) -> Iterator[Markup]:
    below: dict[float, float] = {}
    is_stacked = chart.layout.get("barmode") == "stack"
    for of in chart.data:
        if of["type"] == "bar":
            yield from _stacked_bars(chart, plot, of, below if is_stacked else {}, name)
        else:
            yield from _points(plot, of)


def _stacked_bars(
    chart: Chart, plot: Plot, of: dict[str, Any], below: dict[float, float], name: str
) -> Iterator[Markup]:
    """Yield the bars of a series on those of the series before, `below`."""
    flat, marker = _is_flat(of), of["marker"]
    places, lengths = (of["y"], of["x"]) if flat else (of["x"], of["y"])
    texts, starts = of.get("hovertext") or [""] * len(places), of.get("base") or [0.0] * len(places)
    gap = 1.0 - chart.layout.get("bargap", 0.2)
    wide = of.get("width", gap) * (min(places[1] - places[0], 1e9) if len(places) > 1 and not flat else 1)
    shape = marker.get("pattern", {}).get("shape", "")
    errors = of.get("error_x", {})
    piece = Markup('<rect class="hue" style="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>')
    for index, (at, length, text, base) in enumerate(zip(places, lengths, texts, starts, strict=True)):
        start = base + below.get(at, 0.0)
        below[at] = start + length - base if below or chart.layout.get("barmode") == "stack" else 0.0
        if length <= 0:
            continue
        sides = (at - wide / 2, at + wide / 2)
        if flat:
            x, width = plot.x.share(start), plot.x.share(start + length) - plot.x.share(start)
            y, end = sorted(map(plot.down, sides))
        else:
            x, width = plot.x.share(sides[0]), plot.x.share(sides[1]) - plot.x.share(sides[0])
            y, end = sorted((max(plot.down(start + length), 0.0), max(plot.down(start), 0.0)))
        box = (_percent(x), y, _percent(width), round(end - y, 1))
        title = Markup("<title>{}</title>").format(text) if text else Markup()
        yield piece.format(hue(marker["color"]), *box, title)
        if shape:
            over = Markup('<rect class="hatched" fill="url(#{}-{})" x="{}" y="{}" width="{}" height="{}"/>')
            yield over.format(name, HATCHES[shape], *box)
        if errors:
            low, high = length - errors["arrayminus"][index], length + errors["array"][index]
            line = Markup('<line class="spread" x1="{}" x2="{}" y1="{}" y2="{}"/>')
            middle = plot.down(at)
            yield line.format(plot.across(low), plot.across(high), middle, middle)


def _points(plot: Plot, of: dict[str, Any]) -> Iterator[Markup]:
    """Yield the marks of a series and the line that joins them, as its mode says."""
    marker, places = of["marker"], list(zip(of["x"], of["y"], strict=True))
    texts = of.get("hovertext") or [""] * len(places)
    if "lines" in of["mode"]:
        path = " ".join(f"{100 * plot.x.share(x):.3f},{100 * plot.down(y) / plot.height:.2f}" for x, y in places)
        dash = Markup(' stroke-dasharray="2 4"') if of["line"].get("dash") == "dot" else ""
        yield Markup(
            '<svg width="100%" height="{}" viewBox="0 0 100 100" preserveAspectRatio="none">'
            '<polyline class="hue" style="{}" points="{}"{}/></svg>'
        ).format(plot.height, hue(of["line"]["color"]), path, dash)
    if "markers" not in of["mode"]:
        return
    symbol, size = marker["symbol"], 1.5 * marker["size"]
    mark = Markup(
        '<text class="hue mark" style="{}" x="{}" y="{}" font-size="{}" text-anchor="middle" dy="0.35em">{}{}</text>'
    )
    for (x, y), text in zip(places, texts, strict=True):
        title = Markup("<title>{}</title>").format(text)
        yield mark.format(hue(marker["color"]), plot.across(x), plot.down(y), size, SYMBOLS[symbol], title)


def _remarks(chart: Chart, plot: Plot) -> Iterator[Markup]:
    """Yield the lines across, and the labels in the plot."""
    for line in chart.layout.get("shapes", ()):
        y = plot.down(line["y0"])
        yield Markup('<line class="across" x1="0%" x2="100%" y1="{0}" y2="{0}"/>').format(y)
    label = Markup('<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>')
    for text in chart.layout.get("annotations", ()):
        of_paper = text.get("xref") == "paper"
        x = _percent(text["x"]) if of_paper else plot.across(text["x"])
        anchor = {"right": "end", "left": "start"}.get(text["xanchor"], "middle")
        y = plot.down(text["y"]) + (16 if text["yanchor"] == "top" else -5)
        yield label.format(x, y, anchor, text["text"])


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"
