"""The page's looks for figures that people get as objects: its font, lines and colours, on white."""

import json

import plotly.graph_objects as go

from pinprof.hues import BLUE, GREEN, ORANGE, PALE, PURPLE, SKY, SLATE, VERMILLION
from pinprof.report.charts.chart import STANDOFF, Chart, escaped

TEXT, MUTED, LINE, CARD = "#1b2026", "#5b6570", "#dfe3e8", "#ffffff"
"""As in page.css."""
_AXIS = {
    "automargin": True,
    "gridcolor": LINE,
    "linecolor": LINE,
    "zeroline": False,
    "ticks": "",
    "ticklabelstandoff": 4,
    "title": {"standoff": STANDOFF},
}
LOOKS = {
    "layout": {
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": TEXT},
        "title": {"x": 0, "xref": "paper", "xanchor": "left", "subtitle": {"font": {"color": MUTED, "size": 12}}},
        "paper_bgcolor": CARD,
        "plot_bgcolor": CARD,
        "colorway": [BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, SLATE, PALE],
        "hoverlabel": {"bgcolor": CARD, "bordercolor": MUTED, "font": {"color": TEXT}, "align": "left"},
        "legend": {"bgcolor": "rgba(0,0,0,0)"},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
}
"""A template of plotly."""

OF_PAGE = ("paper_bgcolor", "plot_bgcolor", "font")
"""Parts of a chart's layout that fit it into a page."""


def dressed(figure: go.Figure) -> go.Figure:
    """Return a figure with the page's looks, which another template replaces."""
    figure.update_layout(template=LOOKS)
    return figure


def figure_of(chart: Chart) -> go.Figure:
    """Return a chart as a figure with the page's looks."""
    shape = {name: value for name, value in chart.layout.items() if name not in OF_PAGE}
    plain = json.loads(json.dumps(escaped({"data": chart.data, "layout": shape})))
    return dressed(go.Figure(plain))
