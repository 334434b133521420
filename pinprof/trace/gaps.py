"""When a device had no work, and whether its next work was queued by then."""

from typing import NamedTuple

import numpy as np

from pinprof.intervals import Intervals, gaps, union
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

LATE_START_NS = 100_000
"""Work reaches an idle GPU within tens of microseconds after the call that launches it; work that starts later waits
for other work."""


class Gaps(NamedTuple):
    """The gaps between the first and the last work of a device, in order."""

    times: Intervals
    following: Int64s
    """Row of the first work after each."""
    queued: Bools
    """Whether that work was launched before the gap began, or waited for most of it: then no wait of the host caused
    the gap."""


def gaps_of(trace: Trace, device: int) -> Gaps:
    """Return when a device had no work."""
    gpu = trace.gpu
    mine = gpu.of_device[device]
    times = gaps(union(gpu.start_ns[mine], gpu.end_ns[mine]))
    following = mine[np.searchsorted(gpu.start_ns[mine], times.end)] if len(times.start) else mine[:0]
    launch = trace.links.launch[following]
    waited = np.where(launch == NONE, 0, times.end - trace.calls.end_ns[launch]) if len(trace.calls) else 0
    waited_most = (waited > LATE_START_NS) & (2 * waited > times.end - times.start)
    return Gaps(times, following, (trace.launched_ns[following] <= times.start) | waited_most)
