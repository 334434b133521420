"""What the link between GPU and host can carry."""

from typing import NamedTuple

from pinprof.bench.results import Machine

LANES = {
    1: (2.5, 8 / 10),
    2: (5.0, 8 / 10),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 242 / 256),
}
"""By generation of PCI Express: transfers per second of a lane in 10^9, each of one bit, and the share of the bits that
the encoding leaves (of generation 6: the bytes of a flit of 256 that are not check sums)."""
USUAL = 0.88
"""What copies of pinned memory reach of that: 55.6 of 63.0 GB/s from host to device by nvbandwidth
(`host_to_device_memcpy_ce`). The rest are headers and acknowledgements."""


class Link(NamedTuple):
    """A link by name, with the rate in one direction in GB/s: by its specification, and as pinned copies reach it."""

    name: str
    theoretical: float
    usual: float


def link_of(machine: Machine) -> Link | None:
    """Return the link that the driver reports; None if it does not, or reports one that is not known.

    The rate is transfers x lanes x encoding / 8 bits: 32 x 16 x 128/130 / 8 = 63.0 GB/s of PCIe 5.0 x16 (PCI Express
    Base Specification).
    """
    generation, width = machine.pcie_generation, machine.pcie_width
    if generation not in LANES or width is None or width < 1:
        return None
    transfers, encoding = LANES[generation]
    rate = transfers * width * encoding / 8
    return Link(f"PCIe {generation}.0 x{width}", rate, USUAL * rate)
