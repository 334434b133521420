"""What pinned memory brings and costs: the rates of its copies, the thread that pins, and what a bench says of both."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from pinprof.details import Details
from pinprof.document import Words, doc
from pinprof.ground.intervals import Intervals, length, subtract, union
from pinprof.pci_express import link_of_gpus
from pinprof.replay.bound import feed_of
from pinprof.trace.callers import outermost_op
from pinprof.trace.links import step_at
from pinprof.trace.spans.idle_times import long_pauses
from pinprof.trace.spans.one_time_work import NO_TIMES_AT_ALL
from pinprof.trace.tables import DTOH, HTOD, NONE, PAGEABLE, PINNED, Bools, Int64s, Trace

Rates: TypeAlias = Annotated[
    tuple[tuple[float, ...], ...], doc("[bytes, GB/s] of the copies that were measured, by size")
]


class PinnedRates(Struct, frozen=True):
    """The measured rates of pinned copies by direction; empty where they were not measured."""

    gpu: Annotated[str, doc("the GPU of the bench")]
    htod: Rates = ()
    dtoh: Rates = ()
    by_thread: Rates = ()  # of a thread that pins what another process shares, until that memory is unmapped

    def time_ns(self, direction: int, size: int) -> float | None:
        """Return the time of a copy in ns; `direction` is HTOD or DTOH. None if that was not measured."""
        return _time_ns({HTOD: self.htod, DTOH: self.dtoh}.get(direction, ()), size)

    def pinning_ns(self, size: int) -> float | None:
        """Return how long a thread needs to pin a batch, in ns; None if that was not measured."""
        return _time_ns(self.by_thread, size)


def _time_ns(rates: Rates, size: int) -> float | None:
    """Return the time of a copy in ns.

    Times between measured sizes are interpolated on logarithmic axes; a smaller copy takes as long as the smallest,
    a larger one runs at the rate of the largest.
    """
    if not rates:
        return None
    sizes, gbps = (np.array(column, dtype=np.float64) for column in zip(*rates, strict=True))
    if size >= sizes[-1]:
        return float(size / gbps[-1])
    return float(np.exp(np.interp(np.log(max(size, 1)), np.log(sizes), np.log(sizes / gbps))))


LARGE_COPY_BYTES = 1 << 20
"""Copies of at least this size show the rate of the link; the time of smaller ones is mostly latency."""
ASSUMED_GBPS = 25.0
"""The assumed rate of pinned copies where neither the trace nor the GPU's name shows it: that of PCIe 4.0 x16."""


class PinnedRate(NamedTuple):
    """The rate of copies that become pinned, in GB/s."""

    gbps: float
    is_known: bool  # whether it comes from the trace or the GPU's link; otherwise it is assumed


def pinned_rate(trace: Trace) -> PinnedRate:
    """Return the best rate of a large pinned copy in the trace, otherwise the usual rate of the GPU's link."""
    gpu = trace.gpu
    large = (gpu.host_memory == PINNED) & (gpu.bytes >= LARGE_COPY_BYTES) & (gpu.duration_ns > 0)
    if large.any():
        return PinnedRate(float((gpu.bytes[large] / gpu.duration_ns[large]).max()), is_known=True)
    link = link_of_gpus(device.name for device in trace.info.devices)
    return PinnedRate(link.usual if link else ASSUMED_GBPS, is_known=link is not None)


MIN_SHARED_BYTES: Final = 1 << 18  # smaller batches cost the thread that pins less than it takes to hand them over
THREAD_PER_MAIN = 1.2
"""A thread needs this multiple of the recorded time in which the main thread stages and frees a batch: both go through
memory that another process has shared, page by page, while the workers write theirs. In recordings by pinprof of five
programs on H200, in which this thread set the pace, it was 0.9 to 1.2; in 28 timings against recordings of another
minute 0.9 to 1.75, 1.46 in the median."""
MIN_FREEING_NS_PER_BYTE, MAX_FREEING_NS_PER_BYTE = 0.05e6 / 2**20, 0.3e6 / 2**20
"""The least and the most that unmapping takes: 0.12 to 0.28 ms per MiB in the same recordings."""
NEXT_TO_NS = 100_000  # a pause within this time of a copy or of the DataLoader is next to it


class PinningThread(NamedTuple):
    """The thread of a DataLoader that would pin the batches of its workers."""

    step_ns: float
    """How long it needs for the batches of a step: to receive them, to copy them into pinned memory, to free them."""
    freed: frozenset[tuple[int, int, int]]
    """When the thread that copies them frees them now: its number, begin and end in ns."""


