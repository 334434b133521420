"""Copies as their exposed and their overlapped parts: what of each runs beside a kernel of its device."""

import numpy as np

from pinprof.intervals import contains, union
from pinprof.report.timeline.kinds import BOTH, COPY_ONLY
from pinprof.report.timeline.lane import Lane, lane_at
from pinprof.trace.tables import KERNEL, MEMCPY, Trace


def with_copy_parts(trace: Trace, lane: Lane) -> Lane:
    """Return the lane of a stream with each copy in parts that begin or end where a kernel of its device does.

    The parts of a copy add up to it, those beside kernels to what the report calls overlapped of it.
    """
    gpu = trace.gpu
    is_copy = gpu.category[lane.row] == MEMCPY
    if not is_copy.any():
        return lane
    rows, start, end = (column[is_copy] for column in (lane.row, lane.start_ns, lane.end_ns))
    of_device = gpu.of_device[int(gpu.device[rows[0]])]
    kernels = of_device[gpu.category[of_device] == KERNEL]
    busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
    edges = np.stack(busy, axis=1).ravel()
    first, last = np.searchsorted(edges, start, side="right"), np.searchsorted(edges, end, side="left")
    cuts = np.maximum(last - first, 0)
    copy = np.repeat(np.arange(len(rows)), cuts + 1)
    number = np.arange(len(copy)) - np.repeat(np.cumsum(cuts + 1) - cuts - 1, cuts + 1)
    edges = np.append(edges, 0)  # read where there is no cut, and not used
    begin = np.where(number == 0, start[copy], edges[np.minimum(first[copy] + number - 1, len(edges) - 1)])
    finish = np.where(number == cuts[copy], end[copy], edges[np.minimum(first[copy] + number, len(edges) - 1)])
    kind = np.where(contains(busy, begin), BOTH, COPY_ONLY)
    others = ~is_copy
    return lane_at(
        lane.group,
        lane.label,
        lane.source,
        np.concatenate((lane.start_ns[others], begin)),
        np.concatenate((lane.end_ns[others], finish)),
        np.concatenate((lane.kind[others], kind)),
        np.concatenate((lane.row[others], rows[copy])),
    )
