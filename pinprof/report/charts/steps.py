"""The length of the steps one after the other, on the host and on the GPU, those that are unlike the others marked."""

import numpy as np

from pinprof.analyses.parts import StepParts, measure_parts
from pinprof.analyses.regular import with_unlike
from pinprof.analyses.steps import measure_steps
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import Chart, Key, layout, line_across
from pinprof.report.elements import Markup
from pinprof.report.timeline import hues
from pinprof.report.timeline.names import shown_numbers
from pinprof.report.words import step_known
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.units import NS_PER_MS, duration, ms

MAX_POINTS = 2000
"""More lie within a pixel; outliers are always drawn."""
UNLIKE = 0.2
"""A step that differs from the median by less than this share of it is no outlier,"""
DEVIATIONS = 6
"""nor one that differs by less than so many median deviations: about four standard deviations of a normal spread."""
HEADROOM = 1.15
"""Room for a label above the longest step."""
LOW = 0.2
"""Of the height: below a line that is lower than this a label would lie on the axis."""
FEW = 3
"""Of fewer steps none is an outlier."""

HOST = Key("host: from the start of a step to the next one's", hues.OP, symbol="circle")
GPU = Key("GPU: from the end of a step's work to the next one's", hues.KERNEL, symbol="diamond")
OUTLIER = Key("unlike the others", hues.VERMILLION, symbol="x")


def steps_chart(trace: Trace, profile: Profile, parts: StepParts | None) -> Chart | None:
    """Return a chart of the lengths of the steps recorded whole; None if there are fewer than two.

    It has also those that are not measured since they are unlike the others.
    """
    each_ns = profile.steps.each_ns
    if trace.steps.unlike is not None:
        trace = with_unlike(trace)
        each_ns = measure_steps(trace).each_ns
        parts = parts and next((each for each in measure_parts(trace) if each.device == parts.device), None)
    series = []
    host, numbered = _host_steps(trace, len(each_ns)), shown_numbers(trace)
    if trace.steps.on_host and len(host):
        series.append((HOST, numbered[host], each_ns))
    if parts is not None and len(parts.step) > 1:
        series.append((GPU, numbered[parts.step], parts.length_ns))
    if not any(len(numbers) > 1 for _, numbers, _ in series):
        return None
    data, marked = [], []
    for key, numbers, lengths in series:
        unlike = outliers(lengths)
        data.append(_line(key, numbers, lengths, unlike))
        marked += [(int(number), int(length)) for number, length in zip(numbers[unlike], lengths[unlike], strict=True)]
    keys = [key for key, _, _ in series]
    if marked:
        data.append(_marks(marked))
        keys.append(OUTLIER)
    known, step = step_known(profile.estimate), profile.estimate.step_ns
    longest = max(float(lengths.max()) for _, _, lengths in series)
    top = HEADROOM * max(longest, step or 0.0) / NS_PER_MS
    across = {}
    if step and known:
        height = step / NS_PER_MS
        across = line_across(height, _label(*known), below=height > LOW * top)
    shape = layout(240, "step", "ms", xaxis={"tickformat": "d"}, yaxis={"range": [0, top]}, **across)
    if len(host) < 12:  # noqa: PLR2004  each step has its number
        shape["xaxis"]["dtick"] = 1
    return Chart(_caption(series[-1][2], marked), data, shape, tuple(keys))


def outliers(lengths: Int64s) -> Bools:
    """Return which steps are unlike the others: far from the median, as seen by how far the others are from it."""
    if len(lengths) < FEW:
        return np.zeros(len(lengths), bool)
    away = np.abs(lengths - np.median(lengths))
    return np.asarray((away > UNLIKE * np.median(lengths)) & (away > DEVIATIONS * np.median(away)))


def _host_steps(trace: Trace, count: int) -> Int64s:
    """Return the `count` steps of `StepTimes.each_ns`: complete ones that another one follows, else the only one."""
    followed = trace.steps.followed
    return (followed if len(followed) else np.flatnonzero(trace.steps.complete))[:count]


def _line(key: Key, numbers: Int64s, lengths: Int64s, unlike: Bools) -> dict[str, object]:
    kept = np.zeros(len(numbers), bool)
    kept[:: -(-len(numbers) // MAX_POINTS)] = True
    kept |= unlike
    name = key.label.split(":")[0]
    pairs = list(zip(numbers[kept].tolist(), lengths[kept].tolist(), strict=True))
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(pairs) <= 100 else "lines",  # noqa: PLR2004  more marks hide the line
        "name": name,
        "x": [number for number, _ in pairs],
        "y": [ms(length) for _, length in pairs],
        "hovertext": [f"step {number}, {name}: {duration(length)}" for number, length in pairs],
        "hoverinfo": "text",
        "line": {"color": key.colour, "width": 2, "dash": "solid" if key is HOST else "dot"},
        "marker": {"color": key.colour, "symbol": key.symbol, "size": 8},
        "cliponaxis": False,
    }


def _marks(marked: list[tuple[int, int]]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": OUTLIER.label,
        "x": [number for number, _ in marked],
        "y": [ms(length) for _, length in marked],
        "hovertext": [f"step {number}: {duration(length)}, unlike the others" for number, length in marked],
        "hoverinfo": "text",
        "marker": {"color": OUTLIER.colour, "symbol": OUTLIER.symbol, "size": 12},
        "cliponaxis": False,
    }


def _label(length: str, how: str) -> Markup:
    """Return the step and how it is known; a range is on a line of its own, since all on one is wider than a phone."""
    said, *between = how.split(" (", 1)
    return Markup("<br>(").join([f"{length} {said}", *between])


def _caption(lengths: Int64s, marked: list[tuple[int, int]]) -> str:
    middle, least, most = (duration(float(of(lengths))) for of in (np.median, np.min, np.max))
    numbers = sorted({number for number, _ in marked})
    named = ", ".join(f"{number}" for number in numbers[:8]) + (", ..." if len(numbers) > 8 else "")  # noqa: PLR2004
    which = f"Step {named} is" if len(numbers) == 1 else f"Steps {named} are"
    unlike = f" {which} unlike the others." if numbers else " None is unlike the others."
    told = unlike if len(lengths) >= FEW else ""
    if len(lengths) == 1:
        return f"The step takes {middle}, with the profiler's cost in it."
    return f"The median step takes {middle}, the shortest {least}, the longest {most}, with the profiler's cost.{told}"
