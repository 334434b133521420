"""Copies that a program may read, or write over, before they have ended."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.tables import DTOH, MEMCPY, NONE, PINNED, Int64s, Trace


@dataclass(frozen=True)
class Hazards:
    """Rows of `Trace.gpu`."""

    unawaited: Int64s
    """Non-blocking copies into pinned host memory after which their thread waited for nothing in the whole trace: what
    reads the memory may read it too early. The host's reads are not recorded, so this is a suspicion. Copies of the
    last step are left out: what awaits them may come after the recording."""


def measure_hazards(trace: Trace) -> Hazards:
    """Return the copies whose end nothing awaits."""
    gpu, calls = trace.gpu, trace.calls
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.direction == DTOH) & (gpu.host_memory == PINNED))
    copies = copies[trace.links.launch[copies] != NONE]
    kind = call_kinds(calls)
    launch = trace.links.launch[copies]
    step = trace.links.activity_step[copies]
    kept = (kind[launch] == ASYNC_COPY) & (step != NONE) & (step < max(len(trace.steps) - 1, 1))
    copies, launch = copies[kept], launch[kept]
    waits = np.isin(kind, (STREAM, DEVICE, EVENT, COPY))
    if len(trace.steps):  # the profiler's own synchronize comes after the last step
        waits &= calls.start_ns < trace.steps.end_ns[-1]
    last_wait = np.full(len(trace.threads), np.iinfo(np.int64).min)
    np.maximum.at(last_wait, calls.thread[waits], calls.start_ns[waits])
    return Hazards(copies[calls.start_ns[launch] >= last_wait[calls.thread[launch]]].astype(np.int64))
