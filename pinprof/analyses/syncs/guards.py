"""Copies of pinned memory that are in flight when the host begins to wait, and have ended when it goes on.

The wait is what makes it right to read what such a copy brings, or to write what it is read from.
"""

from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs.stalls import SKEW_NS, Stalls
from pinprof.trace.calls import ASYNC_COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.tables import DTOH, HTOD, MEMCPY, NONE, PINNED, Int64s, Trace


class Guarded(NamedTuple):
    """Which waits end asynchronous copies of pinned memory: pairs, by stall."""

    stall: Int64s
    """Row in `Stalls`."""
    copy: Int64s
    """Row in `Trace.gpu`."""


def guarded_copies(trace: Trace, stalls: Stalls) -> Guarded:
    """Return for each synchronize the asynchronous copies of pinned memory that it awaits, but for its own.

    They were launched before the wait began, by any thread, had not ended then, and are on the stream that is awaited.
    Where that is not known they had ended when the wait returned.
    """
    gpu, calls = trace.gpu, trace.calls
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.host_memory == PINNED) & (trace.links.launch != NONE))
    copies = copies[np.isin(gpu.direction[copies], (HTOD, DTOH))]
    copies = copies[call_kinds(calls)[trace.links.launch[copies]] == ASYNC_COPY]
    waits = np.flatnonzero(np.isin(stalls.kind, (STREAM, DEVICE, EVENT)) & ~stalls.profiler)
    waits = waits[np.argsort(calls.start_ns[stalls.call[waits]], kind="stable")]
    begins = calls.start_ns[stalls.call[waits]]
    first = np.searchsorted(begins, trace.launched_ns[copies], side="right")
    count = np.maximum(np.searchsorted(begins, gpu.end_ns[copies] - SKEW_NS) - first, 0)
    copy = np.repeat(copies, count)
    stall = waits[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    stream = stalls.stream[stall]
    ended = gpu.end_ns[copy] <= calls.end_ns[stalls.call[stall]] + SKEW_NS
    awaited = np.where(stream == NONE, ended, gpu.stream[copy] == stream)
    awaited &= (gpu.device[copy] == stalls.device[stall]) & (stalls.copy[stall] != copy)
    order = np.argsort(stall[awaited], kind="stable")
    return Guarded(stall[awaited][order], copy[awaited][order])
