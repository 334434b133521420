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
from pinprof.report.html import Markup
from pinprof.report.timeline.kinds import BOTH, COLLECTIVE_ONLY, COMPUTE_ONLY, COPY_ONLY, KINDS, MEMSET_ONLY
from pinprof.report.timeline.kinds import IDLE as IDLE_PART
from pinprof.report.timeline.steps import shown_numbers
from pinprof.report.wait_groups import WAIT_PARTS
from pinprof.report.words import short_place, step_known
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.units import NS_PER_MS, duration, ms, percent

MAX_POINTS = 2000
"""The most points of a line; outliers are always drawn."""
UNLIKE = 0.2
"""An outlier differs from the median by more than this share of it,"""
DEVIATIONS = 6
"""and by more than this number of median deviations: about four standard deviations of a normal distribution."""
HEADROOM = 1.15
"""Room for a label above the longest step."""
LOW = 0.2
"""Lines below this share of the height have their label above them, off the axis."""
FEW = 3
"""The fewest steps among which one can be an outlier."""
MAX_BARS = 200
"""The most bars that fit a laptop; with more steps a bar is the mean of several."""
NUMBERED = 12
"""The most steps that each have a number on the axis."""
GAPS = 60
"""The most bars with gaps between them."""

HOST = Key("host: from the start of a step to the next one's", hues.OP, symbol="circle")
GPU = Key("GPU: from the end of a step's work to the next one's", hues.KERNEL, symbol="diamond")
OUTLIER = Key("unlike the others", hues.VERMILLION, symbol="x")
ALL_WORK = "from its first work to its last"
"""The extent of the bar of a single step; other bars begin where the work of the step before ends."""


MAX_SITES = 10
"""The most places that are drawn; the table has all."""
LONGEST = 44
"""Characters of a place that fit on a phone."""
_WAITS_FOR = [f"host waits: {part.label}" for part in WAIT_PARTS]
DRAIN = Key(_WAITS_FOR[0], hues.WAIT)
OWN = Key(_WAITS_FOR[1], hues.COPY_OUT[0], pattern="/")
OVERHEAD = Key(_WAITS_FOR[2], hues.CALL, pattern="-")
BUSY = Key("busy", KINDS[COMPUTE_ONLY].colour)
BUBBLE = Key("GPU idle after it", hues.IDLE, pattern="\\")
STALLS_AND_SAVINGS = (
    "A stall costs nothing while the GPU works on what was queued before. A fix may save more than the idle time: "
    "after a stall the host has no lead, so later launches are late, too."
)
IDLE_BY_CAUSE = "What a GPU does while it is idle, from its first work to its last."


def steps_chart(trace: Trace, profile: Profile, parts: StepParts | None) -> Chart | None:
    """Return a chart of the lengths of the complete steps; None if there are fewer than two.

    It includes steps unlike the others, which the measured step leaves out.
    """
    lengths_ns = profile.steps.host_lengths_ns
    if trace.steps.unlike is not None:
        trace = with_irregular(trace)
        lengths_ns = measure_steps(trace).host_lengths_ns
        parts = parts and next((of_gpu for of_gpu in measure_parts(trace) if of_gpu.device == parts.device), None)
    lines = []
    host, numbered = timed(trace.steps)[: len(lengths_ns)], shown_numbers(trace)
    if trace.steps.on_host and len(host):
        lines.append((HOST, numbered[host], lengths_ns))
    if parts is not None and len(parts.step) > 1:
        lines.append((GPU, numbered[parts.step], parts.length_ns))
    if not any(len(numbers) > 1 for _, numbers, _ in lines):
        return None
    data, marked = [], []
    for key, numbers, lengths in lines:
        unlike = outliers(lengths)
        data.append(_line_chart(key, numbers, lengths, unlike))
        marked += list(zip(numbers[unlike].tolist(), lengths[unlike].tolist(), strict=True))
    keys = [key for key, _, _ in lines]
    if marked:
        hover = [f"step {number}: {duration(length)}, unlike the others" for number, length in marked]
        x, y = [number for number, _ in marked], [ms(length) for _, length in marked]
        data.append(points(OUTLIER.label, OUTLIER, x, y, hover, size=12))
        keys.append(OUTLIER)
    shape = _steps_shape(profile, max(float(lengths.max()) for _, _, lengths in lines))
    if len(host) < NUMBERED:
        shape["xaxis"]["dtick"] = 1
    return Chart(_steps_caption(lines[-1][2], sorted({number for number, _ in marked})), data, shape, tuple(keys))


