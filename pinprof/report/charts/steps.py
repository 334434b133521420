"""Charts of the steps, of the GPU's time in each step, of the waits by place, and of idle time by cause."""

from typing import Any

import numpy as np

from pinprof import hues
from pinprof.analyses.idle import IDLE
from pinprof.analyses.step_parts import MeanStep, StepParts, measure_parts
from pinprof.analyses.steps import measure_steps, timed, with_irregular
from pinprof.analyses.syncs.causes import WAITS
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.measurement.trust.doubt import given
from pinprof.report.charts.chart import (
    Chart,
    Key,
    bars,
    end_of,
    labelled_rows,
    layout,
    legend_key,
    line_across,
    points,
    stacked,
    stacked_layout,
)
from pinprof.report.timeline.kinds import (
    COLLECTIVE_ONLY_KIND,
    COMPUTE_ONLY_KIND,
    EVENT_KINDS,
    EXPOSED_COPY_KIND,
    MEMSET_ONLY_KIND,
    OVERLAPPED_COPY_KIND,
)
from pinprof.report.timeline.kinds import IDLE_KIND as IDLE_PART
from pinprof.report.timeline.steps import shown_numbers
from pinprof.report.wait_groups import WAIT_PARTS
from pinprof.report.words import short_place, step_known
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.units import NS_PER_MS, duration, ms, percent

OUTLIER_SHARE_OF_MEDIAN = 0.2
"""An outlier differs from the median by more than this share of it,"""
OUTLIER_DEVIATIONS = 6
"""and by more than this number of median deviations: about four standard deviations of a normal distribution."""
HEADROOM_FACTOR = 1.15
"""Room for a label above the longest step."""
LOW_SHARE_OF_HEIGHT = 0.2
"""Lines below this share of the height have their label above them, off the axis."""
FEWEST_STEPS_WITH_OUTLIER = 3
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
FEWEST_BARS_OF_AXIS = 5
"""The least number of bars for which the axis has room: two alone would be as wide as the page."""

MAX_DRAWN_SITES = 10
"""The most places that are drawn; the table has all."""
MAX_PLACE_CHARS = 44
"""Characters of a place that fit on a phone."""
_WAITS_FOR = [f"host waits: {part.label}" for part in WAIT_PARTS]
DRAIN_KEY = Key(_WAITS_FOR[0], hues.WAIT)
OWN_COPY_KEY = Key(_WAITS_FOR[1], hues.COPY_OUT[0], pattern="/")
OVERHEAD_KEY = Key(_WAITS_FOR[2], hues.CALL, pattern="-")
BUSY_KEY = Key("busy", EVENT_KINDS[COMPUTE_ONLY_KIND].colour)
BUBBLE_KEY = Key("GPU idle after it", hues.IDLE, pattern="\\")


def steps_chart(trace: Trace, profile: Profile, device: int | None) -> Chart | None:
    """Return a chart of the complete steps, each a bar of where it goes on a GPU, or alone as long as on the host.

    It includes steps unlike the others, which the measured step leaves out. It is None for fewer than two steps.
    """
    if trace.steps.unlike is not None:
        trace = with_irregular(trace)
    parts = next((of_gpu for of_gpu in measure_parts(trace) if of_gpu.device == device), None)
    numbered, known = shown_numbers(trace), parts.step if parts is not None else np.zeros(0, np.int64)
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
    data, keys = [], []
    for key, of_step, time in (*series, (HOST_STEP_KEY, host, host_ns)):
        if time.any():
            data.append(_step_bars(key, numbered[of_step], time, gathered))
            keys.append(key)
    shape = _steps_shape(profile, numbers, top_ns)
    if unlike.any():
        odd, odd_ns = numbers[unlike].tolist(), lengths[unlike].tolist()
        hover = [
            f"step {number}: {duration(length)}, unlike the others" for number, length in zip(odd, odd_ns, strict=True)
        ]
        y = [ms(min(length, 0.97 * top_ns)) for length in odd_ns]
        data.append(points(OUTLIER_KEY.label, OUTLIER_KEY, odd, y, hover, size=9))
        keys.append(OUTLIER_KEY)
        label = {"xanchor": "center", "yanchor": "top"}
        cut = [(number, length) for number, length in zip(odd, odd_ns, strict=True) if length > top_ns][:MAX_CUT_LABELS]
        texts = [label | {"x": number, "y": ms(0.92 * top_ns), "text": duration(length)} for number, length in cut]
        shape["annotations"] = [*shape.get("annotations", ()), *texts]
    caption = _steps_caption(lengths, numbers[unlike].tolist())
    return Chart(data, shape, tuple(keys), caption + _each_bar(parts, gathered))


def _step_bars(key: Key, numbers: Int64s, time: Int64s, gathered: int) -> dict[str, Any]:
    """Return bars of a part of the steps, each the mean of `gathered` steps."""
    x, mean, name = numbers[::gathered].tolist(), _means(time, gathered), key.label.split(":")[0]
    steps = "step" if gathered == 1 else f"{gathered} steps from"
    hover = [f"{steps} {number}, {name}: {duration(part)}" for number, part in zip(x, mean.tolist(), strict=True)]
    return bars(name, key, x=x, y=np.round(mean / NS_PER_MS, 6).tolist(), hover=hover)


