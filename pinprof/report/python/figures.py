"""Charts as plotly figures for users of the library, in the page's font, lines and colours, on white."""

import json

import plotly.graph_objects as go

from pinprof.analysis import Analysis
from pinprof.ground.errors import PinprofError
from pinprof.ground.hues import BLUE, CARD, GREEN, LINE, MUTED, ORANGE, PALE, PURPLE, SKY, SLATE, TEXT, VERMILLION
from pinprof.measurement.profile import Profile
from pinprof.report.charts.figures import (
    TITLE_STANDOFF_PIXELS,
    PlotlyFigure,
    copy_times_figure,
    escaped,
    icicle,
    idle_figure,
    waits_figure,
)
from pinprof.report.charts.flame import host_flame
from pinprof.report.charts.timeline import HOW_TO_ZOOM, MIN_FIGURE_PIXELS, PLOTLY_CONFIG, timeline_chart
from pinprof.report.html import Markup, note
from pinprof.report.page import page
from pinprof.report.timeline.steps import window_of_steps, window_of_times
from pinprof.report.trace.page import timeline_title
from pinprof.trace.spans.step_names import numbers_of_steps

_AXIS = {
    "automargin": True,
    "gridcolor": LINE,
    "linecolor": LINE,
    "zeroline": False,
    "ticks": "",
    "ticklabelstandoff": 4,
    "title": {"standoff": TITLE_STANDOFF_PIXELS},
}
PLOTLY_TEMPLATE = {
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
TITLE_AND_LEGEND_PIXELS = 120
"""What a figure is higher than its plot."""


def figures_of_sums(profile: Profile) -> dict[str, go.Figure]:
    """Return the figures `copies`, `busy`, `stalls` and `host`, without those that are withheld."""
    why, host = profile.withheld, host_flame(profile)
    charts = {
        "copies": ("Copy time in the trace", copy_times_figure(profile)),
        "busy": ("Busy and idle time of the GPUs", idle_figure(profile, with_busy=True)),
        "stalls": ("Stalls of the host", None if why.stalls or why.drain else waits_figure(profile)),
        "host": ("Where the host's time goes", icicle(host) if host else None),
    }
    return {name: _titled(chart, title) for name, (title, chart) in charts.items() if chart}


def _titled(chart: PlotlyFigure, title: str) -> go.Figure:
    figure, height = figure_of(chart), chart.layout["height"] + TITLE_AND_LEGEND_PIXELS
    figure.update_layout(
        title_text=title, height=height, margin_t=TITLE_AND_LEGEND_PIXELS // 2, legend_traceorder="normal"
    )
    return figure.update_layout(showlegend=bool(chart.keys))


def figure_of(chart: PlotlyFigure) -> go.Figure:
    """Return a chart as a figure in the page's style; users may set another template."""
    figure = go.Figure(json.loads(json.dumps(escaped({"data": chart.data, "layout": chart.layout}))))
    figure.update_layout(template=PLOTLY_TEMPLATE)
    return figure


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline as a plotly figure on a self-contained page; see `timeline_chart`.

    Raises PinprofError if the trace has nothing to draw.
    """
    title = timeline_title(analysis)
    figure = timeline_figure(analysis, title, None, None)
    if not figure.data:
        raise PinprofError(f"{analysis.profile.path}: has no events on host threads or GPU streams to draw")
    drawn = Markup(figure.to_html(config=PLOTLY_CONFIG, full_html=False, div_id="figure"))  # noqa: S704  its texts are escaped
    body = Markup('<main aria-label="Timeline of {}">\n{}\n<div style="min-width:{}px">{}</div></main>')
    return page(f"pinprof: {title[0]}", body.format(title[0], note(HOW_TO_ZOOM), MIN_FIGURE_PIXELS, drawn))


def timeline_figure(
    analysis: Analysis,
    title: tuple[str, str],
    steps: int | tuple[int, int] | None,
    range_ms: tuple[float, float] | None,
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
    return figure_of(timeline_chart(analysis, title, window, part))
