"""Where a finding is at its worst: the wait or the copy that the timeline and Perfetto's tracks show of it."""

from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs import CAUSES
from pinprof.details import Details
from pinprof.rules import Finding
from pinprof.trace.lines import Place

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
