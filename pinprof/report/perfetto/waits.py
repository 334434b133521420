"""Tracks of the stalls, each with an arrow to the GPU work that it waited for, and of the bubbles behind them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.report.perfetto.tracks import APART_NS, Arrow, Label, Track
from pinprof.report.timeline.facts import awaited_rows
from pinprof.report.timeline.kinds import KINDS, PROFILER
from pinprof.report.words import place, printable
from pinprof.rules import rule_of_wait
from pinprof.trace.tables import NONE, Int64s, Trace, rows_by
from pinprof.units import ms


def stall_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield a track of stalls for each host thread that has any, the main thread first."""
    if analysis.profile.withheld.stalls:
        return
    stalls = analysis.details.syncs.stalls
    thread = analysis.trace.calls.thread[stalls.call]
    known = not analysis.profile.withheld.drain
    awaited = awaited_rows(analysis.trace, stalls, np.arange(len(stalls.call))) if known else None
    for rows in sorted(rows_by(thread), key=lambda rows: analysis.trace.threads[thread[rows[0]]].role != "main"):
        index = int(thread[rows[0]])
        call = stalls.call[rows]
        host = analysis.trace.threads[index]

        def describe(at: int, rows: Int64s = rows) -> Label:
            row = int(rows[at])
            arrow = None if awaited is None else _arrow(analysis.trace, int(awaited[row]))
            return Label(cause_of(analysis, row), stall_args(analysis, row), arrow)

        name = f"stalls of host thread {host.tid} ({host.role})"
        yield Track(name, analysis.trace.calls.start_ns[call], analysis.trace.calls.end_ns[call], describe)


def bubble_tracks(analysis: Analysis, device: int) -> Iterator[Track]:
    """Yield the track of the bubbles of a device, if it has any."""
    if analysis.profile.withheld.stalls or analysis.profile.withheld.drain:
        return
    stalls = analysis.details.syncs.stalls
    rows = stalls.of_device.get(device, stalls.call[:0])
    rows = rows[stalls.bubble_ns[rows] > 0]
    rows = rows[np.argsort(stalls.awaited_end_ns[rows], kind="stable")]
    if not len(rows):
        return
    start = stalls.awaited_end_ns[rows]

    def describe(at: int) -> Label:
        row = int(rows[at])
        thread = analysis.trace.threads[analysis.trace.calls.thread[stalls.call[row]]]
        return Label(
            f"idle after {cause_of(analysis, row)}",
            {"idle_ms": ms(stalls.bubble_ns[row]), "left_by": stall_args(analysis, row), "thread": str(thread.tid)},
        )

    yield Track(f"GPU {device}: bubbles, idle after a stall", start, start + stalls.bubble_ns[rows], describe)


def cause_of(analysis: Analysis, row: int) -> str:
    """Return the cause of a stall."""
    syncs = analysis.details.syncs
    return KINDS[PROFILER].label if syncs.stalls.profiler[row] else CAUSES[syncs.cause[row]]


def stall_args(analysis: Analysis, row: int) -> dict[str, Any]:
    """Return what is known of a stall, without what is withheld."""
    syncs = analysis.details.syncs
    stalls, site, line = syncs.stalls, syncs.sites[syncs.site[row]], syncs.lines[row]
    at = place(line.place if line else site.place._replace(line=None))
    args: dict[str, Any] = {"wait_ms": ms(stalls.stall_ns[row])}
    if not analysis.profile.withheld.drain:
        args |= {
            "drain_ms": ms(stalls.drain_ns[row]),
            "own_ms": ms(stalls.own_ns[row]),
            "overhead_ms": ms(stalls.overhead_ns[row]),
            "gpu_idle_after_ms": ms(stalls.bubble_ns[row]),
        }
    args |= {"verdict": site.verdict, "call": printable(analysis.trace.calls.name_of(int(stalls.call[row])))}
    if site.op:
        args["op"] = printable(site.op)
    if at:
        args["at"] = printable(at)
    if site.library:
        args["in"] = printable(place(site.library))
    rule = rule_of_wait(analysis.details, row)
    if rule:
        args["more"] = f"pinprof explain {rule}"
    return args


def _arrow(trace: Trace, row: int) -> Arrow | None:
    """Return an arrow to GPU work, just before its end; None where it is too short to be bound to."""
    if row == NONE:
        return None
    start, end = int(trace.gpu.start_ns[row]), int(trace.gpu.end_ns[row])
    pid, tid = trace.tracks[trace.gpu.track[row]]
    return Arrow(pid, tid, end - APART_NS) if end - start > 2 * APART_NS else None
