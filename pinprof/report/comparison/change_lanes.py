"""Lanes of the timelines of two traces that show what changed: waits, copies and kernels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs import WAITS, Site
from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.comparison.changes import CHANGED, GONE, MOVED, NEW, SAME, Status
from pinprof.comparison.figures import ComparedFigure
from pinprof.intervals import distinct
from pinprof.report.comparison.words import ARROW, amount, before_to_after
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import short
from pinprof.report.timeline.lane import CHANGES, Lane, levels
from pinprof.report.words import cut, short_place
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, KERNEL, NONE, Int64s, Table, Trace
from pinprof.units import duration

GROUP = "What changed"
LEVELS = 2
"""Lanes for changes of waits, of copies and of kernels each; more changes at the same time are not drawn."""
LEAST_CHANGE = 0.1
"""A kernel is unchanged if its time per step changed by less than this share of it,"""
LEAST_OF_KERNELS = 0.005
"""or by less than this share of the time of all kernels per step."""
BEFORE, AFTER = 0, 1


class Changed(NamedTuple):
    """Events of one trace that changed in one way."""

    text: str
    kind: int
    start_ns: Int64s
    end_ns: Int64s


def changed_lanes(comparison: Comparison, sides: Sequence[Analysis], side: int) -> list[Lane]:
    """Return the lanes of one of the two traces, `BEFORE` or `AFTER`."""
    analysis = sides[side]
    by_label = {
        "waits": _waits(comparison, analysis, side),
        "copies": _changed_copies(comparison, analysis),
        "kernels": _kernels(comparison, sides, side),
    }
    return [lane for label, changes in by_label.items() for lane in _lanes(label, changes)]


def _lanes(label: str, changes: Iterable[Changed]) -> Iterator[Lane]:
    listed = list(changes)
    if not listed:
        return
    names = tuple(change.text for change in listed)
    start, end = (np.concatenate([getattr(change, side) for change in listed]) for side in ("start_ns", "end_ns"))
    lengths = [len(change.start_ns) for change in listed]
    kind, row = np.repeat([change.kind for change in listed], lengths), np.repeat(np.arange(len(listed)), lengths)
    order = np.argsort(start, kind="stable")
    start, end, kind, row = start[order], end[order], kind[order], row[order]
    level = levels(start, end, LEVELS)
    ones = np.ones(len(start), np.int64)
    lane = Lane(GROUP, label, CHANGES, start, end, kind, row, ones, end - start, names=names)
    for depth in range(LEVELS):
        of_level = lane.taken(level == depth)
        if len(of_level):
            yield replace(of_level, label="" if depth else label)


def _kind_of_change(status: Status, difference: float | None) -> int:
    of_status = {GONE: kinds.GONE, NEW: kinds.NEW}
    return of_status.get(status, kinds.LONGER if (difference or 0) > 0 else kinds.SHORTER)


def _waits(comparison: Comparison, analysis: Analysis, side: int) -> Iterator[Changed]:
    syncs, calls = analysis.details.syncs, analysis.trace.calls
    for change in comparison.waits:
        sites = (change.before, change.after)[side]
        if change.status in {SAME, MOVED} or not sites:
            continue
        figure = change.bubble if change.bubble.has_changed else change.stall
        kind = _kind_of_change(change.status, figure.difference)
        rows = syncs.stalls.call[np.concatenate([syncs.rows[syncs.number(site)] for site in sites])]
        what = f"{WAITS[change.members[0].cause].label}{_at(change.members[0])}"
        yield _of_rows(_sentence(kind, what, change.stall, comparison.per), kind, calls, rows)


def _at(site: Site) -> str:
    return f" at {cut(str(short_place(site.place)))}" if str(site.place) else ""


def _changed_copies(comparison: Comparison, analysis: Analysis) -> Iterator[Changed]:
    gpu = analysis.trace.gpu
    for change in comparison.copies:
        direction, memory = DIRECTIONS.index(change.direction), HOST_MEMORIES.index(change.host_memory)
        rows = np.flatnonzero((gpu.direction == direction) & (gpu.host_memory == memory))
        if change.status == SAME or not len(rows):
            continue
        kind = _kind_of_change(change.status, change.time.difference)
        copies = f"{change.direction} {change.host_memory if change.host_memory != 'none' else ''}".strip()
        yield _of_rows(_sentence(kind, copies, change.time, comparison.per), kind, gpu, rows)


def _sentence(kind: int, what: str, figure: ComparedFigure, per: str) -> str:
    only = {kinds.GONE: figure.before, kinds.NEW: figure.after}.get(kind)
    value = amount(figure.unit, only.value) if only else before_to_after(figure)
    return f"{kinds.KINDS[kind].label}: {what}, {value} {per}"


def _kernels(comparison: Comparison, sides: Sequence[Analysis], side: int) -> Iterator[Changed]:
    """Yield the kernels that changed, by name, if the two traces are of one program."""
    if not comparison.is_same_program:
        return
    old, new = (_kernel_times(analysis.trace) for analysis in sides)
    gpu = sides[side].trace.gpu
    least = LEAST_OF_KERNELS * max(sum(old.values()), sum(new.values()))
    for code, name in enumerate(gpu.names):
        was, now = old.get(name, 0.0), new.get(name, 0.0)
        if name not in (old, new)[side] or abs(now - was) <= max(least, LEAST_CHANGE * was):
            continue
        kind = _kind_of_change(GONE if not now else CHANGED if was else NEW, now - was)
        times = f"{duration(was)} {ARROW} {duration(now)}" if was and now else duration(was or now)
        rows = np.flatnonzero((gpu.name == code) & (gpu.category == KERNEL))
        yield _of_rows(f"{kinds.KINDS[kind].label}: {short(name)}, {times} {comparison.per}", kind, gpu, rows)


def _kernel_times(trace: Trace) -> dict[str, float]:
    """Return how long each kernel runs in a complete step, in ns."""
    rows = np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))
    steps = max(int(trace.steps.complete.sum()), 1)
    sums = np.bincount(trace.gpu.name[rows], trace.gpu.duration_ns[rows], minlength=len(trace.gpu.names))
    return {trace.gpu.names[code]: float(sums[code]) / steps for code in np.flatnonzero(sums).tolist()}


def _of_rows(text: str, kind: int, table: Table, rows: Int64s) -> Changed:
    rows = distinct(rows[rows != NONE])
    return Changed(text, kind, table.start_ns[rows], table.end_ns[rows])
