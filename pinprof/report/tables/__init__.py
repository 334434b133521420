"""The interactive tables as a piece of a page: their controls, and their packed columns."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.report.html import Markup, note
from pinprof.report.source import Quoting
from pinprof.report.tables import gpu, host
from pinprof.report.tables.grid import Grid
from pinprof.report.timeline.steps import choose_window
from pinprof.report.words import not_shown, printable

TABLE_MAKERS = (host.ops, gpu.kernels, gpu.copies, host.waits, gpu.collectives)
TABLES_DEFLATE_LEVEL = 6
"""The level of deflate; 9 takes far longer for 1 % less."""


def grids_of(analysis: Analysis) -> list[Grid]:
    """Return the tables of a trace, without those that are empty or withheld."""
    return [grid for make in TABLE_MAKERS if (grid := make(analysis))]


def tables(number: int, analysis: Analysis, grids: Sequence[Grid], quoting: Quoting) -> Markup:
    """Return the tables of a trace; `number` says which of the page's traces."""
    tab = Markup(
        '<button type="button" role="tab" id="tab-{0}-{1}" data-grid="{1}" aria-controls="grid-{0}" '
        'aria-selected="{2}" tabindex="{3}">{4} <span class="many">{5:,}</span></button>'
    )
    tabs = Markup().join(
        tab.format(number, grid.name, "false" if index else "true", -1 if index else 0, grid.title, len(grid))
        for index, grid in enumerate(grids)
    )
    reason = _no_steps(analysis.profile)
    return Markup("""{reason}<div class="grids">
<div class="tabs" role="tablist" aria-label="Tables">{tabs}</div>
<div class="steer" role="group" aria-label="What the table shows">
<label>sums <select class="scope"></select></label>
<label hidden>rows <select class="gather"></select></label>
<label>filter <input type="search" class="filter" placeholder="name, line, ..." spellcheck="false"></label>
<button type="button" class="save">CSV</button>
<output class="rows"></output>
</div>
<p class="note about"></p>
<div class="sheet scroll" id="grid-{number}" role="tabpanel" tabindex="0" aria-label="{first}"></div>
<script type="application/x-deflate-json" class="packed">{packed}</script>
</div>""").format(
        reason=note(f"Sums per step are {reason}.") if reason else "",
        tabs=tabs,
        number=number,
        first=grids[0].title,
        packed=escape(_packed(analysis, grids, quoting)),
    )


def _no_steps(profile: Profile) -> str:
    why = profile.withheld
    return not_shown(why.step, why.per_step, why.busy)


def _packed(analysis: Analysis, grids: Sequence[Grid], quoting: Quoting) -> str:
    """Return all that the script needs, deflated and in base64; times of the trace count from the timeline's 0."""
    profile, zero = analysis.profile, choose_window(analysis.trace).start_ns
    has_steps = profile.steps.whole == "step" and not _no_steps(profile)
    content = {
        "steps": profile.steps.count if has_steps else 0,
        "grids": [_grid(grid, zero, quoting) for grid in grids],
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), TABLES_DEFLATE_LEVEL)).decode()


def _grid(grid: Grid, zero_ns: int, quoting: Quoting) -> dict[str, Any]:
    events = dict(grid.seen)
    if "starts" in events:
        events["starts"] = [[start - zero_ns for start in starts] for starts in events["starts"]]
    start, end = ((times - zero_ns).tolist() for times in grid.longest_ns)
    links = [quoting.link(place) for place in grid.places]  # empty where an editor or a file is not known
    return {
        "name": grid.name,
        "title": grid.title,
        "note": grid.note,
        "fields": [field._asdict() for field in grid.fields],
        "texts": {key: list(map(printable, column)) for key, column in grid.texts.items()},
        "numbers": grid.numbers,
        "whole": grid.whole_ns,
        "source": grid.source,
        "seen": events,
        "longest": [start, end],
        "links": links if any(links) else [],
        "stacks": [[list(map(printable, stack))] if stack else [] for stack in grid.stacks],
        "together": grid.together,
    }
