"""What the GPU's streams still had to do when the host began to wait: one search, however many streams there are."""

import numpy as np

from pinprof.intervals import last_below
from pinprof.trace.tables import Int64s

NOTHING = np.iinfo(np.int64).min
"""In place of a time where there was no work."""


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
        """Return for each wait the last end of what was launched on its stream before a time, NOTHING for none."""
        queue = np.searchsorted(self._streams, stream)
        known = np.append(self._streams, 0)[queue] == stream
        known &= queue < len(self._streams)
        begin = queue * self._width
        at = np.searchsorted(self._keys, begin + np.searchsorted(self._launches, issued_ns)) - 1
        found = known & (at >= 0)
        found[found] = self._keys[at[found]] >= begin[found]
        result = np.full(len(stream), NOTHING)
        result[found] = self._ends[self._reach_rank[at[found]]]
        return result

    def last_before(self, issued_ns: Int64s, ended_ns: Int64s) -> Int64s:
        """Return for each wait the last end of what was launched before one time and had ended by another.

        Work has ended with all that was launched before it on its stream. NOTHING if there is none.
        """
        order = np.argsort(self._reach_rank, kind="stable")
        reach, launched = self._ends[self._reach_rank[order]], self._launched[order]
        at = last_below(launched, np.searchsorted(reach, ended_ns, side="right"), issued_ns)
        return np.append(reach, NOTHING)[at]
