"""The tracks of an export: stalls with arrows to awaited work, idle time, exposed copies; and counters of a GPU."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pinprof.analyses.copies import EXPOSED, REASONS, exposed_pieces
from pinprof.analyses.idle import IDLE, IDLE_CAUSES, IdleGaps
from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.intervals import covered, intersect, union
from pinprof.report.perfetto.tracks import APART_NS, CATEGORY, Arrow, Label, Track, encoded, micros
from pinprof.report.timeline.facts import awaited_rows
from pinprof.report.timeline.kinds import KINDS, PROFILER
from pinprof.report.words import place, printable
from pinprof.rules import rule_of_exposure, rule_of_wait
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, KERNEL, MEMCPY, NONE, Int64s, Trace, rows_by
from pinprof.units import ms

SHORT_GAP_NS = 2_000
"""Shorter idle gaps have no slice: any two consecutive kernels have one between them."""
BINS, NARROWEST_NS = 4_000, 10_000
"""The most intervals for which a counter shows how busy the GPU was, and their least length."""


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
    """Return the args of a stall's slice, without what is withheld."""
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
    """Return an arrow to GPU work, just before its end; None if the work is too short for an arrow."""
    if row == NONE:
        return None
    start, end = int(trace.gpu.start_ns[row]), int(trace.gpu.end_ns[row])
    pid, tid = trace.tracks[trace.gpu.track[row]]
    return Arrow(pid, tid, end - APART_NS) if end - start > 2 * APART_NS else None


def idle_tracks(analysis: Analysis, idle: IdleGaps) -> Iterator[Track]:
    """Yield the track of a device's idle time, without causes if they are withheld."""
    if analysis.profile.withheld.busy:
        return
    shown = np.flatnonzero(idle.times.end - idle.times.start >= SHORT_GAP_NS)
    known = not analysis.profile.withheld.causes

    def describe(at: int) -> Label:
        gap = shown[at]
        args: dict[str, Any] = {"idle_ms": ms(idle.times.end[gap] - idle.times.start[gap])}
        cause = IDLE_CAUSES[idle.cause[gap]]
        return Label(cause, args | {"why": IDLE[cause].why}) if known else Label("idle", args)

    if len(shown):
        name = f"GPU {idle.device}: idle" + (", by cause" if known else "")
        yield Track(name, idle.times.start[shown], idle.times.end[shown], describe)


def exposed_tracks(analysis: Analysis, device: int) -> Iterator[Track]:
    """Yield a track for each direction in which a device has exposed copies."""
    if analysis.profile.withheld.overlap:
        return
    start, end, row = exposed_pieces(analysis.trace, device)
    number = np.searchsorted(analysis.details.overlap.row, row)
    for direction in np.unique(analysis.trace.gpu.direction[row]):
        chosen = np.flatnonzero(analysis.trace.gpu.direction[row] == direction)

        def describe(at: int, chosen: Int64s = chosen) -> Label:
            return _exposed_label(analysis, int(number[chosen[at]]))

        name = f"GPU {device}: exposed copies {DIRECTIONS[direction]}"
        yield Track(name, start[chosen], end[chosen], describe)


def _exposed_label(analysis: Analysis, number: int) -> Label:
    gpu, overlap = analysis.trace.gpu, analysis.details.overlap
    row = int(overlap.row[number])
    length = int(gpu.end_ns[row] - gpu.start_ns[row])
    args: dict[str, Any] = {"exposed_ms": ms(overlap.exposed_ns[number]), "copy_ms": ms(length)}
    if gpu.bytes[row] != NONE and not analysis.profile.withheld.copies:
        args |= {"bytes": int(gpu.bytes[row])} | (
            {"gb_per_s": round(int(gpu.bytes[row]) / length, 3)} if length else {}
        )
    if HOST_MEMORIES[gpu.host_memory[row]] != "none":
        args["host_memory"] = HOST_MEMORIES[gpu.host_memory[row]]
    args |= {"stream": int(gpu.stream[row]), "copy": printable(gpu.name_of(row))}
    line = analysis.details.copy_places[number]
    if line:
        args["at"] = printable(place(line.place))
    if analysis.profile.withheld.causes:
        return Label("exposed", args)
    reason = REASONS[overlap.reason[number]]
    rule = rule_of_exposure(analysis.details, reason, DIRECTIONS[gpu.direction[row]])
    args |= {"why": EXPOSED[reason].sentence} | ({"more": f"pinprof explain {rule}"} if rule else {})
    return Label(f"exposed: {reason}", args)


def counter_events(analysis: Analysis, device: int, pid: int) -> Iterator[bytes]:
    """Yield the counters of a device: shares of time with kernels, copies and both, and the rate of copies."""
    if not (analysis.profile.withheld.busy or analysis.profile.withheld.overlap):
        yield from _activity(analysis.trace, device, pid)
    if not analysis.profile.withheld.copies:
        yield from _rates(analysis.trace, device, pid)


def _activity(trace: Trace, device: int, pid: int) -> Iterator[bytes]:
    gpu, work = trace.gpu, trace.gpu.of_device[device]
    kernels, copies = (
        union(gpu.start_ns[rows], gpu.end_ns[rows])
        for rows in (work[gpu.category[work] == kind] for kind in (KERNEL, MEMCPY))
    )
    begin, end = int(gpu.start_ns[work].min()), int(gpu.end_ns[work].max())
    width = max(-(-(end - begin) // BINS), NARROWEST_NS)
    edges = np.append(np.arange(begin, end, width), end)
    length = np.maximum(np.diff(edges), 1)
    kinds = {"kernels": kernels, "copies": copies, "both": intersect(kernels, copies)}
    shares = [np.round(100 * covered(times, edges[:-1], edges[1:]) / length, 1) for times in kinds.values()]
    values = np.stack([np.append(share, 0.0) for share in shares], axis=1)
    changed = np.flatnonzero(np.append(True, (np.diff(values, axis=0) != 0).any(axis=1)))
    for time, row in zip(edges[changed].tolist(), values[changed].tolist(), strict=True):
        named = {f"{kind} %": value for kind, value in zip(kinds, row, strict=True)}
        yield _counter(f"GPU {device} time with", time, named, pid)


def _rates(trace: Trace, device: int, pid: int) -> Iterator[bytes]:
    gpu, work = trace.gpu, trace.gpu.of_device[device]
    sized = work[(gpu.category[work] == MEMCPY) & (gpu.bytes[work] > 0) & (gpu.end_ns[work] > gpu.start_ns[work])]
    for direction in np.unique(gpu.direction[sized]):
        rows = sized[gpu.direction[sized] == direction]
        rate = gpu.bytes[rows] / gpu.duration_ns[rows]
        times, moment = np.unique(np.concatenate((gpu.start_ns[rows], gpu.end_ns[rows])), return_inverse=True)
        change = np.bincount(moment.ravel(), np.concatenate((rate, -rate)))
        running = np.bincount(moment.ravel(), np.repeat((1, -1), len(rows))).cumsum()
        totals = np.where(running > 0.5, np.round(np.maximum(change.cumsum(), 0), 3), 0.0)  # noqa: PLR2004  a count
        for time, total in zip(times.tolist(), totals.tolist(), strict=True):
            yield _counter(f"GPU {device} copies {DIRECTIONS[direction]}", time, {"GB/s": total}, pid)


def _counter(name: str, time: int, values: dict[str, float], pid: int) -> bytes:
    return encoded({"ph": "C", "cat": CATEGORY, "name": name, "pid": pid, "ts": micros(time), "args": values})
