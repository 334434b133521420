"""The events that an export adds to a trace for ui.perfetto.dev: findings, steps, stalls, idle time, copies."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pinprof.analyses.copies import EXPOSED, REASONS, exposed_pieces
from pinprof.analyses.idle import IDLE, IDLE_CAUSES, IdleGaps
from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.intervals import covered, intersect, union
from pinprof.measurement.trust.doubt import FIGURE_KINDS, FigureKind
from pinprof.measurement.trust.recording import NOT_READ
from pinprof.report.perfetto.tracks import APART_NS, CATEGORY, Arrow, Label, Track, encoded, micros, track_events
from pinprof.report.timeline.kinds import KINDS, PROFILER
from pinprof.report.timeline.lane_context import awaited_rows
from pinprof.report.timeline.steps import shown_numbers, whole_window
from pinprof.report.timeline.worst_instance import worst_instance
from pinprof.report.words import place, printable, worth
from pinprof.rules import rule_of_exposure, rule_of_wait
from pinprof.trace.reader.append import ROOM
from pinprof.trace.tables import (
    DIRECTIONS,
    HOST_MEMORIES,
    KERNEL,
    MEMCPY,
    NONE,
    WHOLE_TRACE,
    Int64s,
    Steps,
    Trace,
    rows_by,
)
from pinprof.units import counted, duration, ms

SHORT_GAP_NS = 2_000
"""Shorter idle gaps have no slice: any two consecutive kernels have one between them."""
BINS, NARROWEST_NS = 4_000, 10_000
"""The most intervals for which a counter shows how busy the GPU was, and their least length."""


def events(analysis: Analysis, missing: Sequence[str], first: int) -> Iterator[bytes]:
    """Yield the events, each as JSON: a process `first` with pinprof's tracks, whose threads have the next numbers.

    Times are those of the trace, in µs with three decimals. `missing` are sentences on what is not shown, which become
    events at the start of the trace. Figures that the profile withholds get no slices. Texts of the trace are encoded,
    and never evaluated.
    """
    trace = analysis.trace
    tracks = [*finding_tracks(analysis), *_missing(trace, missing), *_steps_track(trace)]
    tracks += stall_tracks(analysis)
    for gaps in analysis.details.gaps:
        tracks += bubble_tracks(analysis, gaps.device)
        tracks += idle_tracks(analysis, gaps)
        tracks += exposed_tracks(analysis, gaps.device)
    yield from track_events(tracks, first, ROOM - 1)
    for gaps in analysis.details.gaps:
        yield from counter_events(analysis, gaps.device, first)


def _steps_track(trace: Trace) -> Iterator[Track]:
    """Yield the track of the steps: in a trace with Python stacks Perfetto leaves out most of the profiler's marks."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return

    numbers = shown_numbers(trace)

    def describe(index: int) -> Label:
        where = "host" if steps.on_host else "GPU"
        return Label(
            f"step {numbers[index]}", {"marked_by": printable(steps.marker), "on": where} | _whether_cut(steps, index)
        )

    yield Track("steps", steps.start_ns, steps.end_ns, describe)


def _whether_cut(steps: Steps, index: int) -> dict[str, str]:
    if steps.complete[index]:
        return {}
    is_unlike = steps.unlike is not None and steps.unlike[index]
    return {"unlike_the_others" if is_unlike else "cut_off": "not measured"}


def _missing(trace: Trace, missing: Sequence[str]) -> Iterator[Track]:
    if missing and any(map(len, (trace.annotations, trace.ops, trace.calls, trace.gpu))):
        start = np.full(len(missing), whole_window(trace).start_ns)
        yield Track("not in these tracks", start, start, lambda index: Label(missing[index], {}), instants=True)


