"""What was copied, by direction and kind of host memory."""

from dataclasses import dataclass

import numpy as np

from pinprof.intervals import covered, union
from pinprof.trace.sizes import total_bytes
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, KERNEL, MEMCPY, NONE, Int64s, Trace, rows_by


@dataclass(frozen=True)
class Copied:
    """What was copied; the time counts each copy by itself, in ns."""

    count: int
    bytes: int | None
    """Of the copies with a recorded size; None if none has one."""
    time_ns: int
    bandwidth_gbps: float | None
    """Bytes per ns (10^9 bytes per second) over the copies whose size is recorded."""


@dataclass(frozen=True)
class Hidden:
    """How much of the time of copies lies under kernels, in ns; each copy counts by itself."""

    overlapped_ns: int
    exposed_ns: int


@dataclass(frozen=True)
class CopyGroup:
    """All copies of one direction and host memory."""

    direction: str
    host_memory: str
    unsized: int
    """Copies whose size is not recorded."""
    copied: Copied
    hidden: Hidden


def measure_copies(trace: Trace) -> tuple[CopyGroup, ...]:
    """Return the groups of copies of all devices, by direction, then by host memory.

    The overlapped part of a copy lies under the union of kernels of the same device.
    """
    gpu = trace.gpu
    rows = np.flatnonzero(gpu.category == MEMCPY)
    overlapped = _under_kernels(trace, rows)
    kinds = np.stack((gpu.direction[rows], gpu.host_memory[rows]), axis=1)
    groups = []
    for direction, memory in np.unique(kinds, axis=0):
        chosen = (kinds == (direction, memory)).all(axis=1)
        members = rows[chosen]
        time, hidden = int(gpu.duration_ns[members].sum()), int(overlapped[chosen].sum())
        sized = members[gpu.bytes[members] != NONE]
        sized_time = int(gpu.duration_ns[sized].sum())
        size, unsized = total_bytes(gpu.bytes[members])
        groups.append(
            CopyGroup(
                DIRECTIONS[direction],
                HOST_MEMORIES[memory],
                unsized,
                Copied(
                    count=len(members),
                    bytes=size,
                    time_ns=time,
                    bandwidth_gbps=size / sized_time if size is not None and sized_time else None,
                ),
                Hidden(hidden, time - hidden),
            )
        )
    return tuple(groups)


def _under_kernels(trace: Trace, rows: Int64s) -> Int64s:
    gpu = trace.gpu
    overlapped = np.zeros(len(rows), np.int64)
    for mine in rows_by(gpu.device[rows]):
        of_device = gpu.of_device[int(gpu.device[rows[mine[0]]])]
        kernels = of_device[gpu.category[of_device] == KERNEL]
        busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
        overlapped[mine] = covered(busy, gpu.start_ns[rows[mine]], gpu.end_ns[rows[mine]])
    return overlapped
