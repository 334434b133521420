"""The timeline as a piece of a page: what is drawn in words, buttons for the steps, and the packed figure."""

import base64
import html
import json
import zlib

import plotly.graph_objects as go

from pinprof.measure import Profile
from pinprof.report.timeline.draw import figure
from pinprof.report.timeline.thin import MAX_RECTANGLES, Drawing, arrange, in_words
from pinprof.report.timeline.window import step_range
from pinprof.trace.tables import Trace
from pinprof.units import NS_PER_MS

MARGIN = 0.01
"""Part of a step's length that is shown before and after it."""


def fragment(trace: Trace, profile: Profile, max_rectangles: int = MAX_RECTANGLES) -> str:
    """Return the timeline of a trace as HTML; the page around it brings plotly.js and `page.js`, which draws it."""
    drawing = arrange(trace, profile, max_rectangles)
    if not drawing.lanes:
        return '<p class="note">Nothing to draw: the trace has no events on host threads or GPU streams.</p>'
    fig = figure(trace, profile, drawing)
    height = fig.layout.height
    return f"""<div class="timeline">
<p class="note">{html.escape(in_words(drawing))}</p>
<div class="steps" role="group" aria-label="Part of the timeline that is shown">
{_buttons(trace, drawing)}
<span class="hint">Drag to zoom, double-click for all; with the keyboard: + - ← → 0.</span>
</div>
<div class="plot" tabindex="0" role="application" aria-label="Timeline" style="height:{height}px"></div>
<ul class="legend" aria-label="Colours; press to hide or show"></ul>
<script type="application/x-deflate" class="figure">{_packed(fig)}</script>
</div>"""


def _buttons(trace: Trace, drawing: Drawing) -> str:
    """Return a button for the full view and one for each step drawn, each with its range in ms."""
    window = drawing.window
    views = [("all", window.start_ns, window.end_ns)]
    if window.steps > 1:
        views += [(f"step {step + 1}", *step_range(trace, step, step)) for step in range(window.first, window.last + 1)]
    return "\n".join(_button(name, start - window.start_ns, end - window.start_ns) for name, start, end in views)


def _button(name: str, start_ns: int, end_ns: int) -> str:
    margin = MARGIN * (end_ns - start_ns)
    view = json.dumps([(start_ns - margin) / NS_PER_MS, (end_ns + margin) / NS_PER_MS])
    return f'<button type="button" data-range="{html.escape(view)}">{html.escape(name)}</button>'


def _packed(fig: go.Figure) -> str:
    """Return the figure's JSON, deflated (a seventh of its size) and in base64, which needs no escaping in a page."""
    return base64.b64encode(zlib.compress(fig.to_json().encode(), level=9)).decode()
