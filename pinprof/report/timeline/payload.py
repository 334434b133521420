"""What the page's script draws from: the lanes of the whole trace as typed columns, and what their codes mean."""

from typing import Any, NamedTuple

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analysis import Analysis
from pinprof.measurement.trust.doubt import Doubted
from pinprof.report.timeline.calls import Surroundings
from pinprof.report.timeline.columns import PackedColumns
from pinprof.report.timeline.detail import BAND, Detail
from pinprof.report.timeline.kinds import COPY, IDLE, KINDS, MANY_NAMES, faded, ink, shades
from pinprof.report.timeline.lanes import Lane
from pinprof.report.timeline.names import short, step_names
from pinprof.report.timeline.window import Window
from pinprof.report.words import cut
from pinprof.trace.tables import NONE, WHOLE_TRACE, Int32s, Int64s, Trace

ABSENT, UNDRAWN, FIRST = 0, 1, 2
"""A link to another event: there is none, it has no rectangle of its own, or its number plus this."""


class Page(NamedTuple):
    """A trace, its measurements, which of its calls are drawn, and what was looked up in it before."""

    trace: Trace
    analysis: Analysis
    calls: Int64s
    """Per call the number of its rectangle, counted over all lanes, plus FIRST; else UNDRAWN."""
    around: Surroundings

    @property
    def withheld(self) -> Doubted:
        """Why figures are not given of this trace."""
        return self.analysis.profile.withheld


def packed(trace: Trace, analysis: Analysis, detail: Detail, view: Window) -> str:
    """Return all that the script needs to draw the lanes; times are ns since the start of `view`, the first sight."""
    page = Page(trace, analysis, _numbers(detail.lanes, len(trace.calls)), Surroundings.of(trace, analysis))
    block, names = PackedColumns(), _Interned()
    lanes = [_lane(page, lane, block, names, view.start_ns) for lane in detail.lanes]
    for place, times in detail.shares.items():
        lanes[place]["columns"] |= {f"share {kind}": block.add(row) for kind, row in zip(BAND, times, strict=True)}
    header = {
        "names": [cut(name) for name in names.texts],
        "shorts": [short(name) for name in names.texts],
        "around": page.around.lines,
        "kinds": _kinds(detail),
        "reasons": [reason.replace("_", " ") for reason in REASONS],
        "steps": _steps(trace, view.start_ns),
        "whole": [detail.window.start_ns - view.start_ns, detail.window.end_ns - view.start_ns],
        "view": [0, view.span_ns],
        "lanes": lanes,
    }
    return block.packed(header)


