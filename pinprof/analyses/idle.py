"""When each GPU was busy, and why it was idle at other times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pinprof.ground.intervals import Intervals, contains, covered, length
from pinprof.trace.collectives import collective_times
from pinprof.trace.spans.idle_times import gaps_of
from pinprof.trace.tables import KERNEL, MEMCPY, NONE, Bools, Int64s, Trace


@dataclass(frozen=True)
class Idle:
    """The times in which one device is idle, a row each, and the facts that show their causes."""

    times: Intervals
    queued: Bools  # whether the next activity was launched before the idle time began, or waited during most of it
    launched: Bools  # whether the launch of the next activity is known
    blocked: Bools  # whether the host was blocked when the idle time began, or a wait of the host had just ended
    input: Intervals  # when the host asked for a batch
    communication: Intervals  # when the host was in a collective

    def mostly(self, times: Intervals) -> Bools:
        """Return for each idle time whether most of it lies in `times`."""
        return covered(times, *self.times) > (self.times.end - self.times.start) / 2


@dataclass(frozen=True, kw_only=True)
class IdleCause:
    """Why a GPU is idle."""

    holds: Callable[[Idle], Bools]  # for which idle times this is the cause, unless an earlier cause holds
    does: str  # what the GPU does meanwhile, to follow "the GPU"
    why: str  # why the GPU is idle, as a clause that stands by itself
    bound: Literal["host", "input", "communication"]
    """What sets the pace of a step that is idle for this cause; where work is queued it may be the GPU itself."""


IDLE: Final = {
    "kernel_wait": IdleCause(
        holds=lambda idle: idle.queued,
        does="has work queued that cannot start yet",
        why="work was queued and waited for other work, or for its launch",
        bound="host",
    ),
    "input_wait": IdleCause(
        holds=lambda idle: idle.mostly(idle.input),
        does="waits for the next batch",
        why="the host waited for the next batch",
        bound="input",
    ),
    "communication_wait": IdleCause(
        holds=lambda idle: idle.mostly(idle.communication),
        does="waits while the host is in a collective",
        why="the host was in a collective",
        bound="communication",
    ),
    "sync_bubble": IdleCause(
        holds=lambda idle: idle.blocked,
        does="has no work after a host wait",
        why="the host had waited for the GPU, so nothing was queued",
        bound="host",
    ),
    "host_wait": IdleCause(
        holds=lambda idle: idle.launched,
        does="waits for launches",
        why="the next launch came late: the host was busy elsewhere",
        bound="host",
    ),
    "other": IdleCause(
        holds=lambda idle: ~idle.launched,
        does="is idle for an unknown reason",
        why="the next launch is not in the trace",
        bound="host",
    ),
}
"""The causes by name, as in JSON, in the order in which `idle_gaps` checks them."""
IDLE_CAUSES: Final = tuple(IDLE)


@dataclass(frozen=True)
class DeviceTime:
    """Times of one device in ns, from its first to its last activity; `busy_ns + idle_ns == span_ns`."""

    device: int
    span_ns: int
    busy_ns: int  # union of kernels, copies and memsets
    kernel_ns: int
    memcpy_ns: int
    idle_ns: int
    idle_by_cause: tuple[tuple[str, int], ...]  # (cause, ns), the longest first; they add up to `idle_ns`


@dataclass(frozen=True)
class IdleGaps:
    """The gaps between the activities of one device, in order; times in ns."""

    device: int
    times: Intervals
    cause: Int64s  # per gap: index into IDLE_CAUSES


def idle_gaps(
    trace: Trace, blocked: Intervals, released_ns: Int64s, waiting_for_input: Intervals
) -> tuple[IdleGaps, ...]:
    """Return when each device was idle, and why.

    `blocked` are the times in which the host stood in a stall that waited for work, `released_ns` the ends of the
    awaited work, `waiting_for_input` the times in which the host asked for a batch. A gap has one cause, the first that
    holds: its next activity was launched before the gap began, or waited during most of it (`kernel_wait`); the host
    spent most of it waiting for input, or in a collective; the host was blocked when it began (`sync_bubble`); the next
    launch came later (`host_wait`); the next launch is unknown (`other`).

    A bubble of `Stalls` is a whole gap, usually of cause `sync_bubble`; if the host spent most of it waiting for input
    or in a collective, it has that cause. Conversely, a `sync_bubble` is the bubble of one stall, except in two cases:
    the gap began while the host waited for another device, or the awaited work ended while other work still ran.
    """
    communicating = collective_times(trace)
    all_gaps = []
    for device in trace.gpu.of_device:
        times, following, queued = gaps_of(trace, device)
        idle = Idle(
            times=times,
            queued=queued,
            launched=trace.links.launch[following] != NONE,
            blocked=contains(blocked, times.start) | np.isin(times.start, released_ns),
            input=waiting_for_input,
            communication=communicating,
        )
        cause = np.select([cause.holds(idle) for cause in IDLE.values()], range(len(IDLE)))
        all_gaps.append(IdleGaps(device, times, cause.astype(np.int64)))
    return tuple(all_gaps)


def device_time(trace: Trace, idle: IdleGaps) -> DeviceTime:
    """Return busy and idle time of a device, the idle time by cause."""
    gpu, lengths = trace.gpu, idle.times.end - idle.times.start
    busy = gpu.times(gpu.of_device[idle.device])
    by_cause = [(name, int(lengths[idle.cause == code].sum())) for code, name in enumerate(IDLE_CAUSES)]
    return DeviceTime(
        device=idle.device,
        span_ns=int(busy.end[-1] - busy.start[0]) if len(busy.start) else 0,
        busy_ns=length(busy),
        kernel_ns=length(gpu.times(gpu.on(idle.device, gpu.category == KERNEL))),
        memcpy_ns=length(gpu.times(gpu.on(idle.device, gpu.category == MEMCPY))),
        idle_ns=length(idle.times),
        idle_by_cause=tuple(sorted((row for row in by_cause if row[1]), key=lambda row: -row[1])),
    )
