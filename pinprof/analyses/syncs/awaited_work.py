"""The GPU work that a call awaits: on which device and stream, and when it ended."""

import numpy as np

from pinprof.intervals import last_below
from pinprof.trace.calls import DEVICE, HOST_MEMORY
from pinprof.trace.tables import NONE, Int32s, Int64s, Trace, rows_by

SKEW_NS = 2_000
"""GPU and host clocks agree to about a microsecond; a wait may seem to end this much before the awaited work."""

NOTHING = np.iinfo(np.int64).min
"""In place of a time where there was no work."""


def awaited_work(trace: Trace, call: Int64s, kind: Int64s, copy: Int32s) -> tuple[Int32s, Int64s, Int64s]:
    """Return the device and the stream that each call waits for, and when the work before its own copy ended, in ns.

    The stream is -1 where it is unknown. Without such work, the end is the start of the call.
    """
    device, stream = _targets(trace, call, copy)
    start, end = trace.calls.start_ns[call], trace.calls.end_ns[call]
    return device, stream, _prior_end(trace, kind, device, stream, start, end, _issued(trace, call, copy))


def _issued(trace: Trace, rows: Int64s, copy: Int32s) -> Int64s:
    """Return the time before which the awaited work was launched: the launch of the call's own copy, or its start."""
    start = trace.calls.start_ns[rows]
    return np.where(copy == NONE, start, trace.launched_ns[copy]) if len(trace.gpu) else start


def _targets(trace: Trace, rows: Int64s, copy: Int32s) -> tuple[Int32s, Int64s]:
    """Return the device and the stream that each call waits for; the stream is -1 where it is unknown.

    The call's own copy has both; CUPTI's record of the synchronization has the stream. Otherwise the device is that
    of the thread's last launch.
    """
    gpu, calls = trace.gpu, trace.calls
    if len(gpu) == 0:
        return np.full(len(rows), NONE, np.int32), np.full(len(rows), NONE, np.int64)
    device, stream = _last_device(trace, rows), np.full(len(rows), NONE, np.int64)
    if len(trace.syncs):
        order = np.argsort(trace.syncs.correlation, kind="stable")
        position = np.searchsorted(trace.syncs.correlation[order], calls.correlation[rows])
        record = order[np.minimum(position, len(order) - 1)]
        known = (trace.syncs.correlation[record] == calls.correlation[rows]) & (calls.correlation[rows] > 0)
        stream = np.where(known, trace.syncs.stream[record], stream)
    own = copy != NONE
    return np.where(own, gpu.device[copy], device).astype(np.int32), np.where(own, gpu.stream[copy], stream)


def _last_device(trace: Trace, rows: Int64s) -> Int32s:
    """Return the device of the last launch of the call's thread before it, else the first device of the trace."""
    gpu, calls, launch = trace.gpu, trace.calls, trace.links.launch
    device = np.full(len(calls), NONE, np.int32)
    device[launch[launch != NONE]] = gpu.device[launch != NONE]
    order = np.lexsort((calls.start_ns, calls.thread))
    last = np.maximum.accumulate(np.where(device[order] == NONE, NONE, np.arange(len(order))))
    same_thread = (last != NONE) & (calls.thread[order[last]] == calls.thread[order])
    result = np.full(len(calls), gpu.device[0], np.int32)
    result[order[same_thread]] = device[order[last[same_thread]]]
    return result[rows]


def _prior_end(
    trace: Trace, kind: np.ndarray, device: Int32s, stream: Int64s, start: Int64s, end: Int64s, issued: Int64s
) -> Int64s:
    """Return the end of the last awaited work that was launched before `issued`; the call's start if there is none.

    A synchronize of a known stream, or of the device, waits for all work launched there. If the target of a call is not
    known (an event, an unnamed stream, an allocation), only work that had ended when it returned counts as awaited. The
    same holds for work whose launch is not in the trace, as it may have been launched later.
    """
    gpu = trace.gpu
    latest = start.copy()
    for waits in rows_by(device):
        rows = gpu.of_device.get(int(device[waits[0]]), waits[:0])
        linked = trace.links.launch[rows] != NONE
        recorded, others = rows[linked], rows[~linked]
        queued = Queued(gpu.stream[recorded], trace.launched_ns[recorded], gpu.end_ns[recorded])
        ended = Queued(gpu.stream[others], gpu.end_ns[others], gpu.end_ns[others])
        named, unnamed = waits[stream[waits] != NONE], waits[stream[waits] == NONE]
        over = end + SKEW_NS
        before = np.where(kind[unnamed] == DEVICE, np.iinfo(np.int64).max, over[unnamed])
        for waiting, awaited in (
            (named, queued.last_on(stream[named], issued[named])),
            (named, ended.last_on(stream[named], over[named] + 1)),
            (unnamed, queued.last_before(issued[unnamed], before)),
            (unnamed, ended.last_before(over[unnamed] + 1, over[unnamed])),
        ):
            latest[waiting] = np.maximum(latest[waiting], awaited)
    return np.where(kind == HOST_MEMORY, start, latest)


class Queued:
    """The work of one device by stream, launch and end; times in ns."""

    def __init__(self, stream: Int64s, launched_ns: Int64s, end_ns: Int64s) -> None:
        self._streams, queue = np.unique(stream, return_inverse=True)
        self._launches = np.sort(launched_ns)
        self._ends, rank = np.unique(end_ns, return_inverse=True)
        order = np.lexsort((launched_ns, queue.ravel()))
        self._width = len(order) + 1
        begin = queue.ravel()[order] * self._width
        self._keys = begin + np.searchsorted(self._launches, launched_ns[order])
        self._reach_rank = np.maximum.accumulate(begin + rank.ravel()[order]) - begin
        self._launched = launched_ns[order]

    def last_on(self, stream: Int64s, issued_ns: Int64s) -> Int64s:
        """Return for each wait when the last work launched on its stream before a time ended; NOTHING for none."""
        queue = np.searchsorted(self._streams, stream)
        known = np.append(self._streams, 0)[queue] == stream
        known &= queue < len(self._streams)
        begin = queue * self._width
        at = np.searchsorted(self._keys, begin + np.searchsorted(self._launches, issued_ns)) - 1
        is_known = known & (at >= 0)
        is_known[is_known] = self._keys[at[is_known]] >= begin[is_known]
        result = np.full(len(stream), NOTHING)
        result[is_known] = self._ends[self._reach_rank[at[is_known]]]
        return result

    def last_before(self, issued_ns: Int64s, ended_ns: Int64s) -> Int64s:
        """Return for each wait the last end of work that was launched before one time and had ended by another.

        Work counts as ended only together with all earlier work of its stream. NOTHING if there is none.
        """
        order = np.argsort(self._reach_rank, kind="stable")
        reach, launched = self._ends[self._reach_rank[order]], self._launched[order]
        at = last_below(launched, np.searchsorted(reach, ended_ns, side="right"), issued_ns)
        return np.append(reach, NOTHING)[at]


def gpu_start(trace: Trace, row: Int32s) -> Int64s:
    """Return when activities begin, by row; zeros in a trace without any."""
    return trace.gpu.start_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)


def gpu_end(trace: Trace, row: Int32s) -> Int64s:
    """Return when activities end, by row; zeros in a trace without any."""
    return trace.gpu.end_ns[row] if len(trace.gpu) else np.zeros(len(row), np.int64)
