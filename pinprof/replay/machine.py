"""Runs a program again: when each call of the host and each activity of the GPU begins and ends."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pinprof.replay.program import (
    AHEAD,
    DEVICE_WAIT,
    DRAIN,
    EVENT_WAIT,
    ORDER,
    OWN_WAIT,
    RECORD,
    SIDE_STREAM,
    STAGED,
    STREAM_WAIT,
    Call,
    Floats,
    GpuWork,
    HostTimes,
    Move,
    Program,
)
from pinprof.trace.tables import NONE

WAITING_KINDS = (STREAM_WAIT, DEVICE_WAIT, EVENT_WAIT, OWN_WAIT)
"""Kinds of calls that return when the awaited work has ended."""


@dataclass(frozen=True)
class ProfilerCost:
    """The profiler's cost to the host in the recording, and the host's speed without it."""

    per_event_ns: float = 0.0
    """The cost of each recorded op and call."""
    keep: float = 1.0
    """At least this share of the host's time between two calls is its own."""
    steady: bool = False
    """Whether to leave out times that only a recording has: the profiler's buffers, and loading of code."""
    staging: float = 1.0
    """The time of the staging of pageable copies as a multiple of the recorded time: one CPU thread copies them, and
    its pace varies from run to run."""
    host_speed: float = 1.0
    """How many times as fast the host is."""
    op_speed: float = 1.0
    """How many times as fast the host is in ops and calls; infinite: they take no time."""
    python_speed: float = 1.0
    """How many times as fast the host is outside of ops and calls."""
    input_speed: float = 1.0
    """How many times as fast the host's waits for input are."""

    def before_ns(self, host: HostTimes) -> Floats:
        """Return the host's time before each call without the profiler's cost."""
        own = host.gap - host.input
        if self.steady:
            own = own - host.artefact
        own = self._without_cost(own, host.events, host.cost if self.steady else 0.0)
        python = np.minimum(host.python, np.maximum(own, 0.0))
        own = python / self.python_speed + (own - python) / self.op_speed
        loading = self._without_cost(host.input, host.input_events)
        return loading / self.input_speed + own / self.host_speed

    def _without_cost(self, times: Floats, events: Floats, sampled: Floats | float = 0.0) -> Floats:
        return np.where(times > 0, np.maximum(times - self.per_event_ns * events - sampled, self.keep * times), times)

    def saved_ns(self, host: HostTimes) -> Floats:
        """Return how much shorter each call itself is than in the recording, in ns."""
        return np.where(self.steady & (host.own > host.artefact), host.artefact, 0.0)


UNCHANGED = ProfilerCost()
SAMPLE_CALLS = 6_000
"""Calls that are run of a program whose steps represent others: these steps are alike, so its pace is soon steady."""


class Engine:
    """A copy engine: it makes one copy at a time, whichever is ready first."""

    LATEST = 128
    """The number of copies that it remembers: one stream may be this number of copies ahead of another."""

    def __init__(self) -> None:
        self._busy: list[tuple[float, float]] = []

    def copied(self, ready: float, duration: float) -> float:
        """Make a copy as soon as it is ready and the engine is free for its duration; return when it ends.

        An earlier copy that is ready only later, because its stream has other work to do, does not hold it up.
        """
        busy = self._busy
        index = len(busy)
        while index and busy[index - 1][1] > ready:
            index -= 1
        while index < len(busy) and busy[index][0] < ready + duration:
            ready = max(ready, busy[index][1])
            index += 1
        busy.insert(index, (ready, ready + duration))
        del busy[: -self.LATEST]
        return ready + duration


