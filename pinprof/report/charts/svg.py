"""Charts as SVG in the page: bars, marks and lines, drawn once and without a script.

Across, all is in percent of the width, so that a chart fits any screen; down, in pixels. What a mark says is its
`<title>`, which browsers show on hover.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from pinprof.ground.hues import HATCHES
from pinprof.report.charts.chart import SYMBOLS, Chart, PlotBars, PlotMarks, legend
from pinprof.report.html import Markup, hue, inline_html

TOP_PIXELS, AXIS_PIXELS, TITLE_PIXELS, RIGHT_PIXELS, LEFT_PIXELS = 16, 22, 16, 14, 10
"""Around the plot: above it, of the labels and of the title below it, and at its sides."""
LETTER_PIXELS, GAP_PIXELS = 7.2, 8
"""A letter of a label, and the gap between a label and the plot."""
NARROWEST_PLOT_PIXELS = 260
"""The width of a plot on a phone, on which no label of the axis x may touch the next."""


class Below(NamedTuple):
    """A piece of SVG below the axis of a chart, as wide as its plot."""

    height: float
    drawn: Markup


def chart_svg(chart: Chart, below: Below | None = None, *, min_width: int = 0) -> Markup:
    """Return a chart as a figure of a page, with its caption and its legend; `min_width` is in pixels."""
    plot, height = Plot(chart), chart.height - TOP_PIXELS
    labels = max([len(text) for _, text in chart.y.labels], default=0) * LETTER_PIXELS + GAP_PIXELS
    left = LEFT_PIXELS + (TITLE_PIXELS if chart.y.title else 0) + (labels if chart.y.labels else 0)
    drawn = (
        *plot.axes(left),
        *plot.hatches(),
        *plot.all_bars(),
        *(piece for marks in chart.marks for piece in plot.of_marks(marks)),
        *plot.remarks(),
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


class Plot:
    """The plot of a chart, which places values on its width and its height and draws the pieces."""

    def __init__(self, chart: Chart) -> None:
        self.chart, self.name = chart, f"hatch-{crc32(chart.caption.encode()):x}"
        title = TITLE_PIXELS if chart.x.title else 0
        self.height = chart.height - TOP_PIXELS - AXIS_PIXELS - title - GAP_PIXELS

    def across(self, value: float) -> str:
        """Return the place of a value on the axis x."""
        return _percent(self.chart.x.share(value))

    def down(self, value: float) -> float:
        """Return the place of a value on the axis y, in pixels from the top."""
        return round((1 - self.chart.y.share(value)) * self.height, 1)

    def axes(self, left: float) -> Iterator[Markup]:
        """Yield the axes: their lines, labels and titles."""
        line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>')
        x_axis, y_axis, is_flat = self.chart.x, self.chart.y, self.chart.is_flat
        label = Markup('<text class="ytick" x="{}" y="{}" text-anchor="end" dy="0.35em">{}</text>')
        for value, text in y_axis.labels:
            y = self.down(value)
            if not is_flat:
                yield line.format("0%", "100%", y, y)
            yield label.format(-GAP_PIXELS, y, text)
        yield line.format("0%", "100%", self.height, self.height)
        end = -math.inf
        label = Markup('<text class="xtick" x="{}" y="{}" text-anchor="middle">{}</text>')
        for value, text in x_axis.labels:
            share, half = x_axis.share(value), LETTER_PIXELS * len(text) / 2 / NARROWEST_PLOT_PIXELS
            if not 0 <= round(share, 6) <= 1 or share - half < end:
                continue
            end = share + half
            if is_flat or x_axis.is_log:
                yield line.format(_percent(share), _percent(share), 0, self.height)
            yield label.format(_percent(share), self.height + 16, text)
        if x_axis.title:
            title = Markup('<text class="xtitle" x="50%" y="{}" text-anchor="middle">{}</text>')
            yield title.format(self.height + AXIS_PIXELS + TITLE_PIXELS - 4, x_axis.title)
        if y_axis.title:
            turned = Markup(
                '<text class="ytitle" transform="translate({:.0f} {:.0f}) rotate(-90)" text-anchor="middle">{}</text>'
            )
            yield turned.format(12 - left, self.height / 2, y_axis.title)

    def hatches(self) -> Iterator[Markup]:
        """Yield the stripes over bars of a kind, for those who do not see colours."""
        stripes = Markup(
            '<pattern id="{}-{}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate({})">'
            '<path d="M0 0H7" stroke="#fffb" stroke-width="2"/></pattern>'
        )
        for pattern in sorted({bars.key.pattern for bars in self.chart.bars} - {""}):
            yield stripes.format(self.name, HATCHES[pattern], HATCHES[pattern])

    def all_bars(self) -> Iterator[Markup]:
        """Yield the bars; stacked ones stand on those of the series before."""
        ends: dict[float, float] = {}
        for bars in self.chart.bars:
            yield from self._of_bars(bars, ends)

    def _of_bars(self, bars: PlotBars, ends: dict[float, float]) -> Iterator[Markup]:
        chart, places = self.chart, bars.place
        distance = places[1] - places[0] if len(places) > 1 and not chart.is_flat else 1
        half = chart.bar_width * distance / 2
        piece = Markup('<rect class="hue" style="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>')
        over = Markup('<rect class="hatched" fill="url(#{}-{})" x="{}" y="{}" width="{}" height="{}"/>')
        line = Markup('<line class="spread" x1="{}" x2="{}" y1="{}" y2="{}"/>')
        starts = bars.start or [0.0] * len(places)
        for index, (at, length, text, begin) in enumerate(zip(places, bars.length, bars.hover, starts, strict=True)):
            start = begin + (ends.get(at, 0.0) if chart.is_stacked else 0.0)
            ends[at] = start + length
            if length <= 0:
                continue
            sides, reach = (at - half, at + half), (start, start + length)
            (left, right), (low, high) = (reach, sides) if chart.is_flat else (sides, reach)
            x, width = chart.x.share(left), chart.x.share(right) - chart.x.share(left)
            y, end = sorted(self.down(side) if chart.is_flat else max(self.down(side), 0.0) for side in (low, high))
            box = (_percent(x), y, _percent(width), round(end - y, 1))
            yield piece.format(hue(bars.key.colour), *box, Markup("<title>{}</title>").format(text) if text else "")
            if bars.key.pattern:
                yield over.format(self.name, HATCHES[bars.key.pattern], *box)
            if bars.spread:
                yield line.format(*map(self.across, bars.spread[index]), self.down(at), self.down(at))

    def of_marks(self, marks: PlotMarks) -> Iterator[Markup]:
        """Yield marks and the line that joins them."""
        style, places = hue(marks.key.colour), list(zip(marks.x, marks.y, strict=True))
        if marks.line:
            shares = ((self.chart.x.share(x), self.down(y) / self.height) for x, y in places)
            path = " ".join(f"{100 * x:.3f},{100 * y:.2f}" for x, y in shares)
            yield Markup(
                '<svg width="100%" height="{}" viewBox="0 0 100 100" preserveAspectRatio="none">'
                '<polyline class="hue" style="{}" points="{}"{}/></svg>'
            ).format(self.height, style, path, Markup(' stroke-dasharray="2 4"') if marks.line == "dot" else "")
        mark = Markup(
            '<text class="hue mark" style="{}" x="{}" y="{}" font-size="{}" text-anchor="middle" dy="0.35em">'
            "{}{}</text>"
        )
        for (x, y), text in zip(places, marks.hover or [""] * len(places), strict=True):
            title = Markup("<title>{}</title>").format(text) if text else ""
            symbol = SYMBOLS[marks.key.symbol]
            yield mark.format(style, self.across(x), self.down(y), 1.5 * marks.size, symbol, title)

    def remarks(self) -> Iterator[Markup]:
        """Yield the lines across, and the labels in the plot."""
        line = Markup('<line class="across" x1="0%" x2="100%" y1="{0}" y2="{0}"/>')
        yield from (line.format(self.down(value)) for value in self.chart.lines)
        label = Markup('<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>')
        for text, share, y, anchor, is_below in self.chart.labels:
            yield label.format(_percent(share), self.down(y) + (16 if is_below else -5), anchor, text)


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"
