"""The page around a report: one file that needs nothing else and asks nobody for anything."""

import base64
import zlib
from functools import cache
from importlib.resources import files

from plotly.offline import get_plotlyjs

from pinprof.report.elements import Markup
from pinprof.report.timeline.fragment import constants

POLICY = Markup("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:")
"""Content Security Policy: the browser itself refuses any request. Plotly paints data: images and saves blob: ones."""

CHART = '<figure class="chart'
"""How each chart begins."""
PARTS = (
    *("data", "words", "rows", "layout", "stage", "paint", "overview", "finder"),
    *("related", "chosen", "sums", "sheet", "view", "motion", "pointer", "together", "keys", "share"),
)
SCRIPTS = (*(f"timeline/{name}.js" for name in PARTS), "flame/flame.js", "job/ranks.js", "page.js")
"""The page's own scripts, one function together: each may use what stands in those before it."""

STYLES = ("page.css", "narrow.css", "source.css", "tables/tables.css", "flame/flame.css", "job/ranks.css")
"""The page's styles, one sheet together."""

TABLES = ("tables/grid.js", "tables/tables.js")
"""The scripts of the tables, which use those of the timelines."""

LEVEL = 9
"""Of deflate: 0.4 s once in a process."""


def page(title: str, body: Markup) -> Markup:
    """Return a self-contained HTML page, whose timelines and charts it draws; only charts need plotly.js."""
    own = _code(constants()) + Markup().join(map(_resource, (*SCRIPTS, *TABLES)))
    return Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{}</title>
<style>
{}</style>
</head>
<body>
{}
<noscript><p class="note">Timelines, charts and sorted tables need JavaScript; all else here does not.</p></noscript>
<script>
"use strict";
(() => {{
{}}})();</script>
{}</body>
</html>
""").format(
        POLICY,
        title,
        Markup().join(map(_resource, STYLES)),
        body,
        own,
        _charts() if CHART in body else "",
    )


@cache
def packed_plotly() -> Markup:
    """Return plotly.js, deflated and in base64: a third of its length, and nothing to parse until a chart is drawn."""
    return _code(base64.b64encode(zlib.compress(get_plotlyjs().encode(), LEVEL)).decode())


def without_plotly(text: str) -> str:
    """Return a page that asks what is around it for plotly."""
    return text.replace(_plotly_element(), "")


def _plotly_element() -> Markup:
    return Markup('<script type="application/x-deflate-code" id="plotly">{}</script>').format(packed_plotly())


def _charts() -> Markup:
    """Return plotly, what unpacks it, and the script that draws the charts."""
    scripts = Markup("{}\n<script>\n{}</script>\n<script>\n{}</script>\n")
    return scripts.format(_plotly_element(), _resource("plotly.js"), _resource("charts.js"))


def _resource(name: str) -> Markup:
    return _code(files("pinprof.report").joinpath(name).read_text(encoding="utf-8"))


def _code(text: str) -> Markup:
    return Markup(text)  # noqa: S704  no trace has a say in it
