"""A chart: series and layout as plotly has them, which the page draws as SVG, with its legend and a caption."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pinprof.hues import HATCHES
from pinprof.report.html import Markup, inline_html
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.units import ms

SYMBOLS = {
    "circle": "\u25cf",
    "circle-open": "\u25cb",
    "diamond": "\u25c6",
    "diamond-open": "\u25c7",
    "square": "\u25a0",
    "square-open": "\u25a1",
    "x": "\u2716",
    "x-open": "\u2715",
}
"""Marks of plotly, and what looks like them in text."""
STANDOFF = 8
"""Pixels between the labels of an axis and its title; without them, plotly may draw one over the other."""
AROUND_ROWS = 70
"""Pixels of the axis and the margins of a chart of rows."""


class Key(NamedTuple):
    """An entry of a legend: a colour, and a mark or a pattern for those who do not see colours.

    The colour may be a gradient of CSS: a scale.
    """

    label: str
    colour: str
    symbol: str = ""
    pattern: str = ""


def legend_key(kind: int) -> Key:
    """Return the entry of the legend for a kind of the timeline."""
    label, _, colour, pattern, *_ = EVENT_KINDS[kind]
    return Key(label, colour, pattern=pattern)


@dataclass(frozen=True)
class Chart:
    """Series and layout as plotly has them; only texts that are `Markup` are HTML."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    keys: tuple[Key, ...] = ()
    caption: str = ""
    """What the chart shows, in words, on a page."""


def end_of(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: the end, which matters most of a path."""
    return text if len(text) <= longest else f"\u2026{text[1 - longest :]}"


def layout(height: int, x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the layout that all charts share, with the titles of the axes; the page's style sets its colours."""
    axis = {"automargin": True, "fixedrange": True, "zeroline": False}
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 14, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "xaxis": {**axis, "title": {"text": x, "standoff": STANDOFF}},
        "yaxis": {**axis, "title": {"text": y, "standoff": STANDOFF}},
    }
    for name, value in more.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base else value
    return base


def labelled_rows(
    texts: Sequence[str], x: str, *, row: int, above: float, edges: tuple[float, float], **more: Any
) -> dict[str, Any]:
    """Return the layout of horizontal bars with a label over each row: phones have no room for labels at the left.

    `row` is the height of a row in pixels, `above` the distance of its label from its middle, and `edges` the free
    space above the first row and below the last; both are in rows.
    """
    label = {"x": 0, "xanchor": "left", "xref": "paper", "showarrow": False, "yanchor": "bottom"}
    labels = [{**label, "y": row - above, "text": text} for row, text in enumerate(texts)]
    yaxis = {"visible": False, "range": [len(texts) - 1 + edges[1], -edges[0]]}
    height = row * len(texts) + AROUND_ROWS
    return layout(height, x, "", annotations=labels, yaxis=yaxis, xaxis={"rangemode": "tozero"}, **more)


def bars(name: str, key: Key, *, hover: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Return a series of bars in the colour and the pattern of its entry in the legend, with hover texts."""
    pattern = {"shape": key.pattern, "bgcolor": key.colour, "fgcolor": "#fff", "size": 7, "solidity": 0.15}
    marker = {"color": key.colour, "line": {"width": 0}, **({"pattern": pattern} if key.pattern else {})}
    return {"type": "bar", "name": name, "marker": marker, **_hovering(hover), **more}


def stacked(key: Key, times_ns: Sequence[float], rows: Sequence[str], hover: Sequence[str]) -> dict[str, Any]:
    """Return a series of times, given in ns, that are stacked on those of the other series of their rows."""
    return bars(key.label, key, x=[ms(time) for time in times_ns], y=list(rows), orientation="h", hover=hover)


def stacked_layout(rows: int) -> dict[str, Any]:
    """Return the layout of rows of stacked times of a trace."""
    return layout(70 + 44 * rows, "ms in the trace", "", barmode="stack", yaxis={"autorange": "reversed"})


def points(
    name: str, key: Key, x: Sequence[Any], y: Sequence[Any], hover: Sequence[str] = (), *, size: int = 8, **more: Any
) -> dict[str, Any]:
    """Return a series of marks, or of a line with another `mode`, with the looks of its entry in the legend.

    `more` replaces parts of the series, or adds to its marker.
    """
    marker = {"color": key.colour, "symbol": key.symbol, "size": size, **more.pop("marker", {})}
    base = {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker, "cliponaxis": False}
    return {**base, **_hovering(hover), **more}


def _hovering(texts: Sequence[str]) -> dict[str, Any]:
    return {"hovertext": texts, "hoverinfo": "text"} if texts else {}


def line_across(y: float, label: str, *, below: bool = False, left: bool = False) -> dict[str, Any]:
    """Return a dashed line at a height with its label above or below it, at its right or left, as parts of a layout."""
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "type": "line"}
    text = {"xref": "paper", "x": 0.01 if left else 1, "xanchor": "left" if left else "right", "y": y, "text": label}
    text["yanchor"] = "top" if below else "bottom"
    return {
        "shapes": [{**across, "line": {"dash": "dash", "width": 1.5}}],
        "annotations": [{**text, "showarrow": False}],
    }


def legend(keys: Iterable[Key]) -> Markup:
    """Return a legend; empty without entries."""
    entries = Markup().join(Markup("<li>{}{}</li>").format(_swatch(key), inline_html(key.label)) for key in keys)
    return Markup('<ul class="keys">{}</ul>').format(entries) if entries else entries


def escaped(value: Any) -> Any:
    """Return data for plotly, which reads texts as HTML."""
    if isinstance(value, dict):
        return {key: escaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(part) for part in value]
    return Markup.escape(value) if isinstance(value, str) else value


def in_script(content: dict[str, Any]) -> Markup:
    """Return JSON that cannot end the script around it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  in a script, entities are no entities


def _swatch(key: Key) -> Markup:
    if key.symbol:
        mark = Markup('<span class="symbol" style="color:{}" aria-hidden="true">{}</span>')
        return mark.format(key.colour, SYMBOLS[key.symbol])
    stripes = (
        f"repeating-linear-gradient({HATCHES[key.pattern]}deg,{key.colour} 0 3px,#fffb 3px 4px)"
        if key.pattern
        else key.colour
    )
    kind = "swatch scale" if key.colour.startswith("linear-gradient") else "swatch"
    return Markup('<span class="{}" style="background:{}"></span>').format(kind, stripes)
