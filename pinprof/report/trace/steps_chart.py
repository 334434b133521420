"""The chart of the steps: a bar for each, with where its time goes on the GPU, as SVG that needs no script.

Across, all is in percent of the width, so that it fits any screen; down, in pixels. What a bar says is its `<title>`,
which browsers show on hover.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from pinprof.analyses.step_parts import MeanStep, StepParts, measure_parts
from pinprof.analyses.steps import measure_steps, timed, with_irregular
from pinprof.ground import hues
from pinprof.ground.units import NS_PER_MS, duration, ms
from pinprof.measurement.profile import Profile
from pinprof.report.html import Markup, hue, inline_html
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import EVENT_KINDS
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
HOST_STEP = ("on the host: from the start of a step to the next one's", hues.OP, "")


class StepBars(NamedTuple):
    """One part of the steps: its label, colour and pattern, the number of each step, and its time in ns."""

    label: str
    colour: str
    pattern: str
    numbers: Int64s
    time_ns: Int64s


@dataclass(frozen=True)
class StepsChart:
    """What the chart shows."""

    caption: str
    bars: list[StepBars]
    """The parts, each on those before it."""
    lengths: dict[int, int]
    """The length of each step in ns, by its number."""
    unlike: list[int]
    """The numbers of steps that are unlike the others, or longer than the chart."""
    top_ns: float
    gathered: int
    """Steps of a bar, which shows their mean."""
    without_profiler: tuple[float, str] | None
    """The step without the profiler, in ns and in words."""


def steps_chart(trace: Trace, profile: Profile, device: int | None) -> StepsChart | None:
    """Return a chart of the complete steps, each a bar of where it goes on a GPU, or alone as long as on the host.

    It includes steps unlike the others, which the measured step leaves out. It is None for fewer than two steps.
    """
    if trace.steps.unlike is not None:
        trace = with_irregular(trace)
    parts = next((of_gpu for of_gpu in measure_parts(trace) if of_gpu.device == device), None)
    numbered, known = numbers_of_steps(trace), parts.step if parts is not None else np.zeros(0, np.int64)
    host, host_ns = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if trace.steps.on_host:
        host_ns = measure_steps(trace).host_lengths_ns
        host = timed(trace.steps)[: len(host_ns)]
        host_ns = host_ns[~np.isin(host, known)]
        host = host[~np.isin(host, known)]
    step, length_ns = np.append(known, host), np.append(parts.length_ns if parts is not None else host_ns[:0], host_ns)
    if len(step) < 2:  # noqa: PLR2004
        return None
    order = np.argsort(step)
    numbers, lengths = numbered[step[order]], length_ns[order]
    step_ns = profile.estimate.step_ns or 0.0
    top_ns = HEADROOM_FACTOR * max(min(float(lengths.max()), CUT_MEDIAN_STEPS * float(np.median(lengths))), step_ns)
    unlike, gathered = numbers[outliers(lengths) | (lengths > top_ns)].tolist(), -(-len(step) // MAX_STEP_BARS)
    of_parts = [] if parts is None else [(EVENT_KINDS[kind], times) for kind, times in part_times(parts).items()]
    bars = [StepBars(kind.label, kind.colour, kind.pattern, numbered[known], times) for kind, times in of_parts]
    bars.append(StepBars(*HOST_STEP, numbered[host], host_ns))
    without = step_known(profile) if step_ns else None
    return StepsChart(
        _caption(lengths, unlike, parts, gathered),
        [bar for bar in bars if bar.time_ns.any()],
        dict(zip(numbers.tolist(), lengths.tolist(), strict=True)),
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


def _caption(lengths: Int64s, unlike: list[int], parts: StepParts | None, gathered: int) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    named = ", ".join(map(str, unlike[:8])) + (", ..." if len(unlike) > 8 else "")  # noqa: PLR2004
    marked = f" Unlike the others: {named}." if unlike else ""
    bar = "A bar is a step" if gathered == 1 else f"A bar is the mean of {gathered} steps"
    on = "" if parts is None else f" on GPU {parts.device}, from the end of the work of the step before to its own"
    lasts = f"The median step takes {middle}, the shortest {least}, the longest {most}, with the profiler's cost."
    return f"{lasts}{marked} {bar}{on}."


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
    numbers = [*chart.lengths]
    low, high = numbers[0] - 0.75, max(numbers[-1] + 0.75, numbers[0] + MIN_BARS_OF_AXIS)
    labels = [(value, f"{value:,.10g}") for value in round_values(0, ms(chart.top_ns))]
    left = 26 + LETTER_PIXELS * max(len(text) for _, text in labels) + 8
    drawn = (*_axes(chart, labels, left, low, high), *_bars(chart, low, high), *_remarks(chart, low, high))
    swatch = Markup('<li><span class="swatch" style="background:{}"></span>{}</li>')
    keys = [swatch.format(_striped(bar), inline_html(bar.label)) for bar in chart.bars]
    keys += [Markup('<li><span class="symbol" style="color:{}">\u2716</span>{}</li>').format(hues.VERMILLION, UNLIKE)][
        : len(chart.unlike)
    ]
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


def _striped(bar: StepBars) -> str:
    if not bar.pattern:
        return bar.colour
    return f"repeating-linear-gradient({hues.HATCHES[bar.pattern]}deg,{bar.colour} 0 3px,#fffb 3px 4px)"


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
    for number in round_values(low, high, is_whole=True):
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
    for pattern in sorted({bar.pattern for bar in chart.bars} - {""}):
        yield stripes.format(name, hues.HATCHES[pattern], hues.HATCHES[pattern])
    piece = Markup('<rect class="hue" style="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    over = Markup('<rect class="hatched" fill="url(#{}-{})" x="{}" y="{}" width="{}" height="{}"/>')
    width = 0.85 * chart.gathered
    steps = "step" if chart.gathered == 1 else f"{chart.gathered} steps from"
    ends: dict[int, float] = {}
    for bar in chart.bars:
        starts = np.arange(0, len(bar.numbers), chart.gathered)
        means = np.add.reduceat(bar.time_ns, starts) / np.diff(np.append(starts, len(bar.numbers)))
        for number, mean_ns in zip(bar.numbers[starts].tolist(), means.tolist(), strict=True):
            start_ns = ends.get(number, 0.0)
            ends[number] = start_ns + mean_ns
            if mean_ns <= 0:
                continue
            x, y = 100 * (number - 0.425 - low) / (high - low), _down(ends[number], chart.top_ns)
            height = round(_down(start_ns, chart.top_ns) - y, 1)
            box = (f"{x:.3f}%", y, f"{100 * width / (high - low):.3f}%", height)
            said = f"{steps} {number}, {bar.label.split(':')[0]}: {duration(mean_ns)}"
            yield piece.format(hue(bar.colour), *box, said)
            if bar.pattern:
                yield over.format(name, hues.HATCHES[bar.pattern], *box)


def _remarks(chart: StepsChart, low: float, high: float) -> Iterator[Markup]:
    mark = Markup(
        '<text class="hue mark" style="{}" x="{:.3f}%" y="{}" font-size="13" text-anchor="middle" dy="0.35em">\u2716'
        "<title>step {}: {}, {}</title></text>"
    )
    for number in chart.unlike:
        length = chart.lengths[number]
        x, y = 100 * (number - low) / (high - low), _down(min(length, 0.97 * chart.top_ns), chart.top_ns)
        yield mark.format(hue(hues.VERMILLION), x, y, number, duration(length), UNLIKE)
    if chart.without_profiler:
        y = _down(chart.without_profiler[0], chart.top_ns)
        yield Markup('<line class="across" x1="0%" x2="100%" y1="{0}" y2="{0}"/>').format(y)
        label = Markup('<text class="label" x="100%" y="{}" text-anchor="end">{}</text>')
        yield label.format(y - 5 if y > PLOT_PIXELS * 0.8 else y + 16, chart.without_profiler[1])
