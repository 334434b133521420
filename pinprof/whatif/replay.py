"""Runs a program again: when each call of the host and each activity of the GPU begins and ends."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pinprof.trace.tables import NONE
from pinprof.whatif.program import (
    AHEAD,
    DEVICE_WAIT,
    DRAIN,
    EVENT_WAIT,
    ISSUE,
    ORDER,
    OWN_WAIT,
    RECORD,
    STAGED,
    STREAM_WAIT,
    Call,
    Program,
)

QUEUE_DEPTH = 1022
"""Launches that a stream holds before the host has to wait: seen at each of 1974 full queues on an H200."""

SIDE = -2
"""Less the device, the number of the stream on which copies are made ahead."""


@dataclass(frozen=True)
class Cost:
    """What the profiler cost the host in the recording."""

    per_event_ns: float = 0.0
    """Of each recorded op and call."""
    keep: float = 1.0
    """At least this share of the host's time between two calls is its own."""
    steady: bool = False
    """Whether to leave out what only a recording has: the profiler's buffers, and code that was loaded."""

    host_speed: float = 1.0
    """How many times as fast the host is."""

    def faster(self, host_speed: float) -> "Cost":
        """Return the cost on a host of another speed."""
        return replace(self, host_speed=host_speed)

    def host_ns(self, call: Call) -> float:
        """Return the host's time before a call without the profiler's cost."""
        own = call.gap_ns - call.fixed_ns
        if self.steady:
            own -= call.artefact_ns
        if own > 0:
            own = max(own - self.per_event_ns * call.events, self.keep * own)
        return call.fixed_ns + own / self.host_speed


UNCHANGED = Cost()


@dataclass
class Run:
    """When things ended, in ns since the first call's start."""

    host_ns: float = 0.0
    """Where the host is."""
    ready_ns: dict[int, float] = field(default_factory=dict)
    """Per queue, the end of its last work."""
    engine_ns: dict[int, float] = field(default_factory=dict)
    work_ends_ns: dict[int, float] = field(default_factory=dict)
    """Per row of `Trace.gpu`, in the last repetition."""
    call_ends_ns: dict[int, float] = field(default_factory=dict)
    busy_ns: float = 0.0
    """Time in which the GPU worked, streams one after the other as far as they do not overlap."""

    def completed_ns(self) -> float:
        """Return when all is done so far, on the host and on the GPU."""
        return max(self.host_ns, *self.ready_ns.values()) if self.ready_ns else self.host_ns


