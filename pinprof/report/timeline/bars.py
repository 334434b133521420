"""The timeline as a plotly figure of plain bars, for people who want to look at it in a notebook and restyle it.

The page draws the same lanes, colours and texts in another way, which a script of its own completes; here all is in the
figure: one trace of bars per kind, so that `fig.update_traces(marker_color="teal", selector={"name": "kernel"})` works.
"""

from itertools import groupby
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pinprof.analysis import Analysis
from pinprof.report.elements import Markup, bold
from pinprof.report.timeline.hover import in_words
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.timeline.lane import Lane
from pinprof.report.timeline.thin import MAX_RECTANGLES, Drawing, arrange
from pinprof.report.timeline.thin import in_words as drawn_in_words
from pinprof.report.timeline.window import Window, choose_window, step_range
from pinprof.report.words import cut
from pinprof.trace.tables import Trace
from pinprof.units import NS_PER_MS

ROW_PIXELS, HEADROOM = 24, 190
BAR_HEIGHT = 0.84


def timeline_figure(
    trace: Trace, analysis: Analysis, window: Window | None = None, drawn: str = "", max_bars: int = MAX_RECTANGLES
) -> go.Figure:
    """Return the timeline of a part of a trace; x is ms since the start of that part, by default of some steps.

    `drawn` says which part it is where that is no steps. Hover texts say what each bar is. Events that are too narrow
    to be seen are merged, and the title says which. `fig.layout.meta["start_ns"]` is the time at x = 0 on the clock of
    the trace.
    """
    drawing = arrange(trace, analysis, window, max_bars)
    places, texts = _places(drawing.lanes)
    words = in_words(trace, analysis, drawing.lanes)
    used = sorted({int(kind) for lane in drawing.lanes for kind in np.unique(lane.kind)})
    bars = [_bars(kind, drawing, places, words) for kind in used]
    words_on_all = drawn_in_words(drawing)
    if drawn:
        words_on_all = " ".join(filter(None, (f"{drawn}.", words_on_all.partition(". ")[2])))
    return go.Figure(bars, _layout(drawing, texts, words_on_all))


def window_of_steps(trace: Trace, first: int, last: int) -> Window:
    """Return the part of a trace from one step to another, as indices, with the GPU work that they launched."""
    return Window(*step_range(trace, first, last), first, last, len(trace.steps))


def window_of_times(trace: Trace, start_ms: float, end_ms: float) -> Window:
    """Return the part of a trace between two times, in ms since the start of its first step."""
    zero = int(trace.steps.start_ns[0]) if len(trace.steps) else choose_window(trace).start_ns
    start, end = zero + round(start_ms * NS_PER_MS), zero + round(end_ms * NS_PER_MS)
    steps = np.flatnonzero((trace.steps.start_ns < end) & (trace.steps.end_ns > start))
    first, last = (int(steps[0]), int(steps[-1])) if len(steps) else (0, 0)
    return Window(start, end, first, last, max(len(trace.steps), 1))


def _places(lanes: tuple[Lane, ...]) -> tuple[list[int], dict[int, Markup]]:
    """Return the row of each lane, and the texts beside the rows; groups have a row for their name."""
    places: list[int] = []
    texts: dict[int, Markup] = {}
    row = 0
    for group, members in groupby(lanes, key=lambda lane: lane.group):
        texts[row] = bold(cut(group))
        for lane in members:
            row += 1
            places.append(row)
            if lane.label:
                texts[row] = Markup.escape(cut(lane.label))
        row += 1
    return places, texts


def _bars(kind: int, drawing: Drawing, places: list[int], words: list[list[Markup]]) -> go.Bar:
    """Return all bars of one kind."""
    x: list[float] = []
    base: list[float] = []
    y: list[int] = []
    hover: list[Markup] = []
    for lane, row, texts in zip(drawing.lanes, places, words, strict=True):
        chosen = np.flatnonzero(lane.kind == kind)
        base += ((lane.start_ns[chosen] - drawing.window.start_ns) / NS_PER_MS).tolist()
        x += ((lane.end_ns[chosen] - lane.start_ns[chosen]) / NS_PER_MS).tolist()
        y += [row] * len(chosen)
        hover += [texts[index] for index in chosen]
    return go.Bar(
        x=x,
        base=base,
        y=y,
        width=BAR_HEIGHT,
        orientation="h",
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
        marker={"color": KINDS[kind].colour, "line": {"width": 0}},
        name=KINDS[kind].label,
        legendgroup=KINDS[kind].group,
        legendgrouptitle={"text": KINDS[kind].group},
    )


def _layout(drawing: Drawing, texts: dict[int, Markup], drawn: str) -> dict[str, Any]:
    count = max(texts, default=0) + 2
    span = drawing.window.span_ns / NS_PER_MS
    return {
        "title": {"text": "Timeline", "subtitle": {"text": Markup(".<br>").join(drawn.split(". "))}},
        "margin": {"t": 120},
        "height": count * ROW_PIXELS + HEADROOM,
        "barmode": "overlay",
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "dragmode": "zoom",
        "legend": {"groupclick": "toggleitem"},
        "xaxis": {"range": [-0.005 * span, 1.005 * span], "ticksuffix": " ms", "zeroline": False},
        "yaxis": {
            "range": [count - 0.4, -0.6],
            "tickvals": list(texts),
            "ticktext": list(texts.values()),
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "meta": {"start_ns": str(drawing.window.start_ns), "drawn": drawn},
    }
