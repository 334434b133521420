"""A comparison of two traces as a page: the verdict, what changed, and one step of each on one time axis."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs.causes import WAITS
from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.comparison.changes import ChangeStatus
from pinprof.comparison.figures import ComparedFigure
from pinprof.ground.intervals import distinct
from pinprof.ground.units import duration
from pinprof.measurement.profile import busiest
from pinprof.report.comparison.view import DISTRUST_BOTH, events, summary
from pinprof.report.comparison.words import ARROW, amount, before_to_after, step_of, verdict
from pinprof.report.html import Markup, inline_html, lines, note
from pinprof.report.page import report_page, top
from pinprof.report.short_names import short
from pinprof.report.timeline import SharedTimeline, fragment, framed, kinds
from pinprof.report.timeline.drawn_lanes import MAX_PAGE_EVENTS
from pinprof.report.timeline.lane import CHANGE_SOURCE, Lane, levels
from pinprof.report.timeline.steps import Window, choose_window, window_of_steps
from pinprof.report.trace.page import division_bar
from pinprof.report.view import Section, on_page
from pinprof.report.words import copies_named, cut, short_place
from pinprof.trace.links import work_ends
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, KERNEL, NONE, WHOLE_TRACE, Int64s, Table, Trace

MARGIN_SHARE_OF_STEP = 0.02
"""The share of the longer step that the first view shows before and after it."""
CHANGE_GROUP = "What changed"
LANES_OF_CHANGES = 2
"""Lanes for changes of waits, of copies and of kernels each; more changes at the same time are not drawn."""
MIN_CHANGE_OF_KERNEL = 0.1
"""A kernel is unchanged if its time per step changed by less than this share of it,"""
MIN_CHANGE_OF_ALL_KERNELS = 0.005
"""or by less than this share of the time of all kernels per step."""


def to_html(before: Analysis, after: Analysis, comparison: Comparison) -> Markup:
    """Return the comparison as one self-contained page."""
    names = [PurePath(profile.path).name for profile in (comparison.before, comparison.after)]
    step, *figures = summary(comparison)
    bars = lines(_bars(comparison))
    above, below = (
        [replace(part, name=_first_word(part).lower()) for part in sections]
        for sections in (figures, events(comparison))
    )
    links = [*map(_link, above), ("Timelines", "timelines"), *map(_link, below)]
    parts = [
        top("heading", f"{names[0]} {ARROW} {names[1]}", "what changed between two traces", links),
        Markup('<p class="headline">{}.</p>').format(inline_html(verdict(comparison))),
        on_page(replace(step, facts=()) if bars else step, bars),
        *map(on_page, above),
        *_timelines(before, after, comparison),
        *map(on_page, below),
        *(note(f"{side.capitalize()}: {profile.path}") for side, profile in comparison.sides),
    ]
    heading = "pinprof: what changed between two traces"
    return report_page(f"pinprof: {names[0]} {ARROW} {names[1]}", heading, lines(parts))


def _first_word(part: Section) -> str:
    return part.title.split()[0].strip(",")


def _link(part: Section) -> tuple[str, str]:
    return "Trust" if part.title == DISTRUST_BOTH else _first_word(part), part.name


def _bars(comparison: Comparison) -> Iterator[Markup]:
    """Yield how the step divides before and after as bars of one scale, if both are known."""
    divisions = [busiest(profile) for _, profile in comparison.sides]
    longest = max((mean.length_ns for mean in divisions if mean), default=0.0)
    if not all(mean and mean.length_ns for mean in divisions):
        return
    for (side, profile), mean in zip(comparison.sides, divisions, strict=True):
        number, how = step_of(profile)
        if mean:
            yield division_bar(profile, mean, f"{side.capitalize()}: {number}, {how}", longest=longest)


def _timelines(before: Analysis, after: Analysis, comparison: Comparison) -> Iterator[Markup]:
    yield Markup('<h3 id="timelines">One step of each, on one time axis</h3>')
    yield note(
        "The step of median length of each trace. It starts at 0 on the host; if the host runs ahead, its part is "
        "short, and the GPU still runs an earlier step. Zooming one timeline zooms the other. The lanes on top mark "
        "what only one of them has, and what is longer or shorter after: waits and copies by more than noise, "
        "kernels by a tenth or more."
    )
    traced = [profile.steps.traced_ns for profile in (comparison.before, comparison.after)]
    longest = max((length for length in traced if length is not None), default=None)
    first = None if longest is None else (-MARGIN_SHARE_OF_STEP * longest, (1 + MARGIN_SHARE_OF_STEP) * longest)
    sides, timelines = (before, after), []
    for number, ((side, profile), analysis, length) in enumerate(zip(comparison.sides, sides, traced, strict=True)):
        view = typical_step(analysis.trace)
        per = "per step in the trace" if profile.steps.whole == "step" else "in the whole trace"
        step = "" if length is None else f", {duration(length)} {per}"
        title = f"{side.capitalize()}: {PurePath(profile.path).name}{step}"
        more = changed_lanes(comparison, sides, number)
        since = "the compared step of each"
        shared = SharedTimeline("comparison", side, title, first, view, view.start_ns, since, more)
        timelines.append(fragment(analysis, MAX_PAGE_EVENTS // len(sides), shared=shared))
    yield framed(lines(timelines))


def typical_step(trace: Trace) -> Window:
    """Return the complete step of median length; without complete steps what a timeline shows at first."""
    steps = trace.steps
    chosen = np.flatnonzero(steps.complete)
    if steps.source == WHOLE_TRACE or not len(chosen):
        return choose_window(trace)
    lengths = (np.maximum(steps.end_ns, work_ends(trace)) - steps.start_ns)[chosen]
    median = int(chosen[np.argsort(lengths, kind="stable")[(len(chosen) - 1) // 2]])
    return window_of_steps(trace, median, median)


class Changed(NamedTuple):
    """Events of one trace that changed in one way."""

    text: str
    kind: int
    start_ns: Int64s
    end_ns: Int64s


def changed_lanes(comparison: Comparison, sides: Sequence[Analysis], side: int) -> list[Lane]:
    """Return the lanes of one of the two traces: `side` is 0 for the one before, 1 for the one after."""
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
    level = levels(start, end, LANES_OF_CHANGES)
    ones = np.ones(len(start), np.int64)
    lane = Lane(CHANGE_GROUP, label, CHANGE_SOURCE, start, end, kind, row, ones, end - start, names=names)
    for depth in range(LANES_OF_CHANGES):
        of_level = lane.taken(level == depth)
        if len(of_level):
            yield replace(of_level, label="" if depth else label)


def _kind_of_change(status: ChangeStatus, difference: float | None) -> int:
    of_status = {"gone": kinds.GONE_KIND, "new": kinds.NEW_KIND}
    return of_status.get(status, kinds.LONGER_KIND if (difference or 0) > 0 else kinds.SHORTER_KIND)


def _waits(comparison: Comparison, analysis: Analysis, side: int) -> Iterator[Changed]:
    syncs, calls = analysis.details.syncs, analysis.trace.calls
    for change in comparison.waits:
        sites = (change.before, change.after)[side]
        if change.status in {"same", "moved"} or not sites:
            continue
        figure = change.bubble if change.bubble.has_changed else change.stall
        kind = _kind_of_change(change.status, figure.difference)
        rows = syncs.stalls.call[np.concatenate([syncs.rows[syncs.number(site)] for site in sites])]
        first = change.members[0]
        what = WAITS[first.cause].label + (f" at {cut(str(short_place(first.place)))}" if str(first.place) else "")
        yield _of_rows(_sentence(kind, what, change.stall, comparison.per), kind, calls, rows)


def _changed_copies(comparison: Comparison, analysis: Analysis) -> Iterator[Changed]:
    gpu = analysis.trace.gpu
    for change in comparison.copies:
        direction, memory = DIRECTIONS.index(change.direction), HOST_MEMORIES.index(change.host_memory)
        rows = np.flatnonzero((gpu.direction == direction) & (gpu.host_memory == memory))
        if change.status == "same" or not len(rows):
            continue
        kind = _kind_of_change(change.status, change.time.difference)
        copies = copies_named(change.direction, change.host_memory)
        yield _of_rows(_sentence(kind, copies, change.time, comparison.per), kind, gpu, rows)


def _sentence(kind: int, what: str, figure: ComparedFigure, per: str) -> str:
    only = {kinds.GONE_KIND: figure.before, kinds.NEW_KIND: figure.after}.get(kind)
    value = amount(figure.unit, only.value) if only else before_to_after(figure)
    return f"{kinds.EVENT_KINDS[kind].label}: {what}, {value} {per}"


def _kernels(comparison: Comparison, sides: Sequence[Analysis], side: int) -> Iterator[Changed]:
    """Yield the kernels that changed, by name, if the two traces are of one program."""
    if not comparison.is_same_program:
        return
    old, new = (_kernel_times(analysis.trace) for analysis in sides)
    gpu = sides[side].trace.gpu
    least = MIN_CHANGE_OF_ALL_KERNELS * max(sum(old.values()), sum(new.values()))
    for code, name in enumerate(gpu.names):
        was, now = old.get(name, 0.0), new.get(name, 0.0)
        if name not in (old, new)[side] or abs(now - was) <= max(least, MIN_CHANGE_OF_KERNEL * was):
            continue
        kind = _kind_of_change("gone" if not now else "changed" if was else "new", now - was)
        times = f"{duration(was)} {ARROW} {duration(now)}" if was and now else duration(was or now)
        rows = np.flatnonzero((gpu.name == code) & (gpu.category == KERNEL))
        yield _of_rows(f"{kinds.EVENT_KINDS[kind].label}: {short(name)}, {times} {comparison.per}", kind, gpu, rows)


def _kernel_times(trace: Trace) -> dict[str, float]:
    """Return how long each kernel runs in a complete step, in ns."""
    rows = np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))
    steps = max(int(trace.steps.complete.sum()), 1)
    sums = np.bincount(trace.gpu.name[rows], trace.gpu.duration_ns[rows], minlength=len(trace.gpu.names))
    return {trace.gpu.names[code]: float(sums[code]) / steps for code in np.flatnonzero(sums).tolist()}


def _of_rows(text: str, kind: int, table: Table, rows: Int64s) -> Changed:
    rows = distinct(rows[rows != NONE])
    return Changed(text, kind, table.start_ns[rows], table.end_ns[rows])
