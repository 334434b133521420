"""Draws the lanes as a plotly figure.

Each lane has a heatmap of one row for each kind in it; its columns are the rectangles and the gaps between them. Plotly
paints a heatmap as one image: in Chromium on two cores 20,000 rectangles took 0.15 s, zooming 0.05 s. Horizontal bars
took 0.85 and 0.6 s, filled polygons 0.5 and 0.3 s, WebGL lines 2.1 and 1.0 s. But Plotly leaves out a cell that is much
narrower than a pixel. The page's own script draws the same way (`figure.js`), and widens those.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from pinprof.measure import Profile
from pinprof.report.timeline.hover import Words, in_words
from pinprof.report.timeline.kinds import KINDS, MANY_NAMES, SPARSE, TONES, ink, shades
from pinprof.report.timeline.lanes import Lane
from pinprof.report.timeline.names import literal
from pinprof.report.timeline.thin import Drawing
from pinprof.report.timeline.window import Window
from pinprof.trace.tables import Int64s, Trace
from pinprof.units import NS_PER_MS

ROW_PIXELS = 22
MARGIN = {"l": 86, "r": 12, "t": 8, "b": 36}
HALF_HEIGHT = 0.42
"""Of a rectangle in its row of height 1."""
NEUTRAL = "#808891"
"""Texts and lines that can be read on light and on dark; the page replaces it."""

Floats = npt.NDArray[np.float64]


class Row(NamedTuple):
    """A lane with its texts and its place, counted from the top; headings of groups take a place too."""

    lane: Lane
    words: Words
    place: int


def figure(trace: Trace, profile: Profile, drawing: Drawing) -> go.Figure:
    """Return the timeline as a plotly figure; x is ms since the start of the first step drawn."""
    rows, headings = _placed(drawing.lanes, in_words(trace, profile, drawing.lanes))
    texts = dict.fromkeys(text for row in rows for text in row.words.label)
    codes = {text: code for code, text in enumerate(texts)}
    used = sorted({int(kind) for row in rows for kind in np.unique(row.lane.kind)})
    traces: list[go.Heatmap | go.Scatter] = [_legend_entry(kind) for kind in used]
    for kind in used:
        traces.extend(_cells(row, kind, drawing.window, codes) for row in rows if (row.lane.kind == kind).any())
    layout = _layout(rows, headings, drawing)
    layout["meta"] = {"labels": list(codes)}
    return go.Figure(traces, layout)


def _placed(lanes: tuple[Lane, ...], words: list[Words]) -> tuple[list[Row], list[tuple[int, str]]]:
    """Return the lanes below each other, and the headings of the groups with their places."""
    rows, headings, place = [], [], 0
    for group, members in groupby(zip(lanes, words, strict=True), key=lambda pair: pair[0].group):
        headings.append((place, group))
        for lane, texts in members:
            place += 1
            rows.append(Row(lane, texts, place))
        place += 1
    return rows, headings


def _ms(window: Window, times: Int64s) -> Floats:
    return (times - window.start_ns) / NS_PER_MS


def _legend_group(kind: int) -> str:
    return f"{KINDS[kind].group}: {KINDS[kind].label}"


def _legend_entry(kind: int) -> go.Scatter:
    """Return a trace without points that stands for a kind in the legend."""
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": "square", "size": 11, "color": KINDS[kind].colour},
        name=KINDS[kind].label,
        legendgroup=_legend_group(kind),
        showlegend=True,
        hoverinfo="skip",
    )


def _cells(row: Row, kind: int, window: Window, codes: dict[str, int]) -> go.Heatmap:
    """Return the rectangles of one kind in a lane; `codes` numbers the labels."""
    lane = row.lane
    chosen = np.flatnonzero(lane.kind == kind)
    edges = np.maximum.accumulate(np.stack((lane.start_ns[chosen], lane.end_ns[chosen]), axis=1).ravel())
    label = np.array([codes[row.words.label[index]] for index in chosen])
    return go.Heatmap(
        x=_ms(window, edges),
        y=[row.place - HALF_HEIGHT, row.place + HALF_HEIGHT],
        z=_with_gaps(_shades(lane, chosen, kind, label), np.nan, np.float32)[np.newaxis],
        zmin=0,
        zmax=TONES,
        colorscale=_steps(shades(KINDS[kind].colour)),
        showscale=False,
        hoverongaps=False,
        hoverinfo="text",
        hovertext=[_with_gaps([row.words.hover[index] for index in chosen], "", object).tolist()],
        customdata=_with_gaps(label, -1, np.int32)[np.newaxis],
        legendgroup=_legend_group(kind),
        name=KINDS[kind].label,
        meta={"ink": ink(KINDS[kind].colour)},
    )


def _with_gaps(values: npt.ArrayLike, gap: object, dtype: npt.DTypeLike) -> np.ndarray:
    """Return the values with a gap between each two."""
    values = np.asarray(values, dtype)
    result = np.full(2 * len(values) - 1, gap, dtype)
    result[::2] = values
    return result


def _shades(lane: Lane, chosen: Int64s, kind: int, label: Int64s) -> Floats:
    """Return the middle of the shade of each rectangle: by its label, or sparse for blocks that are mostly gaps."""
    length = (lane.end_ns - lane.start_ns)[chosen]
    sparse = (lane.count[chosen] > 1) & (2 * lane.busy_ns[chosen] < length)
    plain = label % SPARSE if kind in MANY_NAMES else np.zeros(len(chosen))
    return np.where(sparse, SPARSE, plain) + 0.5


def _steps(colours: tuple[str, ...]) -> list[tuple[float, str]]:
    """Return a colour scale that jumps from shade to shade."""
    count = len(colours)
    return [(place / count, colour) for index, colour in enumerate(colours) for place in (index, index + 1)]


def _layout(rows: list[Row], headings: list[tuple[int, str]], drawing: Drawing) -> dict[str, Any]:
    count = rows[-1].place + 1 if rows else 1
    span = drawing.window.span_ns / NS_PER_MS
    return {
        "template": "none",
        "height": count * ROW_PIXELS + MARGIN["t"] + MARGIN["b"],
        "margin": MARGIN,
        "hovermode": "closest",
        "dragmode": "zoom",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": NEUTRAL},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.08, "groupclick": "togglegroup"},
        "xaxis": {
            "range": [-0.005 * span, 1.005 * span],
            "ticksuffix": " ms",
            "gridcolor": NEUTRAL,
            "zeroline": False,
        },
        "yaxis": {
            "range": [count - 0.4, -0.6],
            "fixedrange": True,
            "tickvals": [row.place for row in rows if row.lane.label],
            "ticktext": [row.lane.label for row in rows if row.lane.label],
            "showgrid": False,
            "zeroline": False,
        },
        "annotations": list(_headings(headings)),
    }


def _headings(headings: list[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    for place, text in headings:
        yield {
            "text": f"<b>{literal(text)}</b>",
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": place,
            "yanchor": "middle",
            "showarrow": False,
        }
