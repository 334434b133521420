"""What a rectangle can be, and its colour: Okabe and Ito's palette, which the colour-blind can tell apart."""

from typing import NamedTuple

from pinprof.analyses.syncs import ALLOCATIONS, CAUSES
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#999999"
"""Masataka Okabe and Kei Ito, Color Universal Design (2008), https://jfly.uni-koeln.de/color/."""
LIGHT_GREEN, SLATE, PALE = "#8CC9B5", "#7A8799", "#B8BEC6"


class Kind(NamedTuple):
    """One entry of the legend."""

    label: str
    group: str
    colour: str


_READS = ("item", "bool", "tolist", "print", "nonzero", "mask_index", "masked_select", "unique", "equal")
_STALL_COLOURS = (
    dict.fromkeys((*_READS, "repeat_interleave"), PURPLE)
    | dict.fromkeys(("blocking_copy_htod", "blocking_copy_dtoh", "to_cpu"), VERMILLION)
    | dict.fromkeys(("pageable_copy", "tensor_from_host"), VERMILLION)
    | dict.fromkeys(("device_synchronize", "stream_synchronize", "event_synchronize"), ORANGE)
    | dict.fromkeys(ALLOCATIONS, YELLOW)
)
"""By what to do about it: read later, copy otherwise, remove, keep memory."""

_COPY_COLOURS = {
    ("HtoD", "pageable"): VERMILLION,
    ("HtoD", "pinned"): ORANGE,
    ("HtoD", "unknown"): ORANGE,
    ("DtoH", "pageable"): PURPLE,
    ("DtoH", "pinned"): GREEN,
    ("DtoH", "unknown"): GREEN,
}


def _copy(direction: str, memory: str) -> Kind:
    label = f"copy {direction}" + (f" {memory}" if memory not in {"none", "unknown"} else "")
    return Kind(label, "GPU", _COPY_COLOURS.get((direction, memory), YELLOW))


HOST_KINDS = (
    Kind("step", "Host", SLATE),
    Kind("annotation", "Host", LIGHT_GREEN),
    Kind("op", "Host", SKY),
    Kind("runtime call", "Host", PALE),
    Kind("the profiler's own wait", "Stalls", GREY),
)
STEP, ANNOTATION, OP, CALL, PROFILER = range(len(HOST_KINDS))
STALL = len(HOST_KINDS)
"""The kind of a stall is this plus its cause, an index into CAUSES."""

GPU_KINDS = (Kind("kernel", "GPU", BLUE), Kind("memset", "GPU", GREY))
KERNEL_KIND = STALL + len(CAUSES)
MEMSET_KIND = KERNEL_KIND + 1
COPY = KERNEL_KIND + len(GPU_KINDS)
"""The kind of a copy is this plus its direction times the number of host memories plus its host memory."""

BAND_KINDS = (
    Kind("idle", "Overlap", PALE),
    Kind("memsets", "Overlap", GREY),
    Kind("kernels alone", "Overlap", BLUE),
    Kind("exposed copies", "Overlap", VERMILLION),
    Kind("overlapped copies", "Overlap", GREEN),
)
"""The parts of a step, so called on all of the page."""
IDLE, MEMSET_ONLY, COMPUTE_ONLY, COPY_ONLY, BOTH = range(
    COPY + len(DIRECTIONS) * len(HOST_MEMORIES), COPY + len(DIRECTIONS) * len(HOST_MEMORIES) + len(BAND_KINDS)
)

KINDS: tuple[Kind, ...] = (
    *HOST_KINDS,
    *(Kind(cause.replace("_", " "), "Stalls", _STALL_COLOURS.get(cause, GREY)) for cause in CAUSES),
    *GPU_KINDS,
    *(_copy(direction, memory) for direction in DIRECTIONS for memory in HOST_MEMORIES),
    *BAND_KINDS,
)
"""All kinds; where rectangles lie on each other, the later kind lies above."""

MANY_NAMES = frozenset({ANNOTATION, OP, CALL, KERNEL_KIND})
"""Kinds with many events of different names; they are shaded by name."""

DARK = 105
"""Luma (ITU-R BT.601) up to which white reads better than black."""


def shades(colour: str) -> tuple[str, ...]:
    """Return the shades of a colour as CSS colours.

    Three tell neighbours of different names apart, the last is for blocks that are mostly gaps.
    """
    channels = _channels(colour)

    def mixed(target: int, share: float, alpha: float = 1) -> str:
        red, green, blue = (round(channel + (target - channel) * share) for channel in channels)
        return f"rgba({red},{green},{blue},{alpha:g})"

    return mixed(0, 0), mixed(255, 0.22), mixed(0, 0.18), mixed(0, 0, 0.65)


def faded(colour: str) -> str:
    """Return the colour of what was not searched for, as a CSS colour."""
    red, green, blue = _channels(colour)
    return f"rgba({red},{green},{blue},0.18)"


def ink(colour: str) -> str:
    """Return black or white, whichever reads better on a colour."""
    red, green, blue = _channels(colour)
    return "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > DARK else "#fff"


def _channels(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