class Machine:
    """One host timeline, the streams of its GPUs, and their copy engines."""

    def __init__(
        self, program: Program, cost: Cost = UNCHANGED, *, gpu_speed: float = 1.0, queues: bool = True
    ) -> None:
        self.run = Run(ready_ns=dict(program.ready_ns))
        self.program, self.cost, self.gpu_speed = program, cost, gpu_speed
        self.depth = QUEUE_DEPTH if queues else None
        self._pending: dict[int, deque[float]] = defaultdict(deque)
        self._events: list[float] = []
        self._fetched: dict[int, float] = {}  # ends of the copies made ahead, by their place in the step
        self._fetching: int | None = None
        self._place = 0
        self._covered_ns = 0.0

    def play(self, calls: Sequence[Call]) -> None:
        """Run these calls, after what was run before."""
        run, cost, ready = self.run, self.cost, self.run.ready_ns
        self._fetching = None
        for call in calls:
            start = run.host_ns + cost.host_ns(call)
            kind = call.kind
            end = start
            if kind == STAGED:
                free = max(start, ready.get(call.works[0].queue, 0.0))
                for work in call.works:
                    self._work(work.row, work.queue, work.engine, work.duration_ns, free + work.latency_ns)
                end = free + call.own_ns
            elif kind == AHEAD:
                self._fetch(call, start)
            else:
                for work in call.works:
                    begins = max(start + work.latency_ns, ready.get(work.queue, 0.0) + work.gap_ns)
                    self._work(work.row, work.queue, work.engine, work.duration_ns, begins)
                    if self.depth is not None:
                        end = max(end, self._room(work.queue, start))
            if kind in (ISSUE, AHEAD):
                end += call.own_ns - (call.artefact_ns if cost.steady and call.own_ns > call.artefact_ns else 0.0)
            elif kind == STREAM_WAIT:
                end = max(start + call.own_ns, ready.get(call.queue, 0.0) + call.wake_ns)
            elif kind == DEVICE_WAIT:
                end = max(start + call.own_ns, max(ready.values(), default=0.0) + call.wake_ns)
            elif kind == EVENT_WAIT:
                end = max(start + call.own_ns, self._event(call) + call.wake_ns)
            elif kind == RECORD:
                self._events.append(ready.get(call.queue, 0.0) if call.queue != NONE else 0.0)
            elif kind == ORDER:
                ready[call.queue] = max(ready.get(call.queue, 0.0), self._event(call))
            elif kind == DRAIN:
                end = max(start, max(ready.values(), default=0.0)) + call.own_ns
            elif kind == OWN_WAIT:
                end = max(
                    start + call.own_ns, ready.get(call.works[-1].queue, 0.0) + call.wake_ns if call.works else 0.0
                )
            elif kind != STAGED:
                end = start + call.own_ns
            run.host_ns = end
            run.call_ends_ns[call.row] = end

    def _work(self, row: int, queue: int, engine: int, duration: float, begins: float) -> None:
        run = self.run
        if engine != NONE:
            key = 2 * self.program.device.get(queue, SIDE - queue) + engine
            begins = max(begins, run.engine_ns.get(key, 0.0))
            run.engine_ns[key] = begins + duration
        else:
            duration /= self.gpu_speed
        end = begins + duration
        run.busy_ns += max(end - max(begins, self._covered_ns), 0.0)
        self._covered_ns = max(self._covered_ns, end)
        run.ready_ns[queue] = max(run.ready_ns.get(queue, 0.0), end)
        run.work_ends_ns[row] = end
        if self.depth is not None:
            self._pending[queue].append(end)

    def _fetch(self, call: Call, start: float) -> None:
        """Make the copies of a call for the next step, and its stream wait for those of the step before."""
        ready = self.run.ready_ns
        if call.step != self._fetching:
            self._fetching, self._place = call.step, 0
        for work in call.works:
            ready[work.queue] = max(ready.get(work.queue, 0.0), self._fetched.get(self._place, 0.0))
            queue = SIDE - self.program.device.get(work.queue, 0)
            begins = max(start + work.latency_ns, ready.get(queue, 0.0) + work.gap_ns)
            self._work(work.row, queue, work.engine, work.duration_ns, begins)
            self._fetched[self._place] = ready[queue]
            self._place += 1

    def _room(self, queue: int, now: float) -> float:
        """Return when the stream has room for what was launched last."""
        pending = self._pending[queue]
        while pending and pending[0] <= now:
            pending.popleft()
        return pending[len(pending) - 1 - (self.depth or 0)] if len(pending) > (self.depth or 0) else now

    def _event(self, call: Call) -> float:
        """Return when the event of a call comes; one that was recorded before the program, with the work before it."""
        if 0 < call.back <= len(self._events):
            return self._events[-call.back]
        return self.program.ready_ns.get(call.queue, 0.0) if call.kind == EVENT_WAIT else 0.0


def replay(program: Program, cost: Cost = UNCHANGED) -> Run:
    """Return the run of a program as it was recorded."""
    machine = Machine(program, cost)
    machine.play(program.calls)
    return machine.run


@dataclass(frozen=True)
class Pace:
    """A step of a program that is run over and over; ns."""

    step_ns: float
    busy_ns: float
    """Time in which the GPU works."""


def pace(program: Program, steps: int, cost: Cost = UNCHANGED, *, gpu_speed: float = 1.0, calls: int = 40_000) -> Pace:
    """Return the steady pace of a program of so many steps, from running it until about so many calls are done."""
    if not program.calls or not steps:
        return Pace(0.0, 0.0)
    machine = Machine(program, cost, gpu_speed=gpu_speed)
    times = max(4, min(60 // steps + 2, calls // len(program.calls)))
    warm = max(1, times // 3)
    for _ in range(warm):
        machine.play(program.calls)
    began, busy = machine.run.completed_ns(), machine.run.busy_ns
    for _ in range(times - warm):
        machine.play(program.calls)
    count = (times - warm) * steps
    return Pace((machine.run.completed_ns() - began) / count, (machine.run.busy_ns - busy) / count)
