"""Rows gathered by their name: sums of each name, the costliest names, and what most of each is."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.tables import NONE, Int32s, Int64s, Table

MOST_NAMES = 200
"""Names that are kept, the costliest: a profile stays small."""
LONGEST_NAME = 500
"""Characters of a name that are kept: that of a kernel can have thousands."""


@dataclass(frozen=True)
class Names:
    """Rows of a table by name, the one of most time first."""

    codes: Int64s
    """The names."""
    which: Int64s
    """Per row the place of its name among these."""
    count: Int64s
    """Rows of each name."""
    time_ns: Int64s
    """Time of each name."""
    most: int = MOST_NAMES
    """So many are kept."""

    @property
    def kept(self) -> range:
        """The names that are kept: by default those of a profile."""
        return range(min(len(self.codes), self.most))

    @property
    def left_ns(self) -> int:
        """Time of the others."""
        return int(self.time_ns[self.most :].sum())

    def sums(self, values: Int64s) -> Int64s:
        """Return the sum of the rows' values of each name."""
        return _sums(self.which, values, len(self.codes))

    def leading(self, value: Int32s, weight: Int64s) -> tuple[Int64s, Int64s]:
        """Return of each name the value of most weight, -1 for none, and how many different ones it has.

        Rows of the value -1 have none.
        """
        known = value != NONE
        width = int(value.max(initial=0)) + 1
        pairs, place = np.unique(self.which[known] * width + value[known], return_inverse=True)
        of_name, values = pairs // width, pairs % width
        order = np.lexsort((-_sums(place, weight[known], len(pairs)), of_name))
        names, first = np.unique(of_name[order], return_index=True)
        result = np.full(len(self.codes), NONE, np.int64)
        result[names] = values[order][first]
        return result, np.bincount(of_name, minlength=len(self.codes))


def by_name(table: Table, rows: Int64s, time_ns: Int64s) -> Names:
    """Return rows of a table by name; `time_ns` is that of each row."""
    codes, which = np.unique(table.name[rows], return_inverse=True)
    times = _sums(which, time_ns, len(codes))
    order = np.argsort(-times, kind="stable")
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes))
    which = place[which]
    return Names(codes[order].astype(np.int64), which, np.bincount(which, minlength=len(codes)), times[order])


def _sums(which: Int64s, values: Int64s, count: int) -> Int64s:
    """Return the sums of values by their number; floats hold those of 100 days exactly."""
    return np.bincount(which, values, minlength=count).astype(np.int64)
