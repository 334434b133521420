"""What the page's script draws from: the lanes of the whole trace as typed columns, and what their codes mean."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.overlap import EXPOSED
from pinprof.analysis import Analysis
from pinprof.hues import faded, ink, shades
from pinprof.measurement.trust.doubt import Doubted
from pinprof.report.timeline.arguments import Arguments
from pinprof.report.timeline.calls import Surroundings, awaited_rows
from pinprof.report.timeline.columns import PackedColumns
from pinprof.report.timeline.detail import BAND, Detail
from pinprof.report.timeline.kinds import COPY, IDLE, KINDS, MANY_NAMES
from pinprof.report.timeline.lane import SOURCES, Lane
from pinprof.report.timeline.names import short, step_names
from pinprof.report.timeline.window import Window
from pinprof.report.words import cut
from pinprof.trace.tables import NONE, WHOLE_TRACE, Int64s, Table, Trace

ABSENT, UNDRAWN, FIRST = 0, 1, 2
"""A link to another event: there is none, it has no rectangle of its own, or its number plus this."""


LINKS = frozenset({"launch", "awaited"})
"""Columns of links, which rise as their lanes do: their differences are kept."""
Columns: TypeAlias = "dict[str, np.ndarray]"


MAIN = "(main)"


class Page(NamedTuple):
    """A trace, its measurements, which of its calls are drawn, and what was looked up in it before."""

    trace: Trace
    analysis: Analysis
    calls: Int64s
    """Per call the number of its rectangle, counted over all lanes, plus FIRST; else UNDRAWN; at NONE ABSENT."""
    work: Int64s
    """The same per GPU activity."""
    around: Surroundings
    names: "_Interned"
    args: Arguments

    @property
    def withheld(self) -> Doubted:
        """Why figures are not given of this trace."""
        return self.analysis.profile.withheld


def packed(
    trace: Trace, analysis: Analysis, detail: Detail, view: Window, *, since: str = "", beside: bool = False
) -> str:
    """Return all that the script needs to draw the lanes; times are ns since the start of `view`, the first sight.

    What starts then is `since`, if the axis is to count from it in all views. With other timelines `beside` it, host
    threads but the main one are folded at first.
    """
    block, names = PackedColumns(), _Interned()
    calls, work = (
        _numbers(detail.lanes, source, len(table)) for source, table in (("calls", trace.calls), ("gpu", trace.gpu))
    )
    page = Page(trace, analysis, calls, work, Surroundings.of(trace, analysis), names, Arguments(trace, detail.lanes))
    lanes = [_lane(page, lane, block, view.start_ns) for lane in detail.lanes]
    for place, times in detail.shares.items():
        lanes[place]["columns"] |= {f"share {kind}": block.add(row) for kind, row in zip(BAND, times, strict=True)}
    for place, lane in enumerate(detail.lanes):
        if beside and SOURCES[lane.source].of_thread and MAIN not in lane.group:
            lanes[place]["folded"] = True
    header = {
        **({"since": cut(since)} if since else {}),
        "names": [cut(name) for name in names.numbers],
        "shorts": [short(name) for name in names.numbers],
        "around": page.around.lines,
        "args": page.args.header,
        "kinds": _kinds(detail),
        "reasons": [exposure.label for exposure in EXPOSED.values()],
        "steps": _steps(trace, view.start_ns),
        "whole": [detail.window.start_ns - view.start_ns, detail.window.end_ns - view.start_ns],
        "view": [0, view.span_ns],
        "lanes": lanes,
    }
    return block.packed(header)


class _Interned:
    """The names that are used, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def codes(self, names: tuple[str, ...], used: np.ndarray) -> np.ndarray:
        """Return the number of each used name."""
        distinct, inverse = np.unique(used, return_inverse=True)
        numbers = [self.numbers.setdefault(names[name], len(self.numbers)) for name in distinct.tolist()]
        return np.array(numbers, np.int64)[inverse.ravel()]


def _numbers(lanes: tuple[Lane, ...], source: str, count: int) -> Int64s:
    result, base = np.full(count + 1, UNDRAWN, np.int64), 0
    result[NONE] = ABSENT
    for lane in lanes:
        if lane.source == source:
            alone = np.flatnonzero(lane.count == 1)
            result[lane.row[alone]] = base + alone + FIRST
        base += len(lane)
    return result


