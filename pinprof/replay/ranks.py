"""The programs of several ranks of one job, joined where they meet in collectives."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
from msgspec import structs

from pinprof.ground.intervals import covered, union
from pinprof.replay.cuda_events import PROMPT_NS, WAKE_NS
from pinprof.replay.program import (
    DEFAULT_LATENCY_NS,
    DEFAULT_WAKE_NS,
    QUEUED_GAP_NS,
    Call,
    GpuWork,
    Program,
    with_works,
)
from pinprof.trace.collectives import Meeting, collectives_of, is_collective_kernel, match_collectives
from pinprof.trace.tables import KERNEL, Int64s, Trace

Durations = list[dict[int, float]]  # per rank: the times of activities in ns, by row of `Trace.gpu`


def join_ranks(traces: Sequence[Trace], programs: Sequence[Program], steps: Sequence[Sequence[int]]) -> list[Program]:
    """Return the programs of the ranks with their common collectives, in the given steps of each trace.

    The kernel of a collective waits on all ranks for the last one. Its time without waiting is its shortest time on any
    rank: that rank waited for none, except for ranks whose traces are not given. A waiting collective holds a part of
    the GPU and slows other kernels down, so for these the shortest time on any rank is taken, too.
    """
    if len(traces) == 1:
        return list(programs)
    tables = [collectives_of(trace, chosen) for trace, chosen in zip(traces, steps, strict=True)]
    meetings = [
        {position: int(tables[position].row[index]) for position, index in meeting.items()}
        for meeting in match_collectives(tables)
    ]
    numbers: list[dict[int, int]] = [{} for _ in traces]
    own: Durations = [{} for _ in traces]
    for number, meeting in enumerate(meetings):
        least = min(float(traces[position].gpu.duration_ns[row]) for position, row in meeting.items())
        for position, row in meeting.items():
            numbers[position][row], own[position][row] = number, least
    durations = [collectives | kernels for collectives, kernels in zip(own, _slowed(traces, steps, own), strict=True)]
    return [
        _with_works(program, partial(_joined, numbers=meetings_of, own=own_ns))
        for program, meetings_of, own_ns in zip(programs, numbers, durations, strict=True)
    ]


def waiting_for_nobody(program: Program, trace: Trace) -> Program | None:
    """Return a program that waits for no other rank, whose collectives take no time; None if it has no collective.

    The trace does not show which stream waits for which. So work that starts, or a call that returns, just when a
    collective ends, is taken to have waited for it.
    """
    gpu, calls = trace.gpu, trace.calls
    rows = np.flatnonzero(is_collective_kernel(gpu))
    if not len(rows):
        return None
    ends, times = np.sort(gpu.end_ns[rows]), gpu.times(rows)

    def held_ns(start: Int64s, end: Int64s, within_ns: int) -> Int64s:
        last = np.maximum(np.searchsorted(ends, end, side="right") - 1, 0)
        is_released = (end >= ends[last]) & (end - ends[last] <= within_ns) & (start < ends[last])
        return np.where(is_released, covered(times, start, end), 0)

    held_calls = held_ns(calls.start_ns, calls.end_ns, WAKE_NS)
    held_works = held_ns(trace.links.launched_ns, gpu.start_ns, PROMPT_NS)

    def freed(work: GpuWork) -> GpuWork:
        held, latency_ns, gap_ns = float(held_works[work.row]), work.latency_ns, work.gap_ns
        if not held:
            return work
        latency_ns = max(latency_ns - held, min(latency_ns, DEFAULT_LATENCY_NS))
        return structs.replace(work, latency_ns=latency_ns, gap_ns=max(gap_ns - held, min(gap_ns, QUEUED_GAP_NS)))

    def returned(call: Call) -> Call:
        held, call = float(held_calls[call.row]), with_works(call, freed)
        own_ns = max(call.own_ns - held, min(call.own_ns, DEFAULT_WAKE_NS))
        return structs.replace(call, own_ns=own_ns) if held else call

    return in_no_time(program.with_calls(map(returned, program.calls)), frozenset(rows.tolist()))


def in_no_time(program: Program, rows: Collection[int]) -> Program:
    """Return a program whose work of these rows takes no time: without collectives it never waits for other ranks."""
    return _with_works(program, lambda work: structs.replace(work, duration_ns=0.0) if work.row in rows else work)


def _with_works(program: Program, changed: Callable[[GpuWork], GpuWork]) -> Program:
    return program.with_calls(with_works(call, changed) for call in program.calls)


def _joined(work: GpuWork, numbers: Meeting, own: dict[int, float]) -> GpuWork:
    """Return work with the number of its collective among those of all ranks, and with its time without waiting."""
    duration = own.get(work.row, work.duration_ns)
    return structs.replace(work, meeting=numbers.get(work.row, work.meeting), duration_ns=duration)


def _slowed(traces: Sequence[Trace], steps: Sequence[Sequence[int]], own: Durations) -> Durations:
    """Return the shortest times on any rank of kernels that ran while a collective waited.

    They are known for kernels that all ranks run equally often.
    """
    alike: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(dict)
    during_waits = []
    for position, (trace, chosen) in enumerate(zip(traces, steps, strict=True)):
        during_waits.append(_during_waits(trace, own[position]))
        index_of = {step: index for index, step in enumerate(chosen)}
        rows = np.flatnonzero((trace.gpu.category == KERNEL) & np.isin(trace.links.activity_step, list(chosen)))
        for row in rows.tolist():
            key = index_of[int(trace.links.activity_step[row])], trace.gpu.name_of(row)
            alike[key].setdefault(position, []).append(row)
    result: Durations = [{} for _ in traces]
    for rows_by in alike.values():
        if len(rows_by) == len(traces) and len({len(rows) for rows in rows_by.values()}) == 1:
            for same in zip(*rows_by.values(), strict=True):
                least = min(float(trace.gpu.duration_ns[row]) for trace, row in zip(traces, same, strict=True))
                for position, row in zip(rows_by, same, strict=True):
                    if row in during_waits[position]:
                        result[position][row] = least
    return result


def _during_waits(trace: Trace, own: dict[int, float]) -> set[int]:
    """Return the kernels that ran while the kernel of a collective waited for other ranks."""
    gpu = trace.gpu
    rows = np.array(list(own), dtype=np.int64)
    waited_until = gpu.end_ns[rows] - np.array(list(own.values()), dtype=np.int64)
    waiting = union(gpu.start_ns[rows], np.maximum(waited_until, gpu.start_ns[rows]))
    kernels = np.flatnonzero((gpu.category == KERNEL) & ~np.isin(np.arange(len(gpu)), rows))
    return set(kernels[covered(waiting, gpu.start_ns[kernels], gpu.end_ns[kernels]) > 0].tolist())
