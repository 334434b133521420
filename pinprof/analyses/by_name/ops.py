"""The time that the host spends in ops, by name: each moment counts to the innermost op of the thread."""

from dataclasses import dataclass

import numpy as np

from pinprof.analyses.by_name.names import LONGEST_KEPT_NAME_CHARS, Origin, Origins, by_name
from pinprof.ground.units import shortened
from pinprof.trace.callers import function_around
from pinprof.trace.links import enclosing, follow, step_at
from pinprof.trace.sources import Sources
from pinprof.trace.tables import KERNEL, NONE, Bools, HostEvents, Int32s, Int64s, Trace, rows_by

TRAINING_ROLES = ("main", "autograd")
"""Roles of threads whose ops count; ops of other threads count if the thread launches GPU work."""


@dataclass(frozen=True)
class OpTime:
    """The ops of one name in the complete steps, as traced; times in ns."""

    name: str
    count: int
    own_ns: int  # their time without that of ops that they call
    stall_ns: int | None  # the part of their own time in calls that can block; None if it is withheld
    kernels: int | None
    """Kernels that they launch themselves, not through an op that they call; None if kernels are withheld."""
    kernel_ns: int | None  # how long these kernels run
    origin: Origin


@dataclass(frozen=True)
class OpSums:
    """The ops of the complete steps; times in ns."""

    rows: tuple[OpTime, ...]  # the costliest names, by their own time
    names: int  # how many names there are
    left_ns: int  # own time of the names that are left out
    own_ns: int  # own time of all ops
    host_ns: int  # how long the complete steps are on the host


def measure_ops(
    trace: Trace, sources: Sources, own_ns: Int64s, stalls: tuple[Int64s, Int64s] | None, *, kernels: bool
) -> OpSums:
    """Return the ops of the threads that train, by name.

    `own_ns` are the `own_times` of all ops. `stalls` are rows of `Trace.calls` and their times in ns; None if they are
    withheld. Kernels that ops launch are counted only if `kernels` is true.
    """
    rows = np.flatnonzero(_in_complete_steps(trace) & _training_threads(trace)[trace.ops.thread])
    own = own_ns[rows]
    names = by_name(trace.ops, rows, own)
    origins = Origins(trace, function_around(trace, rows), sources).of(names, own) if len(rows) else []
    stalled = _stalled(trace, *stalls)[rows] if stalls else None
    count, time = (column[rows] for column in _own_kernels(trace)) if kernels else (None, None)
    stall_ns, kernel_count, kernel_ns = (
        [None] * len(names.codes) if column is None else names.sums(column).tolist()
        for column in (stalled, count, time)
    )
    kept = (
        OpTime(
            shortened(trace.ops.names[names.codes[number]], LONGEST_KEPT_NAME_CHARS),
            int(names.count[number]),
            int(names.time_ns[number]),
            stall_ns[number],
            kernel_count[number],
            kernel_ns[number],
            origins[number],
        )
        for number in names.kept
    )
    return OpSums(
        tuple(kept),
        len(names.codes),
        names.left_ns,
        int(own.sum()),
        int((trace.steps.end_ns - trace.steps.start_ns)[trace.steps.complete].sum()) if trace.steps.on_host else 0,
    )


def _in_complete_steps(trace: Trace) -> Bools:
    steps, ops = trace.steps, trace.ops
    return steps.holds(step_at(steps, ops.start_ns)) if steps.on_host else np.zeros(len(ops), bool)


def _training_threads(trace: Trace) -> Bools:
    training = trace.has_role(*TRAINING_ROLES)
    training[trace.calls.thread[trace.launches_work]] = True
    return training & ~trace.has_role("pin_memory")


def own_times(ops: HostEvents) -> Int64s:
    """Return the time in ns in which each op was the innermost one of its thread."""
    own = np.zeros(len(ops), np.int64)
    for of_thread in rows_by(ops.thread):
        rows = of_thread[ops.duration_ns[of_thread] > 0]  # an op of no length would seem open until the next event
        lasting = HostEvents(ops.names, ops.start_ns[rows], ops.end_ns[rows], ops.name[rows], ops.thread[rows])
        time = np.sort(np.concatenate((lasting.start_ns, lasting.end_ns)), kind="stable")
        zeros = np.zeros(len(time), np.int32)
        inner = enclosing(lasting, HostEvents((), time, time, zeros, zeros + ops.thread[of_thread[0]]))[:-1]
        is_in_op = inner != NONE
        own[rows] = np.bincount(inner[is_in_op], np.diff(time)[is_in_op], minlength=len(rows))
    return own


def _stalled(trace: Trace, call: Int64s, stall_ns: Int64s) -> Int64s:
    op = trace.links.op[call]
    return _per_op(trace, op[op != NONE], stall_ns[op != NONE])


def _own_kernels(trace: Trace) -> tuple[Int64s, Int64s]:
    gpu = trace.gpu
    rows = np.flatnonzero((gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))
    op: Int32s = follow(trace.links.op, trace.links.launch[rows])
    rows, op = rows[op != NONE], op[op != NONE]
    return _per_op(trace, op, np.ones(len(rows), np.int64)), _per_op(trace, op, gpu.duration_ns[rows])


def _per_op(trace: Trace, op: Int32s, values: Int64s) -> Int64s:
    return np.bincount(op, values, minlength=len(trace.ops)).astype(np.int64)
