"""Where a finding is to be seen: its worst instance, as an attribute that the page's script follows."""

import html
import json
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.report.timeline.window import choose_window
from pinprof.rules import Finding
from pinprof.trace.lines import Place
from pinprof.trace.tables import NONE, Int64s, Trace

Mark = tuple[str, str, int, int]
"""What is marked, in which lanes (a lane's source such as `stalls`, or `device N`), and from when to when."""


class Instance(NamedTuple):
    """One time that a finding is about, in ns of the trace."""

    start_ns: int
    end_ns: int
    marks: tuple[Mark, ...]


def zoom_attribute(analysis: Analysis, finding: Finding) -> str:
    """Return ` data-zoom="..."` for a finding, with times in ns since the timeline's 0; nothing where none is known."""
    found = worst(analysis, finding)
    if found is None:
        return ""
    zero = choose_window(analysis.trace).start_ns
    marks = [(what, where, start - zero, end - zero) for what, where, start, end in found.marks]
    text = json.dumps({"range": [found.start_ns - zero, found.end_ns - zero], "marks": marks})
    return f' data-zoom="{html.escape(text)}"'


def worst(analysis: Analysis, finding: Finding) -> Instance | None:
    """Return the instance of a finding that costs most, None where no single one is known."""
    stall = _worst_stall(analysis, finding)
    if stall is not None:
        return _of_stall(analysis, stall)
    copy = _worst_copy(analysis, finding)
    if copy is not None:
        return _of_copy(analysis, copy)
    times = analysis.details.loader.times
    if finding.rule.id.startswith("PIN4") and len(times.start):
        longest = int((times.end - times.start).argmax())
        start, end = int(times.start[longest]), int(times.end[longest])
        where = "annotations" if start in analysis.trace.annotations.start_ns else "ops"
        return Instance(start, end, (("the wait for input", where, start, end),))
    return None


def _worst_stall(analysis: Analysis, finding: Finding) -> int | None:
    """Return the stall of the finding's sites that costs most, in complete steps if there are any there."""
    syncs = analysis.details.syncs
    causes = [CAUSES.index(cause) for cause in finding.rule.causes if cause in CAUSES]
    sites = [number for number, site in enumerate(syncs.sites) if site.place == finding.evidence.place]
    rows = np.flatnonzero(np.isin(syncs.cause, causes) & np.isin(syncs.site, sites) & ~syncs.stalls.profiler)
    inside = rows[analysis.trace.steps.holds(syncs.stalls.call_step[rows])]
    rows = inside if len(inside) else rows
    cost = syncs.stalls.idle_ns * 1000 + syncs.stalls.stall_ns  # idle time first: that is what it costs
    return int(rows[cost[rows].argmax()]) if len(rows) else None


def _worst_copy(analysis: Analysis, finding: Finding) -> int | None:
    """Return the place in `Profile.overlap` of the finding's copy that is exposed longest."""
    if not finding.rule.id.startswith(("PIN1", "PIN3", "PIN5")) or not len(analysis.details.overlap.row):
        return None
    evidence, overlap = finding.evidence, analysis.details.overlap
    mine = evidence.edits.pinned | evidence.edits.ahead
    if mine:
        places = np.flatnonzero(np.isin(overlap.row, list(mine)))
    else:
        at = [line.place if line else Place() for line in analysis.details.copy_places]
        places = np.array([index for index, here in enumerate(at) if here == evidence.place], np.int64)
    inside = places[analysis.trace.steps.holds(analysis.trace.links.activity_step[overlap.row[places]])]
    places = inside if len(inside) else places
    cost = overlap.exposed_ns * 1000 + analysis.trace.gpu.duration_ns[overlap.row]
    return int(places[cost[places].argmax()]) if len(places) else None


def _of_stall(analysis: Analysis, row: int) -> Instance:
    stalls = analysis.details.syncs.stalls
    same = stalls.copy == stalls.copy[row]  # the calls that make and await one copy are one wait
    calls = stalls.call[same & ~stalls.profiler] if stalls.copy[row] != NONE else stalls.call[[row]]
    times = zip(analysis.trace.calls.start_ns[calls].tolist(), analysis.trace.calls.end_ns[calls].tolist(), strict=True)
    marks: list[Mark] = [("the wait", "stalls", start, end) for start, end in times]
    if not (analysis.profile.withheld.stalls or analysis.profile.withheld.drain):
        awaited = _awaited(
            analysis.trace, int(stalls.copy[row]), int(stalls.device[row]), int(stalls.awaited_end_ns[row])
        )
        if awaited != NONE and (stalls.own_ns[row] or stalls.drain_ns[row]):
            marks.append(
                (
                    "awaited work",
                    "gpu",
                    int(analysis.trace.gpu.start_ns[awaited]),
                    int(analysis.trace.gpu.end_ns[awaited]),
                )
            )
        if stalls.bubble_ns[row]:
            idle = int(stalls.awaited_end_ns[row])
            marks.append(("GPU idle after", f"device {stalls.device[row]}", idle, idle + int(stalls.bubble_ns[row])))
    return _around(marks)


def _awaited(trace: Trace, copy: int, device: int, end_ns: int) -> int:
    """Return the activity whose end the host waited for: its own copy, else the last one to end then."""
    gpu = trace.gpu
    if copy != NONE and gpu.end_ns[copy] == end_ns:
        return copy
    rows: Int64s = np.flatnonzero((gpu.end_ns == end_ns) & (gpu.device == device))
    return int(rows[0]) if len(rows) else NONE


def _of_copy(analysis: Analysis, place: int) -> Instance:
    row = int(analysis.details.overlap.row[place])
    marks: list[Mark] = [
        ("the copy", "gpu", int(analysis.trace.gpu.start_ns[row]), int(analysis.trace.gpu.end_ns[row]))
    ]
    launch = int(analysis.trace.links.launch[row])
    if launch != NONE:
        marks.append(
            (
                "its launch",
                "calls",
                int(analysis.trace.calls.start_ns[launch]),
                int(analysis.trace.calls.end_ns[launch]),
            )
        )
    return _around(marks)


def _around(marks: list[Mark]) -> Instance:
    return Instance(min(mark[2] for mark in marks), max(mark[3] for mark in marks), tuple(marks))
