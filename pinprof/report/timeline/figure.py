"""The timeline as a plotly figure: a series for each kind of event, a row for each lane, buttons for the steps.

The page of a report draws the same lanes in the same colours on a canvas, with all events and their details. This
figure can be restyled, put into a notebook or a document, and steered like any other of plotly.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from pinprof.analysis import Analysis
from pinprof.ground import hues
from pinprof.ground.errors import PinprofError
from pinprof.ground.units import duration, ms, size
from pinprof.report.html import Markup, bold, note
from pinprof.report.page import page
from pinprof.report.timeline import kinds
from pinprof.report.timeline.drawn_lanes import MAX_FIGURE_BARS, figure_in_words, lanes_that_fit
from pinprof.report.timeline.kinds import EVENT_KINDS, EXPOSED_COPY_KIND, OVERLAPPED_COPY_KIND
from pinprof.report.timeline.lane import (
    GPU_STEP_SOURCE,
    STALL_SOURCE,
    STEP_SOURCE,
    WORK_SOURCE,
    Columns,
    Drawing,
    Lane,
    Names,
)
from pinprof.report.timeline.lane_context import LaneContext
from pinprof.report.timeline.steps import Window, step_names, step_range, usable_steps, window_of_steps, window_of_times
from pinprof.report.trace.page import timeline_title
from pinprof.report.words import cut
from pinprof.trace.links import follow
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import NONE, WHOLE_TRACE, Trace

BAR_HEIGHT = 0.84
ROW_PIXELS, LINE_PIXELS, BUTTONS_PIXELS, AXIS_HEIGHT_PIXELS = 22, 17, 40, 50
"""Pixels of a row, of a line of text or of the legend, of the buttons with their margin, and of the axis below."""
TITLE_HEIGHT_PIXELS = 42
MIN_FIGURE_PIXELS = 900
"""Pixels; on a narrower screen the figure scrolls by itself."""
LEGEND_LETTER_PIXELS, SWATCH_PIXELS = 6.6, 44
"""Pixels of the legend: of a letter, and of the swatch of an entry."""
TITLE_LINE_CHARS = 140
MAX_STEP_BUTTONS = 12
MARGIN_SHARE_OF_RANGE = 0.01
"""The margin at both sides, as a share of the time that is shown."""
KINDS_WITH_NAMES = (kinds.STEP_KIND, *range(kinds.FIRST_STALL_KIND, kinds.KERNEL_KIND))
"""Kinds whose bars have their name in them, if it fits."""
LEGEND_KIND = {
    kinds.COMPUTE_ONLY_KIND: kinds.KERNEL_KIND,
    kinds.COLLECTIVE_ONLY_KIND: kinds.COLLECTIVE_KIND,
    kinds.MEMSET_ONLY_KIND: kinds.MEMSET_KIND,
}
"""Kinds of the overlap band that share the legend's entry of another kind."""
PLOTLY_CONFIG = {
    "scrollZoom": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
_AXIS = {
    "automargin": True,
    "gridcolor": hues.LINE,
    "linecolor": hues.LINE,
    "zeroline": False,
    "ticks": "",
    "ticklabelstandoff": 4,
    "title": {"standoff": 8},
}
PLOTLY_TEMPLATE = {
    "layout": {
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": hues.TEXT},
        "title": {"x": 0, "xref": "paper", "xanchor": "left", "subtitle": {"font": {"color": hues.MUTED, "size": 12}}},
        "paper_bgcolor": hues.CARD,
        "plot_bgcolor": hues.CARD,
        "hoverlabel": {"bgcolor": hues.CARD, "bordercolor": hues.MUTED, "font": {"color": hues.TEXT}, "align": "left"},
        "legend": {"bgcolor": "rgba(0,0,0,0)"},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
}
"""The page's font, lines and colours, on white; users may set another template."""
HOW_TO_ZOOM = (
    "The wheel zooms, dragging moves, Shift-drag zooms in, a double click shows all; the legend hides bars. "
    "Bars thinner than a pixel are drawn as one: zoom in."
)


class Bars(NamedTuple):
    """Bars of one kind; times in ms."""

    kind: int
    """Index into EVENT_KINDS."""
    row: list[int]
    start_ms: list[float]
    length_ms: list[float]
    hover: list[str]
    """The hover text of each bar; only `Markup` is HTML."""
    text: list[str]
    """The label in each bar; empty if bars have none."""


class PlotlyFigure(NamedTuple):
    """Series and layout of a figure of plotly; only texts that are `Markup` are HTML."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline as a plotly figure on a self-contained page; see `timeline_chart`.

    Raises PinprofError if the trace has nothing to draw.
    """
    figure, name = timeline_figure(analysis, None, None), timeline_title(analysis)[0]
    if not figure.data:
        raise PinprofError(f"{analysis.profile.path}: has no events on host threads or GPU streams to draw")
    drawn = Markup(figure.to_html(config=PLOTLY_CONFIG, full_html=False, div_id="figure"))  # noqa: S704  its texts are escaped
    body = Markup('<main aria-label="Timeline of {}">\n{}\n<div style="min-width:{}px">{}</div></main>')
    return page(f"pinprof: {name}", body.format(name, note(HOW_TO_ZOOM), MIN_FIGURE_PIXELS, drawn))


def timeline_figure(
    analysis: Analysis, steps: int | tuple[int, int] | None, range_ms: tuple[float, float] | None
) -> go.Figure:
    """Return the timeline of all complete steps, of some, or of a range in ms since the start of the first step.

    Raises PinprofError if the trace has no such step or the range is empty.
    """
    if steps is not None and range_ms is not None:
        raise PinprofError("steps and range_ms exclude each other; give one of them")
    trace, window, part = analysis.trace, None, ""
    numbers = numbers_of_steps(trace).tolist()
    if steps is not None:
        first, last = (steps, steps) if isinstance(steps, int) else steps
        if not (first <= last and {first, last} <= set(numbers)):
            raise PinprofError(f"steps={steps!r}: the trace has steps {numbers[0]} to {numbers[-1]}")
        window = window_of_steps(trace, numbers.index(first), numbers.index(last))
    if range_ms is not None:
        if not range_ms[0] < range_ms[1]:
            raise PinprofError(f"range_ms={range_ms!r}: ends before it begins")
        window = window_of_times(trace, *range_ms)
        part = f"From {range_ms[0]:g} to {range_ms[1]:g} ms after the start of step {numbers[0]}."
    chart = timeline_chart(analysis, timeline_title(analysis), window, part)
    figure = go.Figure(json.loads(json.dumps(_escaped(chart._asdict()))))
    return figure.update_layout(template=PLOTLY_TEMPLATE)


def _escaped(value: Any) -> Any:
    """Return data for plotly, which reads texts as HTML."""
    if isinstance(value, dict):
        return {key: _escaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(part) for part in value]
    return Markup.escape(value) if isinstance(value, str) else value


def timeline_chart(
    analysis: Analysis,
    title: tuple[str, str],
    window: Window | None = None,
    part: str = "",
    max_bars: int = MAX_FIGURE_BARS,
) -> PlotlyFigure:
    """Return the timeline of a part of a trace, by default of its complete steps, or the first of them if not all fit.

    `title` is the name of the trace and the sentence below it; `part` describes a part that was given by times. The
    axis counts ms from the start of the part, which is `layout["meta"]["start_ns"]` on the clock of the trace.
    """
    trace = analysis.trace
    drawing = lanes_that_fit(analysis, window, max_bars)
    drawn = figure_in_words(analysis, drawing, part)
    texts, row_of_lane = _row_texts(drawing.lanes)
    data = list(_series(_bars(analysis, drawing, row_of_lane)))
    axis = _row_axis(texts, max(row_of_lane, default=0) + 1)
    shape = _layout(trace, drawing, axis, data, (title[0], title[1], drawn))
    return PlotlyFigure(data, shape)


def _series(all_bars: Iterable[Bars]) -> Iterator[dict[str, Any]]:
    """Yield a series of plotly for each kind of bars; kinds that look alike share an entry of the legend."""
    entries: set[str] = set()
    for of_kind in all_bars:
        kind, entry = EVENT_KINDS[of_kind.kind], EVENT_KINDS[LEGEND_KIND.get(of_kind.kind, of_kind.kind)].label
        is_alike = of_kind.kind in LEGEND_KIND  # plotly makes opaque bars a pixel wide: many would hide the idle time
        colour = hues.see_through(kind.colour, 0.99) if is_alike else kind.colour
        pattern = {"shape": kind.pattern, "bgcolor": colour, "fgcolor": "#fff", "size": 7, "solidity": 0.15}
        yield {
            "type": "bar",
            "name": kind.label,
            "marker": {"color": colour, "line": {"width": 0}, **({"pattern": pattern} if kind.pattern else {})},
            "hovertext": of_kind.hover,
            "hoverinfo": "text",
            "x": of_kind.length_ms,
            "base": of_kind.start_ms,
            "y": of_kind.row,
            "orientation": "h",
            "width": BAR_HEIGHT,
            "legendgroup": entry,
            "showlegend": entry not in entries,
            "textposition": "inside" if of_kind.text else "none",
            **({"text": of_kind.text, "insidetextanchor": "middle", "textangle": 0} if of_kind.text else {}),
        }
        entries.add(entry)


def _row_axis(texts: dict[int, str], count: int) -> dict[str, Any]:
    return {
        "range": [count - 0.4, -0.6],  # the first on top
        "tickmode": "array",
        "tickvals": list(texts),
        "ticktext": list(texts.values()),
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "title": None,
    }


def _row_texts(lanes: tuple[Lane, ...]) -> tuple[dict[int, str], list[int]]:
    """Return the texts at the left of the rows, and the row of each lane; groups have a row for their name."""
    row_of_lane: list[int] = []
    texts: dict[int, str] = {}
    row = 0
    for group, members in groupby(lanes, key=lambda lane: lane.group):
        texts[row] = bold(cut(group))
        for lane in members:
            row += 1
            row_of_lane.append(row)
            if lane.label:
                texts[row] = Markup.escape(cut(lane.label))
        row += 1
    return texts, row_of_lane


def _bars(analysis: Analysis, drawing: Drawing, row_of_lane: list[int]) -> Iterable[Bars]:
    """Yield the bars of each kind; in the legend the kinds come in their own order."""
    context = LaneContext(analysis)
    words = [list(_hover_texts(context, lane, drawing.window.start_ns)) for lane in drawing.lanes]
    used = sorted({int(kind) for lane in drawing.lanes for kind in np.unique(lane.kind)})
    zero = drawing.window.start_ns
    for kind in used:
        of_kind = Bars(kind, [], [], [], [], [])
        for lane, row, texts in zip(drawing.lanes, row_of_lane, words, strict=True):
            chosen = np.flatnonzero(lane.kind == kind).tolist()
            of_kind.row.extend([row] * len(chosen))
            of_kind.start_ms.extend(ms(int(lane.start_ns[index]) - zero) for index in chosen)
            of_kind.length_ms.extend(ms(int(lane.end_ns[index] - lane.start_ns[index])) for index in chosen)
            of_kind.hover.extend(texts[index] for index in chosen)
            if kind == kinds.STEP_KIND:
                of_kind.text.extend(context.steps[lane.row[index]] for index in chosen)
            elif kind in KINDS_WITH_NAMES:
                of_kind.text.extend([EVENT_KINDS[kind].label] * len(chosen))
        yield of_kind


def _hover_texts(context: LaneContext, lane: Lane, zero_ns: int) -> Iterator[Markup]:
    """Yield the hover text of each rectangle: name, length, start, stream, and surroundings."""
    gpu, times = context.trace.gpu, (lane.start_ns, lane.end_ns, lane.busy_ns, lane.count, lane.kind, lane.row)
    columns = lane.source.columns(context, lane)
    of_event = columns.get("around")
    around = of_event if isinstance(of_event, np.ndarray) else np.zeros(len(lane), np.int64)
    if lane.source is WORK_SOURCE:  # without a place of its own it has that of its launch
        of_launch = follow(context.around.call.astype(np.int32), context.trace.links.launch[lane.row])
        around = np.where(around > 0, around, np.maximum(of_launch, 0))
    rows = zip(_names(context, lane, columns), around.tolist(), *(column.tolist() for column in times), strict=True)
    for name, around, start, end, busy, count, kind, row in rows:
        heading, lasts = name, duration(end - start)
        if count > 1:
            heading = f"{count:,} events, most time in: {EVENT_KINDS[kind].label}"
            lasts = f"{duration(busy)} in {lasts}, the longest: {name}"
        lines = [heading, f"{lasts}, from {duration(start - zero_ns)} on"]
        if lane.source is WORK_SOURCE:
            moved = f"{size(int(gpu.bytes[row]))}, " if gpu.bytes[row] != NONE else ""
            lines.append(f"{moved}stream {gpu.stream[row]} of {lane.group}")
        yield Markup("<br>").join((bold(lines[0]), *lines[1:], *context.around.lines[around]))


def _names(context: LaneContext, lane: Lane, columns: Columns) -> list[str]:
    """Return the name of each rectangle; names of waits and of parts of copies begin with their kind."""
    if lane.source in {STEP_SOURCE, GPU_STEP_SOURCE}:
        return [context.steps[row] for row in lane.row.tolist()]
    named = columns.get("name")
    labels = [EVENT_KINDS[kind].label for kind in lane.kind.tolist()]
    if not isinstance(named, Names):
        return labels
    names = [cut(named.names[code]) for code in named.codes.tolist()]
    prefixed = (lane.source is STALL_SOURCE) | np.isin(lane.kind, (EXPOSED_COPY_KIND, OVERLAPPED_COPY_KIND))
    return [
        f"{label}: {name}" if has_kind else name for label, name, has_kind in zip(labels, names, prefixed, strict=True)
    ]


def _layout(
    trace: Trace, drawing: Drawing, axis: dict[str, Any], data: list[dict[str, Any]], title: tuple[str, str, str]
) -> dict[str, Any]:
    """Return the layout; from top to bottom: title, buttons, legend, rows, axis. All but the width is in pixels."""
    name, verdict, drawn = title
    below = [Markup.escape(line) for text in (verdict, drawn) for line in wrap(text, TITLE_LINE_CHARS)]
    legend = LINE_PIXELS * _legend_lines([entry["name"] for entry in data if entry["showlegend"]]) + 12
    plot = round(ROW_PIXELS * (axis["range"][0] - axis["range"][1]))
    steer = _step_menu(trace, drawing, plot, legend)
    top = TITLE_HEIGHT_PIXELS + LINE_PIXELS * len(below) + (BUTTONS_PIXELS if steer else 8) + legend
    shape: dict[str, Any] = {
        "height": top + plot + AXIS_HEIGHT_PIXELS,
        "margin": {"l": 8, "r": 12, "t": top, "b": AXIS_HEIGHT_PIXELS},
        "barmode": "overlay",
        "dragmode": "pan",
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "uniformtext": {"mode": "hide", "minsize": 10},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + legend / plot,
            "yanchor": "top",
            "groupclick": "togglegroup",
            "tracegroupgap": 0,
        },
        "xaxis": {
            "title": {"text": _since(trace, drawing.window)},
            "range": _axis_range(0, drawing.window.span_ns),
            "automargin": True,
            "exponentformat": "none",
        },
        "yaxis": axis,
        "title": {
            "text": Markup.escape(name),
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "pad": {"l": 8},
            "y": 1 - 18 / (top + plot + AXIS_HEIGHT_PIXELS),
            "yref": "container",
            "yanchor": "top",
            "subtitle": {"text": Markup("<br>").join(below)},
        },
        "meta": {"start_ns": str(drawing.window.start_ns), "drawn": drawn},
    }
    return shape | steer


def _legend_lines(names: Sequence[str]) -> int:
    return (
        ceil(sum(LEGEND_LETTER_PIXELS * len(name) + SWATCH_PIXELS for name in names) / (MIN_FIGURE_PIXELS - 250))
        if names
        else 0
    )


def _since(trace: Trace, window: Window) -> str:
    steps = trace.steps
    if steps.source == WHOLE_TRACE or window.start_ns != steps.start_ns[window.first]:
        return "ms from the beginning of the drawn part"
    return f"ms from the beginning of {step_names(trace)[window.first]}"


def _axis_range(start_ns: int, end_ns: int) -> list[float]:
    margin = MARGIN_SHARE_OF_RANGE * (end_ns - start_ns)
    return [ms(start_ns - margin), ms(end_ns + margin)]


def _step_menu(trace: Trace, drawing: Drawing, plot: int, legend: int) -> dict[str, Any]:
    window = drawing.window
    usable = usable_steps(trace)
    drawn = usable[(usable >= window.first) & (usable <= window.last)].tolist()
    if trace.steps.source == WHOLE_TRACE or len(drawn) < 2:  # noqa: PLR2004  one is all
        return {}
    numbers, zero = numbers_of_steps(trace), window.start_ns
    views = [("all steps", 0, window.span_ns)]
    for step in drawn:
        start, end = step_range(trace, step, step)
        views.append((f"step {numbers[step]}", start - zero, end - zero))
    choices = [
        {"label": label, "method": "relayout", "args": [{"xaxis.range": _axis_range(start, end)}]}
        for label, start, end in views
    ]
    menu = {
        "type": "buttons" if len(drawn) <= MAX_STEP_BUTTONS else "dropdown",
        "direction": "right",
        "buttons": choices,
        "active": 0,
        "showactive": True,
        "x": 0,
        "xanchor": "left",
        "y": 1 + (legend + 4) / plot,
        "yanchor": "bottom",
        "pad": {"t": 0, "b": 0},
        "bgcolor": "rgba(127,127,127,0.12)",
        "bordercolor": "rgba(127,127,127,0.5)",
        "font": {"size": 12},
    }
    return {"updatemenus": [menu]}