def outliers(lengths: Int64s) -> Bools:
    """Return which steps are far from the median, compared with the distances of the others."""
    if len(lengths) < FEWEST_STEPS_WITH_OUTLIER:
        return np.zeros(len(lengths), bool)
    away = np.abs(lengths - np.median(lengths))
    return np.asarray(
        (away > OUTLIER_SHARE_OF_MEDIAN * np.median(lengths)) & (away > OUTLIER_DEVIATIONS * np.median(away))
    )


def _steps_shape(profile: Profile, numbers: Int64s, top_ns: float) -> dict[str, Any]:
    """Return the layout of bars at these steps; bars stay narrow if there are few."""
    known, step, top, across = step_known(profile), profile.estimate.step_ns, top_ns / NS_PER_MS, {}
    if step and known:
        across = line_across(
            step / NS_PER_MS, f"{known[0]} without the profiler", below=step / NS_PER_MS > LOW_SHARE_OF_HEIGHT * top
        )
    first, last = int(numbers[0]), int(numbers[-1])
    xaxis: dict[str, Any] = {"range": [first - 0.75, max(last + 0.75, first + FEWEST_BARS_OF_AXIS)]}
    if len(numbers) <= MAX_NUMBERED_STEPS:
        xaxis["tickvals"] = numbers.tolist()
    shape = {"barmode": "stack", "bargap": 0.15 if len(numbers) <= MAX_BARS_WITH_GAPS else 0}
    return layout(180, "step", "ms", xaxis=xaxis, yaxis={"range": [0, top]}, **shape, **across)


def _steps_caption(lengths: Int64s, marked: list[int]) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    named = ", ".join(f"{number}" for number in marked[:8]) + (", ..." if len(marked) > 8 else "")  # noqa: PLR2004
    which = "None is" if not marked else f"Step {named} is" if len(marked) == 1 else f"Steps {named} are"
    unlike = f" {which} unlike the others." if len(lengths) >= FEWEST_STEPS_WITH_OUTLIER else ""
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
        IDLE_PART: parts.idle_ns,
    }


def _each_bar(parts: StepParts | None, gathered: int) -> str:
    bar = "A bar is a step" if gathered == 1 else f"A bar is the mean of {gathered} steps"
    on = "" if parts is None else f" on GPU {parts.device}, from the end of the work of the step before to its own"
    return f" {bar}{on}."


def _means(values: Int64s, gathered: int) -> np.ndarray:
    """Return the mean of each run of `gathered` values; the last run may be shorter."""
    starts = np.arange(0, len(values), gathered)
    return np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))


def syncs_chart(profile: Profile) -> Chart | None:
    """Return a chart of the waits per complete step, the longest bubble first; None if no step has any."""
    count, per = profile.steps.count, profile.steps.per
    sites = sorted(profile.waits, key=lambda wait: (-wait[1].idle_ns, -wait[1].stall_ns))
    if not sites or not count:
        return None
    costs = [cost for _, cost in sites[:MAX_DRAWN_SITES]]
    data = []
    keys = (DRAIN_KEY, OWN_COPY_KEY, OVERHEAD_KEY, BUBBLE_KEY)
    for key, part in zip(keys, WAIT_PARTS, strict=True):
        times = [part.time_ns(cost) for cost in costs]
        hover = [f"{key.label}: {duration(time / count)} {per}" for time in times]
        x = [ms(time / count) for time in times]
        y = [number + (0.3 if key is BUBBLE_KEY else 0.0) for number in range(len(costs))]
        data.append(bars(key.label, key, x=x, y=y, orientation="h", width=0.26, hover=hover))
    labels = [site_label(site) for site, _ in sites[:MAX_DRAWN_SITES]]
    shape = labelled_rows(labels, f"ms {per}", row=58, above=0.15, edges=(0.6, 0.55), barmode="stack")
    return Chart(data, shape, keys)


def site_label(site: WaitSite) -> str:
    """Return the cause and the place of waits, short enough for a phone."""
    places = [str(at) for at in (site.place, site.library and short_place(site.library)) if at and str(at)]
    where = " > ".join(places) or site.op or site.call
    return f"{WAITS[site.cause].plain}: {end_of(where, MAX_PLACE_CHARS)}"


def idle_chart(profile: Profile, *, with_busy: bool = False) -> Chart | None:
    """Return a chart of the idle time by cause, a bar for each GPU, or None; `with_busy` adds the busy time.

    If causes are withheld, idle time is one part.
    """
    gpus = [(gpu, time) for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    parts = [(BUSY_KEY, [time.busy_ns for _, time in gpus])] if with_busy else []
    if profile.withheld.causes:
        parts.append((legend_key(IDLE_PART), [time.idle_ns for _, time in gpus]))
    else:
        prefix = "idle: " if with_busy else ""
        by_gpu = [dict(given(gpu.idle_by_cause) or ()) for gpu, _ in gpus]
        causes = [
            (Key(f"{prefix}{cause.does}", cause.colour, pattern=cause.pattern), times)
            for name, cause in IDLE.items()
            if any(times := [causes.get(name, 0) for causes in by_gpu])
        ]
        parts += sorted(causes, key=lambda part: -sum(part[1]))
    if not any(sum(times) for _, times in parts):
        return None
    data = []
    rows = [f"GPU {time.device} " for _, time in gpus]
    for key, times in parts:
        hover = [
            f"GPU {time.device}, {key.label}: {duration(part)} ({percent(part / time.span_ns)} of its time)"
            for (_, time), part in zip(gpus, times, strict=True)
        ]
        data.append(stacked(key, times, rows, hover))
    return Chart(data, stacked_layout(len(gpus)), tuple(key for key, _ in parts))
