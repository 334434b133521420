"""The page around a report, an HTML file without other files or requests, and its frame in a notebook."""

from collections.abc import Iterable
from importlib.resources import files

from markupsafe import escape

from pinprof.report.html import Markup, inline_html
from pinprof.report.timeline import constants

CONTENT_POLICY = Markup(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""Content Security Policy: the browser itself refuses any request. A figure of plotly paints data: images and
saves blob: ones."""

TIMELINE_SCRIPTS = (
    *("data", "event_text", "rows", "search", "stage", "paint", "overview"),
    *("related", "event_details", "selection_sums"),
    *("drawing", "timeline", "pointer", "shared_view", "keyboard"),
)
PAGE_SCRIPTS = (*(f"timeline/scripts/{name}.js" for name in TIMELINE_SCRIPTS), "job/ranks.js", "page.js")
"""The page's own scripts, one function together: each may use what stands in those before it."""

STYLE_SHEETS = ("page.css", "narrow.css", "source.css", "tables/tables.css", "job/ranks.css")

TABLE_SCRIPTS = ("tables/grid.js", "tables/tables.js")

FRAME_HEIGHT = "800px"
"""Height of a report in a notebook: a usual screen shows the numbers, the findings and the top of the timeline."""


def top(name: str, title: str, remark: str, links: Iterable[tuple[str, str]]) -> Markup:
    """Return the bar that stays on top of a page: its subject, and links (title, id) to its parts."""
    items = Markup().join(Markup('<li><a href="#{1}">{0}</a></li>').format(*link) for link in links)
    return Markup(
        '<div class="top"><h2 id="{}">{} <span class="note">{}</span></h2>\n'
        '<nav class="contents" aria-label="Parts of the report"><ul>{}</ul></nav></div>'
    ).format(name, title, inline_html(remark), items)


def report_page(title: str, heading: str, content: Markup) -> Markup:
    """Return the page of a report; its heading is for screen readers."""
    body = Markup(
        '<a class="skip" href="#report">Skip to the report</a>\n<h1 class="unseen">{}</h1>\n'
        '<main id="report" tabindex="-1">\n{}</main>'
    )
    return page(title, body.format(heading, content))


def page(title: str, body: Markup) -> Markup:
    """Return a self-contained HTML page with the scripts for its timelines and tables."""
    scripts = _code(constants()) + Markup().join(map(_resource, (*PAGE_SCRIPTS, *TABLE_SCRIPTS)))
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
</body>
</html>
""").format(CONTENT_POLICY, title, Markup().join(map(_resource, STYLE_SHEETS)), body, scripts)


def _resource(name: str) -> Markup:
    return _code(files("pinprof.report").joinpath(name).read_text(encoding="utf-8"))


def _code(text: str) -> Markup:
    return Markup(text)  # noqa: S704  no trace has a say in it


def framed(html: str, title: str) -> Markup:
    """Return a page in its own frame, so that neither its styles nor its scripts affect what is around it."""
    return Markup(
        '<iframe srcdoc="{0}" title="{1}" width="100%" height="{2}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: {2}; border: 0"></iframe>'
    ).format(escape(str(html)), title, FRAME_HEIGHT)
