"""What pinned memory brings and costs: the rates of its copies, and what the bench of a machine says of it."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from pinprof.document import Words, doc
from pinprof.pci_express import link_of_gpus
from pinprof.trace.tables import DTOH, HTOD, PINNED, Trace

Rates: TypeAlias = Annotated[
    tuple[tuple[float, ...], ...], doc("[bytes, GB/s] of the copies that were measured, by size")
]


class PinnedRates(Struct, frozen=True):
    """The measured rates of pinned copies by direction; empty where they were not measured."""

    gpu: Annotated[str, doc("the GPU of the bench")]
    htod: Rates = ()
    dtoh: Rates = ()

    def time_ns(self, direction: int, size: int) -> float | None:
        """Return the time of a copy in ns; `direction` is HTOD or DTOH. None if that was not measured.

        Times between measured sizes are interpolated on logarithmic axes; a smaller copy takes as long as the smallest,
        a larger one runs at the rate of the largest.
        """
        rates = {HTOD: self.htod, DTOH: self.dtoh}.get(direction)
        if not rates:
            return None
        sizes, gbps = (np.array(column, dtype=np.float64) for column in zip(*rates, strict=True))
        if size >= sizes[-1]:
            return float(size / gbps[-1])
        return float(np.exp(np.interp(np.log(max(size, 1)), np.log(sizes), np.log(sizes / gbps))))


LARGE_COPY_BYTES = 1 << 20
"""Copies of at least this size show the rate of the link; the time of smaller ones is mostly latency."""
ASSUMED_GBPS = 25.0
"""The assumed rate of pinned copies where neither the trace nor the GPU's name shows it: that of PCIe 4.0 x16."""


class PinnedRate(NamedTuple):
    """The rate of copies that become pinned, in GB/s."""

    gbps: float
    is_known: bool
    """Whether it comes from the trace or the GPU's link; otherwise it is assumed."""


def pinned_rate(trace: Trace) -> PinnedRate:
    """Return the best rate of a large pinned copy in the trace, otherwise the usual rate of the GPU's link."""
    gpu = trace.gpu
    large = (gpu.host_memory == PINNED) & (gpu.bytes >= LARGE_COPY_BYTES) & (gpu.duration_ns > 0)
    if large.any():
        return PinnedRate(float((gpu.bytes[large] / gpu.duration_ns[large]).max()), is_known=True)
    link = link_of_gpus(device.name for device in trace.info.devices)
    return PinnedRate(link.usual if link else ASSUMED_GBPS, is_known=link is not None)


class Advice(Struct, frozen=True):
    """What to do on this machine."""

    name: Annotated[str, doc("which advice; the same on every machine")]
    text: Annotated[Words, doc("the advice")]
    value: Annotated[float | None, doc("its value, for programs; null where nothing pays, or none was found")]
    unit: Annotated[str, doc("the unit of the value")]


@dataclass(frozen=True)
class Pinning:
    """What pinned memory brings and costs: little, since each process that measures a rank is given it."""

    rates: PinnedRates
    pays: Advice | None = None
    """From which size on copies to the GPU are faster for it; None where that was not measured."""
    fresh: Advice | None = None
    """Whether a tensor that is pinned just for its copy is there sooner; None where that was not measured."""
    fresh_size: str = ""
    """How large that tensor was."""
