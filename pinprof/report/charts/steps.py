"""The chart of the steps, and of the GPU's time in each step."""

from typing import Any

import numpy as np

from pinprof.analyses.step_parts import MeanStep, StepParts, measure_parts
from pinprof.analyses.steps import measure_steps, timed, with_irregular
from pinprof.ground import hues
from pinprof.ground.units import NS_PER_MS, duration, ms
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import Axis, Chart, Key, Label, PlotBars, PlotMarks, legend_key, round_axis
from pinprof.report.timeline.kinds import (
    COLLECTIVE_ONLY_KIND,
    COMPUTE_ONLY_KIND,
    EXPOSED_COPY_KIND,
    IDLE_KIND,
    MEMSET_ONLY_KIND,
    OVERLAPPED_COPY_KIND,
)
from pinprof.report.words import step_known
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import Bools, Int64s, Trace

OUTLIER_SHARE_OF_MEDIAN = 0.2
"""An outlier differs from the median by more than this share of it,"""
OUTLIER_DEVIATIONS = 6
"""and by more than this number of median deviations: about four standard deviations of a normal distribution."""
HEADROOM_FACTOR = 1.15
"""Room for a label above the longest step."""
LOW_SHARE_OF_HEIGHT = 0.2
"""Lines below this share of the height have their label above them, off the axis."""
MIN_STEPS_WITH_OUTLIER = 3
"""The fewest steps among which one can be an outlier."""
MAX_STEP_BARS = 200
"""The most bars that fit a laptop; with more steps a bar is the mean of several."""
MAX_NUMBERED_STEPS = 12
"""The most steps that each have a number on the axis."""
MAX_BARS_WITH_GAPS = 60
"""The most bars with gaps between them."""

HOST_STEP_KEY = Key("on the host: from the start of a step to the next one's", hues.OP)
OUTLIER_KEY = Key("unlike the others", hues.VERMILLION, symbol="x")
CUT_MEDIAN_STEPS = 3.0
"""Bars of more than this many usual steps end at the top, with their length."""
MAX_CUT_LABELS = 6
MIN_BARS_OF_AXIS = 5
"""The least number of bars for which the axis has room: two alone would be as wide as the page."""


