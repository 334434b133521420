"""What copies of pinned memory were measured at on a machine."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.tables import DTOH, HTOD

Rates = tuple[tuple[int, float], ...]
"""Sizes in bytes, ascending, each with the rate of a copy of it in GB/s."""


@dataclass(frozen=True)
class PinnedRates:
    """The rates of a machine by direction; empty where they were not measured."""

    gpu: str
    htod: Rates = ()
    dtoh: Rates = ()

    def time_ns(self, direction: int, size: int) -> float | None:
        """Return what a copy takes; `direction` is HTOD or DTOH. None if that was not measured.

        Between measured sizes it follows the line between their times on logarithmic axes; a smaller copy takes as
        long as the smallest, a larger one runs at the rate of the largest.
        """
        rates = {HTOD: self.htod, DTOH: self.dtoh}.get(direction)
        if not rates:
            return None
        sizes, gbps = (np.array(column, dtype=np.float64) for column in zip(*rates, strict=True))
        if size >= sizes[-1]:
            return float(size / gbps[-1])
        return float(np.exp(np.interp(np.log(max(size, 1)), np.log(sizes), np.log(sizes / gbps))))
