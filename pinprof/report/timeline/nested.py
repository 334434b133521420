"""Lanes that are folded at first: ops nested deeper than most want to see, and the Python frames of `with_stack`."""

from collections.abc import Iterator

import numpy as np

from pinprof.report.timeline import kinds
from pinprof.report.timeline.lane import Lane, LeftOut, lane_of, levels
from pinprof.report.timeline.window import Window
from pinprof.trace.frames import OF_TORCH, frame, is_user_file, package_file
from pinprof.trace.tables import NONE, Int64s, Trace

DEEPEST_OP, DEEPEST_FRAME = 24, 64
"""How deep ops and frames are drawn at all; deeper ones are counted."""
MODULE_CALL = "nn.Module: "
"""Before the name of the class, in the event of a module's call."""


def deeper_ops(trace: Trace, thread: str, rows: Int64s, level: Int64s, drawn: int) -> Iterator[Lane | LeftOut]:
    """Yield the lanes of ops whose `level` is not below `drawn`; each says how deep it is."""
    for depth in range(drawn, DEEPEST_OP):
        mine = rows[level == depth]
        yield lane_of(
            f"Ops further inside, {thread}", f"depth {depth + 1}", "ops", trace.ops, mine, kinds.OP, folded=True
        )
    yield LeftOut(int((level == NONE).sum()), f"ops nested deeper than {DEEPEST_OP}")


def frame_lanes(trace: Trace, window: Window, index: int, thread: str) -> Iterator[Lane | LeftOut]:
    """Yield a lane for each level of the Python frames of a thread, the outermost first."""
    functions = trace.functions
    rows = np.flatnonzero(window.holds(functions.start_ns, functions.end_ns) & (functions.thread == index))
    level = levels(functions.start_ns[rows], functions.end_ns[rows], DEEPEST_FRAME)
    kind = frame_kinds(trace)[rows]
    for depth in range(int(level.max(initial=NONE)) + 1):
        mine, label = level == depth, "frames" if depth == 0 else ""
        yield lane_of(f"Python frames, {thread}", label, "frames", functions, rows[mine], kind[mine], folded=True)
    yield LeftOut(int((level == NONE).sum()), f"Python frames nested deeper than {DEEPEST_FRAME}")


def frame_kinds(trace: Trace) -> Int64s:
    """Return whose code each Python function is, as kinds."""
    functions = trace.functions
    of_name = np.full(len(functions.names), kinds.PACKAGES, np.int64)
    for code in np.unique(functions.name).tolist():
        of_name[code] = _kind(functions.names[code])
    return of_name[functions.name]


def _kind(name: str) -> int:
    found = frame(name)
    if found is None:
        is_torch = name.startswith(MODULE_CALL) or " of Tensor object" in name or "torch" in name
        return kinds.TORCH_CODE if is_torch else kinds.PACKAGES
    if package_file(found.file).split("/", maxsplit=1)[0] in OF_TORCH:
        return kinds.TORCH_CODE
    return kinds.OWN_CODE if is_user_file(found.file) else kinds.PACKAGES
