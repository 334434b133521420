"""The data that the page's script draws: the lanes of the whole trace as typed columns, and the meaning of their codes.

All columns are one block of bytes. A column has as few bytes per value as hold its largest value. First come the lowest
bytes of all its values, then the next bytes: times that differ only in their low bytes are compressed by a third more
in this order. The script's `data.js` reads the block.
"""

import base64
import json
import zlib
from typing import Any, TypeAlias

import numpy as np

from pinprof.analyses.copies import EXPOSURES
from pinprof.analysis import Analysis
from pinprof.ground.hues import faded, in_the_dark, ink, shades
from pinprof.ground.intervals import numbered
from pinprof.report.timeline.drawn_lanes import PageDrawing
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.report.timeline.lane import WORK_SOURCE, Columns, Lane, LaneColumn, Names, RowLinks
from pinprof.report.timeline.lane_context import LaneContext
from pinprof.report.timeline.steps import Window
from pinprof.report.words import cut, short
from pinprof.trace.links import work_ends
from pinprof.trace.tables import NONE, Int64s, Trace

Packed: TypeAlias = "list[int]"
"""The place of a column in the block: offset, bytes per value, number of values; a width of 0 is one value for all.

A fourth number, 1, marks a column of differences, of any sign.
"""

COLUMN_WIDTHS = ((1, np.uint8), (2, np.uint16), (4, np.uint32))
TIMELINE_DEFLATE_LEVEL = 6
"""The level of deflate; 9 takes four times as long for 1 % less."""
ABSENT_LINK, UNDRAWN_LINK, FIRST_LINK = 0, 1, 2
"""Codes of a link to another event: no such event, an event without a rectangle of its own, and the code of the first
rectangle."""


class PackedColumns:
    """The columns of a page, one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, values: np.ndarray) -> Packed:
        """Add a column of integers from 0 on; numbers from 2^32 on are kept as floats, exact up to 2^53."""
        first = int(values[0]) if len(values) else 0
        if (values == first).all():
            return [first, 0, len(values)]
        largest = int(values.max())
        width, kind = next(
            ((width, kind) for width, kind in COLUMN_WIDTHS if largest < 1 << (8 * width)), (8, np.float64)
        )
        planes = values.astype(np.dtype(kind).newbyteorder("<")).view(np.uint8).reshape(-1, width).T
        offset = self._length
        self._parts.append(planes.tobytes())
        self._length += width * len(values)
        return [offset, width, len(values)]

    def add_differences(self, values: np.ndarray) -> Packed:
        """Add a column as differences, of any sign."""
        return [*self.add(zigzag(np.diff(values, prepend=0))), 1]

    def packed(self, header: dict[str, Any]) -> str:
        """Return the header (JSON behind its length in 4 bytes) and the columns, deflated and in base64."""
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        deflate = zlib.compressobj(TIMELINE_DEFLATE_LEVEL)
        pieces = map(deflate.compress, (len(text).to_bytes(4, "little"), text, *self._parts))
        return base64.b64encode(b"".join((*pieces, deflate.flush()))).decode()


def packed(analysis: Analysis, drawing: PageDrawing, view: Window, *, since: str = "", is_shared: bool = False) -> str:
    """Return all that the script needs to draw the lanes; times are ns since the start of `view`, the first view.

    `since` names that start if the axis counts from it in all views. A timeline that shares its axis (`is_shared`)
    folds all host threads but the main one at first.
    """
    trace, block = analysis.trace, PackedColumns()
    names: dict[str, int] = {}  # numbered in the order of their first use
    context = LaneContext(analysis)
    numbers = {table: _link_codes(drawing.lanes, table, len(getattr(trace, table))) for table in ("calls", "gpu")}
    lanes = []
    for lane in drawing.lanes:
        columns = {**_lane_times(lane, view.start_ns), **lane.source.columns(context, lane)}
        added = {name: _add_column(block, names, numbers, column) for name, column in columns.items()}
        lanes.append({**_header_of(trace, lane, is_shared=is_shared), "columns": added})
    header = {
        **({"since": cut(since)} if since else {}),
        "names": list(map(cut, names)),
        "shorts": list(map(short, names)),
        "around": context.around.lines,
        "kinds": _kinds(drawing),
        "reasons": [exposure.label for exposure in EXPOSURES.values()],
        "steps": _steps(context, view.start_ns),
        "whole": [drawing.window.start_ns - view.start_ns, drawing.window.end_ns - view.start_ns],
        "view": [0, view.span_ns],
        "lanes": lanes,
    }
    return block.packed(header)


def zigzag(values: np.ndarray) -> Int64s:
    """Return integers of any sign as integers from 0 on: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return np.where(values < 0, -2 * values - 1, 2 * values)


