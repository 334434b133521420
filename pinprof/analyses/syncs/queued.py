"""What the GPU's streams still had to do when the host began to wait: one search, however many streams there are."""

import numpy as np

from pinprof.trace.tables import NONE, Int64s

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
        at = _last_below(launched, np.searchsorted(reach, ended_ns, side="right"), issued_ns)
        return np.append(reach, NOTHING)[at]


def _last_below(values: Int64s, behind: Int64s, limit: Int64s) -> Int64s:
    """Return per query the last place before `behind` at which a value is below the limit, -1 for none.

    The least value of each block of 1, 2, 4, ... places is known. The search goes to the left over larger and larger
    blocks until one holds such a value, and then down into that.
    """
    least = [values]
    while len(least[-1]) > 1:
        even = np.append(least[-1], np.iinfo(np.int64).max) if len(least[-1]) % 2 else least[-1]
        least.append(np.minimum(even[::2], even[1::2]))
    place, found_at = np.full(len(behind), NONE), np.full(len(behind), NONE)
    block = behind - 1
    for level, minimum in enumerate(least):
        for left in (0, 1):  # the block itself, and the one before it if both are of one pair
            rows = np.flatnonzero((found_at == NONE) & (block >= 0) & ((left == 0) | (block % 2 == 1)))
            rows = rows[minimum[block[rows] - left] < limit[rows]]
            place[rows], found_at[rows] = block[rows] - left, level
        block = block // 2 - 1
    for level in range(len(least) - 2, NONE, -1):
        rows = np.flatnonzero(found_at > level)
        right = np.minimum(2 * place[rows] + 1, len(least[level]) - 1)  # the last block may be alone
        place[rows] = np.where(least[level][right] < limit[rows], right, 2 * place[rows])
    return place
