"""Edits of a program: the rows of a trace that a change affects, and the calls after the change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import inf
from operator import add
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from pinprof.details import Details
from pinprof.ground.intervals import Intervals, contains, covered, union
from pinprof.prediction.graphs import capturable_ns, fused, fused_ns, handed_on, in_graphs
from pinprof.prediction.pinning import PinnedRates, pinned_rate
from pinprof.replay import program as replayed
from pinprof.replay.program import Call, GpuWork, Program, with_times_before
from pinprof.trace.calls import STREAM, are_small_to_gpu
from pinprof.trace.tables import NONE, PAGEABLE


class NotedPauses(NamedTuple):
    """Pauses of the host that were noted in the whole run; the recorded steps need not have any."""

    ns: float  # the length of one pause
    per_step: float  # how many there are per step, at most 1


COPY_START_NS = 2_000.0  # a pinned copy takes this long in addition to the time for its bytes


@dataclass(frozen=True)
class Edits:
    """What a change affects, mostly rows of the trace; with all defaults it changes nothing."""

    unwaited: frozenset[int] = frozenset()  # stalls that are removed
    pinned: frozenset[int] = frozenset()  # copies whose host side becomes pinned
    refilled: frozenset[int] = frozenset()  # pageable copies whose data the host copies into pinned memory first
    unblocked: frozenset[int] = frozenset()  # stalls of blocking copies that become asynchronous ones
    ahead: frozenset[int] = frozenset()  # HtoD copies that are made one step ahead
    pinned_gbps: float | None = None
    machine: PinnedRates | None = None
    removed_ops: frozenset[int] = frozenset()  # ops that are removed
    removed_times: frozenset[tuple[int, int, int]] = frozenset()
    """Times of the host that are removed, with the calls made in them: thread, begin and end in ns."""
    removed_works: frozenset[int] = frozenset()
    """Activities that are removed; the host still makes the calls that launched them."""
    prolonged: frozenset[tuple[int, float]] = frozenset()
    """Activities that do the work of others, too, and how much longer they take in ns."""
    graphed: frozenset[int] = frozenset()
    """Calls that become nodes of CUDA graphs: successive ones, without another call between them, are one graph."""
    fused: frozenset[int] = frozenset()  # calls of optimizers; those of each optimizer step become one call
    stops: frozenset[NotedPauses] = frozenset()  # pauses of the run that are removed; they are not rows of the trace
    without_pauses: bool = False  # whether the long pauses of the host between ops are removed
    most_input_ns: float = inf  # the longest time of a step in its DataLoader; 0: batches are always ready
    batch_ns: float = inf  # the longest time between batches of a DataLoader's workers, in ns
    pinning_ns: float = 0.0  # no step is shorter: a DataLoader's thread pins a batch in this time, in ns

    def __or__(self, other: "Edits") -> "Edits":
        rows: dict[str, Any] = {name: getattr(self, name) | getattr(other, name) for name in _ROW_FIELDS}
        return Edits(
            **rows,
            pinned_gbps=self.pinned_gbps or other.pinned_gbps,
            machine=self.machine or other.machine,
            without_pauses=self.without_pauses or other.without_pauses,
            most_input_ns=min(self.most_input_ns, other.most_input_ns),
            batch_ns=min(self.batch_ns, other.batch_ns),
            pinning_ns=max(self.pinning_ns, other.pinning_ns),
        )

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _ROW_FIELDS) or self.without_pauses or self.most_input_ns < inf


_ROW_FIELDS = tuple(field.name for field in fields(Edits) if field.default == frozenset())
NO_EDITS = Edits()


def edited(program: Program, details: Details, edits: Edits) -> Program:
    """Return the program after the edits."""
    if not edits:
        return program
    calls = _EditedCalls(details, edits, program.launch_ns).applied(program.calls)
    if edits.fused:
        calls = fused(calls, edits.fused - edits.graphed, fused_ns(details.trace, edits.fused))
    if edits.graphed:
        longer = {} if edits.fused else capturable_ns(details.trace, edits.graphed)
        calls = in_graphs(calls, edits.graphed, longer, handed_on(details.trace, edits.graphed))
    return program.with_calls(calls)


REFILL_PER_STAGING = 0.35
"""The host's copy into pinned memory takes this multiple of the pageable one: 0.29 to 0.39 in three measurements."""
COPY_LAUNCHES = 2.0
"""The call of an asynchronous copy of pinned memory takes this multiple of a kernel's launch: in 46 recordings 2.1 in
the median, and 1.5 to 2.9 in eight of ten."""
NO_TIMES = (0.0,) * len(replayed.FIELDS_BEFORE)


