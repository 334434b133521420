"""Where a finding is at its worst: the wait or the copy that Perfetto's tracks show, and that the timeline zooms to."""

import json
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.report.elements import Markup
from pinprof.report.timeline.facts import awaited_rows
from pinprof.report.timeline.window import choose_window
from pinprof.rules import Finding
from pinprof.trace.lines import Place
from pinprof.trace.tables import NONE, Table

OF_COPIES = ("copies", "overlap", "hazards")
"""Families of rules whose findings may be about copies."""


class Instance(NamedTuple):
    """One time that a finding is about."""

    stall: int | None = None
    """Row of `Syncs.stalls`, if it is a wait."""
    copy: int | None = None
    """Place in `Overlap`, if it is a copy."""
    input_wait: int | None = None
    """Place in `LoaderWaits.times`, if it is a wait for input."""


def worst_instance(details: Details, finding: Finding) -> Instance | None:
    """Return the instance of a finding that costs most, in complete steps if some are there; None if none is known."""
    stall = _worst_stall(details, finding)
    if stall is not None:
        return Instance(stall=stall)
    copy = _worst_copy(details, finding)
    if copy is not None:
        return Instance(copy=copy)
    times = details.loader.times
    if finding.rule.family == "input" and len(times.start):
        return Instance(input_wait=int((times.end - times.start).argmax()))
    return None


def _worst_stall(details: Details, finding: Finding) -> int | None:
    """Return the stall of the finding's sites that costs most."""
    syncs = details.syncs
    causes = [CAUSES.index(cause) for cause in finding.rule.causes if cause in CAUSES]
    places = _places(finding)
    sites = [number for number, site in enumerate(syncs.sites) if site.place in places]
    rows = np.flatnonzero(np.isin(syncs.cause, causes) & np.isin(syncs.site, sites) & ~syncs.stalls.profiler)
    inside = rows[details.trace.steps.holds(syncs.stalls.call_step[rows])]
    rows = inside if len(inside) else rows
    cost = syncs.stalls.idle_ns * 1000 + syncs.stalls.stall_ns  # idle time first: that is what it costs
    return int(rows[cost[rows].argmax()]) if len(rows) else None


def _places(finding: Finding) -> set[Place]:
    return {site.evidence.place for site in finding.sites}


def _worst_copy(details: Details, finding: Finding) -> int | None:
    """Return the finding's copy that is exposed longest."""
    trace, overlap, evidence = details.trace, details.overlap, finding.evidence
    if finding.rule.family not in OF_COPIES or not len(overlap.row):
        return None
    mine = evidence.edits.pinned | evidence.edits.ahead
    if mine:
        places = np.flatnonzero(np.isin(overlap.row, list(mine)))
    else:
        at = [line.place if line else Place() for line in details.copy_places]
        mine_at = _places(finding)
        places = np.array([index for index, here in enumerate(at) if here in mine_at], np.int64)
    inside = places[trace.steps.holds(trace.links.activity_step[overlap.row[places]])]
    places = inside if len(inside) else places
    cost = overlap.exposed_ns * 1000 + trace.gpu.duration_ns[overlap.row]
    return int(places[cost[places].argmax()]) if len(places) else None


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