def finding_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield the track of the findings, if there are any."""
    findings, steps = analysis.findings, analysis.trace.steps
    if not findings:
        return
    places = [worst_instance(analysis, finding) for finding in findings]
    complete = np.flatnonzero(steps.complete)
    elsewhere = int(steps.start_ns[complete[0]]) if len(complete) else whole_window(analysis.trace).start_ns
    time = np.array([instance.marks[0].start_ns if instance else elsewhere for instance in places], np.int64)
    order = np.argsort(time, kind="stable")

    def describe(index: int) -> Label:
        finding = findings[order[index]]
        args = {
            "severity": finding.severity,
            "evidence": printable(finding.evidence.text),
            "worth": worth(finding, analysis.profile),
            "fix": finding.fix,
            "more": f"pinprof explain {finding.rule.id}",
        }
        if places[order[index]] is None:
            args["shown_at"] = "the first complete step: it has no single place"
        return Label(f"{finding.rule.id} {finding.title}", args)

    yield Track("findings, each at its worst place", time[order], time[order], describe, instants=True)


def notes(analysis: Analysis) -> list[str]:
    """Return what pinprof leaves out and why, and where Perfetto may stop reading the trace."""
    trace, why = analysis.trace, analysis.profile.withheld
    kinds: tuple[FigureKind, ...] = ("stalls", "drain", "busy", "causes", "overlap", "copies")
    lines = [f"not shown: {FIGURE_KINDS[kind]} ({reason.what})" for kind in kinds if (reason := why.reason([kind]))]
    lasts = np.concatenate(
        [gaps.times.end - gaps.times.start for gaps in analysis.details.gaps] or [np.empty(0, np.int64)]
    )
    short = lasts[lasts < SHORT_GAP_NS]
    if len(short) and not analysis.profile.withheld.busy:
        gaps = counted(len(short), "idle gap")
        lines.append(f"not drawn: {gaps} shorter than {duration(SHORT_GAP_NS)}, {duration(int(short.sum()))} in all")
    if trace.trailing:
        lines.append(f"{counted(trace.trailing, 'byte')} after the end of the trace: {NOT_READ}")
    broken = trace.repaired + trace.skipped.get("malformed", 0)
    if broken:
        are = counted(broken, "event of the trace is", "events of the trace are")
        lines.append(f"{are} not valid JSON; the export keeps them, and Perfetto may stop there")
    return lines


def stall_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield a track of stalls for each host thread that has any, the main thread first."""
    if analysis.profile.withheld.stalls:
        return
    stalls = analysis.details.syncs.stalls
    thread = analysis.trace.calls.thread[stalls.call]
    has_drain = not analysis.profile.withheld.drain
    awaited = awaited_rows(analysis.trace, stalls, np.arange(len(stalls.call))) if has_drain else None
    for rows in sorted(rows_by(thread), key=lambda rows: analysis.trace.threads[thread[rows[0]]].role != "main"):
        index = int(thread[rows[0]])
        call = stalls.call[rows]
        host = analysis.trace.threads[index]

        def describe(index: int, rows: Int64s = rows) -> Label:
            row = int(rows[index])
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

    def describe(index: int) -> Label:
        row = int(rows[index])
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
    has_causes = not analysis.profile.withheld.causes

    def describe(index: int) -> Label:
        gap = shown[index]
        args: dict[str, Any] = {"idle_ms": ms(idle.times.end[gap] - idle.times.start[gap])}
        cause = IDLE_CAUSES[idle.cause[gap]]
        return Label(cause, args | {"why": IDLE[cause].why}) if has_causes else Label("idle", args)

    if len(shown):
        name = f"GPU {idle.device}: idle" + (", by cause" if has_causes else "")
        yield Track(name, idle.times.start[shown], idle.times.end[shown], describe)


def exposed_tracks(analysis: Analysis, device: int) -> Iterator[Track]:
    """Yield a track for each direction in which a device has exposed copies."""
    if analysis.profile.withheld.overlap:
        return
    start, end, row = exposed_pieces(analysis.trace, device)
    number = np.searchsorted(analysis.details.overlap.row, row)
    for direction in np.unique(analysis.trace.gpu.direction[row]):
        chosen = np.flatnonzero(analysis.trace.gpu.direction[row] == direction)

        def describe(index: int, chosen: Int64s = chosen) -> Label:
            return _exposed_label(analysis, int(number[chosen[index]]))

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
