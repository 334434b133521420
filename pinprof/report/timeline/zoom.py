"""Where a finding is to be seen: its worst instance, as an attribute that the page's script follows."""

import json
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.report.elements import Markup
from pinprof.report.instances import worst_instance
from pinprof.report.timeline.awaited import awaited_rows
from pinprof.report.timeline.window import choose_window
from pinprof.rules import Finding
from pinprof.trace.tables import NONE, Table

Highlight = tuple[str, str, int, int]
"""What is marked, in which lanes (a lane's source such as `stalls`, or `device N`), and from when to when."""


class Marked(NamedTuple):
    """What is to be seen of an instance of a finding; times in ns of the trace."""

    start_ns: int
    end_ns: int
    marks: tuple[Highlight, ...]


def zoom_attribute(analysis: Analysis, finding: Finding) -> Markup:
    """Return ` data-zoom="..."` for a finding, with times in ns since the timeline's 0; nothing where none is known."""
    found = worst(analysis, finding)
    if found is None:
        return Markup()
    zero = choose_window(analysis.trace).start_ns
    marks = [(what, where, start - zero, end - zero) for what, where, start, end in found.marks]
    text = json.dumps({"range": [found.start_ns - zero, found.end_ns - zero], "marks": marks})
    return Markup(' data-zoom="{}"').format(escape(text))


def worst(analysis: Analysis, finding: Finding) -> Marked | None:
    """Return what is to be seen of the instance of a finding that costs most, None where no single one is known."""
    found = worst_instance(analysis.details, finding)
    if found is None:
        return None
    if found.stall is not None:
        return _of_stall(analysis, found.stall)
    if found.copy is not None:
        return _of_copy(analysis.details, found.copy)
    return _of_input(analysis.details, found.input_wait or 0)


def _of_stall(analysis: Analysis, row: int) -> Marked:
    trace, stalls, why = analysis.trace, analysis.details.syncs.stalls, analysis.profile.withheld
    same = stalls.copy == stalls.copy[row]  # the calls that make and await one copy are one wait
    calls = stalls.call[same & ~stalls.profiler] if stalls.copy[row] != NONE else stalls.call[[row]]
    marks = [_mark("the wait", "stalls", trace.calls, call) for call in calls.tolist()]
    if why.stalls or why.drain:
        return _around(marks)
    awaited = int(awaited_rows(trace, stalls, np.array([row]))[0])
    if awaited != NONE:
        marks.append(_mark("awaited work", "gpu", trace.gpu, awaited))
    if stalls.bubble_ns[row]:
        idle = int(stalls.awaited_end_ns[row])
        marks.append(("GPU idle after", f"device {stalls.device[row]}", idle, idle + int(stalls.bubble_ns[row])))
    return _around(marks)


def _of_copy(details: Details, place: int) -> Marked:
    trace, row = details.trace, int(details.overlap.row[place])
    marks = [_mark("the copy", "gpu", trace.gpu, row)]
    launch = int(trace.links.launch[row])
    if launch != NONE:
        marks.append(_mark("its launch", "calls", trace.calls, launch))
    return _around(marks)


def _of_input(details: Details, place: int) -> Marked:
    start, end = (int(times[place]) for times in (details.loader.times.start, details.loader.times.end))
    where = "annotations" if start in details.trace.annotations.start_ns else "ops"
    return _around([("the wait for input", where, start, end)])


def _mark(what: str, where: str, table: Table, row: int) -> Highlight:
    return what, where, int(table.start_ns[row]), int(table.end_ns[row])


def _around(marks: list[Highlight]) -> Marked:
    return Marked(min(mark[2] for mark in marks), max(mark[3] for mark in marks), tuple(marks))
