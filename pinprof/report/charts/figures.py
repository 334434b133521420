"""Figures of plotly on the numbers of a report, as plain data: copies, idle time, waits, an icicle of call paths."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.ground import hues
from pinprof.ground.units import counted, duration, ms, percent, rate, sizes
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.measurement.trust.doubt import given
from pinprof.report.charts.chart import Key, end_of, legend_key
from pinprof.report.charts.flame import Box, FlameGraph
from pinprof.report.html import Markup
from pinprof.report.timeline.kinds import (
    COMPUTE_ONLY_KIND,
    EVENT_KINDS,
    EXPOSED_COPY_KIND,
    IDLE_KIND,
    OVERLAPPED_COPY_KIND,
)
from pinprof.report.trace.sections.wait_groups import WAIT_PARTS
from pinprof.report.words import copies_named, cut, short_place

TITLE_STANDOFF_PIXELS = 8
"""Between the labels of an axis and its title; without them, plotly may draw one over the other."""
AROUND_ROWS_PIXELS = 70
"""The axis and the margins of a figure of rows."""
SITE_ROW_PIXELS = 58
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

LEVEL_PIXELS, MAX_ICICLE_PIXELS = 24, 760
"""A level of an icicle, and the most for all levels."""
MAX_BOX_LABEL_CHARS = 48
SMALLEST_NAME_PIXELS = 9


class PlotlyFigure(NamedTuple):
    """Series and layout of a figure of plotly, and its legend; only texts that are `Markup` are HTML."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    keys: Sequence[Key] = ()