def steps_chart(trace: Trace, profile: Profile, device: int | None) -> Chart | None:
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
    unlike, usual = outliers(lengths), float(np.median(lengths))
    top_ns = HEADROOM_FACTOR * max(min(float(lengths.max()), CUT_MEDIAN_STEPS * usual), profile.estimate.step_ns or 0.0)
    series = [] if parts is None else [(legend_key(kind), known, time) for kind, time in part_times(parts).items()]
    gathered = -(-len(step) // MAX_STEP_BARS)
    all_bars = [
        _step_bars(key, numbered[of_step], time, gathered)
        for key, of_step, time in (*series, (HOST_STEP_KEY, host, host_ns))
        if time.any()
    ]
    x_axis = _axis_of_steps(numbers)
    marks, labels = _unlike_steps(numbers[unlike], lengths[unlike], top_ns, x_axis)
    known_step = step_known(profile) if profile.estimate.step_ns else None
    without_ms = (profile.estimate.step_ns or 0.0) / NS_PER_MS
    if known_step:
        is_high = without_ms > LOW_SHARE_OF_HEIGHT * top_ns / NS_PER_MS
        labels.insert(0, Label(f"{known_step[0]} without the profiler", 1, without_ms, "end", is_below=is_high))
    return Chart(
        _steps_caption(lengths, numbers[unlike].tolist()) + _each_bar(parts, gathered),
        180,
        x_axis,
        round_axis(0, top_ns / NS_PER_MS, "ms"),
        all_bars,
        marks,
        [bars.key for bars in all_bars] + [one.key for one in marks],
        [without_ms] if known_step else [],
        labels,
        is_stacked=True,
        bar_width=0.85 if len(numbers) <= MAX_BARS_WITH_GAPS else 1.0,
    )


def _unlike_steps(
    numbers: Int64s, lengths_ns: Int64s, top_ns: float, x_axis: Axis
) -> tuple[list[PlotMarks], list[Label]]:
    """Return the marks of steps unlike the others, and the lengths of those that end at the top."""
    steps = [*zip(numbers.tolist(), lengths_ns.tolist(), strict=True)]
    hover = [f"step {number}: {duration(length)}, unlike the others" for number, length in steps]
    ends = [ms(min(length, 0.97 * top_ns)) for _, length in steps]
    cut = [(x_axis.share(number), length) for number, length in steps if length > top_ns][:MAX_CUT_LABELS]
    labels = [Label(duration(length), share, ms(0.92 * top_ns), "middle", is_below=True) for share, length in cut]
    return [PlotMarks(OUTLIER_KEY, numbers.tolist(), ends, hover, size=9)] if steps else [], labels


def _axis_of_steps(numbers: Int64s) -> Axis:
    """Return the axis of steps, on which bars stay narrow if there are few."""
    first, last = int(numbers[0]), int(numbers[-1])
    axis = round_axis(first - 0.75, max(last + 0.75, first + MIN_BARS_OF_AXIS), "step", is_whole=True)
    few = len(numbers) <= MAX_NUMBERED_STEPS
    return axis._replace(labels=tuple((number, f"{number:,}") for number in numbers.tolist())) if few else axis


def _step_bars(key: Key, numbers: Int64s, time: Int64s, gathered: int) -> PlotBars:
    """Return bars of a part of the steps, each the mean of `gathered` steps."""
    x, mean, name = numbers[::gathered].tolist(), _means(time, gathered), key.label.split(":")[0]
    steps = "step" if gathered == 1 else f"{gathered} steps from"
    hover = [f"{steps} {number}, {name}: {duration(part)}" for number, part in zip(x, mean.tolist(), strict=True)]
    return PlotBars(key, x, np.round(mean / NS_PER_MS, 6).tolist(), hover)


def outliers(lengths: Int64s) -> Bools:
    """Return which steps are far from the median, compared with the distances of the others."""
    if len(lengths) < MIN_STEPS_WITH_OUTLIER:
        return np.zeros(len(lengths), bool)
    away = np.abs(lengths - np.median(lengths))
    return np.asarray(
        (away > OUTLIER_SHARE_OF_MEDIAN * np.median(lengths)) & (away > OUTLIER_DEVIATIONS * np.median(away))
    )


def _steps_caption(lengths: Int64s, marked: list[int]) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    named = ", ".join(f"{number}" for number in marked[:8]) + (", ..." if len(marked) > 8 else "")  # noqa: PLR2004
    which = "None of these is" if not marked else f"Step {named} is" if len(marked) == 1 else f"Steps {named} are"
    unlike = f" {which} unlike the others." if len(lengths) >= MIN_STEPS_WITH_OUTLIER else ""
    return (
        f"The median step takes {middle}, the shortest {least}, the longest {most}, with the profiler's cost.{unlike}"
    )


def part_times(parts: StepParts | MeanStep) -> dict[int, Any]:
    """Return the time of each of `STEP_PART_KINDS` in the order of stacking: of each step, or of the mean step."""
    return {
        COMPUTE_ONLY_KIND: parts.compute_ns - parts.collective_ns,
        COLLECTIVE_ONLY_KIND: parts.collective_ns,
        OVERLAPPED_COPY_KIND: parts.both_ns,
        EXPOSED_COPY_KIND: parts.copy_ns,
        MEMSET_ONLY_KIND: parts.memset_ns,
        IDLE_KIND: parts.idle_ns,
    }


def _each_bar(parts: StepParts | None, gathered: int) -> str:
    bar = "A bar is a step" if gathered == 1 else f"A bar is the mean of {gathered} steps"
    on = "" if parts is None else f" on GPU {parts.device}, from the end of the work of the step before to its own"
    return f" {bar}{on}."


def _means(values: Int64s, gathered: int) -> np.ndarray:
    """Return the mean of each run of `gathered` values; the last run may be shorter."""
    starts = np.arange(0, len(values), gathered)
    return np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