class _Interned:
    """The names that are used, numbered as they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def codes(self, names: tuple[str, ...], used: np.ndarray) -> np.ndarray:
        """Return the number of each used name."""
        distinct, inverse = np.unique(used, return_inverse=True)
        numbers = [self._code(names[name]) for name in distinct.tolist()]
        return np.array(numbers, np.int64)[inverse.ravel()]

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes[name] = len(self.texts)
            self.texts.append(name)
        return self._codes[name]


def _numbers(lanes: tuple[Lane, ...], calls: int) -> Int64s:
    result, base = np.full(calls, UNDRAWN, np.int64), 0
    for lane in lanes:
        if lane.source == "calls":
            alone = np.flatnonzero(lane.count == 1)
            result[lane.row[alone]] = base + alone + FIRST
        base += len(lane)
    return result


def _linked(numbers: Int64s, rows: Int32s) -> Int64s:
    known = np.clip(rows, 0, None)
    return np.where(rows == NONE, ABSENT, numbers[known] if len(numbers) else ABSENT)


def _lane(page: Page, lane: Lane, block: PackedColumns, names: _Interned, zero_ns: int) -> dict[str, Any]:
    length = lane.end_ns - lane.start_ns
    gaps = lane.start_ns - np.concatenate(([zero_ns], lane.end_ns[:-1]))
    columns = {"gap": block.add_signed(gaps), "length": block.add(length), "kind": block.add(lane.kind)}
    if (lane.count > 1).any():
        columns |= {"count": block.add(lane.count), "busy": block.add(lane.busy_ns)}
    described = COLUMNS.get(lane.source)
    columns |= described(page, lane.row, block, names) if described else {}
    place: dict[str, Any] = {}
    if lane.source == "gpu":
        gpu, row = page.trace.gpu, lane.row[0]
        place = {"device": int(gpu.device[row]), "stream": f"stream {gpu.stream[row]}"}
    return {"group": lane.group, "label": lane.label, "source": lane.source, **place, "columns": columns}


def _of_steps(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    del page, names
    return {"step": block.add(rows)}


def _of_ops(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    return {"name": block.add(names.codes(page.trace.ops.names, page.trace.ops.name[rows]))}


def _of_annotations(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    return {"name": block.add(names.codes(page.trace.annotations.names, page.trace.annotations.name[rows]))}


def _of_calls(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    calls = page.trace.calls
    return {
        "name": block.add(names.codes(calls.names, calls.name[rows])),
        "around": block.add(page.around.call[rows]),
    }


def _of_stalls(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    stalls, calls = page.analysis.details.syncs.stalls, page.trace.calls
    columns = {
        "name": block.add(names.codes(calls.names, calls.name[stalls.call[rows]])),
        "around": block.add(page.around.stall[rows]),
    }
    if page.withheld.stalls or page.withheld.drain:
        return columns
    return columns | {
        "drain": block.add(stalls.drain_ns[rows]),
        "own": block.add(stalls.own_ns[rows]),
        "bubble": block.add(stalls.bubble_ns[rows]),
    }


def _of_gpu(page: Page, rows: Int64s, block: PackedColumns, names: _Interned) -> dict[str, Any]:
    gpu, links = page.trace.gpu, page.trace.links
    launch = _linked(page.calls, links.launch[rows])
    columns = {
        "name": block.add(names.codes(gpu.names, gpu.name[rows])),
        "launch": block.add_signed(np.diff(launch, prepend=0)),
        "step": block.add(links.activity_step[rows] + 1),
        "bytes": block.add(gpu.bytes[rows] + 1),
        "around": block.add(page.around.activity[rows]),
    }
    if page.withheld.overlap:
        return columns
    exposed, reason = np.zeros(len(gpu), np.int64), np.zeros(len(gpu), np.int64)
    overlap = page.analysis.details.overlap
    exposed[overlap.row] = overlap.exposed_ns + 1
    reason[overlap.row] = 0 if page.withheld.causes else overlap.reason + 1
    return columns | {"exposed": block.add(exposed[rows]), "reason": block.add(reason[rows])}


COLUMNS = {
    "steps": _of_steps,
    "annotations": _of_annotations,
    "ops": _of_ops,
    "calls": _of_calls,
    "stalls": _of_stalls,
    "gpu": _of_gpu,
}
"""What is said of the rows of a lane's source beside their times."""


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
            "byName": kind in MANY_NAMES,
            "isCopy": COPY <= kind < IDLE,
        }
        for kind in sorted(used)
    }


def _steps(trace: Trace, zero_ns: int) -> dict[str, Any]:
    """Return the steps: when their work on the GPU ends, too."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return {"names": [], "start": [], "end": [], "last": [], "complete": [], "where": ""}
    last = steps.end_ns.copy()
    own = trace.links.activity_step != NONE
    np.maximum.at(last, trace.links.activity_step[own], trace.gpu.end_ns[own])
    return {
        "names": step_names(trace),
        "start": (steps.start_ns - zero_ns).tolist(),
        "end": (steps.end_ns - zero_ns).tolist(),
        "last": (last - zero_ns).tolist(),
        "complete": steps.complete.astype(int).tolist(),
        "where": "on the host" if steps.on_host else "on the GPU",
    }