def pinning_thread(details: Details, copies: Collection[int], machine: PinnedRates | None) -> PinningThread | None:
    """Return what a DataLoader's thread would do to pin what these copies move; None if no worker sends it.

    Workers hand over batches in shared memory. Whoever has copied a batch unmaps it, which takes about as long as the
    copy. Without pinning the main thread does both: the copies show the one, the pauses after them the other.
    """
    trace, loader = details.trace, details.loader
    rows = np.array(sorted(copies), np.int64)
    launched = (trace.links.launch[rows] != NONE) & trace.steps.holds(trace.links.activity_step[rows])
    rows = rows[launched & (trace.gpu.direction[rows] == HTOD)]
    steps = int(trace.steps.complete.sum())
    size = int(trace.gpu.bytes[rows].sum()) // max(steps, 1)
    if not loader.shares_unpinned or size < MIN_SHARED_BYTES:
        return None
    pauses = _pauses_of_freeing(trace, loader.times, rows)
    freed_ns = length(pauses) / steps
    known_ns = machine.pinning_ns(size) if machine else None
    staged_ns = float(trace.gpu.duration_ns[rows].sum()) / steps
    feed, waits = feed_of(details), (loader.times.end - loader.times.start).tolist()
    per_step = max(round(loader.waits / len(trace.steps)), 1)
    received_ns = feed.received_ns if feed else min(waits, default=0) * per_step
    thread = int(trace.calls.thread[trace.links.launch[rows[0]]])
    freed = frozenset((thread, *each) for each in zip(*(times.tolist() for times in pauses), strict=True))
    return PinningThread(received_ns + (known_ns or THREAD_PER_MAIN * (staged_ns + freed_ns)), freed)


def freed_batches(details: Details) -> Intervals:
    """Return the pauses after batches of workers are drawn or copied unpinned: the main thread unmaps them then."""
    trace, gpu, loader = details.trace, details.trace.gpu, details.loader
    copies = (gpu.direction == HTOD) & (gpu.host_memory == PAGEABLE) & (trace.links.launch != NONE)
    rows = np.flatnonzero(copies & trace.steps.holds(trace.links.activity_step))
    if not loader.shares_unpinned or (gpu.bytes[rows] < MIN_SHARED_BYTES).all():
        return NO_TIMES_AT_ALL
    return _pauses_of_freeing(trace, loader.times, rows)


def _pauses_of_freeing(trace: Trace, waits: Intervals, copies: Int64s) -> Intervals:
    """Return when the main thread frees batches: in pauses after copies and draws; without these, before a draw.

    These copies of complete steps show how long it takes at most; the rest of the pauses of a step is other code.
    """
    pauses = subtract(long_pauses(trace), waits)
    op = outermost_op(trace, trace.links.launch[copies].astype(np.int64))
    after = np.sort(np.concatenate((trace.ops.end_ns[op[op != NONE]], waits.end)))
    is_after = _near(after, pauses.start)
    step, size = step_at(trace.steps, pauses.start), int(trace.gpu.bytes[copies].sum())
    in_steps, lasts = trace.steps.holds(step), pauses.end - pauses.start
    is_seen = lasts[is_after & in_steps].sum() >= MIN_FREEING_NS_PER_BYTE * size
    kept = in_steps & (is_after if is_seen else is_after | _near(waits.start, pauses.end))
    start, step, time = pauses.start[kept], step[kept], lasts[kept]
    before = np.cumsum(time) - time
    most = int(MAX_FREEING_NS_PER_BYTE * size / max(int(trace.steps.complete.sum()), 1))
    left = most - (before - before[np.searchsorted(step, step)])
    return union(start, start + np.clip(left, 0, time))


def _near(times: Int64s, wanted: Int64s) -> Bools:
    """Return which of the wanted times have one of these sorted times within `NEXT_TO_NS`."""
    return np.searchsorted(times, wanted + NEXT_TO_NS) > np.searchsorted(times, wanted - NEXT_TO_NS)


class Advice(Struct, frozen=True):
    """What to do on this machine."""

    name: Annotated[str, doc("which advice; the same on every machine")]
    text: Annotated[Words, doc("the advice")]
    value: Annotated[float | None, doc("its value, for programs; null where nothing pays, or none was found")]
    unit: Annotated[str, doc("the unit of the value")]


@dataclass(frozen=True)
class Pinning:
    """What pinned memory brings and costs: little, since each process that measures a rank is given it."""

    rates: PinnedRates
    pays: Advice | None = None
    """From which size on copies to the GPU are faster for it; None where that was not measured."""
    fresh: Advice | None = None
    """Whether a tensor that is pinned just for its copy is there sooner; None where that was not measured."""
    fresh_size: str = ""  # how large that tensor was
