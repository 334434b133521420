"""The rates of the link between a GPU and its host, by the driver's report of the link or by the name of the GPU."""

import re
from collections.abc import Iterable
from typing import Annotated

from msgspec import Struct

from pinprof.document import Gbps, doc

LANES = {
    1: (2.5, 8 / 10),
    2: (5.0, 8 / 10),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 242 / 256),
}
"""By generation of PCI Express: 10^9 bits per second and lane, and the share of the bits that the encoding leaves for
data. Generation 6 sends flits of 256 bytes; 242 of them are not check sums."""
REACHED_GBPS = {3: 12.0, 4: 25.0, 5: 55.0}
"""The rate of copies of pinned memory on 16 lanes, by generation: 12.3 GB/s on a V100, 25.1 on an A100 (nvbandwidth
#42) and 55.6 on an H100 (nvbandwidth, `host_to_device_memcpy_ce`)."""
USUAL_SHARE_OF_RATE = 0.87
"""The same as a share of the theoretical rate, for generations without measured copies: the rest are headers and
acknowledgements."""

VENDOR = re.compile(r"^(?:NVIDIA|AMD|Instinct|Tesla|GeForce|Quadro|TITAN|Radeon)\s+", re.IGNORECASE)
QUADRO = re.compile(r"Quadro RTX|TITAN RTX", re.IGNORECASE)
MODELS = (
    (r"(H100|H200|H800|H20|B100|B200|B300|MI300[AX]?|MI325X|MI350X|MI355X|RTX 50(70|80|90)|RTX PRO [456]000)", 5, 16),
    (r"RTX 5060", 5, 8),
    (r"(A100|A800|A10G?|A16|A30|A40|L4|L20|L40S?|MI100|MI2[015]0X?|RTX A[456]\d00|RTX 30[6789]0|RTX 40[789]0)", 4, 16),
    (r"RTX (4000|4500|5000|5880|6000) Ada", 4, 16),
    (r"(A2|RTX A2000|RTX 2000 Ada|RTX 3050|RTX 4060)", 4, 8),
    (r"(V100S?|P100|P40|P4|T4|MI50|MI60|GTX \d{4}|RTX 20[678]0)", 3, 16),
)
"""The generation and the lanes of a GPU's link, by the beginning of its name without the vendor."""


class Link(Struct, frozen=True):
    """The link between GPU and host, with its rates in one direction."""

    name: Annotated[str, doc("what it is")]
    theoretical: Annotated[Gbps, doc("what it carries, by its specification")]
    usual: Annotated[Gbps, doc("what copies of pinned memory usually reach")]


def pcie(generation: int | None, lanes: int | None) -> Link | None:
    """Return a link of PCI Express; None if the generation or the number of lanes is unknown.

    The rate is transfers x lanes x encoding / 8 bits: 32 x 16 x 128/130 / 8 = 63.0 GB/s of PCIe 5.0 x16 (PCI Express
    Base Specification).
    """
    if generation not in LANES or lanes is None or lanes < 1:
        return None
    transfers, encoding = LANES[generation]
    rate = transfers * lanes * encoding / 8
    usual = REACHED_GBPS[generation] * lanes / 16 if generation in REACHED_GBPS else USUAL_SHARE_OF_RATE * rate
    return Link(f"PCIe {generation}.0 x{lanes}", rate, usual)


def link_of_gpus(names: Iterable[str | None]) -> Link | None:
    """Return the link of GPUs by their names; None if a name does not show it, or if they have several.

    It knows only PCI Express; GH200 and GB200 are joined with their CPU by another link.
    """
    links = {_link_of(name or "") for name in names}
    return links.pop() if len(links) == 1 else None


def _link_of(name: str) -> Link | None:
    if QUADRO.search(name):  # before `MODELS`: newer cards have the same numbers
        return pcie(3, 16)
    model = name.strip()
    while (shorter := VENDOR.sub("", model)) != model:
        model = shorter
    for models, generation, lanes in MODELS:
        if re.match(rf"{models}(?![\dA-Z])", model):
            return pcie(generation, lanes)
    return None
