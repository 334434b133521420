"""When each GPU was busy, and why it was idle at other times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pinprof.hues import CALL, COLLECTIVE, INPUT, OP, WAIT
from pinprof.hues import KERNEL as KERNEL_COLOUR
from pinprof.intervals import Intervals, contains, covered, distinct, length
from pinprof.trace.collectives import collective_times
from pinprof.trace.idle_times import gaps_of
from pinprof.trace.tables import KERNEL, MEMCPY, NONE, Bools, Int64s, Trace


@dataclass(frozen=True)
class Idle:
    """The times in which one device is idle, and the facts about their causes; a row each."""

    times: Intervals
    queued: Bools
    """Whether its next activity was launched before it began, or waited for most of it."""
    launched: Bools
    """Whether the launch of its next activity is known."""
    blocked: Bools
    """Whether the host was blocked when it began, or had just got what it awaited."""
    input: Intervals
    """When the host asked for a batch."""
    communication: Intervals
    """When the host was in a collective."""

    def mostly(self, times: Intervals) -> Bools:
        """Return for each idle time whether most of it lies in `times`."""
        return covered(times, *self.times) > (self.times.end - self.times.start) / 2


@dataclass(frozen=True, kw_only=True)
class IdleCause:
    """Why a GPU is idle."""

    holds: Callable[[Idle], Bools]
    """When it is the cause, unless an earlier one holds."""

    does: str
    """What the GPU does meanwhile, to follow "the GPU"."""
    why: str
    """Why, as a clause that stands by itself."""
    bound: Literal["host", "input", "communication"]
    """What sets the pace of a step that is idle for this cause; where work is queued it may be the GPU itself."""
    colour: str
    pattern: str = ""
    """As plotly names it: colour and pattern are those of what the GPU waits for."""


IDLE: Final = {
    "kernel_wait": IdleCause(
        holds=lambda idle: idle.queued,
        does="has work queued that cannot start yet",
        why="work was queued and waited for other work, or for its launch",
        bound="host",
        colour=KERNEL_COLOUR,
    ),
    "input_wait": IdleCause(
        holds=lambda idle: idle.mostly(idle.input),
        does="waits for the next batch",
        why="the host waited for the next batch",
        bound="input",
        colour=INPUT,
        pattern="\\",
    ),
    "communication_wait": IdleCause(
        holds=lambda idle: idle.mostly(idle.communication),
        does="waits while the host is in a collective",
        why="the host was in a collective",
        bound="communication",
        colour=COLLECTIVE,
        pattern="|",
    ),
    "sync_bubble": IdleCause(
        holds=lambda idle: idle.blocked,
        does="has no work after a host wait",
        why="the host had waited for the GPU, so nothing was queued",
        bound="host",
        colour=WAIT,
        pattern="/",
    ),
    "host_wait": IdleCause(
        holds=lambda idle: idle.launched,
        does="waits for launches",
        why="the next launch came late: the host was busy elsewhere",
        bound="host",
        colour=OP,
    ),
    "other": IdleCause(
        holds=lambda idle: ~idle.launched,
        does="is idle for an unknown reason",
        why="the next launch is not in the trace",
        bound="host",
        colour=CALL,
        pattern="-",
    ),
}
"""The causes by name, as in JSON, in the order in which `idle_gaps` checks them."""
IDLE_CAUSES: Final = tuple(IDLE)


@dataclass(frozen=True)
class DeviceTime:
    """Times of one device in ns, from its first to its last activity; `busy_ns + idle_ns == span_ns`."""

    device: int
    span_ns: int
    busy_ns: int
    """Union of kernels, copies and memsets."""
    kernel_ns: int
    memcpy_ns: int
    idle_ns: int
    idle_by_cause: tuple[tuple[str, int], ...]
    """(cause, ns), the longest first; they add up to `idle_ns`."""


@dataclass(frozen=True)
class IdleGaps:
    """The gaps between the activities of one device, in order; times in ns."""

    device: int
    times: Intervals
    cause: Int64s
    """Per gap: index into IDLE_CAUSES."""


def measure_idle(trace: Trace, idle: tuple[IdleGaps, ...]) -> tuple[DeviceTime, ...]:
    """Return busy and idle time of each device, the idle time by cause."""
    return tuple(_device_time(trace, gaps_of_one) for gaps_of_one in idle)


def idle_gaps(
    trace: Trace, blocked: Intervals, released_ns: Int64s, waiting_for_input: Intervals
) -> tuple[IdleGaps, ...]:
    """Return when each device was idle, and why.

    `blocked` are the times in which the host stood in a stall that waited for work, `released_ns` the ends of what it
    awaited, `waiting_for_input` the times in which it asked for a batch. A gap has one cause, the first that holds: its
    next activity was launched before the gap began, or waited for most of it (`kernel_wait`); the host spent most of it
    waiting for input, or in a collective; the host was blocked when it began (`sync_bubble`); the next launch came
    later (`host_wait`); the next launch is unknown (`other`).

    A bubble of `Stalls` is a whole gap, mostly of cause `sync_bubble`; if the host spent most of it waiting for input
    or in a collective, it has that cause. Conversely, a `sync_bubble` is the bubble of one stall, with two exceptions,
    which are bubbles of none: the gap began while the host waited for another device, or the host had got what it
    waited for while other work ran on.
    """
    communicating, released = collective_times(trace), distinct(released_ns)
    all_gaps = []
    for device in trace.gpu.of_device:
        times, following, queued = gaps_of(trace, device)
        idle = Idle(
            times=times,
            queued=queued,
            launched=trace.links.launch[following] != NONE,
            blocked=contains(blocked, times.start) | _is_among(times.start, released),
            input=waiting_for_input,
            communication=communicating,
        )
        cause = np.select([cause.holds(idle) for cause in IDLE.values()], range(len(IDLE)))
        all_gaps.append(IdleGaps(device, times, cause.astype(np.int64)))
    return tuple(all_gaps)


def _is_among(times: Int64s, ordered: Int64s) -> Bools:
    at = np.searchsorted(ordered, times)
    return (at < len(ordered)) & (np.append(ordered, 0)[at] == times)


def _device_time(trace: Trace, idle: IdleGaps) -> DeviceTime:
    gpu = trace.gpu
    on_device = gpu.of_device[idle.device]
    busy = gpu.times(on_device)

    def time_of(category: int) -> int:
        rows = on_device[gpu.category[on_device] == category]
        return length(gpu.times(rows))

    lasts = idle.times.end - idle.times.start
    by_cause = [(name, int(lasts[idle.cause == code].sum())) for code, name in enumerate(IDLE_CAUSES)]
    return DeviceTime(
        device=idle.device,
        span_ns=int(busy.end[-1] - busy.start[0]) if len(busy.start) else 0,
        busy_ns=length(busy),
        kernel_ns=time_of(KERNEL),
        memcpy_ns=time_of(MEMCPY),
        idle_ns=length(idle.times),
        idle_by_cause=tuple(sorted((row for row in by_cause if row[1]), key=lambda row: -row[1])),
    )