def layout(height: int, x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the layout that all figures share, with the titles of the axes."""
    axis = {"automargin": True, "fixedrange": True, "zeroline": False}
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 14, "b": 8},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "xaxis": {**axis, "title": {"text": x, "standoff": TITLE_STANDOFF_PIXELS}},
        "yaxis": {**axis, "title": {"text": y, "standoff": TITLE_STANDOFF_PIXELS}},
    }
    for name, value in more.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base else value
    return base


def bars(name: str, key: Key, *, hover: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Return a series of bars in the colour and the pattern of its entry in the legend, with hover texts."""
    pattern = {"shape": key.pattern, "bgcolor": key.colour, "fgcolor": "#fff", "size": 7, "solidity": 0.15}
    marker = {"color": key.colour, "line": {"width": 0}, **({"pattern": pattern} if key.pattern else {})}
    hovering = {"hovertext": hover, "hoverinfo": "text"} if hover else {}
    return {"type": "bar", "name": name, "marker": marker, **hovering, **more}


def stacked(key: Key, times_ns: Sequence[float], rows: Sequence[str], hover: Sequence[str]) -> dict[str, Any]:
    """Return a series of times, given in ns, that are stacked on those of the other series of their rows."""
    return bars(key.label, key, x=[ms(time) for time in times_ns], y=list(rows), orientation="h", hover=hover)


def stacked_layout(rows: int) -> dict[str, Any]:
    """Return the layout of rows of stacked times of a trace."""
    return layout(70 + 44 * rows, "ms in the trace", "", barmode="stack", yaxis={"autorange": "reversed"})


def escaped(value: Any) -> Any:
    """Return data for plotly, which reads texts as HTML."""
    if isinstance(value, dict):
        return {key: escaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(part) for part in value]
    return Markup.escape(value) if isinstance(value, str) else value


def copy_times_figure(profile: Profile) -> PlotlyFigure | None:
    """Return a figure of the time of copies by direction and host memory; None if none is known."""
    groups = [
        (group, copied, hidden)
        for group in profile.copies
        if (copied := given(group.copied)) and (hidden := given(group.hidden))
    ]
    if not groups:
        return None
    rows = [copies_named(group.direction, group.host_memory) for group, *_ in groups]
    hover = [
        f"{row}: {counted(copied.count, 'copy', 'copies')}, {sizes(copied.bytes, group.unsized)}"
        + (f" at {rate(copied.bandwidth_gbps)}" if copied.bandwidth_gbps else "")
        + f"; {duration(hidden.overlapped_ns)} overlapped, {duration(hidden.exposed_ns)} exposed"
        for row, (group, copied, hidden) in zip(rows, groups, strict=True)
    ]
    keys = legend_key(OVERLAPPED_COPY_KIND), legend_key(EXPOSED_COPY_KIND)
    times = [hidden.overlapped_ns for *_, hidden in groups], [hidden.exposed_ns for *_, hidden in groups]
    data = [stacked(key, of_kind, rows, hover) for key, of_kind in zip(keys, times, strict=True)]
    return PlotlyFigure(data, stacked_layout(len(rows)), keys)


def waits_figure(profile: Profile) -> PlotlyFigure | None:
    """Return a figure of the waits per complete step, the longest bubble first; None if no step has any."""
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
    above = {"x": 0, "xanchor": "left", "xref": "paper", "showarrow": False, "yanchor": "bottom"}
    shape = layout(
        SITE_ROW_PIXELS * len(costs) + AROUND_ROWS_PIXELS,
        f"ms {per}",
        "",
        annotations=[{**above, "y": row - 0.15, "text": text} for row, text in enumerate(labels)],
        yaxis={"visible": False, "range": [len(costs) - 0.45, -0.6]},
        xaxis={"rangemode": "tozero"},
        barmode="stack",
    )
    return PlotlyFigure(data, shape, keys)


def site_label(site: WaitSite) -> str:
    """Return the cause and the place of waits, short enough for a phone."""
    places = [str(at) for at in (site.place, site.library and short_place(site.library)) if at and str(at)]
    where = " > ".join(places) or site.op or site.call
    return f"{WAITS[site.cause].plain}: {end_of(where, MAX_PLACE_CHARS)}"


def idle_figure(profile: Profile, *, with_busy: bool = False) -> PlotlyFigure | None:
    """Return a figure of the idle time by cause, a bar for each GPU, or None; `with_busy` adds the busy time.

    If causes are withheld, idle time is one part.
    """
    gpus = [(gpu, time) for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    parts = [(BUSY_KEY, [time.busy_ns for _, time in gpus])] if with_busy else []
    if profile.withheld.causes:
        parts.append((legend_key(IDLE_KIND), [time.idle_ns for _, time in gpus]))
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
    return PlotlyFigure(data, stacked_layout(len(gpus)), tuple(key for key, _ in parts))


def icicle(graph: FlameGraph) -> PlotlyFigure:
    """Return a flame graph as an icicle of plotly, by its first measure."""
    boxes = graph.boxes
    series = {
        "type": "icicle",
        "ids": [f"{number}" for number in range(len(boxes))],
        "parents": ["" if box.parent < 0 else f"{box.parent}" for box in boxes],
        "labels": [_label(box) for box in boxes],
        "values": [box.total[0] for box in boxes],
        "branchvalues": "total",
        "marker": {"colors": [box.frame.kind.colour for box in boxes], "line": {"width": 1, "color": "#fff"}},
        "hovertext": [_hover(graph, box) for box in boxes],
        "hoverinfo": "text",
        "textfont": {"color": hues.TEXT, "size": 11},
        "leaf": {"opacity": 1},
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": True, "thickness": 22},
        "sort": False,
    }
    levels: list[int] = []
    for box in boxes:
        levels.append(levels[box.parent] + 1 if box.parent >= 0 else 1)
    margin = {"l": 4, "r": 4, "t": 28, "b": 4}
    height = min(LEVEL_PIXELS * max(levels) + 60, MAX_ICICLE_PIXELS)
    shape = layout(height, "", "", margin=margin, uniformtext={"minsize": SMALLEST_NAME_PIXELS, "mode": "hide"})
    return PlotlyFigure([series], shape)


def _label(box: Box) -> str:
    line = box.frame.place.rpartition(":")[2]
    return cut(f"{box.frame.name}:{line}" if line.isdigit() else box.frame.name, MAX_BOX_LABEL_CHARS)


def _hover(graph: FlameGraph, box: Box) -> str:
    """Return the hover text of a box: frame, share of the first measure, time if it is known, and value."""
    measure, value = graph.measures[0], box.total[0]
    where = f"{box.frame.name} ({box.frame.place})" if box.frame.place else box.frame.name
    time = f", {duration(value * measure.ns)} {measure.per}" if measure.ns else ""
    count = f", {value:,.0f} {measure.unit}" if measure.unit else ""
    return f"{where}: {percent(value / graph.boxes[0].total[0])} of {measure.of}{time}{count}"
