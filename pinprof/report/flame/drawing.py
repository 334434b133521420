"""A flame graph drawn: as a piece of a page, whose boxes `flame.js` gets as JSON, or as an icicle of plotly."""

from typing import Any

from pinprof.hues import TEXT, ink
from pinprof.report.charts.chart import Chart, in_script, layout, legend
from pinprof.report.elements import Markup
from pinprof.report.flame.graph import Box, FlameGraph
from pinprof.report.words import cut
from pinprof.units import duration, percent

KEYS = (
    "Click a box to enlarge it. Keys in the graph: arrows go to callers, callees and neighbours, Enter enlarges, "
    "Esc goes back."
)
ROW, MOST_HEIGHT = 24, 760
"""Pixels of a level of an icicle, and of all."""
LONGEST = 48
"""Characters of a name in a rectangle."""
SMALLEST = 9
"""Pixels of names."""


def fragment(graph: FlameGraph) -> Markup:
    """Return a flame graph as HTML; the page around it brings the script that draws it."""
    choices = Markup().join(
        Markup('<button type="button" data-measure="{}" aria-pressed="{}">{}</button>').format(
            number, "false" if number else "true", measure.label
        )
        for number, measure in enumerate(graph.measures)
    )
    wide = Markup('<span class="measures" role="group" aria-label="Width">{}</span>').format(choices)
    return Markup("""<figure class="flame">
<figcaption>{caption}</figcaption>
<div class="steer" role="group" aria-label="What the graph shows">{wide}
<label>find <input type="search" class="lights" placeholder="function or file" spellcheck="false"></label>
<output class="lit"></output></div>
<nav class="crumbs" aria-label="Callers of what is shown"></nav>
<p class="told" aria-live="off"></p>
<div class="boxes" role="tree" aria-label="{title}"></div>
{legend}
<p class="hint">{keys}</p>
<script type="application/json">{data}</script>
</figure>""").format(
        caption=graph.caption,
        wide=wide if len(graph.measures) > 1 else "",
        title=graph.title,
        legend=legend(graph.kinds),
        keys=KEYS,
        data=in_script(_content(graph)),
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


def icicle(graph: FlameGraph) -> Chart:
    """Return a flame graph as an icicle of plotly, by its first measure."""
    boxes = graph.boxes
    series = {
        "type": "icicle",
        "ids": [f"{number}" for number in range(len(boxes))],
        "parents": ["" if box.parent < 0 else f"{box.parent}" for box in boxes],
        "labels": [_label(box) for box in boxes],
        "values": [box.total[0] for box in boxes],
        "branchvalues": "total",
        "marker": {"colors": [box.frame.kind.colour for box in boxes], "line": {"width": 1, "color": "#fff"}},
        "hovertext": [_hover(graph, box) for box in boxes],
        "hoverinfo": "text",
        "textfont": {"color": TEXT, "size": 11},
        "leaf": {"opacity": 1},
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": True, "thickness": 22},
        "sort": False,
    }
    levels: list[int] = []
    for box in boxes:
        levels.append(levels[box.parent] + 1 if box.parent >= 0 else 1)
    margin = {"l": 4, "r": 4, "t": 28, "b": 4}
    height = min(ROW * max(levels) + 60, MOST_HEIGHT)
    shape = layout(height, "", "", margin=margin, uniformtext={"minsize": SMALLEST, "mode": "hide"})
    return Chart(f"{graph.caption} Select a rectangle to enlarge it.", [series], shape)


def _label(box: Box) -> str:
    line = box.frame.place.rpartition(":")[2]
    return cut(f"{box.frame.name}:{line}" if line.isdigit() else box.frame.name, LONGEST)


def _hover(graph: FlameGraph, box: Box) -> str:
    """Return what a box is: its share of the first measure, that in time if it is known, and its value."""
    measure, value = graph.measures[0], box.total[0]
    where = f"{box.frame.name} ({box.frame.place})" if box.frame.place else box.frame.name
    time = f", {duration(value * measure.ns)} {measure.per}" if measure.ns else ""
    count = f", {value:,.0f} {measure.unit}" if measure.unit else ""
    return f"{where}: {percent(value / graph.boxes[0].total[0])} of {measure.of}{time}{count}"
