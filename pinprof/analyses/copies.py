"""What was copied, how much of it kernels hide, and why the rest is exposed.

A copy within a GPU's own memory is its work: it hides others, as a kernel does, and is neither hidden nor exposed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pinprof.ground.intervals import Intervals, contains, covered, distinct, length, subtract, union
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, MEMCPY, NONE, PAGEABLE, Bools, Int64s, Trace


def total_bytes(sizes: Int64s) -> tuple[int | None, int]:
    """Return the sum of the recorded sizes of copies, and how many are not recorded (-1).

    The sum is None if there are copies, and none has a recorded size.
    """
    sized = sizes[sizes != NONE]
    return int(sized.sum()) if len(sized) or not len(sizes) else None, len(sizes) - len(sized)


@dataclass(frozen=True)
class Copied:
    """What was copied; the time counts each copy by itself, in ns."""

    count: int
    bytes: int | None  # of the copies with a recorded size; None if none has one
    time_ns: int
    bandwidth_gbps: float | None  # bytes per ns (10^9 bytes per second) over the copies whose size is recorded


@dataclass(frozen=True)
class Hidden:
    """How much of the time of copies is overlapped by kernels, in ns; each copy counts by itself.

    Of copies within a GPU's own memory, both are 0.
    """

    overlapped_ns: int
    exposed_ns: int


@dataclass(frozen=True)
class CopyGroup:
    """All copies of one direction and host memory."""

    direction: str
    host_memory: str
    unsized: int  # copies whose size is not recorded
    copied: Copied
    hidden: Hidden


def measure_copies(trace: Trace) -> tuple[CopyGroup, ...]:
    """Return the groups of copies of all devices, by direction, then by host memory.

    The overlapped part of a copy lies under the union of kernels of the same device.
    """
    gpu = trace.gpu
    rows = np.flatnonzero(gpu.category == MEMCPY)
    duration_ns = gpu.duration_ns[rows] * gpu.is_transfer[rows]
    overlapped = np.minimum(gpu.overlap_with_ns(rows, gpu.is_compute), duration_ns)
    kinds = np.stack((gpu.direction[rows], gpu.host_memory[rows]), axis=1)
    groups = []
    for direction, memory in np.unique(kinds, axis=0):
        chosen = (kinds == (direction, memory)).all(axis=1)
        members = rows[chosen]
        hidden, exposed = int(overlapped[chosen].sum()), int((duration_ns - overlapped)[chosen].sum())
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
                    time_ns=int(gpu.duration_ns[members].sum()),
                    bandwidth_gbps=size / sized_time if size is not None and sized_time else None,
                ),
                Hidden(hidden, exposed),
            )
        )
    return tuple(groups)


@dataclass(frozen=True)
class Exposure:
    """Why no kernel hides a copy."""

    label: str  # in short, for tables
    sentence: str  # in the words that all reports share


EXPOSURES: Final = {
    "pageable": Exposure(
        "the memory is not pinned",
        "the host memory is pageable: the driver stages the copy, and the host queues no kernel meanwhile",
    ),
    "same_stream": Exposure(
        "on the stream of the kernels",
        "the copy is on the stream of the kernels around it, so they run one after the other",
    ),
    "no_kernels_to_overlap": Exposure(
        "no kernel was queued", "no kernel was queued that could have run at the same time"
    ),
    "launched_late": Exposure(
        "launched too late", "it was launched too late: the kernels that it could hide behind had ended"
    ),
    "other": Exposure("no known reason", "no known reason"),
    "end_of_recording": Exposure(
        "the recording ended",
        "it ran after the last recorded kernel: the trace lacks the next kernels, which would hide it. It counts "
        "neither in shares nor per step",
    ),
}
"""By name, as in JSON. `_reasons` checks them in this order, but the end of the recording first."""
REASONS: Final = tuple(EXPOSURES)

END_OF_RECORDING = REASONS.index("end_of_recording")

USUALLY_HIDDEN_SHARE = 0.5
"""If kernels hid at least this share of the time of earlier copies of the same stream and direction, a copy after the
last kernel is taken to be exposed only because the recording ended."""

LAUNCH_LATENCY_NS = 20_000
"""A copy that starts this soon after its launch call began was not queued behind other work. A launch takes
about 5 µs on the host and as much until the GPU starts; the rest is room for a profiled, slower launch."""


@dataclass(frozen=True)
class Overlap:
    """Copy time, and each copy with the part of the exposed time that is its own and the reason for it."""

    copy_ns: int  # length of the union of the copies of each device from and to other memory, of all devices
    overlapped_ns: int  # the part under the union of the device's kernels and copies within its memory
    row: Int64s  # rows of the copies in `Trace.gpu`
    exposed_ns: Int64s
    """Exposed time of each copy; a moment that several copies share belongs to the one that started first, so these
    add up to the exposed time of the devices."""
    reason: Int64s  # per copy: index into REASONS
    by_reason: tuple[tuple[str, int, int], ...]
    """Reason, number of copies with exposed time, exposed ns; the longest first."""

    @property
    def counts(self) -> Bools:
        """Whether each copy counts per step and in `fraction`: not if it is exposed because the recording ended."""
        return self.reason != END_OF_RECORDING

    @property
    def known_ns(self) -> int:
        """The copy time that the recording shows to be hidden or exposed."""
        return self.copy_ns - int(self.exposed_ns[~self.counts].sum())

    @property
    def fraction(self) -> float | None:
        """The overlapped share of `known_ns`; None without copies."""
        return self.overlapped_ns / self.known_ns if self.known_ns else None


def measure_overlap(trace: Trace) -> Overlap:
    """Return overlapped and exposed copy time of each device with the reason for each exposed copy."""
    gpu = trace.gpu
    copies = np.flatnonzero(gpu.category == MEMCPY)
    exposed = np.zeros(len(copies), np.int64)
    reason = np.full(len(copies), REASONS.index("other"))
    copy_ns = overlapped_ns = 0
    for device in gpu.of_device:
        rows, kernels = gpu.on(device, gpu.is_transfer), gpu.on(device, gpu.is_compute)
        if not len(rows):
            continue
        on_device = np.searchsorted(copies, rows)
        busy = gpu.times(kernels)
        exposed[on_device] = _exposed(gpu.start_ns[rows], gpu.end_ns[rows], busy)
        reason[on_device] = _reasons(trace, rows, kernels, exposed[on_device])
        copying = gpu.times(rows)
        copy_ns += length(copying)
        overlapped_ns += int(covered(busy, copying.start, copying.end).sum())
    sums = [
        (name, int(((reason == code) & (exposed > 0)).sum()), int(exposed[reason == code].sum()))
        for code, name in enumerate(REASONS)
    ]
    by_reason = tuple(sorted((row for row in sums if row[1]), key=lambda row: -row[2]))
    return Overlap(copy_ns, overlapped_ns, copies, exposed, reason, by_reason)


def exposed_pieces(trace: Trace, device: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return start and end of the times in which copies of a device are exposed, in order, and the copy of each.

    `Overlap.exposed_ns` has their sums; copies are rows of `Trace.gpu`.
    """
    gpu = trace.gpu
    rows, kernels = gpu.on(device, gpu.is_transfer), gpu.on(device, gpu.is_compute)
    own_start, own_end = _own_times(gpu.start_ns[rows], gpu.end_ns[rows])
    lasting = own_end > own_start
    rows, own_start, own_end = rows[lasting], own_start[lasting], own_end[lasting]
    exposed = subtract(union(own_start, own_end), gpu.times(kernels))
    start = distinct(np.concatenate((exposed.start, own_start[contains(exposed, own_start)])))
    within = np.searchsorted(exposed.start, start, side="right") - 1
    end = np.minimum(exposed.end[within], np.append(start[1:], np.iinfo(np.int64).max)[: len(start)])
    return start, end, rows[np.searchsorted(own_start, start, side="right") - 1]


