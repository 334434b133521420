"""Find the worst instance of a finding: the wait or copy that Perfetto's tracks show and the timeline zooms to."""

import json
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from pinprof.analyses.idle import IDLE
from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.report.html import Markup
from pinprof.report.timeline.lane_context import awaited_rows
from pinprof.report.timeline.steps import choose_window
from pinprof.rules.rule import Finding
from pinprof.rules.sums import in_complete_steps
from pinprof.trace.lines import Place
from pinprof.trace.tables import NONE, Table

RELATION_OF_LINK = {"launch": "its launch", "awaited": "awaited work"}
"""The relation of a linked event to the one that is shown, by the column of the link."""
COPY_FAMILIES = ("copies", "overlap", "hazards")
"""Families of rules whose findings may be about copies."""


class Mark(NamedTuple):
    """A marked event: its name, its lanes (a source such as `stalls`, or `device N`), its start and its end."""

    what: str
    where: str
    start_ns: int
    end_ns: int


class Instance(NamedTuple):
    """One instance of a finding in the trace, with what to mark; times in ns of the trace."""

    start_ns: int
    end_ns: int
    marks: tuple[Mark, ...]
    """The event that the finding is about, and the events linked to it."""


def zoom_attribute(analysis: Analysis, finding: Finding) -> Markup:
    """Return ` data-zoom="..."` for a finding, with times in ns since the timeline's 0; empty if none is known."""
    instance = worst_instance(analysis, finding)
    if instance is None:
        return Markup()
    zero = choose_window(analysis.trace).start_ns
    marks = [(what, where, start - zero, end - zero) for what, where, start, end in instance.marks]
    text = json.dumps({"range": [instance.start_ns - zero, instance.end_ns - zero], "marks": marks})
    return Markup(' data-zoom="{}"').format(escape(text))


def worst_instance(analysis: Analysis, finding: Finding) -> Instance | None:
    """Return the instance of a finding that costs most, in complete steps if some are there; None if none is known."""
    details = analysis.details
    stall = _worst_stall(details, finding)
    if stall is not None:
        return _of_stall(analysis, stall)
    copy = _worst_copy(details, finding)
    if copy is not None:
        return _of_copy(details, copy)
    kernels = np.array(sorted(finding.evidence.edits.removed_works), np.int64)
    if len(kernels):
        gpu = details.trace.gpu
        return _around([_mark("the kernel", "gpu", gpu, int(kernels[gpu.duration_ns[kernels].argmax()]))])
    if finding.rule.family == "launches" and not analysis.profile.withheld.causes:
        return _of_gap(details)
    times = details.loader.times
    if finding.rule.family == "input" and len(times.start):
        return _of_input(details, int((times.end - times.start).argmax()))
    return None


def _worst_stall(details: Details, finding: Finding) -> int | None:
    """Return the stall of the finding's sites that costs most."""
    syncs = details.syncs
    places = _places(finding)
    sites = (number for number, site in enumerate(syncs.sites) if site.place in places)
    rows = syncs.at(number for number in sites if syncs.sites[number].cause in finding.rule.causes)
    rows = rows[~syncs.stalls.profiler[rows]]
    inside = rows[details.trace.steps.holds(syncs.stalls.call_step[rows])]
    rows = inside if len(inside) else rows
    cost = syncs.stalls.idle_ns * 1000 + syncs.stalls.stall_ns  # idle time first: that is the real cost
    return int(rows[cost[rows].argmax()]) if len(rows) else None


def _places(finding: Finding) -> set[Place]:
    return {site.evidence.place for site in finding.sites}


def _worst_copy(details: Details, finding: Finding) -> int | None:
    """Return the finding's copy that is exposed longest."""
    trace, overlap, evidence = details.trace, details.overlap, finding.evidence
    if finding.rule.family not in COPY_FAMILIES or not len(overlap.row):
        return None
    edited = evidence.edits.pinned | evidence.edits.ahead
    if edited:
        places = np.flatnonzero(np.isin(overlap.row, list(edited)))
    else:
        lines, of_finding = details.copy_places, _places(finding)
        places = np.flatnonzero([(line.place if line else Place()) in of_finding for line in lines])
    inside = places[trace.steps.holds(trace.links.activity_step[overlap.row[places]])]
    places = inside if len(inside) else places
    cost = overlap.exposed_ns * 1000 + trace.gpu.duration_ns[overlap.row]
    return int(places[cost[places].argmax()]) if len(places) else None


def _of_stall(analysis: Analysis, row: int) -> Instance:
    trace, stalls, why = analysis.trace, analysis.details.syncs.stalls, analysis.profile.withheld
    same = stalls.copy == stalls.copy[row]  # the calls that make and await one copy are one wait
    calls = stalls.call[same & ~stalls.profiler] if stalls.copy[row] != NONE else stalls.call[[row]]
    marks = [_mark("the wait", "stalls", trace.calls, call) for call in calls.tolist()]
    if why.stalls or why.drain:
        return _around(marks)
    awaited = int(awaited_rows(trace, stalls, np.array([row]))[0])
    if awaited != NONE:
        marks.append(_mark(RELATION_OF_LINK["awaited"], "gpu", trace.gpu, awaited))
    if stalls.bubble_ns[row]:
        idle = int(stalls.awaited_end_ns[row])
        marks.append(Mark("GPU idle after", f"device {stalls.device[row]}", idle, idle + int(stalls.bubble_ns[row])))
    return _around(marks)


def _of_copy(details: Details, index: int) -> Instance:
    trace, row = details.trace, int(details.overlap.row[index])
    marks = [_mark("the copy", "gpu", trace.gpu, row)]
    launch = int(trace.links.launch[row])
    if launch != NONE:
        marks.append(_mark(RELATION_OF_LINK["launch"], "calls", trace.calls, launch))
    return _around(marks)


def _of_gap(details: Details) -> Instance | None:
    """Return the longest time in the complete steps in which a GPU is idle because the next launch comes late."""
    gaps = []
    for of_device in details.gaps:
        times, is_late = of_device.times, of_device.cause == list(IDLE).index("host_wait")
        late = np.flatnonzero(is_late & in_complete_steps(details.trace, times.start))
        if len(late):
            gap = late[(times.end - times.start)[late].argmax()]
            gaps.append(Mark("GPU idle", f"device {of_device.device}", int(times.start[gap]), int(times.end[gap])))
    longest = max(gaps, key=lambda gap: gap.end_ns - gap.start_ns, default=None)
    return _around([longest]) if longest else None


def _of_input(details: Details, row: int) -> Instance:
    start, end = (int(times[row]) for times in (details.loader.times.start, details.loader.times.end))
    where = "annotations" if start in details.trace.annotations.start_ns else "ops"
    return _around([Mark("the wait for input", where, start, end)])


def _mark(what: str, where: str, table: Table, row: int) -> Mark:
    return Mark(what, where, int(table.start_ns[row]), int(table.end_ns[row]))


def _around(marks: list[Mark]) -> Instance:
    return Instance(min(mark.start_ns for mark in marks), max(mark.end_ns for mark in marks), tuple(marks))
