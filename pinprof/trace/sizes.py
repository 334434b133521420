"""Sums of sizes, some of which are not recorded: an unknown size does not count as zero."""

from typing import NamedTuple

from pinprof.trace.tables import NONE, Int64s

MOST_BYTES = 1 << 40
"""No device has so much memory, so no copy is larger: such a size is corrupt. Of sizes up to it 8 million fit int64."""


class Bytes(NamedTuple):
    """The sizes of some copies together."""

    known: int | None
    """Of the copies with a recorded size; None if there are copies, and none has one."""
    unsized: int
    """How many have no recorded size."""


def total_bytes(sizes: Int64s) -> Bytes:
    """Return the sum of sizes, -1 for one that is not recorded."""
    sized = sizes[sizes != NONE]
    return Bytes(int(sized.sum()) if len(sized) or not len(sizes) else None, len(sizes) - len(sized))
