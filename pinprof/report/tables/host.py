"""The tables of the host: ops, and the waits for the GPU."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pinprof.analyses.by_name.names import Origins
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.sites import WaitCost
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.analysis import Analysis
from pinprof.measurement.profile import WaitSite
from pinprof.report.tables import grid
from pinprof.report.trace.sections.waits import WAIT_PARTS, group_waits
from pinprof.report.words import cut, place, short_place
from pinprof.trace.callers import function_around
from pinprof.trace.links import follow, step_at
from pinprof.trace.tables import KERNEL, NONE, Bools, Int64s, Trace

MAX_RECURSION_LEVELS = 64
"""Levels of callers that are searched for an op of the same name."""
MAX_WAITS_IN_TIMELINE = 1000
"""The most waits of a site that the timeline finds one by one."""


def ops(analysis: Analysis) -> grid.Grid | None:
    """Return the ops by name; None without any."""
    trace, table = analysis.trace, analysis.trace.ops
    if not len(table):
        return None
    own, inside = analysis.details.op_own_ns, _inside(trace)
    groups = grid.EventGroups.by((table.name,), own, inside)
    launched = _kernels(trace)
    outermost = np.where(_within_same(trace), 0, table.duration_ns)
    names = [table.names[code] for code in table.name[groups.first].tolist()]
    texts, places = groups.origins(
        Origins(trace, function_around(trace, np.arange(len(table))), analysis.details.sources)
    )
    with_all = grid.Field(
        "all", "with callees", grid.TIME_VALUES, "with the ops that it calls", adds=True, over_rows=False
    )
    kernels = grid.Field("kernels", "kernels", grid.COUNT_VALUES, "that it launches itself", adds=True)
    of_host = grid.Field(
        "share", "of host time", grid.SHARE_VALUES, "own time, of the steps on the host", ("total", "whole")
    )
    numbers = {**groups.timed, "all": groups.sums(outermost), "kernels": groups.sums(launched)}
    longest = groups.longest
    return grid.Grid(
        "ops",
        "Ops",
        "Ops of all host threads by name, as traced, with the profiler's cost in their times. Own time is without "
        "the ops that an op calls",
        (grid.Field("name", "op"), *grid.timed(of_host, with_all, kernels, total="own time"), *grid.ORIGIN_COLUMNS),
        {"name": list(map(grid.short_name, names)), **texts},
        numbers,
        {"name": [cut(text) for text in names]},
        "ops",
        (table.start_ns[longest], table.end_ns[longest]),
        places,
        _host_times(trace),
    )


def _inside(trace: Trace) -> Bools:
    steps, table = trace.steps, trace.ops
    return steps.holds(step_at(steps, table.start_ns)) if steps.on_host else np.zeros(len(table), bool)


def _host_times(trace: Trace) -> tuple[int, int]:
    """Return how long the complete steps are on the host, and the recording."""
    steps, table = trace.steps, trace.ops
    inside = int((steps.end_ns - steps.start_ns)[steps.complete].sum()) if steps.on_host else 0
    return inside, int(table.end_ns.max() - table.start_ns[0])


def _within_same(trace: Trace) -> Bools:
    """Return whether each op runs within an op of the same name, whose time includes it."""
    name, around = trace.ops.name, trace.links.op_parent
    within = np.zeros(len(name), bool)
    for _ in range(MAX_RECURSION_LEVELS):
        if not (around != NONE).any():
            break
        within |= follow(name, around) == name
        around = follow(trace.links.op_parent, around)
    return within


def _kernels(trace: Trace) -> Int64s:
    launch = trace.links.launch[trace.gpu.category == KERNEL]
    op = follow(trace.links.op, launch)
    return np.bincount(op[op != NONE], minlength=len(trace.ops)).astype(np.int64)


def waits(analysis: Analysis) -> grid.Grid | None:
    """Return the waits by site, without the profiler's; None without any, or if their times are withheld."""
    trace, syncs, why = analysis.trace, analysis.details.syncs, analysis.profile.withheld
    numbered = [(number, site) for number, site in enumerate(syncs.sites) if site.verdict != "profiler"]
    if not numbered or why.stalls:
        return None
    sites = [site for _, site in numbered]
    rows = [syncs.rows[number] for number, _ in numbered]
    rows_in_steps = (of_site[trace.steps.holds(syncs.stalls.call_step[of_site])] for of_site in rows)
    inside, longest = ([_longest(trace, syncs.stalls, of_site) for of_site in scope] for scope in (rows_in_steps, rows))
    costs = [(site.in_steps, site.total) for site in sites]
    parts = () if why.drain else WAIT_PARTS
    numbers: dict[str, grid.Scopes] = {
        "count": _of_sites(costs, lambda cost: cost.count),
        "total": _of_sites(costs, lambda cost: cost.stall_ns),
        "most": ([wait.stall_ns for wait in inside], [wait.stall_ns for wait in longest]),
        **{part.key: _of_sites(costs, part.time_ns) for part in parts},
    }
    calls = [trace.calls.start_ns[syncs.stalls.call[of_site[:MAX_WAITS_IN_TIMELINE]]].tolist() for of_site in rows]
    return grid.Grid(
        "waits",
        "Waits",
        "Calls in which the host can wait for the GPU, by cause and place, as traced",
        (
            grid.Field("name", "cause"),
            *grid.timed(
                *(grid.Field(part.key, part.label, grid.TIME_VALUES, part.meaning, adds=True) for part in parts)
            ),
            grid.Field("op", "op or call"),
            grid.Field("line", "line"),
            grid.Field("library", "in"),
            grid.Field("verdict", "verdict"),
        ),
        {
            "name": [WAITS[site.cause].plain for site in sites],
            "op": [grid.short_name(site.op or site.call) for site in sites],
            "line": [place(site.place) for site in sites],
            "library": [place(short_place(site.library)) if site.library else "" for site in sites],
            "verdict": [site.verdict for site in sites],
        },
        numbers,
        {"starts": calls},
        "stalls",
        (np.array([wait.start_ns for wait in longest]), np.array([wait.end_ns for wait in longest])),
        [site.place for site in sites],
        stacks=[site.stack for site in sites],
        together=_by_call_line([analysis.profile.sites[number] for number, _ in numbered]),
    )


def _by_call_line(sites: list[WaitSite]) -> dict[str, list[list[int]]]:
    numbers = {id(site): number for number, site in enumerate(sites)}
    groups = [[numbers[id(site)] for site in group] for group in group_waits(sites) if len(group) > 1]
    return {"by line": groups} if groups else {}


class _Wait(NamedTuple):
    stall_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0


def _longest(trace: Trace, stalls: Stalls, rows: Int64s) -> _Wait:
    """Return the longest wait of some stalls; calls that make and await the same copy are one wait."""
    if not len(rows):
        return _Wait()
    copy = np.where(stalls.copy[rows] != NONE, stalls.copy[rows], -2 - np.arange(len(rows)))
    which = np.unique(copy, return_inverse=True)[1].ravel()
    calls = stalls.call[rows[which == np.bincount(which, stalls.stall_ns[rows]).argmax()]]
    length = int(stalls.stall_ns[np.isin(stalls.call, calls)].sum())
    return _Wait(length, int(trace.calls.start_ns[calls].min()), int(trace.calls.end_ns[calls].max()))


def _of_sites(costs: list[tuple[WaitCost, WaitCost]], value: Callable[[WaitCost], int]) -> grid.Scopes:
    return [value(inside) for inside, _ in costs], [value(whole) for _, whole in costs]
