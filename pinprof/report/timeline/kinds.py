"""The kinds of rectangles, a row each (label, colour, pattern) whose index is the kind."""

from typing import NamedTuple

from pinprof.analyses.syncs.causes import WAITS
from pinprof.ground import hues
from pinprof.trace.metadata.sampled_stacks import CodeOrigin
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES


class LegendEntry(NamedTuple):
    """One entry of the legend."""

    label: str
    group: str
    colour: str
    pattern: str = ""
    """A key of `HATCHES`, which distinguishes the kind from its neighbours without colours."""
    has_names: bool = False
    """Whether its events have many names, shown in different shades."""
    short: str = ""
    """The label of its rectangles in place of their name, before the size if they have one."""


_LEGEND_ROWS: list[LegendEntry] = []


def _kind(label: str, group: str, colour: str, pattern: str = "", *, has_names: bool = False, short: str = "") -> int:
    _LEGEND_ROWS.append(LegendEntry(label, group, colour, pattern, has_names, short))
    return len(_LEGEND_ROWS) - 1


STEP_KIND = _kind("step", "Host", hues.STEP)
ANNOTATION_KIND = _kind("annotation", "Host", hues.ANNOTATION, has_names=True)
OP_KIND = _kind("op", "Host", hues.OP, has_names=True)
CALL_KIND = _kind("runtime call", "Host", hues.CALL, has_names=True)
PROFILER_KIND = _kind("the profiler's own wait", "Stalls", hues.PROFILER, "/")
OWN_CODE_KIND = _kind("your code", "Python", hues.OWN_CODE, has_names=True)
TORCH_CODE_KIND = _kind("torch", "Python", hues.TORCH_CODE, has_names=True)
PACKAGE_CODE_KIND = _kind("Python and other packages", "Python", hues.PACKAGES, has_names=True)
KIND_OF_ORIGIN: dict[CodeOrigin, int] = {"user": OWN_CODE_KIND, "torch": TORCH_CODE_KIND, "library": PACKAGE_CODE_KIND}

FIRST_STALL_KIND = len(_LEGEND_ROWS)
"""The kind of a stall is this plus its cause, an index into CAUSES."""
for _cause in WAITS.values():
    _kind(_cause.plain, "Stalls", _cause.colour)

KERNEL_KIND = _kind("kernel", "GPU", hues.KERNEL, has_names=True)
COLLECTIVE_KIND = _kind("collective", "GPU", hues.COLLECTIVE, "|", has_names=True)
MEMSET_KIND = _kind("memset", "GPU", hues.MEMSET, "-")
FIRST_COPY_KIND = len(_LEGEND_ROWS)
"""The kind of a copy is this plus its direction times the number of host memories plus its host memory."""
for _direction in DIRECTIONS:
    for _memory in HOST_MEMORIES:
        _pageable, _pinned = {"HtoD": hues.COPY_OUT, "DtoH": hues.COPY_BACK}.get(_direction, (hues.COPY_WITHIN,) * 2)
        _short = _direction + (f" {_memory}" if _memory not in {"none", "unknown"} else "")
        _kind(f"copy {_short}", "GPU", _pageable if _memory == "pageable" else _pinned, short=_short)

IDLE_KIND = _kind("idle", "Overlap", hues.IDLE)
MEMSET_ONLY_KIND = _kind("memsets", "Overlap", hues.MEMSET, "-")
COMPUTE_ONLY_KIND = _kind("kernels alone", "Overlap", hues.KERNEL)
COLLECTIVE_ONLY_KIND = _kind("collectives alone", "Overlap", hues.COLLECTIVE, "|")
EXPOSED_COPY_KIND = _kind("exposed copies", "Overlap", hues.COPY_OUT[0], "/")
OVERLAPPED_COPY_KIND = _kind("overlapped copies", "Overlap", hues.OVERLAPPED, "\\")
STEP_PART_KINDS = range(IDLE_KIND, OVERLAPPED_COPY_KIND + 1)
"""The parts of a step, so called on all of the page."""

MEMORY_KIND = _kind("allocated memory", "Memory", hues.MEMORY)

EVENT_KINDS = tuple(_LEGEND_ROWS)
"""All kinds; where rectangles lie on each other, the later kind lies above."""