def _lane(page: Page, lane: Lane, block: PackedColumns, zero_ns: int) -> dict[str, Any]:
    length = lane.end_ns - lane.start_ns
    gaps = lane.start_ns - np.concatenate(([zero_ns], lane.end_ns[:-1]))
    columns = {"gap": block.add_signed(gaps), "length": block.add(length), "kind": block.add(lane.kind)}
    if (lane.count > 1).any():
        columns |= {"count": block.add(lane.count), "busy": block.add(lane.busy_ns)}
    for name, values in _columns(page, lane).items():
        columns[name] = block.add_signed(np.diff(values, prepend=0)) if name in LINKS else block.add(values)
    if lane.names:
        columns["name"] = block.add(page.names.codes(lane.names, lane.row))
    columns |= page.args.columns(lane, block)
    place: dict[str, Any] = {}
    if lane.source == "gpu":
        gpu, row = page.trace.gpu, lane.row[0]
        place = {"device": int(gpu.device[row]), "stream": f"stream {gpu.stream[row]}"}
    if lane.folded:
        place["folded"] = True
    return {"group": lane.group, "label": lane.label, "source": lane.source, **place, "columns": columns}


def _named(page: Page, table: Table, rows: Int64s) -> Columns:
    return {"name": page.names.codes(table.names, table.name[rows])}


def _of_stalls(page: Page, rows: Int64s) -> Columns:
    stalls = page.analysis.details.syncs.stalls
    columns = {**_named(page, page.trace.calls, stalls.call[rows]), "around": page.around.stall[rows]}
    if page.withheld.stalls or page.withheld.drain:
        return columns
    columns["awaited"] = page.work[awaited_rows(page.trace, stalls, rows)]
    return {**columns, "drain": stalls.drain_ns[rows], "own": stalls.own_ns[rows], "bubble": stalls.bubble_ns[rows]}


def _of_gpu(page: Page, rows: Int64s) -> Columns:
    gpu, links = page.trace.gpu, page.trace.links
    columns = {
        **_named(page, gpu, rows),
        "launch": page.calls[links.launch[rows]],
        "step": links.activity_step[rows] + 1,
        "bytes": gpu.bytes[rows] + 1,
        "around": page.around.activity[rows],
    }
    if page.withheld.overlap:
        return columns
    exposed, reason = np.zeros(len(gpu), np.int64), np.zeros(len(gpu), np.int64)
    overlap = page.analysis.details.overlap
    exposed[overlap.row] = overlap.exposed_ns + 1
    reason[overlap.row] = 0 if page.withheld.causes else overlap.reason + 1
    return {**columns, "exposed": exposed[rows], "reason": reason[rows]}


COLUMNS: dict[str, Callable[[Page, Int64s], Columns]] = {
    "steps": lambda _, rows: {"step": rows},
    "calls": lambda page, rows: {**_named(page, page.trace.calls, rows), "around": page.around.call[rows]},
    "stalls": _of_stalls,
    "gpu": _of_gpu,
}
"""What is said of the rows of a source beside their times, if it is not just their names in a table."""


def _columns(page: Page, lane: Lane) -> Columns:
    table = SOURCES[lane.source].table
    if lane.source in COLUMNS:
        return COLUMNS[lane.source](page, lane.row)
    return _named(page, getattr(page.trace, table), lane.row) if table else {}


def _kinds(detail: Detail) -> dict[int, dict[str, Any]]:
    used = {int(kind) for lane in detail.lanes for kind in np.unique(lane.kind)}
    for times in detail.shares.values():
        used |= {kind for kind, row in zip(BAND, times, strict=True) if row.any()}
    return {
        kind: {
            "label": KINDS[kind].label,
            "group": KINDS[kind].group,
            "shades": (*shades(KINDS[kind].colour), faded(KINDS[kind].colour)),
            "ink": ink(KINDS[kind].colour),
            "pattern": KINDS[kind].pattern,
            "byName": kind in MANY_NAMES,
            "isCopy": COPY <= kind < IDLE,
        }
        for kind in sorted(used)
    }


def _steps(trace: Trace, zero_ns: int) -> dict[str, Any]:
    """Return the steps: when their work on the GPU ends, too."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return {"names": [], "start": [], "end": [], "last": [], "complete": [], "unlike": [], "where": ""}
    last = steps.end_ns.copy()
    own = trace.links.activity_step != NONE
    np.maximum.at(last, trace.links.activity_step[own], trace.gpu.end_ns[own])
    return {
        "names": step_names(trace),
        "start": (steps.start_ns - zero_ns).tolist(),
        "end": (steps.end_ns - zero_ns).tolist(),
        "last": (last - zero_ns).tolist(),
        "complete": steps.complete.astype(int).tolist(),
        "unlike": [] if steps.unlike is None else steps.unlike.astype(int).tolist(),
        "where": "on the host" if steps.on_host else "on the GPU",
    }
