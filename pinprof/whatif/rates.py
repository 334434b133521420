"""What copies of pinned memory were measured at on a machine."""

from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Struct

from pinprof.document import doc
from pinprof.trace.tables import DTOH, HTOD

Rates: TypeAlias = Annotated[
    tuple[tuple[float, ...], ...], doc("[bytes, GB/s] of the copies that were measured, by size")
]


class PinnedRates(Struct, frozen=True):
    """What pinned copies were measured at, by direction; empty where they were not."""

    gpu: Annotated[str, doc("the GPU of the bench")]
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
