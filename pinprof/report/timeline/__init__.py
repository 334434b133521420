"""The timeline as a piece of a page: a sentence on what is drawn, the toolbar, and the packed columns.

The page's scripts draw on a canvas: plotly took 50 ms for each zoom of 20,000 rectangles, too slow to follow a hand.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.ground.hues import HATCHES, PURPLE, see_through
from pinprof.ground.units import ROUNDS_UP, SIZE_UNITS, TIME_UNITS, duration
from pinprof.report.html import Markup, note
from pinprof.report.timeline.drawn_lanes import MAX_PAGE_EVENTS, PageDrawing, lanes_of_page
from pinprof.report.timeline.lane import FRAME_SOURCE, OP_SOURCE
from pinprof.report.timeline.lanes import in_blocks, what_is_drawn
from pinprof.report.timeline.payload import ABSENT_LINK, FIRST_LINK, UNDRAWN_LINK, packed
from pinprof.report.timeline.steps import Window, all_steps_text, choose_window, step_names
from pinprof.report.timeline.worst_instance import worst_instance
from pinprof.rules.rule import Finding
from pinprof.trace.tables import WHOLE_TRACE, Trace

RELATION_OF_LINK = {"launch": "its launch", "awaited": "awaited work"}
"""The relation of a linked event to the one that is shown, by the column of the link."""
PAGE_UNITS = {"TIMES": TIME_UNITS, "SIZES": SIZE_UNITS}

TOOLBAR = Markup("""\
<div class="steer" role="toolbar" aria-label="Part of the timeline that is shown">
<span class="set common">
<button type="button" data-tool="pan" aria-pressed="true" title="Dragging moves">move</button>
<button type="button" data-tool="select" aria-pressed="false" title="Dragging selects (Shift-drag)">select</button>
</span><span class="set common">
<button type="button" class="back" aria-label="back" title="Back (Alt + ←)" disabled>←</button>
<button type="button" class="forward" aria-label="forward" title="Forward (Alt + →)" disabled>→</button>
</span><span class="set common">
<button type="button" class="further" aria-label="zoom out" title="Zoom out (S)">&minus;</button>
<button type="button" class="closer" aria-label="zoom in" title="Zoom in (W)">+</button>
<button type="button" class="all" title="All of the recording (0)">all</button>
</span><span class="set choice">
<button type="button" class="previous" aria-label="previous step">&lsaquo;</button>
<label>step <select class="step"></select></label>
<button type="button" class="next" aria-label="next step">&rsaquo;</button>
</span>
<button type="button" class="pin common" aria-pressed="true" title="The GPUs' lanes stay on top">GPU on top</button>
<label class="common">find <input type="search" class="find" placeholder="name" spellcheck="false"></label>
<button type="button" class="found-next" hidden>next</button>
<output class="found"></output>
<span class="hint common">W A S D zoom and move</span>
<span class="set last">
<button type="button" class="link common" aria-label="copy link" title="Copy a link to what is shown">link</button>
<button type="button" class="help common" aria-label="keys" title="All keys (?)">?</button>
</span>
</div>
<ul class="matches common" aria-label="What was found, by name"></ul>""")
"""The toolbar of a timeline; if timelines share a view, all but the first hide what is `common`."""


class SharedTimeline(NamedTuple):
    """A timeline that shares axis, selection and toolbar with others below each other.

    It folds all host threads but the main one at first, so that all timelines fit below each other.
    """

    axis: str
    """The name of the axis, the same in all of them."""
    name: str
    """The short name of this timeline."""
    title: str
    """Its full name."""
    first_ns: tuple[float, float] | None
    """What is shown at first, from the time 0 of the axis."""
    view: Window
    """The steps that matter."""
    zero_ns: int
    """The time 0 of the axis on the clock of the trace."""
    since: str = ""
    """The name of the step that starts then; empty where the axis counts from the step in view."""


def constants() -> str:
    """Return the constants that the page's scripts share with Python, as JavaScript."""
    units = {
        name: [(scale, unit, ROUNDS_UP.get(unit, 1)) for scale, unit in known] for name, known in PAGE_UNITS.items()
    }
    links = {"LINKED": RELATION_OF_LINK, "ABSENT": ABSENT_LINK, "UNDRAWN": UNDRAWN_LINK, "FIRST": FIRST_LINK}
    looks = {"HATCHES": HATCHES, "BUBBLE": see_through(PURPLE, 0.25)}
    named = {**units, **links, **looks}
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in named.items())


