"""Copies that a program may read, or write over, before they have ended."""

import re
from dataclasses import dataclass

import numpy as np

from pinprof.intervals import Intervals, covered
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.input_sizes import input_sizes
from pinprof.trace.pauses import long_ops
from pinprof.trace.tables import DTOH, KERNEL, MEMCPY, NONE, PINNED, Bools, Int8s, Int64s, Trace, rows_by

RATES_GBPS = (0.05, 500.0)
"""Ops on the CPU read memory at such rates: aten::mean at 85 GB/s on an H200's host, a sort at a thousandth of that. An
op that is slower or faster read something else."""
MAKES = re.compile(r"aten::(rand|empty|zeros|ones|full|arange|linspace|eye|zero_|fill_|(normal|uniform|random)_$)")
"""Names of ops that read no memory: they make values, or write them over others."""


@dataclass(frozen=True)
class Hazards:
    """Rows of `Trace.gpu`, and of `Trace.ops`."""

    unawaited: Int64s
    """Non-blocking copies into pinned host memory after which their thread waited for nothing in the whole trace: what
    reads the memory may read it too early. The host's reads are not recorded, so this is a suspicion. Copies of the
    last step are left out: what awaits them may come after the recording."""
    early: Int64s
    """Such copies during which their thread computes an op on the host, before it waits, records an event or launches a
    kernel: the op may read what has not arrived."""
    reader: Int64s
    """That op, for each of `early`."""
    is_sized: Bools
    """For each of `early`: whether an input of that op has the size of the copy; else the trace has no sizes."""


def measure_hazards(trace: Trace, loading: Intervals) -> Hazards:
    """Return the copies whose end nothing awaits, and those that are read too early as far as the trace shows it.

    `loading` are the times in which the host gets its batches: ops in them are for the next one.
    """
    gpu, calls = trace.gpu, trace.calls
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.direction == DTOH) & (gpu.host_memory == PINNED))
    copies = copies[trace.links.launch[copies] != NONE]
    kind = call_kinds(calls)
    copies = copies[kind[trace.links.launch[copies]] == ASYNC_COPY]
    launch, step = trace.links.launch[copies], trace.links.activity_step[copies]
    waits = np.isin(kind, (STREAM, DEVICE, EVENT, COPY))
    early = _read_early(trace, copies, waits | _orders(trace, kind), loading)
    if len(trace.steps):  # the profiler's own synchronize comes after the last step
        waits &= calls.start_ns < trace.steps.end_ns[-1]
    last_wait = np.full(len(trace.threads), np.iinfo(np.int64).min)
    np.maximum.at(last_wait, calls.thread[waits], calls.start_ns[waits])
    kept = (step != NONE) & (step < max(len(trace.steps) - 1, 1))
    kept &= calls.start_ns[launch] >= last_wait[calls.thread[launch]]
    return Hazards(copies[kept].astype(np.int64), *early)


def _orders(trace: Trace, kind: Int8s) -> Bools:
    """Return the calls that mark the end of a copy, and those that launch a kernel: the host goes on to other work."""
    launches = np.zeros(len(kind), bool)
    launches[trace.links.launch[(trace.gpu.category == KERNEL) & (trace.links.launch != NONE)]] = True
    return launches | trace.calls.named(lambda name: "EventRecord" in name)


def _read_early(trace: Trace, copies: Int64s, ends: Bools, loading: Intervals) -> tuple[Int64s, Int64s, Bools]:
    """Return the fields of `Hazards` on early reads; `ends` are the calls before which an op must begin."""
    gpu, calls, ops = trace.gpu, trace.calls, trace.ops
    launch = trace.links.launch[copies]
    readers = long_ops(trace, np.unique(calls.thread[launch]))
    readers = readers[~ops.named(lambda name: bool(MAKES.match(name)))[readers]]
    readers = readers[covered(loading, ops.start_ns[readers], ops.end_ns[readers]) == 0]
    reader = np.full(len(copies), NONE, np.int64)
    for mine in rows_by(calls.thread[launch]):
        thread = calls.thread[launch[mine[0]]]
        own = readers[ops.thread[readers] == thread]
        marks = np.sort(calls.start_ns[ends & (calls.thread == thread)])
        since = calls.end_ns[launch[mine]]
        until = np.append(marks, np.iinfo(np.int64).max)[np.searchsorted(marks, since)]
        first = np.searchsorted(ops.start_ns[own], since)
        op = np.append(own, NONE)[first]
        begins = np.where(op == NONE, np.iinfo(np.int64).max, ops.start_ns[op] if len(ops) else 0)
        during = begins < np.minimum(until, gpu.end_ns[copies[mine]])
        reader[mine[during]] = op[during]
    found = np.flatnonzero(reader != NONE)
    copy, reader = copies[found], reader[found]
    speed = gpu.bytes[copy] / np.maximum(ops.duration_ns[reader], 1)
    likely = (speed >= RATES_GBPS[0]) & (speed <= RATES_GBPS[1])
    copy, reader = copy[likely], reader[likely]
    sizes = input_sizes(trace, np.unique(reader))
    fits = [gpu.bytes[one] in sizes[op] if op in sizes else None for one, op in zip(copy, reader.tolist(), strict=True)]
    kept = np.array([fit is not False for fit in fits], bool)
    return copy[kept].astype(np.int64), reader[kept], np.array([fit is True for fit in fits], bool)[kept]
