"""Which GPU work the host waited for in a stall."""

import numpy as np

from pinprof.analyses.syncs import Stalls
from pinprof.trace.tables import NONE, Int64s, Trace


def awaited_rows(trace: Trace, stalls: Stalls, rows: Int64s) -> Int64s:
    """Return per row of `stalls` the row of `Trace.gpu` whose end the host waited for, -1 for none.

    That is the call's own copy, if it ended last, else the first of the device's activities that ended then.
    """
    gpu = trace.gpu
    copy, device, end = stalls.copy[rows].astype(np.int64), stalls.device[rows], stalls.awaited_end_ns[rows]
    found = np.full(len(rows), NONE, np.int64)
    if len(gpu) == 0:
        return found
    for number, of_device in gpu.of_device.items():
        order = of_device[np.argsort(gpu.end_ns[of_device], kind="stable")]
        mine = np.flatnonzero(device == number)
        place = np.searchsorted(gpu.end_ns[order], end[mine])
        inside = place < len(order)
        ends_then = inside & (gpu.end_ns[order[np.where(inside, place, 0)]] == end[mine])
        found[mine[ends_then]] = order[place[ends_then]]
    own = (copy != NONE) & (gpu.end_ns[copy] == end)
    return np.where(stalls.own_ns[rows] + stalls.drain_ns[rows] > 0, np.where(own, copy, found), NONE)