def framed(timelines: Markup) -> Markup:
    """Return timelines that share an axis as one frame."""
    return Markup('<div class="beside">\n{}\n</div>').format(timelines)


def fragment(
    analysis: Analysis,
    max_events: int = MAX_PAGE_EVENTS,
    findings: Iterable[Finding] = (),
    shared: SharedTimeline | None = None,
) -> Markup:
    """Return the timeline of a trace as HTML; the page around it brings the scripts that draw it.

    The worst instance of each finding is kept in full. A timeline that is not `shared` shows some steps from the middle
    at first, and counts from their start.
    """
    view = shared.view if shared else choose_window(analysis.trace)
    instances = (worst_instance(analysis, finding) for finding in findings)
    times = [time for instance in instances if instance for time in (instance.start_ns, instance.end_ns)]
    detail = lanes_of_page(analysis, view, max_events, times)
    if not detail.lanes:
        return note("Nothing to draw: the trace has no events on host threads or GPU streams.")
    first_ns = shared.first_ns if shared else None
    first = Markup(' data-first="[{:.0f}, {:.0f}]"').format(*first_ns) if first_ns else ""
    named = Markup('<h4 class="title">{}</h4>\n').format(shared.title) if shared else ""
    counted = replace(view, start_ns=shared.zero_ns) if shared else view
    return Markup("""<div class="timeline" data-shared="{}" data-name="{}"{}>
{}
{}<div class="plot" tabindex="0" role="application" aria-label="Timeline"></div>
<div class="drawer">
<div class="sums" role="region" aria-label="Sums of the selection" tabindex="-1" hidden></div>
<div class="chosen" aria-live="polite" hidden></div>
</div>
<ul class="legend" aria-label="Colours; press to hide or show"></ul>
<p class="drawn" aria-live="off"></p>
{}
<script type="application/x-deflate" class="columns">{}</script>
</div>""").format(
        shared.axis if shared else "",
        shared.name if shared else "",
        first,
        TOOLBAR,
        named,
        note(in_words(analysis, detail, None if shared else view)),
        escape(packed(analysis, detail, counted, since=shared.since if shared else "", is_shared=bool(shared))),
    )


def in_words(analysis: Analysis, detail: PageDrawing, view: Window | None) -> str:
    """Return sentences on what is drawn, merged and left out.

    `view` is the first view, None if the timeline shares that with others.
    """
    unfolded = (lane for lane in detail.lanes if not lane.folded)
    blocks = in_blocks(unfolded, f"events shorter than {duration(detail.narrow_ns)}")
    merged = ["Each event is here; events narrower than a pixel are drawn as a block with their number."]
    if blocks:
        full = f"{len(detail.full):,} of them are here in full. Elsewhere " if detail.full else ""
        merged = [f"{full}{blocks}, whose single events are not in this page."]
    return what_is_drawn(analysis, detail, _drawn_steps(analysis.trace, detail, view), [*merged, *_inside(detail)])


def _inside(detail: PageDrawing) -> Iterator[str]:
    """Yield a sentence on the lanes that are folded at first, and on what is merged in them."""
    inner = [lane for lane in detail.lanes if lane.folded]
    if not inner:
        return
    sources = {FRAME_SOURCE.name: "Python frames", OP_SOURCE.name: "ops further inside"}
    named = " and ".join(words for name, words in sources.items() if any(lane.source.name == name for lane in inner))
    but = " outside of the steps shown at first" if detail.folded_full else ""
    blocks = in_blocks(inner, f"of them that are shorter than {duration(detail.folded_narrow_ns)}{but}")
    yield f"Folded at first: {named}{f'; {blocks}' if blocks else ''}."


def _drawn_steps(trace: Trace, detail: PageDrawing, view: Window | None) -> str:
    names = [] if trace.steps.source == WHOLE_TRACE else step_names(trace)
    steps = f"{all_steps_text(len(names))}, {duration(detail.window.span_ns)}"
    if view is None or not names:
        return f"{steps}."
    which = names[view.first] if view.first == view.last else f"{names[view.first]} to {names[view.last]}"
    return f"{steps}; shown at first: {which}, {duration(view.span_ns)} with the GPU work launched there."