def _codes(names: dict[str, int], column: Names) -> Int64s:
    """Return the number of each name of a column; names get numbers as they come."""
    first, which = numbered(column.codes)
    numbers = [names.setdefault(column.names[code], len(names)) for code in column.codes[first].tolist()]
    return np.array(numbers, np.int64)[which]


def _link_codes(lanes: tuple[Lane, ...], table: str, count: int) -> Int64s:
    """Return per row of a table the number of its rectangle over all lanes, plus FIRST_LINK; ABSENT_LINK for row -1."""
    numbers, base = np.full(count + 1, UNDRAWN_LINK, np.int64), 0
    numbers[NONE] = ABSENT_LINK
    for lane in lanes:
        if lane.source.table == table:
            single = np.flatnonzero(lane.count == 1)
            numbers[lane.row[single]] = base + single + FIRST_LINK
        base += len(lane)
    return numbers


def _lane_times(lane: Lane, zero_ns: int) -> Columns:
    gaps = lane.start_ns - np.concatenate(([zero_ns], lane.end_ns[:-1]))
    columns: Columns = {"gap": zigzag(gaps), "length": lane.end_ns - lane.start_ns, "kind": lane.kind}
    columns |= {f"share {kind}": times for kind, times in lane.shares.items()}
    return {**columns, "count": lane.count, "busy": lane.busy_ns} if (lane.count > 1).any() else columns


def _add_column(block: PackedColumns, names: dict[str, int], numbers: dict[str, Int64s], column: LaneColumn) -> Packed:
    """Add a column and return its place; links rise along a lane, so their differences are small."""
    if isinstance(column, Names):
        return block.add(_codes(names, column))
    if isinstance(column, RowLinks):
        return block.add_differences(numbers[column.table][column.rows])
    return block.add(column)


def _header_of(trace: Trace, lane: Lane, *, is_shared: bool) -> dict[str, Any]:
    source = lane.source
    fields = {"group": lane.group, "label": lane.label, "source": source.name, "isNested": source.is_nested}
    if source is WORK_SOURCE:
        device, stream = (int(column[lane.row[0]]) for column in (trace.gpu.device, trace.gpu.stream))
        fields |= {"device": device, "stream": f"stream {stream}"}
    if lane.thread != NONE:
        fields["thread"] = lane.thread
    is_other = lane.thread != NONE and trace.threads[lane.thread].role != "main"
    return {**fields, "folded": True} if lane.folded or (is_shared and is_other) else fields


def _kinds(drawing: PageDrawing) -> dict[int, dict[str, Any]]:
    used = {int(kind) for lane in drawing.lanes for kind in np.unique(lane.kind)}
    used |= {kind for lane in drawing.lanes for kind, times in lane.shares.items() if times.any()}
    return {
        kind: {
            "label": EVENT_KINDS[kind].label,
            "group": EVENT_KINDS[kind].group,
            **_colours(EVENT_KINDS[kind].colour),
            "dark": _colours(in_the_dark(EVENT_KINDS[kind].colour)),
            "pattern": EVENT_KINDS[kind].pattern,
            "byName": EVENT_KINDS[kind].has_names,
            "short": EVENT_KINDS[kind].short,
        }
        for kind in sorted(used)
    }


def _colours(colour: str) -> dict[str, Any]:
    return {"shades": shades(colour), "faded": faded(colour), "ink": ink(colour)}


def _steps(context: LaneContext, zero_ns: int) -> dict[str, Any]:
    """Return the steps; `last` is when their work on the GPU ends."""
    trace, steps = context.trace, context.trace.steps
    if not context.steps:
        return {"names": [], "start": [], "end": [], "last": [], "complete": [], "unlike": [], "where": ""}
    last = np.maximum(steps.end_ns, work_ends(trace))
    return {
        "names": context.steps,
        "start": (steps.start_ns - zero_ns).tolist(),
        "end": (steps.end_ns - zero_ns).tolist(),
        "last": (last - zero_ns).tolist(),
        "complete": steps.complete.astype(int).tolist(),
        "unlike": [] if steps.unlike is None else steps.unlike.astype(int).tolist(),
        "where": "on the host" if steps.on_host else "on the GPU",
    }