class _EditedCalls:
    """Applies edits to calls."""

    def __init__(self, details: Details, edits: Edits, launch_ns: float) -> None:
        trace = details.trace
        self.trace, self.stalls, self.edits = trace, details.syncs.stalls, edits
        self.stall_of = {int(call): row for row, call in enumerate(self.stalls.call.tolist())}
        unblocked = np.array(sorted(edits.unblocked), dtype=np.int64)
        self.small = frozenset(unblocked[are_small_to_gpu(trace.gpu, self.stalls.copy[unblocked])].tolist())
        self.gbps = edits.pinned_gbps or pinned_rate(trace).gbps
        self.removed = self._removed_times()
        self.longer = dict(sorted(edits.prolonged))  # if several prolong one activity, the largest value wins
        self.affected = self._affected_calls()
        self.shortens_all = edits.without_pauses or edits.most_input_ns < inf
        self.copy_call_ns = COPY_LAUNCHES * (launch_ns or replayed.DEFAULT_LAUNCH_NS)

    def applied(self, calls: Sequence[Call]) -> Iterable[Call]:
        """Yield the changed calls; the host's time before a removed call moves to the next one."""
        carried = NO_TIMES
        for call, share, is_removed in zip(calls, *self._kept_shares(calls), strict=True):
            is_kept = share == 1.0 and not (is_removed or self.shortens_all or call.row in self.affected)
            if is_kept and carried is NO_TIMES:
                yield call
                continue
            times = tuple(map(add, carried, self._times_before(call, share)))
            changed = None if is_removed else self._changed(call)
            carried = times if changed is None else NO_TIMES
            if changed is not None:
                yield changed if times == replayed.TIMES_BEFORE(changed) else with_times_before(changed, times)

    def _times_before(self, call: Call, share: float) -> tuple[float, ...]:
        """Return the host's times before a call, by `FIELDS_BEFORE`, if this share of its own time is kept."""
        own = call.gap_ns - call.input_ns
        input_share = min(self.edits.most_input_ns / call.input_ns, 1.0) if call.input_ns else 1.0
        has_pauses = not self.edits.without_pauses
        return (
            call.gap_ns
            + REFILL_PER_STAGING * sum(work.duration_ns for work in call.works if work.row in self.edits.refilled)
            - call.input_ns * (1.0 - input_share)
            - own * (1.0 - share)
            - (0.0 if has_pauses else min(call.python_ns, own * share)),
            call.input_ns * input_share,
            call.artefact_ns * share,
            call.python_ns * has_pauses,
            call.own_work_ns * share * has_pauses,
            call.events * share,
            call.input_events * input_share,
            call.cost_ns * share,
        )

    def _affected_calls(self) -> frozenset[int]:
        """Return the rows of the calls whose waiting or work may change; of others only the time before changes."""
        edits = self.edits
        stalls = sorted(edits.unwaited | edits.unblocked)
        works = sorted(edits.pinned | edits.ahead | edits.removed_works | self.longer.keys())
        launches = self.trace.links.launch[np.array(works, np.int64)]
        return frozenset(self.stalls.call[np.array(stalls, np.int64)].tolist()) | frozenset(launches.tolist())

    def _removed_times(self) -> dict[int, Intervals]:
        ops = np.array(sorted(self.edits.removed_ops), dtype=np.int64)
        times = np.array(sorted(self.edits.removed_times), dtype=np.int64).reshape(-1, 3)
        table = self.trace.ops
        thread = np.concatenate((table.thread[ops], times[:, 0]))
        start = np.concatenate((table.start_ns[ops], times[:, 1]))
        end = np.concatenate((table.end_ns[ops], times[:, 2]))
        return {int(number): union(start[thread == number], end[thread == number]) for number in np.unique(thread)}

    def _kept_shares(self, calls: Sequence[Call]) -> tuple[list[float], list[bool]]:
        rows = np.array([call.row for call in calls], np.int64)
        gap = np.array([call.gap_ns for call in calls])
        shares, are_removed = np.ones(len(rows)), np.zeros(len(rows), bool)
        for thread, removed in self.removed.items():
            on_thread = np.flatnonzero(self.trace.calls.thread[rows] == thread)
            start = self.trace.calls.start_ns[rows[on_thread]]
            are_removed[on_thread] = contains(removed, start)
            has_gap = gap[on_thread] > 0
            on_thread, start = on_thread[has_gap], start[has_gap]
            inside = covered(removed, start - gap[on_thread].astype(np.int64), start)
            shares[on_thread] = np.maximum(1.0 - inside / gap[on_thread], 0.0)
        return shares.tolist(), are_removed.tolist()

    def _changed(self, call: Call) -> Call | None:
        """Return the call after the change; None if it is removed."""
        stall = self.stall_of.get(call.row, NONE)
        if not call.works:
            is_free = stall in self.edits.unwaited or (stall in self.edits.unblocked and self._needs_no_staging(stall))
            return None if is_free else call
        works = [self._changed_work(work, call) for work in call.works if work.row not in self.edits.removed_works]
        changed = call if works == call.works else structs.replace(call, works=works)
        if call.kind == replayed.STAGED and (
            stall in self.edits.unwaited or all(self._becomes_pinned(work.row, call) for work in works)
        ):
            changed = structs.replace(changed, kind=replayed.ISSUE, own_ns=self.copy_call_ns)
        elif call.kind == replayed.ISSUE and any(work.row in self.edits.pinned for work in works):
            recorded = float(self.trace.calls.duration_ns[call.row])  # the call that carries the data of a small copy
            changed = structs.replace(changed, own_ns=changed.own_ns + max(self.copy_call_ns - recorded, 0.0))
        if changed.kind == replayed.ISSUE and any(work.row in self.edits.ahead for work in works):
            changed = structs.replace(changed, kind=replayed.AHEAD)
        return changed

    def _changed_work(self, work: GpuWork, call: Call) -> GpuWork:
        changed = self._as_pinned(work) if self._becomes_pinned(work.row, call) else work
        longer = self.longer.get(work.row)
        return structs.replace(changed, duration_ns=changed.duration_ns + longer) if longer else changed

    def _needs_no_staging(self, stall: int) -> bool:
        """Return whether the host need not stage the copy of a stall."""
        copy = int(self.stalls.copy[stall])
        is_pinned = self.trace.gpu.host_memory[copy] != PAGEABLE or copy in self.edits.pinned
        return is_pinned or stall in self.small or int(self.stalls.kind[stall]) == STREAM

    def _becomes_pinned(self, row: int, call: Call) -> bool:
        return call.kind == replayed.STAGED and row in self.edits.pinned

    def _as_pinned(self, work: GpuWork) -> GpuWork:
        """Return the copy as one of pinned memory: its time is by the given rate, the machine's bench, or the trace."""
        size, time = int(self.trace.gpu.bytes[work.row]), work.duration_ns
        if size > 0:
            machine = None if self.edits.pinned_gbps else self.edits.machine
            measured = machine.time_ns(int(self.trace.gpu.direction[work.row]), size) if machine else None
            time = COPY_START_NS + size / self.gbps if measured is None else measured
        started = {"latency_ns": replayed.DEFAULT_LATENCY_NS, "gap_ns": replayed.QUEUED_GAP_NS}
        return structs.replace(work, duration_ns=time, is_pageable=False, **started)
