"""Find the worst instance of a finding: the wait, copy or idle time that the timeline zooms to."""

import json
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.report.html import Markup
from pinprof.report.timeline.steps import choose_window
from pinprof.rules.rule import Finding
from pinprof.rules.sums import in_complete_steps
from pinprof.trace.lines import Place
from pinprof.trace.tables import Table

COPY_FAMILIES = ("copies", "overlap", "hazards")


class Instance(NamedTuple):
    """An event that a finding is about: its lanes (a source such as `stalls`, or `device N`), and its times in ns."""

    where: str
    start_ns: int
    end_ns: int


def zoom_attribute(analysis: Analysis, finding: Finding) -> Markup:
    """Return ` data-zoom="..."` for a finding, with times in ns since the timeline's 0; empty if none is known."""
    instance = worst_instance(analysis, finding)
    if instance is None:
        return Markup()
    zero = choose_window(analysis.trace).start_ns
    text = json.dumps([instance.where, instance.start_ns - zero, instance.end_ns - zero])
    return Markup(' data-zoom="{}"').format(escape(text))


def worst_instance(analysis: Analysis, finding: Finding) -> Instance | None:
    """Return the costliest instance of a finding, if possible in a complete step; None if none is known."""
    details, trace, family = analysis.details, analysis.trace, finding.rule.family
    stall = _worst_stall(details, finding)
    if stall is not None:
        return _event("stalls", trace.calls, int(details.syncs.stalls.call[stall]))
    copy = _worst_copy(details, finding)
    if copy is not None:
        return _event("gpu", trace.gpu, copy)
    kernels = np.array(sorted(finding.evidence.edits.removed_works), np.int64)
    if len(kernels):
        return _event("gpu", trace.gpu, int(kernels[trace.gpu.duration_ns[kernels].argmax()]))
    if family == "launches" and not analysis.profile.withheld.causes:
        return _longest_gap(details)
    times = details.loader.times
    if family == "input" and len(times.start):
        longest = int((times.end - times.start).argmax())
        start, end = int(times.start[longest]), int(times.end[longest])
        return Instance("annotations" if start in trace.annotations.start_ns else "ops", start, end)
    return None


def _event(where: str, table: Table, row: int) -> Instance:
    return Instance(where, int(table.start_ns[row]), int(table.end_ns[row]))


def _worst_stall(details: Details, finding: Finding) -> int | None:
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
    """Return the row of the finding's copy that is exposed longest."""
    trace, overlap, evidence = details.trace, details.overlap, finding.evidence
    if finding.rule.family not in COPY_FAMILIES or not len(overlap.row):
        return None
    edited = evidence.edits.pinned | evidence.edits.ahead
    if edited:
        positions = np.flatnonzero(np.isin(overlap.row, list(edited)))
    else:
        lines, of_finding = details.copy_places, _places(finding)
        positions = np.flatnonzero([(line.place if line else Place()) in of_finding for line in lines])
    inside = positions[trace.steps.holds(trace.links.activity_step[overlap.row[positions]])]
    positions = inside if len(inside) else positions
    cost = overlap.exposed_ns * 1000 + trace.gpu.duration_ns[overlap.row]
    return int(overlap.row[positions[cost[positions].argmax()]]) if len(positions) else None


def _longest_gap(details: Details) -> Instance | None:
    """Return the longest time in the complete steps in which a GPU is idle because the next launch comes late."""
    gaps = []
    for of_device in details.gaps:
        times, is_late = of_device.times, of_device.cause == IDLE_CAUSES.index("host_wait")
        late = np.flatnonzero(is_late & in_complete_steps(details.trace, times.start))
        if len(late):
            gap = late[(times.end - times.start)[late].argmax()]
            gaps.append(Instance(f"device {of_device.device}", int(times.start[gap]), int(times.end[gap])))
    return max(gaps, key=lambda gap: gap.end_ns - gap.start_ns, default=None)