@dataclass
class ReplayRun:
    """When things ended, in ns since the first call's start."""

    host_ns: float = 0.0
    """When the host has made its last call so far."""
    ready_ns: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Per queue, the end of its last work."""
    engines: dict[int, "Engine"] = field(default_factory=lambda: defaultdict(Engine))
    """The copy engines by number."""
    work_ends_ns: dict[int, float] = field(default_factory=dict)
    """Per row of `Trace.gpu`, in the last repetition."""
    call_ends_ns: dict[int, float] = field(default_factory=dict)
    busy_ns: float = 0.0
    """Time in which the GPU worked, streams one after the other as far as they do not overlap; without copies of
    pageable memory, whose pace the host sets."""
    waited_ns: float = 0.0
    """Time in which kernels of collectives waited for those of other ranks."""

    def completed_ns(self) -> float:
        """Return when all is done so far, on the host and on the GPU."""
        return max(self.host_ns, *self.ready_ns.values()) if self.ready_ns else self.host_ns


class Simulation:
    """One host timeline, the streams of its GPUs, and their copy engines."""

    def __init__(self, program: Program, cost: ProfilerCost = UNCHANGED, *, gpu_speed: float = 1.0) -> None:
        self.run = ReplayRun(ready_ns=defaultdict(float, program.ready_ns))
        self.program, self.cost, self.gpu_speed = program, cost, gpu_speed
        before, saved = cost.before_ns(program.host), cost.saved_ns(program.host)
        self.moves = list(zip(before.tolist(), saved.tolist(), program.moves, strict=True))
        self._queued: dict[int, deque[float]] = defaultdict(partial(deque[float], maxlen=program.queue_depth + 1))
        """Per stream: the ends of its last launches; when the queue is full, the host waits for the first of them."""
        self._events: list[float] = []
        self._fetched: dict[int, float] = {}  # ends of the copies made ahead, by their position in the step
        self._fetching: int | None = None
        self._position = 0
        self._covered_ns = 0.0

    def begin(self) -> None:
        """Begin the program, again or for the first time."""
        self._fetching = None

    def play(self, moves: Sequence[tuple[float, float, Move]]) -> None:
        """Run these moves after the earlier ones; with each come the host's time before it, and the time saved in it.

        A report runs hundreds of thousands of moves: nothing here calls a function without need, not even max.
        """
        run, queued, gpu_speed, depth = self.run, self._queued, self.gpu_speed, self.program.queue_depth
        ready, engines, work_ends, call_ends = run.ready_ns, run.engines, run.work_ends_ns, run.call_ends_ns
        host, busy, covered = run.host_ns, run.busy_ns, self._covered_ns
        for before, saved, (row, works, own, call) in moves:
            start = room = host + before
            for work, queue, engine, duration, latency, gap, is_pageable, is_queued in works:
                begins, free = start + latency, ready[queue] + gap
                if free > begins:  # noqa: PLR1730
                    begins = free
                if engine is None:
                    end = begins + duration / gpu_speed
                else:
                    end = engines[engine].copied(begins, duration)
                    begins = end - duration
                if end > covered and not is_pageable:
                    busy += end - (begins if begins > covered else covered)  # noqa: FURB136
                    covered = end
                ready[queue] = work_ends[work] = end
                if is_queued:
                    ends = queued[queue]
                    ends.append(end)
                    if ends[0] > room and len(ends) > depth:
                        room = ends[0]
            if call is None:
                host = start + own - saved
            else:
                run.busy_ns, self._covered_ns = busy, covered
                host = self._returns(call, start, saved)
                busy, covered = run.busy_ns, self._covered_ns
            if room > host:  # noqa: PLR1730
                host = room
            call_ends[row] = host
        run.host_ns, run.busy_ns, self._covered_ns = host, busy, covered

    def prolong(self, work: GpuWork, end: float) -> None:
        """Let the last work of a stream end later, as its peers on other ranks do."""
        run, ends = self.run, self._queued[work.queue]
        if ends and ends[-1] == run.work_ends_ns[work.row]:
            ends[-1] = end
        run.waited_ns += max(end - run.work_ends_ns[work.row], 0.0)
        run.work_ends_ns[work.row] = end
        run.ready_ns[work.queue] = max(run.ready_ns[work.queue], end)

    def _stage(self, call: Call, start: float) -> float:
        """Copy pageable memory once the stream is free; return when the call returns."""
        free, staging = max(start, self.run.ready_ns[call.works[0].queue]), self.cost.staging
        for work in call.works:
            self._copy(work, work.queue, free + work.latency_ns * staging, staging)
        return free + call.own_ns * staging

    def _returns(self, call: Call, start: float, saved: float) -> float:
        """Return when a call that does more than launch returns; note its effect on events and streams."""
        ready, kind = self.run.ready_ns, call.kind
        if kind in WAITING_KINDS:
            return max(start + call.own_ns, self._awaited(call) + call.wake_ns)
        if kind == STAGED:
            return self._stage(call, start)
        if kind == DRAIN:
            return max(start, max(ready.values(), default=0.0)) + call.own_ns
        if kind == RECORD:
            self._events.append(ready[call.queue] if call.queue != NONE else 0.0)
        elif kind == ORDER:
            ready[call.queue] = max(ready[call.queue], self._event(call))
        elif kind == AHEAD:
            self._fetch(call, start)
            return start + call.own_ns - saved
        return start + call.own_ns

    def _awaited(self, call: Call) -> float:
        """Return when the work that a call awaits ends."""
        ready = self.run.ready_ns
        if call.kind == DEVICE_WAIT:
            return max(ready.values(), default=0.0)
        if call.kind == EVENT_WAIT:
            return self._event(call)
        return ready[call.works[-1].queue if call.works else call.queue]

    def _copy(self, work: GpuWork, queue: int, begins: float, longer: float = 1.0) -> None:
        """Make a copy that is not launched at once."""
        run, duration, engine = self.run, work.duration_ns * longer, self.program.engine(work, queue)
        if engine is None:
            duration /= self.gpu_speed
            end = begins + duration
        else:
            end = run.engines[engine].copied(begins, duration)
            begins = end - duration
        if not work.is_pageable:
            run.busy_ns += max(end - max(begins, self._covered_ns), 0.0)
            self._covered_ns = max(self._covered_ns, end)
        run.ready_ns[queue] = max(run.ready_ns[queue], end)
        run.work_ends_ns[work.row] = end
        self._queued[queue].append(end)

    def _fetch(self, call: Call, start: float) -> None:
        """Make the copies of a call for the next step, and let its stream wait for those of the step before."""
        ready = self.run.ready_ns
        if call.step != self._fetching:
            self._fetching, self._position = call.step, 0
        for work in call.works:
            ready[work.queue] = max(ready[work.queue], self._fetched.get(self._position, 0.0))
            queue = SIDE_STREAM - self.program.device.get(work.queue, 0)
            begins = max(start + work.latency_ns, ready[queue] + work.gap_ns)
            self._copy(work, queue, begins)
            self._fetched[self._position] = ready[queue]
            self._position += 1

    def _event(self, call: Call) -> float:
        """Return when the event of a call is reached; an event from before the program, when the work before it is."""
        if 0 < call.back <= len(self._events):
            return self._events[-call.back]
        return self.program.ready_ns.get(call.queue, 0.0) if call.kind == EVENT_WAIT else 0.0


class _Part(NamedTuple):
    """Moves of a rank, and the kernels of collectives that the last move launches."""

    moves: list[tuple[float, float, Move]]
    meeting: list[GpuWork]


class Job:
    """The machines of all ranks of a job, which meet in collectives; one rank alone meets nobody."""

    def __init__(self, programs: Sequence[Program], cost: ProfilerCost = UNCHANGED, *, gpu_speed: float = 1.0) -> None:
        self.machines = [Simulation(program, cost, gpu_speed=gpu_speed) for program in programs]
        alone = len(programs) == 1
        self._parts = [[_Part(machine.moves, [])] if alone else _parts(machine) for machine in self.machines]
        self._members = Counter(work.meeting for parts in self._parts for part in parts for work in part.meeting)

    def play(self) -> None:
        """Run the programs of all ranks once, after what was run before."""
        for machine in self.machines:
            machine.begin()
        remaining = [deque(parts) for parts in self._parts]
        arrived: dict[int, list[tuple[int, GpuWork]]] = defaultdict(list)
        entered = [0] * len(remaining)
        """Per rank: collectives that it has entered and others have not yet."""
        while any(remaining):
            ready = [rank for rank, parts in enumerate(remaining) if parts and not entered[rank]]
            if not ready:  # ranks wait for each other: they launch in different orders, as they may on several streams
                ready = [rank for rank, parts in enumerate(remaining) if parts]
            for rank in ready:
                part = remaining[rank].popleft()
                self.machines[rank].play(part.moves)
                for work in part.meeting:
                    entered[rank] += 1
                    arrived[work.meeting].append((rank, work))
                    if len(arrived[work.meeting]) == self._members[work.meeting]:
                        self._end(arrived[work.meeting])
                        for member, _ in arrived[work.meeting]:
                            entered[member] -= 1

    def completed_ns(self) -> float:
        """Return when all ranks have done all their work."""
        return max(machine.run.completed_ns() for machine in self.machines)

    def pacemaker(self) -> Simulation:
        """Return the machine that waits least for the others."""
        return min(self.machines, key=lambda machine: machine.run.waited_ns)

    def _end(self, members: list[tuple[int, GpuWork]]) -> None:
        """End a collective on all ranks when it ends on the last one."""
        ends = [self.machines[rank].run.work_ends_ns[work.row] for rank, work in members]
        for rank, work in members:
            self.machines[rank].prolong(work, max(ends))


def _parts(machine: Simulation) -> list[_Part]:
    """Cut the moves of a machine after each move that launches a collective."""
    moves, meetings = machine.moves, machine.program.meetings
    bounds = [0, *(index + 1 for index in meetings), len(moves)]
    return [_Part(moves[start:end], meetings.get(end - 1, [])) for start, end in pairwise(bounds) if end > start]


@dataclass(frozen=True)
class Pace:
    """A step of a program that is run over and over; times in ns."""

    step_ns: float
    busy_ns: float
    """`ReplayRun.busy_ns` per step; with several ranks, of the one that waits least for the others."""


def pace(
    programs: Sequence[Program],
    steps: int,
    cost: ProfilerCost = UNCHANGED,
    *,
    gpu_speed: float = 1.0,
    calls: int = 24_000,
) -> Pace:
    """Return the steady pace of `steps` steps on all ranks, by running about `calls` calls, or fewer of a sample."""
    if any(program.represented_error is not None for program in programs):
        calls = min(calls, SAMPLE_CALLS)
    total = sum(len(program.calls) for program in programs)
    if not total or not steps:
        return Pace(0.0, 0.0)
    job = Job(programs, cost, gpu_speed=gpu_speed)
    if total > calls:  # so long that the beginning does not matter
        job.play()
        return Pace(job.completed_ns() / steps, job.pacemaker().run.busy_ns / steps)
    times = max(3, min(60 // steps + 2, calls // total))
    warm = max(1, times // 3)
    for _ in range(warm):
        job.play()
    began, busy = job.completed_ns(), [machine.run.busy_ns for machine in job.machines]
    for _ in range(times - warm):
        job.play()
    count = (times - warm) * steps
    pacemaker = job.pacemaker()
    worked = pacemaker.run.busy_ns - busy[job.machines.index(pacemaker)]
    return Pace((job.completed_ns() - began) / count, worked / count)
