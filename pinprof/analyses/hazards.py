"""Copies whose result a program may read, or whose source it may write over, before they have ended."""

import re
from dataclasses import dataclass

import numpy as np

from pinprof.ground.intervals import Intervals, covered
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.links import step_at
from pinprof.trace.spans.idle_times import long_ops
from pinprof.trace.tables import DTOH, HTOD, KERNEL, MEMCPY, NONE, PINNED, Bools, Int8s, Int64s, Trace, rows_by

RATES_GBPS = (0.05, 500.0)
"""The slowest and the fastest rate at which ops on the CPU read or write memory: aten::mean at 85 GB/s on an H200's
host, a sort at a thousandth of that. A slower or faster op works on other memory."""
VALUE_MAKING_OP = re.compile(
    r"aten::(rand|empty|zeros|ones|full|arange|linspace|eye|zero_|fill_|(normal|uniform|random)_$)"
)
"""Names of ops that read no memory: they make values, or overwrite others."""
IN_PLACE_OP = re.compile(r"aten::\w*[^\W_]_$")  # names of ops that write in place: torch's end with one underscore
ALLOCATING_OP = re.compile(r"aten::(new_)?empty")
"""Names of ops that allocate memory: the next op writes to new memory, which no copy reads."""


@dataclass(frozen=True)
class Touches:
    """Copies in flight, and for each the op on the host that may touch its memory meanwhile."""

    copy: Int64s
    """Rows of `Trace.gpu`: non-blocking copies of pinned host memory that have not ended when the op begins. The op is
    on the thread that made the copy, before that thread waits or records an event."""
    op: Int64s  # rows of `Trace.ops`
    is_sized: Bools  # whether an input of the op has the size of the copy; False if the trace has no sizes


@dataclass(frozen=True)
class Hazards:
    """Copies whose memory the host may touch before they have ended, as far as the trace shows.

    A trace does not record what the host reads and writes, so each is a suspicion.
    """

    unawaited: Int64s
    """Rows of `Trace.gpu`: non-blocking copies into pinned host memory after which their thread never waited in the
    trace, so that the memory may be read too early. Copies of the last step are left out: the wait may come after the
    recording."""
    read: Touches
    """Copies to the host, with an op that may read data before it has arrived; no kernel is launched before the op."""
    written: Touches  # copies to the GPU, with an op of the same step that may overwrite data before it has been copied


def measure_hazards(trace: Trace, loading: Intervals) -> Hazards:
    """Return the copies that nothing awaits, and those whose memory may be touched too early.

    `loading` are the times in which the host gets its batches: ops in them are for the next one.
    """
    calls, ops = trace.calls, trace.ops
    kind = call_kinds(calls)
    copies = _non_blocking(trace, kind, DTOH)
    launch, step = trace.links.launch[copies], trace.links.activity_step[copies]
    waits = np.isin(kind, (STREAM, DEVICE, EVENT, COPY))
    ends = waits | calls.named(lambda name: "EventRecord" in name)
    long = long_ops(trace)
    long = long[covered(loading, ops.start_ns[long], ops.end_ns[long]) == 0]
    readers = long[~ops.named(VALUE_MAKING_OP.match)[long]]
    launches = np.zeros(len(calls), bool)  # of kernels: the host goes on to other work there
    launches[trace.links.launch[(trace.gpu.category == KERNEL) & (trace.links.launch != NONE)]] = True
    read = _touched(trace, copies, readers, ends | launches)
    written = _touched(trace, _non_blocking(trace, kind, HTOD), _writers(trace, long), ends, in_step=True)
    if len(trace.steps):  # the profiler's own synchronize comes after the last step
        waits &= calls.start_ns < trace.steps.end_ns[-1]
    last_wait = np.full(len(trace.threads), np.iinfo(np.int64).min)
    np.maximum.at(last_wait, calls.thread[waits], calls.start_ns[waits])
    kept = (step != NONE) & (step < max(len(trace.steps) - 1, 1))
    kept &= calls.start_ns[launch] >= last_wait[calls.thread[launch]]
    return Hazards(copies[kept].astype(np.int64), read, written)


def _non_blocking(trace: Trace, kind: Int8s, direction: int) -> Int64s:
    gpu, launch = trace.gpu, trace.links.launch
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.direction == direction) & (gpu.host_memory == PINNED))
    copies = copies[launch[copies] != NONE]
    return copies[kind[launch[copies]] == ASYNC_COPY]


def _writers(trace: Trace, long: Int64s) -> Int64s:
    ops = trace.ops
    outermost = np.flatnonzero(trace.links.op_parent == NONE)
    outermost = outermost[np.argsort(ops.thread[outermost], kind="stable")]
    allocates = ops.named(ALLOCATING_OP.match)[outermost]
    is_new = np.zeros(len(ops), bool)
    is_new[outermost[1:]] = allocates[:-1] & (ops.thread[outermost[1:]] == ops.thread[outermost[:-1]])
    return long[ops.named(IN_PLACE_OP.match)[long] & ~is_new[long]]


def _touched(trace: Trace, copies: Int64s, candidates: Int64s, ends: Bools, *, in_step: bool = False) -> Touches:
    """Return the copies that are in flight when the first candidate op on the host begins after their call.

    The op must begin before the next call of `ends`, and with `in_step` in the step in which the copy was made.
    """
    gpu, calls, ops = trace.gpu, trace.calls, trace.ops
    launch = trace.links.launch[copies]
    touching = np.full(len(copies), NONE, np.int64)
    for of_thread in rows_by(calls.thread[launch]):
        thread = calls.thread[launch[of_thread[0]]]
        own = candidates[ops.thread[candidates] == thread]
        marks = np.sort(calls.start_ns[ends & (calls.thread == thread)])
        since = calls.end_ns[launch[of_thread]]
        until = np.append(marks, np.iinfo(np.int64).max)[np.searchsorted(marks, since)]
        first = np.searchsorted(ops.start_ns[own], since)
        op = np.append(own, NONE)[first]
        begins = np.where(op == NONE, np.iinfo(np.int64).max, ops.start_ns[op] if len(ops) else 0)
        during = begins < np.minimum(until, gpu.end_ns[copies[of_thread]])
        if in_step:
            during &= step_at(trace.steps, begins) == trace.links.call_step[launch[of_thread]]
        touching[of_thread[during]] = op[during]
    copy, op = copies[touching != NONE], touching[touching != NONE]
    speed = gpu.bytes[copy] / np.maximum(ops.duration_ns[op], 1)
    likely = (speed >= RATES_GBPS[0]) & (speed <= RATES_GBPS[1])
    copy, op = copy[likely], op[likely]
    sizes = trace.input_sizes
    fits = [
        size in sizes[row] if row in sizes else None for size, row in zip(gpu.bytes[copy], op.tolist(), strict=True)
    ]
    kept = np.array([fit is not False for fit in fits], bool)
    return Touches(copy[kept].astype(np.int64), op[kept], np.array([fit is True for fit in fits], bool)[kept])