def outliers(lengths: Int64s) -> Bools:
    """Return which steps are far from the median, compared with the distances of the others."""
    if len(lengths) < FEW:
        return np.zeros(len(lengths), bool)
    away = np.abs(lengths - np.median(lengths))
    return np.asarray((away > UNLIKE * np.median(lengths)) & (away > DEVIATIONS * np.median(away)))


def _line_chart(key: Key, numbers: Int64s, lengths: Int64s, unlike: Bools) -> dict[str, Any]:
    kept = np.zeros(len(numbers), bool)
    kept[:: -(-len(numbers) // MAX_POINTS)] = True
    kept |= unlike
    name = key.label.split(":")[0]
    x, times = numbers[kept].tolist(), lengths[kept].tolist()
    hover = [f"step {number}, {name}: {duration(length)}" for number, length in zip(x, times, strict=True)]
    mode = "lines+markers" if len(x) <= 100 else "lines"  # noqa: PLR2004  more marks hide the line
    line = {"color": key.colour, "width": 2, "dash": "solid" if key is HOST else "dot"}
    return points(name, key, x, [ms(length) for length in times], hover, mode=mode, line=line)


def _steps_shape(profile: Profile, longest: float) -> dict[str, Any]:
    known, step = step_known(profile), profile.estimate.step_ns
    top = HEADROOM * max(longest, step or 0.0) / NS_PER_MS
    across = {}
    if step and known:
        length, how = known
        how, *between = how.split(" (", 1)  # the range on a line of its own: all on one is wider than a phone
        label = Markup("<br>(").join([f"{length} {how}", *between])
        across = line_across(step / NS_PER_MS, label, below=step / NS_PER_MS > LOW * top)
    return layout(240, "step", "ms", xaxis={"tickformat": "d"}, yaxis={"range": [0, top]}, **across)


def _steps_caption(lengths: Int64s, marked: list[int]) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    if len(lengths) == 1:
        return f"The step takes {middle}, with the profiler's cost in it."
    named = ", ".join(f"{number}" for number in marked[:8]) + (", ..." if len(marked) > 8 else "")  # noqa: PLR2004
    which = "None is" if not marked else f"Step {named} is" if len(marked) == 1 else f"Steps {named} are"
    unlike = f" {which} unlike the others." if len(lengths) >= FEW else ""
    return (
        f"The median step takes {middle}, the shortest {least}, the longest {most}, with the profiler's cost.{unlike}"
    )


def overlap_chart(parts: StepParts, numbers: Int64s) -> Chart:
    """Return a chart of the steps of one GPU; the parts of a bar add up to its step; `numbers` are all steps'."""
    times = part_times(parts)
    gathered = -(-len(parts.step) // MAX_BARS)
    steps, numbers = len(numbers), numbers[parts.step]
    firsts = numbers[::gathered]
    lasts = numbers[np.minimum(np.arange(len(firsts)) * gathered + gathered, len(numbers)) - 1]
    names = [
        f"step {first}" if first == last else f"steps {first} to {last}"
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]
    length = _means(parts.length_ns, gathered)
    keys, data, shares = [], [], {}
    for kind, time in times.items():
        if not time.any():
            continue
        label = KINDS[kind].label
        shares[label] = int(time.sum()) / int(parts.length_ns.sum())
        key = legend_key(kind, f": {percent(shares[label])}")
        mean = _means(time, gathered)
        hover = [
            f"{name}: {label} {duration(part)} ({percent(part / whole)} of {duration(whole)})"
            for name, part, whole in zip(names, mean.tolist(), length.tolist(), strict=True)
        ]
        y = np.round(mean / NS_PER_MS, 6).tolist()
        data.append(bars(label, key, x=firsts.tolist(), y=y, hover=hover))
        keys.append(key)
    most_first = ", ".join(
        f"{percent(shares[label])} {label}" for label in sorted(shares, key=lambda label: -shares[label])
    )
    of = "per step in the trace" if steps > 1 else ALL_WORK
    caption = f"GPU {parts.device}, {duration(float(parts.length_ns.mean()))} {of}: {most_first}."
    return Chart(caption + (_each_bar(gathered) if steps > 1 else ""), data, _bars_shape(firsts), tuple(keys))


def _bars_shape(firsts: Int64s) -> dict[str, Any]:
    """Return the layout of bars at these steps; bars stay narrow if there are few."""
    few = len(firsts) <= NUMBERED
    xaxis: dict[str, Any] = {"tickmode": "array", "tickvals": firsts.tolist()} if few else {"tickformat": "d"}
    if len(firsts) < 5:  # noqa: PLR2004
        xaxis["range"] = [int(firsts[0]) - 0.75, int(firsts[0]) + 4.75]
    return layout(240, "step", "ms", barmode="stack", bargap=0.15 if len(firsts) <= GAPS else 0, xaxis=xaxis)


def part_times(parts: StepParts | MeanStep) -> dict[int, Any]:
    """Return the time of each of `kinds.PARTS` in the order of stacking: of each step, or of the mean step."""
    return {
        COMPUTE_ONLY: parts.compute_ns - parts.collective_ns,
        COLLECTIVE_ONLY: parts.collective_ns,
        BOTH: parts.both_ns,
        COPY_ONLY: parts.copy_ns,
        MEMSET_ONLY: parts.memset_ns,
        IDLE_PART: parts.idle_ns,
    }


def _each_bar(gathered: int) -> str:
    bar = "Each bar is a step" if gathered == 1 else f"Each bar is the mean of {gathered} steps"
    return f" {bar}: from the end of the GPU work of the step before to the end of its own."


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
    costs = [cost for _, cost in sites[:MAX_SITES]]
    data = []
    keys = (DRAIN, OWN, OVERHEAD, BUBBLE)
    for key, part in zip(keys, WAIT_PARTS, strict=True):
        times = [part.time_ns(cost) for cost in costs]
        hover = [f"{key.label}: {duration(time / count)} {per}" for time in times]
        x = [ms(time / count) for time in times]
        y = [number + (0.3 if key is BUBBLE else 0.0) for number in range(len(costs))]
        data.append(bars(key.label, key, x=x, y=y, orientation="h", width=0.26, hover=hover))
    labels = [site_label(site) for site, _ in sites[:MAX_SITES]]
    shape = labelled_rows(labels, f"ms {per}", row=58, above=0.15, edges=(0.6, 0.55), barmode="stack")
    remark = f" The {MAX_SITES} costliest of {len(sites)} places are drawn." if len(sites) > MAX_SITES else ""
    return Chart(STALLS_AND_SAVINGS + remark, data, shape, keys)


def site_label(site: WaitSite) -> str:
    """Return the cause and the place of waits, short enough for a phone."""
    places = [str(at) for at in (site.place, site.library and short_place(site.library)) if at and str(at)]
    where = " > ".join(places) or site.op or site.call
    return f"{WAITS[site.cause].plain}: {end_of(where, LONGEST)}"


def idle_chart(profile: Profile, *, with_busy: bool = False) -> Chart | None:
    """Return a chart of the idle time by cause, a bar for each GPU, or None; `with_busy` adds the busy time.

    If causes are withheld, idle time is one part.
    """
    gpus = [(gpu, time) for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    parts = [(BUSY, [time.busy_ns for _, time in gpus])] if with_busy else []
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
    return Chart(IDLE_BY_CAUSE, data, stacked_layout(len(gpus)), tuple(key for key, _ in parts))
