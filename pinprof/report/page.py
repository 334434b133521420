"""The page around a report: one file that needs nothing else and asks nobody for anything."""

import html
from importlib.resources import files

from plotly.offline import get_plotlyjs

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Content Security Policy: the browser itself refuses any request. Plotly paints data: images and saves blob: ones."""

SCRIPTS = (
    *(f"timeline/{name}.js" for name in ("data", "words", "cells", "figure", "view")),
    "page.js",
)
"""The page's own scripts, one function together: each may use what stands in those before it."""


def page(title: str, body: str) -> str:
    """Return a self-contained HTML page; `title` is plain text, `body` HTML whose timelines and charts it draws."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{_resource("page.css")}</style>
</head>
<body>
{body}
<noscript><p class="note">The timelines and charts need JavaScript; all else on this page does not.</p></noscript>
<script>{get_plotlyjs()}</script>
<script>
"use strict";
(() => {{
const SENTENCES = {_resource("timeline/sentences.json")};
{"".join(map(_resource, SCRIPTS))}}})();</script>
<script>
{_resource("charts.js")}</script>
</body>
</html>
"""


def _resource(name: str) -> str:
    return files("pinprof.report").joinpath(name).read_text(encoding="utf-8")
