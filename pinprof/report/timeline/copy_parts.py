"""Copies as their exposed and their overlapped parts: what of each runs beside a kernel of its device."""

import numpy as np

from pinprof.intervals import divided, union
from pinprof.report.timeline.kinds import BOTH, COPY_ONLY
from pinprof.report.timeline.lane import Lane, lane_at
from pinprof.trace.tables import KERNEL, MEMCPY, Trace


def with_copy_parts(trace: Trace, lane: Lane) -> Lane:
    """Return the lane of a stream with each copy in its parts: as the report divides it, overlapped beside kernels."""
    gpu = trace.gpu
    is_copy = gpu.category[lane.row] == MEMCPY
    if not is_copy.any():
        return lane
    rows, others = lane.row[is_copy], ~is_copy
    of_device = gpu.of_device[int(gpu.device[rows[0]])]
    kernels = of_device[gpu.category[of_device] == KERNEL]
    busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
    start, end, is_overlapped, copy = divided(busy, lane.start_ns[is_copy], lane.end_ns[is_copy])
    kind = np.where(is_overlapped, BOTH, COPY_ONLY)
    return lane_at(
        lane.group,
        lane.label,
        lane.source,
        np.concatenate((lane.start_ns[others], start)),
        np.concatenate((lane.end_ns[others], end)),
        np.concatenate((lane.kind[others], kind)),
        np.concatenate((lane.row[others], rows[copy])),
    )
