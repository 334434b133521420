"""What a rectangle can be, what it is called in the legend, and its colour and pattern."""

from typing import NamedTuple

from pinprof import hues
from pinprof.analyses.syncs import CAUSES, WAITS
from pinprof.trace.host import Origin
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES


class Kind(NamedTuple):
    """One entry of the legend."""

    label: str
    group: str
    colour: str
    pattern: str = ""
    """A key of `HATCHES`: what tells it from its neighbours without the colour."""
    short: str = ""
    """What stands in its rectangles before the size, if they have one, in place of their name."""


_COPY_COLOURS = {
    (direction, memory): pageable if memory == "pageable" else pinned
    for direction, (pageable, pinned) in (("HtoD", hues.COPY_OUT), ("DtoH", hues.COPY_BACK))
    for memory in HOST_MEMORIES
}


def _copy(direction: str, memory: str) -> Kind:
    short = direction + (f" {memory}" if memory not in {"none", "unknown"} else "")
    return Kind(f"copy {short}", "GPU", _COPY_COLOURS.get((direction, memory), hues.COPY_WITHIN), short=short)


HOST_KINDS = (
    Kind("step", "Host", hues.STEP),
    Kind("annotation", "Host", hues.ANNOTATION),
    Kind("op", "Host", hues.OP),
    Kind("runtime call", "Host", hues.CALL),
    Kind("the profiler's own wait", "Stalls", hues.PROFILER, "/"),
    Kind("your code", "Python", hues.OWN_CODE),
    Kind("torch", "Python", hues.TORCH_CODE),
    Kind("Python and other packages", "Python", hues.PACKAGES),
)
STEP, ANNOTATION, OP, CALL, PROFILER, OWN_CODE, TORCH_CODE, PACKAGES = range(len(HOST_KINDS))
OF_ORIGIN: dict[Origin, int] = {"user": OWN_CODE, "torch": TORCH_CODE, "library": PACKAGES}
"""Kinds of Python code by whose it is."""
STALL = len(HOST_KINDS)
"""The kind of a stall is this plus its cause, an index into CAUSES."""

GPU_KINDS = (
    Kind("kernel", "GPU", hues.KERNEL),
    Kind("collective", "GPU", hues.COLLECTIVE, "|"),
    Kind("memset", "GPU", hues.MEMSET, "-"),
)
KERNEL_KIND = STALL + len(CAUSES)
COLLECTIVE_KIND, MEMSET_KIND = KERNEL_KIND + 1, KERNEL_KIND + 2
COPY = KERNEL_KIND + len(GPU_KINDS)
"""The kind of a copy is this plus its direction times the number of host memories plus its host memory."""

BAND_KINDS = (
    Kind("idle", "Overlap", hues.IDLE),
    Kind("memsets", "Overlap", hues.MEMSET, "-"),
    Kind("kernels alone", "Overlap", hues.KERNEL),
    Kind("collectives alone", "Overlap", hues.COLLECTIVE, "|"),
    Kind("exposed copies", "Overlap", hues.COPY_OUT[0], "/"),
    Kind("overlapped copies", "Overlap", hues.OVERLAPPED, "\\"),
)
"""The parts of a step, so called on all of the page."""
IDLE = COPY + len(DIRECTIONS) * len(HOST_MEMORIES)
MEMSET_ONLY, COMPUTE_ONLY, COLLECTIVE_ONLY, COPY_ONLY, BOTH = range(IDLE + 1, IDLE + len(BAND_KINDS))

CHANGE_KINDS = (
    Kind("gone after", "Changed", hues.GONE, "/"),
    Kind("new", "Changed", hues.NEW, "\\"),
    Kind("shorter after", "Changed", hues.SHORTER),
    Kind("longer after", "Changed", hues.LONGER),
)
GONE, NEW, SHORTER, LONGER = range(IDLE + len(BAND_KINDS), IDLE + len(BAND_KINDS) + len(CHANGE_KINDS))

KINDS: tuple[Kind, ...] = (
    *HOST_KINDS,
    *(Kind(cause.plain, "Stalls", cause.colour) for cause in WAITS.values()),
    *GPU_KINDS,
    *(_copy(direction, memory) for direction in DIRECTIONS for memory in HOST_MEMORIES),
    *BAND_KINDS,
    *CHANGE_KINDS,
)
"""All kinds; where rectangles lie on each other, the later kind lies above."""

MANY_NAMES = frozenset({ANNOTATION, OP, CALL, OWN_CODE, TORCH_CODE, PACKAGES, KERNEL_KIND, COLLECTIVE_KIND})
"""Kinds with many events of different names; they are shaded by name."""
