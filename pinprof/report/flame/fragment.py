"""A flame graph as a piece of a page: its words, what steers it, and its boxes as JSON for `flame.js`."""

import json
from typing import Any

from pinprof.report.elements import Markup
from pinprof.report.flame.graph import FlameGraph
from pinprof.report.timeline.hues import ink

KEYS = (
    "Click a box to enlarge it. Keys in the graph: arrows go to callers, callees and neighbours, Enter enlarges, "
    "Esc goes back."
)


def fragment(graph: FlameGraph) -> Markup:
    """Return a flame graph as HTML; the page around it brings the script that draws it."""
    choices = Markup().join(
        Markup('<button type="button" data-measure="{}" aria-pressed="{}">{}</button>').format(
            number, "false" if number else "true", measure.label
        )
        for number, measure in enumerate(graph.measures)
    )
    wide = Markup('<span class="measures" role="group" aria-label="Width">{}</span>').format(choices)
    legend = Markup().join(
        Markup('<li><span class="swatch" style="background:{}"></span>{}</li>').format(kind.colour, kind.label)
        for kind in graph.kinds
    )
    return Markup("""<figure class="flame">
<figcaption>{caption}</figcaption>
<div class="steer" role="group" aria-label="What the graph shows">{wide}
<label>find <input type="search" class="lights" placeholder="function or file" spellcheck="false"></label>
<output class="lit"></output></div>
<nav class="crumbs" aria-label="Callers of what is shown"></nav>
<p class="told" aria-live="off"></p>
<div class="boxes" role="tree" aria-label="{title}"></div>
<ul class="keys">{legend}</ul>
<p class="hint">{keys}</p>
<script type="application/json">{data}</script>
</figure>""").format(
        caption=graph.caption,
        wide=wide if len(graph.measures) > 1 else "",
        title=graph.title,
        legend=legend,
        keys=KEYS,
        data=_json(_content(graph)),
    )


def _content(graph: FlameGraph) -> dict[str, Any]:
    frames = {box.frame: 0 for box in graph.boxes}
    numbers = {frame: number for number, frame in enumerate(frames)}
    kinds = {frame.kind: 0 for frame in frames}
    codes = {kind: number for number, kind in enumerate(kinds)}
    return {
        "frames": [[frame.name, frame.place, codes[frame.kind]] for frame in frames],
        "kinds": [[kind.label, kind.colour, ink(kind.colour)] for kind in kinds],
        "measures": [measure._asdict() for measure in graph.measures],
        "frame": [numbers[box.frame] for box in graph.boxes],
        "parent": [box.parent for box in graph.boxes],
        "total": _columns([box.total for box in graph.boxes]),
        "own": _columns([box.own for box in graph.boxes]),
    }


def _columns(rows: list[list[float]]) -> list[list[float]]:
    """Return rows as columns, with as many digits as can be told."""
    return [[float(f"{value:.6g}") for value in column] for column in zip(*rows, strict=True)]


def _json(content: dict[str, Any]) -> Markup:
    """Return JSON that cannot end the script around it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  in a script, entities are no entities
