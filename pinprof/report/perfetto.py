"""The slices that an export adds to a trace for ui.perfetto.dev: stalls, idle gaps and exposed copies.

Perfetto silently drops a slice that begins within another one of its track and ends after it (google/perfetto#4280);
so slices that overlap take several tracks.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.analyses.copies import EXPOSURES, REASONS, exposed_pieces
from pinprof.analyses.idle import IDLE, IDLE_CAUSES, IdleGaps
from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analysis import Analysis
from pinprof.ground.units import counted, duration, ms
from pinprof.measurement.trust.doubt import FIGURE_KINDS, FigureKind
from pinprof.report.timeline.kinds import EVENT_KINDS, PROFILER_KIND
from pinprof.report.words import place, printable
from pinprof.rules.search import rule_of_exposure, rule_of_wait
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, Int64s, Trace, rows_by

SLICE_CATEGORY = "pinprof"
FIRST_ADDED_ID, MAX_ADDED_IDS = 1_886_000_000, 10_000
"""The first id that the added process and threads may have, and how many follow it.

Perfetto keeps ids as unsigned 32-bit numbers, and gives low ones to ids that are texts.
"""
SLICES_APART_NS = 2
"""Slices of one track are this far apart: Perfetto reads times as doubles of µs, which at times since 1970 (or since
the last quarter) are a nanosecond off, and touching slices would overlap."""
MIN_DRAWN_GAP_NS = 2_000
"""Shorter idle gaps have no slice: any two consecutive kernels have one between them."""


class Slices(NamedTuple):
    """Slices under one name, sorted by start."""

    name: str
    start_ns: Int64s
    end_ns: Int64s
    describe: Callable[[int], tuple[str, dict[str, Any]]]
    """Gives the name and the args of a slice by its index."""


def events(analysis: Analysis) -> Iterator[bytes]:
    """Yield the events, each as JSON: a process with a thread for each track of slices.

    Times are those of the trace, in µs with three decimals. Figures that the profile withholds get no slices. Texts of
    the trace are encoded, and never evaluated.
    """
    process = _unused_id(analysis.trace)
    yield from _name("process", process, process, "pinprof", -1)
    used = 0
    for slices in (*_stalls(analysis), *_idle(analysis), *_exposed(analysis)):
        tracks = tracks_of(slices.start_ns, slices.end_ns)
        threads = [process + 1 + used + track for track in range(max(tracks, default=-1) + 1)]
        for number, thread in enumerate(threads, start=1):
            name = slices.name if number == 1 else f"{slices.name} ({number})"
            yield from _name("thread", process, thread, name, used + number - 1)
        times = zip(slices.start_ns.tolist(), slices.end_ns.tolist(), tracks, strict=True)
        for index, (start, end, track) in enumerate(times):
            name, args = slices.describe(index)
            ids = {"cat": SLICE_CATEGORY, "name": printable(name), "pid": process, "tid": threads[track]}
            yield msgspec.json.encode({"ph": "X", **ids, "ts": _us(start), "dur": _us(end - start), "args": args})
        used += len(threads)


def _unused_id(trace: Trace) -> int:
    """Return the first of `MAX_ADDED_IDS` successive numbers that no process or thread of the trace has."""
    given = {str(number) for thread in trace.threads for number in (thread.pid, thread.tid)}
    taken = {int(number) for number in given if number.isascii() and number.isdigit()}
    return next(
        first
        for first in count(FIRST_ADDED_ID, MAX_ADDED_IDS)
        if not any(0 <= number - first < MAX_ADDED_IDS for number in taken)
    )


def _name(what: str, process: int, thread: int, name: str, index: int) -> Iterator[bytes]:
    ids = {"ph": "M", "pid": process, "tid": thread}
    yield msgspec.json.encode({**ids, "name": f"{what}_name", "args": {"name": printable(name)}})
    yield msgspec.json.encode({**ids, "name": f"{what}_sort_index", "args": {"sort_index": index}})


def _us(ns: int) -> msgspec.Raw:
    """Return a time as a JSON number of µs, exactly."""
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{'-' * (ns < 0)}{whole}.{rest:03d}".encode())


def tracks_of(start: Int64s, end: Int64s) -> list[int]:
    """Return the track of each slice (sorted by start): the first one in which it does not touch the slice before."""
    free: list[int] = []
    in_use: list[tuple[int, int]] = []
    tracks = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while in_use and in_use[0][0] + SLICES_APART_NS <= begins:
            heappush(free, heappop(in_use)[1])
        track = heappop(free) if free else len(in_use)
        heappush(in_use, (ends, track))
        tracks.append(track)
    return tracks


def notes(analysis: Analysis) -> list[str]:
    """Return what pinprof leaves out and why, and where Perfetto may stop reading the trace."""
    trace, why = analysis.trace, analysis.profile.withheld
    kinds: tuple[FigureKind, ...] = ("stalls", "drain", "busy", "causes", "overlap", "copies")
    lines = [f"not shown: {FIGURE_KINDS[kind]} ({reason.what})" for kind in kinds if (reason := why.reason([kind]))]
    lasts_ns = [gaps.times.end - gaps.times.start for gaps in analysis.details.gaps if not why.busy]
    short_ns = [lasts[lasts < MIN_DRAWN_GAP_NS] for lasts in lasts_ns]
    if number := sum(map(len, short_ns)):
        total = duration(sum(int(lasts.sum()) for lasts in short_ns))
        lines.append(
            f"not drawn: {counted(number, 'idle gap')} shorter than {duration(MIN_DRAWN_GAP_NS)}, {total} in all"
        )
    if doubt := analysis.profile.doubt("trailing_bytes"):
        lines.append(f"{doubt.what}: {doubt.effect}")
    if broken := trace.repaired + trace.skipped.get("malformed", 0):
        are = counted(broken, "event of the trace is", "events of the trace are")
        lines.append(f"{are} not valid JSON; the export keeps them, and Perfetto may stop there")
    return lines


def _stalls(analysis: Analysis) -> Iterator[Slices]:
    if analysis.profile.withheld.stalls:
        return
    calls, call = analysis.trace.calls, analysis.details.syncs.stalls.call
    threads = [(analysis.trace.threads[calls.thread[call[rows[0]]]], rows) for rows in rows_by(calls.thread[call])]
    for thread, rows in sorted(threads, key=lambda pair: pair[0].role != "main"):

        def describe(index: int, rows: Int64s = rows) -> tuple[str, dict[str, Any]]:
            return _stall(analysis, int(rows[index]))

        name = f"stalls of host thread {thread.tid} ({thread.role})"
        yield Slices(name, calls.start_ns[call[rows]], calls.end_ns[call[rows]], describe)


def _stall(analysis: Analysis, row: int) -> tuple[str, dict[str, Any]]:
    syncs = analysis.details.syncs
    stalls, site, line = syncs.stalls, syncs.sites[syncs.site[row]], syncs.lines[row]
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
    if at := place(line.place if line else site.place._replace(line=None)):
        args["at"] = printable(at)
    if site.library:
        args["in"] = printable(place(site.library))
    cause = EVENT_KINDS[PROFILER_KIND].label if stalls.profiler[row] else WAIT_CAUSES[syncs.cause[row]]
    return cause, args | _more(rule_of_wait(analysis.details, row))


def _more(rule: str | None) -> dict[str, str]:
    return {"more": f"pinprof explain {rule}"} if rule else {}


def _idle(analysis: Analysis) -> Iterator[Slices]:
    """Yield the idle gaps of each device, without causes if they are withheld."""
    if analysis.profile.withheld.busy:
        return
    has_causes = not analysis.profile.withheld.causes
    for idle in analysis.details.gaps:
        shown = np.flatnonzero(idle.times.end - idle.times.start >= MIN_DRAWN_GAP_NS)
        if not len(shown):
            continue

        def describe(index: int, idle: IdleGaps = idle, shown: Int64s = shown) -> tuple[str, dict[str, Any]]:
            gap = shown[index]
            args = {"idle_ms": ms(idle.times.end[gap] - idle.times.start[gap])}
            cause = IDLE_CAUSES[idle.cause[gap]]
            return (cause, args | {"why": IDLE[cause].why}) if has_causes else ("idle", args)

        name = f"GPU {idle.device}: idle" + (", by cause" if has_causes else "")
        yield Slices(name, idle.times.start[shown], idle.times.end[shown], describe)


def _exposed(analysis: Analysis) -> Iterator[Slices]:
    if analysis.profile.withheld.overlap:
        return
    directions = analysis.trace.gpu.direction
    for device in (gaps.device for gaps in analysis.details.gaps):
        start, end, row = exposed_pieces(analysis.trace, device)
        number = np.searchsorted(analysis.details.overlap.row, row)
        for direction in np.unique(directions[row]):
            chosen = np.flatnonzero(directions[row] == direction)

            def describe(index: int, copies: Int64s = number[chosen]) -> tuple[str, dict[str, Any]]:
                return _exposed_copy(analysis, int(copies[index]))

            yield Slices(f"GPU {device}: exposed copies {DIRECTIONS[direction]}", start[chosen], end[chosen], describe)


def _exposed_copy(analysis: Analysis, number: int) -> tuple[str, dict[str, Any]]:
    gpu, overlap = analysis.trace.gpu, analysis.details.overlap
    row = int(overlap.row[number])
    length, size = int(gpu.end_ns[row] - gpu.start_ns[row]), int(gpu.bytes[row])
    args: dict[str, Any] = {"exposed_ms": ms(overlap.exposed_ns[number]), "copy_ms": ms(length)}
    if size != NONE and not analysis.profile.withheld.copies:
        args |= {"bytes": size} | ({"gb_per_s": round(size / length, 3)} if length else {})
    if HOST_MEMORIES[gpu.host_memory[row]] != "none":
        args["host_memory"] = HOST_MEMORIES[gpu.host_memory[row]]
    args |= {"stream": int(gpu.stream[row]), "copy": printable(gpu.name_of(row))}
    if line := analysis.details.copy_places[number]:
        args["at"] = printable(place(line.place))
    if analysis.profile.withheld.causes:
        return "exposed", args
    reason = REASONS[overlap.reason[number]]
    rule = rule_of_exposure(analysis.details, reason, DIRECTIONS[gpu.direction[row]])
    return f"exposed: {reason}", args | {"why": EXPOSURES[reason].sentence} | _more(rule)