def _own_times(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return when each copy (sorted by start) runs and no earlier one does; these are disjoint, and some are empty."""
    reach = np.maximum.accumulate(end)
    own_start = np.maximum(start, np.concatenate((start[:1], reach[:-1])))
    return own_start, np.maximum(end, own_start)


def _exposed(start: Int64s, end: Int64s, busy: Intervals) -> Int64s:
    """Return the exposed time of each copy (sorted by start) in which no earlier copy runs."""
    own_start, own_end = _own_times(start, end)
    return own_end - own_start - covered(busy, own_start, own_end)


def _reasons(trace: Trace, rows: Int64s, kernels: Int64s, exposed: Int64s) -> Int64s:
    """Return the first reason that holds for each copy, as an index into REASONS."""
    late = trace.gpu.start_ns[rows] - trace.links.launched_ns[rows] <= LAUNCH_LATENCY_NS
    conditions = {
        "pageable": trace.gpu.host_memory[rows] == PAGEABLE,
        "same_stream": _next_to_kernel_of_its_stream(trace, rows, kernels),
        "no_kernels_to_overlap": ~_kernels_were_queued(trace, rows, kernels)
        | _came_first(trace, rows, kernels, exposed),
        "launched_late": (trace.links.launch[rows] != NONE) & late,
        "other": np.ones(len(rows), bool),
        "end_of_recording": _cut_off(trace, rows, kernels, exposed),
    }
    codes = sorted(range(len(REASONS)), key=lambda code: code != END_OF_RECORDING)
    return np.select([conditions[REASONS[code]] for code in codes], codes)


def _cut_off(trace: Trace, rows: Int64s, kernels: Int64s, exposed: Int64s) -> Bools:
    """Return which copies are exposed only because the recording ended: kernels hid the copies before them."""
    gpu, duration_ns = trace.gpu, trace.gpu.duration_ns[rows]
    after = (gpu.end_ns[rows] > gpu.end_ns[kernels].max(initial=np.iinfo(np.int64).min)) & (exposed > 0)
    _, kind = np.unique(np.stack((gpu.stream[rows], gpu.direction[rows])), axis=1, return_inverse=True)
    time, hidden = (np.bincount(kind.ravel(), ns * ~after)[kind.ravel()] for ns in (duration_ns, duration_ns - exposed))
    result: Bools = after & (time > 0) & (hidden >= USUALLY_HIDDEN_SHARE * time)
    return result


def _next_to_kernel_of_its_stream(trace: Trace, rows: Int64s, kernels: Int64s) -> Bools:
    """Return whether the last kernel before the copy or the first one after it is on the copy's own stream."""
    gpu = trace.gpu
    if len(kernels) == 0:
        return np.zeros(len(rows), bool)
    following = np.searchsorted(gpu.start_ns[kernels], gpu.end_ns[rows])
    preceding = np.searchsorted(gpu.start_ns[kernels], gpu.start_ns[rows]) - 1
    result = np.zeros(len(rows), bool)
    for position in (preceding, following):
        exists = (position >= 0) & (position < len(kernels))
        neighbour = kernels[np.clip(position, 0, len(kernels) - 1)]
        result |= exists & (gpu.stream[neighbour] == gpu.stream[rows])
    return result


def _kernels_were_queued(trace: Trace, rows: Int64s, kernels: Int64s) -> Bools:
    """Return whether another stream had a kernel to run during the copy, launched before the copy ended."""
    gpu, launched, never = trace.gpu, trace.links.launched_ns, np.iinfo(np.int64).min
    queue = kernels[np.argsort(launched[kernels], kind="stable")]
    stream, end = gpu.stream[queue], gpu.end_ns[queue]
    reach = np.concatenate(([never], np.maximum.accumulate(end)))
    last = np.maximum.accumulate(np.where(end > reach[:-1], np.arange(len(queue)), 0))  # ends last so far
    elsewhere = np.where(stream != stream[last], end, never)  # ends last of the work on other streams
    changes = np.flatnonzero(stream[last][1:] != stream[last][:-1]) + 1
    elsewhere[changes] = reach[changes]
    elsewhere = np.concatenate(([never], np.maximum.accumulate(elsewhere)))
    launched_before = np.searchsorted(launched[queue], gpu.end_ns[rows])
    is_elsewhere = np.append(stream[last], NONE)[launched_before - 1] != gpu.stream[rows]
    result: Bools = np.where(is_elsewhere, reach[launched_before], elsewhere[launched_before]) > gpu.start_ns[rows]
    return result


def _came_first(trace: Trace, rows: Int64s, kernels: Int64s, exposed: Int64s) -> Bools:
    """Return whether the copy was launched before the next kernel, and is exposed mostly until that kernel starts.

    Launched earlier, it would run earlier, but still alone.
    """
    gpu, launched = trace.gpu, trace.links.launched_ns
    if len(kernels) == 0:
        return np.zeros(len(rows), bool)
    start = gpu.start_ns[rows]
    following = np.searchsorted(gpu.start_ns[kernels], start)
    first = kernels[np.minimum(following, len(kernels) - 1)]
    alone = np.where(contains(gpu.times(kernels), start), 0, gpu.start_ns[first] - start)
    during_copy = (following < len(kernels)) & (gpu.start_ns[first] < gpu.end_ns[rows])
    result: Bools = during_copy & (launched[rows] < launched[first]) & (alone > 0) & (2 * alone > exposed)
    return result
