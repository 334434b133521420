"""What the rectangles of a lane can be, a row each, and what the page has of them besides their times."""

import numpy as np

from pinprof.report.timeline.facts import Facts
from pinprof.report.timeline.lane import Columns, Lane, Links, Names, Source
from pinprof.trace.tables import Int64s, Table


def _named(table: Table, rows: Int64s) -> Names:
    return Names(table.names, table.name[rows])


def columns_of_events(facts: Facts, lane: Lane) -> Columns:
    """Return the names of events of a thread, and what is around calls."""
    around = {"around": facts.around.call[lane.row]} if lane.source.table == "calls" else {}
    return {"name": _named(getattr(facts.trace, lane.source.table), lane.row), **around}


def columns_of_stalls(facts: Facts, lane: Lane) -> Columns:
    """Return the calls of stalls, what is around them, and what the host waits for unless that is withheld."""
    stalls, rows, why = facts.analysis.details.syncs.stalls, lane.row, facts.analysis.profile.withheld
    columns: Columns = {"name": _named(facts.trace.calls, stalls.call[rows]), "around": facts.around.stall[rows]}
    if why.stalls or why.drain:
        return columns
    columns["awaited"] = Links("gpu", facts.awaited(rows))
    return {**columns, "drain": stalls.drain_ns[rows], "own": stalls.own_ns[rows], "bubble": stalls.bubble_ns[rows]}


def columns_of_work(facts: Facts, lane: Lane) -> Columns:
    """Return names, launches, steps, sizes and surroundings of GPU work, and of copies the exposed time and why.

    Steps, sizes, times and reasons are one more than they are; 0 is none.
    """
    gpu, links, rows, why = facts.trace.gpu, facts.trace.links, lane.row, facts.analysis.profile.withheld
    columns: Columns = {
        "name": _named(gpu, rows),
        "launch": Links("calls", links.launch[rows]),
        "step": links.activity_step[rows] + 1,
        "bytes": gpu.bytes[rows] + 1,
        "around": facts.around.activity[rows],
    }
    if why.overlap:
        return columns
    exposed, reason = np.zeros(len(gpu), np.int64), np.zeros(len(gpu), np.int64)
    overlap = facts.analysis.details.overlap
    exposed[overlap.row] = overlap.exposed_ns + 1
    reason[overlap.row] = 0 if why.causes else overlap.reason + 1
    return {**columns, "exposed": exposed[rows], "reason": reason[rows]}


STEPS = Source("steps", lambda _, lane: {"step": lane.row})
GPU_STEPS = Source("gpu_steps", lambda _, lane: {"step": lane.row})
CHANGES = Source("changes", lambda _, lane: {"name": Names(lane.names, lane.row)})
STALLS = Source("stalls", columns_of_stalls)
ANNOTATIONS = Source("annotations", columns_of_events, "annotations", is_nested=True)
OPS = Source("ops", columns_of_events, "ops", is_nested=True)
CALLS = Source("calls", columns_of_events, "calls", is_nested=True)
FRAMES = Source("frames", columns_of_events, "functions", is_nested=True)
BAND = Source("overlap", lambda *_: {})
WORK = Source("gpu", columns_of_work, "gpu")
