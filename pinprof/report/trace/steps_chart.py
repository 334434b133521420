"""The chart of the steps: a bar for each, with where its time goes on the GPU, as SVG that needs no script.

Across, all is in percent of the width, so that it fits any screen; down, in pixels. What a bar says is its `<title>`,
which browsers show on hover.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from pinprof.analyses.step_parts import MeanStep, StepParts, measure_parts
from pinprof.analyses.steps import with_irregular
from pinprof.ground import hues
from pinprof.ground.units import NS_PER_MS, duration, ms
from pinprof.measurement.profile import Profile
from pinprof.report.html import Markup, hue, inline_html
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import EVENT_KINDS, LegendEntry
from pinprof.report.words import step_known
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import Bools, Int64s, Trace

OUTLIER_SHARE_OF_MEDIAN = 0.2
"""An outlier differs from the median by more than this share of it,"""
OUTLIER_DEVIATIONS = 6
"""and by more than this number of median deviations: about four standard deviations of a normal distribution."""
MIN_STEPS_WITH_OUTLIER = 3
CUT_MEDIAN_STEPS = 3.0
"""Bars of more than this many usual steps end at the top, with a mark."""
HEADROOM_FACTOR = 1.15
MAX_STEP_BARS = 200
"""The most bars that fit a laptop; with more steps a bar is the mean of several."""
MIN_BARS_OF_AXIS = 5
"""The least number of bars for which the axis has room: two alone would be as wide as the page."""
ROUND_STEPS = (1, 2, 2.5, 5, 10)
"""Between labels of an axis, times a power of ten."""
MAX_AXIS_TICKS = 5
TOP_PIXELS, PLOT_PIXELS, AXIS_PIXELS, LETTER_PIXELS = 16, 118, 46, 7.2
UNLIKE = "unlike the others"


@dataclass(frozen=True)
class StepsChart:
    """What the chart shows of the steps with these numbers; lengths and times are ns."""

    caption: str
    numbers: list[int]
    parts: dict[int, Int64s]
    """The times of each part by its kind, each part drawn on those before it."""
    lengths: list[int]
    unlike: list[int]
    """The numbers of steps that are unlike the others, or longer than the chart."""
    top_ns: float
    gathered: int
    """Steps of a bar, which shows their mean."""
    without_profiler: tuple[float, str] | None
    """The step without the profiler, also in words."""


def steps_chart(trace: Trace, profile: Profile, device: int | None) -> StepsChart | None:
    """Return a chart of the complete steps, each a bar of where it goes on a GPU; None for fewer than two.

    It includes steps unlike the others, which the measured step leaves out.
    """
    if trace.steps.unlike is not None:
        trace = with_irregular(trace)
    parts = next((of_gpu for of_gpu in measure_parts(trace) if of_gpu.device == device), None)
    if parts is None or len(parts.step) < 2:  # noqa: PLR2004
        return None
    numbers, lengths = numbers_of_steps(trace)[parts.step], parts.length_ns
    step_ns = profile.estimate.step_ns or 0.0
    top_ns = HEADROOM_FACTOR * max(min(float(lengths.max()), CUT_MEDIAN_STEPS * float(np.median(lengths))), step_ns)
    unlike, gathered = numbers[outliers(lengths) | (lengths > top_ns)].tolist(), -(-len(lengths) // MAX_STEP_BARS)
    without = step_known(profile) if step_ns else None
    return StepsChart(
        _caption(lengths, unlike, parts.device, gathered),
        numbers.tolist(),
        {kind: time_ns for kind, time_ns in part_times(parts).items() if time_ns.any()},
        lengths.tolist(),
        unlike,
        top_ns,
        gathered,
        (step_ns, f"{without[0]} without the profiler") if without else None,
    )


def outliers(lengths: Int64s) -> Bools:
    """Return which steps are far from the median, compared with the distances of the others."""
    if len(lengths) < MIN_STEPS_WITH_OUTLIER:
        return np.zeros(len(lengths), bool)
    away = np.abs(lengths - np.median(lengths))
    return np.asarray(
        (away > OUTLIER_SHARE_OF_MEDIAN * np.median(lengths)) & (away > OUTLIER_DEVIATIONS * np.median(away))
    )


def _caption(lengths: Int64s, unlike: list[int], device: int, gathered: int) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    named = ", ".join(map(str, unlike[:8])) + (", ..." if len(unlike) > 8 else "")  # noqa: PLR2004
    marked = f" Unlike the others: {named}." if unlike else ""
    bar = "A bar is a step" if gathered == 1 else f"A bar is the mean of {gathered} steps"
    on = f"on GPU {device}, from the end of the work of the step before to its own"
    lasts = f"The median step takes {middle}, the shortest {least}, the longest {most}, with the profiler's cost."
    return f"{lasts}{marked} {bar} {on}."


def part_times(parts: StepParts | MeanStep) -> dict[int, Any]:
    """Return the time of each of `STEP_PART_KINDS` in the order of stacking: of each step, or of the mean step."""
    return {
        kinds.COMPUTE_ONLY_KIND: parts.compute_ns - parts.collective_ns,
        kinds.COLLECTIVE_ONLY_KIND: parts.collective_ns,
        kinds.OVERLAPPED_COPY_KIND: parts.both_ns,
        kinds.EXPOSED_COPY_KIND: parts.copy_ns,
        kinds.MEMSET_ONLY_KIND: parts.memset_ns,
        kinds.IDLE_KIND: parts.idle_ns,
    }


def steps_svg(chart: StepsChart) -> Markup:
    """Return the chart as a figure of a page, with its caption and its legend."""
    numbers = chart.numbers
    low, high = numbers[0] - 0.75, max(numbers[-1] + 0.75, numbers[0] + MIN_BARS_OF_AXIS)
    labels = [(value, f"{value:,.10g}") for value in round_values(0, ms(chart.top_ns))]
    left = 26 + LETTER_PIXELS * max(len(text) for _, text in labels) + 8
    drawn = (*_axes(chart, labels, left, low, high), *_bars(chart, low, high), *_remarks(chart, low, high))
    swatch = Markup('<li><span class="swatch" style="background:{}"></span>{}</li>')
    keys = [swatch.format(_striped(EVENT_KINDS[kind]), inline_html(EVENT_KINDS[kind].label)) for kind in chart.parts]
    if chart.unlike:
        mark = Markup('<li><span class="symbol" style="color:{}">\u2716</span>{}</li>')
        keys.append(mark.format(hues.VERMILLION, UNLIKE))
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption><ul class="keys">{}</ul>'
        '<div class="canvas" style="padding:{}px 14px 0 {:.0f}px">'
        '<svg role="img" aria-label="{}" width="100%" height="{}">{}</svg></div></figure>'
    ).format(
        inline_html(chart.caption),
        Markup().join(keys),
        TOP_PIXELS,
        left,
        chart.caption,
        PLOT_PIXELS + AXIS_PIXELS,
        Markup().join(drawn),
    )


def _striped(kind: LegendEntry) -> str:
    if not kind.pattern:
        return kind.colour
    return f"repeating-linear-gradient({hues.HATCHES[kind.pattern]}deg,{kind.colour} 0 3px,#fffb 3px 4px)"


def round_values(low: float, high: float, *, is_whole: bool = False) -> list[float]:
    """Return round values between two, for labels of an axis; whole numbers if `is_whole`."""
    rough = (high - low) / MAX_AXIS_TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in ROUND_STEPS if times * power >= rough * 0.999)
    step = max(round(step), 1) if is_whole else step
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axes(
    chart: StepsChart, labels: Iterable[tuple[float, str]], left: float, low: float, high: float
) -> Iterator[Markup]:
    line = Markup('<line class="grid" x1="0%" x2="100%" y1="{0}" y2="{0}"/>')
    text = Markup('<text class="{}tick" x="{}" y="{}" text-anchor="{}" dy="0.35em">{}</text>')
    for value, label in labels:
        y = _down(value * NS_PER_MS, chart.top_ns)
        yield line.format(y)
        yield text.format("y", -8, y, "end", label)
    for number in round_values(low, chart.numbers[-1] + 0.5, is_whole=True):
        x = f"{100 * (number - low) / (high - low):.3f}%"
        yield text.format("x", x, PLOT_PIXELS + 12, "middle", f"{number:,.0f}")
    title = Markup('<text class="xtitle" x="50%" y="{}" text-anchor="middle">step</text>')
    yield title.format(PLOT_PIXELS + AXIS_PIXELS - 12)
    turned = Markup(
        '<text class="ytitle" transform="translate({:.0f} {:.0f}) rotate(-90)" text-anchor="middle">ms</text>'
    )
    yield turned.format(12 - left, PLOT_PIXELS / 2)


def _down(time_ns: float, top_ns: float) -> float:
    return round(max(1 - time_ns / top_ns, 0.0) * PLOT_PIXELS, 1)


def _bars(chart: StepsChart, low: float, high: float) -> Iterator[Markup]:
    stripes = Markup(
        '<pattern id="{}-{}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate({})">'
        '<path d="M0 0H7" stroke="#fffb" stroke-width="2"/></pattern>'
    )
    name = f"hatch-{crc32(chart.caption.encode()):x}"
    for pattern in sorted({EVENT_KINDS[kind].pattern for kind in chart.parts} - {""}):
        yield stripes.format(name, hues.HATCHES[pattern], hues.HATCHES[pattern])
    piece = Markup('<rect class="hue" style="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    over = Markup('<rect class="hatched" fill="url(#{}-{})" x="{}" y="{}" width="{}" height="{}"/>')
    width = f"{100 * 0.85 * chart.gathered / (high - low):.3f}%"
    steps = "step" if chart.gathered == 1 else f"{chart.gathered} steps from"
    starts = np.arange(0, len(chart.numbers), chart.gathered)
    ends_ns = np.zeros(len(starts))
    for kind, time_ns in chart.parts.items():
        label, _, colour, pattern, *_ = EVENT_KINDS[kind]
        means_ns = np.add.reduceat(time_ns, starts) / np.diff(np.append(starts, len(chart.numbers)))
        begins_ns, ends_ns = ends_ns, ends_ns + means_ns
        times = zip(means_ns.tolist(), begins_ns.tolist(), ends_ns.tolist(), strict=True)
        for number, (mean_ns, begin_ns, end_ns) in zip(chart.numbers[:: chart.gathered], times, strict=True):
            x, y = 100 * (number - 0.425 - low) / (high - low), _down(end_ns, chart.top_ns)
            box = (f"{x:.3f}%", y, width, round(_down(begin_ns, chart.top_ns) - y, 1))
            if mean_ns > 0:
                yield piece.format(hue(colour), *box, f"{steps} {number}, {label}: {duration(mean_ns)}")
                yield over.format(name, hues.HATCHES[pattern], *box) if pattern else Markup()


def _remarks(chart: StepsChart, low: float, high: float) -> Iterator[Markup]:
    mark = Markup(
        '<text class="hue mark" style="{}" x="{:.3f}%" y="{}" font-size="13" text-anchor="middle" dy="0.35em">\u2716'
        "<title>step {}: {}, {}</title></text>"
    )
    for number in chart.unlike:
        length = chart.lengths[chart.numbers.index(number)]
        x, y = 100 * (number - low) / (high - low), _down(min(length, 0.97 * chart.top_ns), chart.top_ns)
        yield mark.format(hue(hues.VERMILLION), x, y, number, duration(length), UNLIKE)
    if chart.without_profiler:
        y = _down(chart.without_profiler[0], chart.top_ns)
        yield Markup('<line class="across" x1="0%" x2="100%" y1="{0}" y2="{0}"/>').format(y)
        label = Markup('<text class="label" x="100%" y="{}" text-anchor="end">{}</text>')
        yield label.format(y - 5 if y > PLOT_PIXELS * 0.8 else y + 16, chart.without_profiler[1])
