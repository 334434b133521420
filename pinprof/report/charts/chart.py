"""A chart: a plotly figure as plain data, its legend, and a caption that says the same in words."""

import html
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pinprof.report.elements import Markup, escaped
from pinprof.report.words import printable

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
HATCHES = {"/": "135deg", "\\": "45deg", "-": "0deg", "|": "90deg"}
"""Patterns of plotly, and the direction across stripes that look like them."""


class Key(NamedTuple):
    """An entry of a legend: a colour, and a mark or a pattern that tells it apart without the colour.

    The colour may be a gradient of CSS: a scale.
    """

    label: str
    colour: str
    symbol: str = ""
    pattern: str = ""


class View(NamedTuple):
    """One way to look at a chart, behind a button: what `Plotly.update` changes of the series and of the layout."""

    label: str
    data: dict[str, Any]
    layout: dict[str, Any]
    series: tuple[int, ...] = ()
    """Of the series, those whose data change."""


class ChartChoice(NamedTuple):
    """Views of which one holds at a time, at first the first."""

    label: str
    views: tuple[View, ...]


@dataclass(frozen=True)
class Chart:
    """What plotly draws, and what it shows in words."""

    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    keys: tuple[Key, ...] = field(default=())
    choices: tuple[ChartChoice, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    """What hovering says of each category of the axis x, as `customdata`; HTML, as all texts of plotly."""
    min_width: int = 0
    """Pixels that it needs; on a narrower screen it scrolls by itself."""


def layout(height: int, x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the layout that all charts share, with the titles of the axes; the page's style brings its colours."""
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
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
    }
    for name, value in more.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base else value
    return base


def bars(name: str, key: Key, **more: Any) -> dict[str, Any]:
    """Return a series of bars in the colour and the pattern of its entry in the legend."""
    pattern = {"shape": key.pattern, "bgcolor": key.colour, "fgcolor": "#fff", "size": 7, "solidity": 0.15}
    marker = {"color": key.colour, "line": {"width": 0}, **({"pattern": pattern} if key.pattern else {})}
    return {"type": "bar", "name": name, "marker": marker, **more}


def line_across(y: float, label: str, *, below: bool = False) -> dict[str, Any]:
    """Return a dashed line at a height with its label above or below it, as parts of a layout."""
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "type": "line"}
    text = {"xref": "paper", "x": 1, "xanchor": "right", "y": y, "text": plain(label)}
    text["yanchor"] = "top" if below else "bottom"
    return {
        "shapes": [{**across, "line": {"dash": "dash", "width": 1.5}}],
        "annotations": [{**text, "showarrow": False}],
    }


def plain(text: str) -> str:
    """Return a text as plotly shows it unchanged: it reads texts as HTML."""
    return html.escape(printable(text), quote=False)


def shown(chart: Chart) -> Markup:
    """Return a chart as a piece of a page, to be drawn by `charts.js` when it comes into sight."""
    content: dict[str, Any] = {"data": chart.data, "layout": chart.layout}
    if chart.choices:
        content["choices"] = [[view[1:] for view in choice.views] for choice in chart.choices]
    if chart.columns:
        content["columns"] = chart.columns
    figure = json.dumps(content, allow_nan=False, separators=(",", ":"))
    caption = escaped(chart.caption)
    legend = "".join(f"<li>{_swatch(key)}{escaped(key.label)}</li>" for key in chart.keys)
    keys = f'<ul class="keys">{legend}</ul>' if legend else ""
    width = f";min-width:{chart.min_width}px" if chart.min_width else ""
    style = f"height:{chart.layout['height']}px{width}"
    canvas = f'<div class="canvas" role="img" aria-label="{caption}" style="{style}"></div>'
    if chart.min_width:
        canvas = f'<div class="scroll" role="region" aria-label="Chart" tabindex="0">{canvas}</div>'
    return Markup(
        f'<figure class="chart{" wide" * bool(chart.min_width)}"><figcaption>{caption}</figcaption>{keys}'
        f"{_buttons(chart.choices)}{canvas}"
        f'<script type="application/json">{_harmless(figure)}</script></figure>'
    )


def _buttons(choices: tuple[ChartChoice, ...]) -> str:
    return "".join(
        f'<div class="steer" role="group" aria-label="{escaped(choice.label)}">'
        f'<span class="note">{escaped(choice.label)}</span>'
        + "".join(
            f'<button type="button" data-view="{at},{number}" aria-pressed="{str(number == 0).lower()}">'
            f"{escaped(view.label)}</button>"
            for number, view in enumerate(choice.views)
        )
        + "</div>"
        for at, choice in enumerate(choices)
    )


def _harmless(figure: str) -> str:
    """Return JSON that cannot end the script around it."""
    return figure.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _swatch(key: Key) -> str:
    if key.symbol:
        return f'<span class="symbol" style="color:{key.colour}" aria-hidden="true">{SYMBOLS[key.symbol]}</span>'
    stripes = (
        f"repeating-linear-gradient({HATCHES[key.pattern]},{key.colour} 0 3px,#fffb 3px 4px)"
        if key.pattern
        else key.colour
    )
    kind = "swatch scale" if key.colour.startswith("linear-gradient") else "swatch"
    return f'<span class="{kind}" style="background:{stripes}"></span>'
