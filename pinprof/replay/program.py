"""The recorded program: the host's calls in order, with all that each depends on, so that they can be run again.

The threads that launch work are one timeline: the main thread waits while the autograd thread runs backward.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from pinprof.trace.calls import QUEUE_DEPTH
from pinprof.trace.tables import NONE


class CallKind(Enum):
    """What a call does."""

    ISSUE = "launches"
    STREAM_WAIT = "waits for a stream"
    DEVICE_WAIT = "waits for the device"
    EVENT_WAIT = "waits for an event"
    STAGED = "stages a pageable copy"
    DRAIN = "waits for the device, then works"
    RECORD = "records an event"
    ORDER = "makes a stream wait for an event"
    OWN_WAIT = "waits for the kernel that it launched"
    PAUSE = "takes time"
    AHEAD = "copies for the next step, on a stream that waits for the copy of the step before"


ISSUE, STREAM_WAIT, DEVICE_WAIT, EVENT_WAIT, STAGED, DRAIN, RECORD, ORDER, OWN_WAIT, PAUSE, AHEAD = CallKind

SIDE_STREAM = -2
"""`SIDE_STREAM - device` is the number of the stream on which copies are made ahead."""

Floats: TypeAlias = npt.NDArray[np.float64]
LaunchedWork: TypeAlias = tuple[tuple[int, int, int | None, float, float, float, bool, bool], ...]

DEFAULT_LAUNCH_NS = 5_000.0
"""The time of a call that launches work and does not wait, if the trace has no such call."""
DEFAULT_LATENCY_NS = 6_000.0
"""From the start of a launch call to the start of its work on an idle GPU, if the trace has no such launch."""
DEFAULT_WAKE_NS = 3_000.0
"""From the end of the awaited work to the return of the call, if the trace has no such wait."""
QUEUED_GAP_NS = 1_500.0
"""The time between two queued kernels on a stream."""
ERROR_OF_SINGLE_STEP = 0.07
"""The standard error of a single step, as a share: the median scatter of steps in 211 recordings."""


class GpuWork(Struct, gc=False):
    """One activity of the GPU; times in ns."""

    row: int
    """Row in `Trace.gpu`."""
    queue: int
    """Its stream, counted over all devices."""
    engine: int
    """Copy engine: the direction of a copy between host and device; -1 for other work."""
    duration_ns: float
    latency_ns: float
    """From the start of its launch, or of the staging of its copy, to its start, if nothing holds it up."""
    gap_ns: float
    """From the end of the previous work on its stream to its start, if it is queued by then."""
    meeting: int = NONE
    """The number of the collective, the same on all ranks: its kernels end together. -1 for other work."""
    is_pageable: bool = False
    """Whether it is a copy of pageable memory, whose pace the host sets."""


class Call(Struct, gc=False):
    """One call of the host that affects the GPU; times in ns."""

    row: int
    """Row in `Trace.calls`."""
    kind: CallKind
    gap_ns: float
    """Host time since the previous launch began, or since the previous wait ended."""
    input_ns: float = 0.0
    """The part of the gap in which the host waited for input, or made it itself."""
    artefact_ns: float = 0.0
    """The part of the gap that only a recording has: the profiler's buffers, loading of code, the step marks."""
    python_ns: float = 0.0
    """The part of the gap in long pauses between ops and calls, without the two above."""
    own_work_ns: float = 0.0
    """The part of the gap in which the program does its own work: very long pauses, and long ops that launch nothing,
    except for those of torch in optimizers and backward passes."""
    events: float = 0.0
    """The events that the profiler recorded in the gap outside of the input, in units of ops: a call counts as one, a
    Python function by its own cost."""
    input_events: float = 0.0
    """The same in the time of the input: many if the process loads its own data. Ops of a DataLoader are shorter than
    those that launch kernels, and a profiler costs less there: each counts by its share of their time."""
    cost_ns: float = 0.0
    """The profiler's cost in the gap in addition to `events`, as far as samples of the host show it."""
    queue: int = NONE
    own_ns: float = 0.0
    """The time of the call itself, without waiting."""
    wake_ns: float = DEFAULT_WAKE_NS
    """From the end of the awaited work to the return of the call."""
    back: int = 0
    """For a wait or an order: the record of its event, counted back from the call; 1 is the latest record."""
    works: list[GpuWork] = msgspec.field(default_factory=list)
    step: int = NONE
    in_graph: bool = False
    """Whether it is a node of a CUDA graph that was launched as a whole."""


FIELDS_BEFORE = ("gap_ns", "input_ns", "artefact_ns", "python_ns", "own_work_ns", "events", "input_events", "cost_ns")
"""The fields of a call about the host's time before it."""
TIMES_BEFORE = attrgetter(*FIELDS_BEFORE)


def with_times_before(call: Call, times: tuple[float, ...]) -> Call:
    """Return a call with these values of `FIELDS_BEFORE`."""
    changed: dict[str, Any] = dict(zip(FIELDS_BEFORE, times, strict=True))
    return structs.replace(call, **changed)


def with_works(call: Call, changed: Callable[[GpuWork], GpuWork]) -> Call:
    """Return a call with its work changed."""
    works = [changed(work) for work in call.works]
    return call if works == call.works else structs.replace(call, works=works)


class Move(NamedTuple):
    """A call as a replay needs it, without the host's time before it; times in ns."""

    row: int
    works: LaunchedWork
    """The work that it launches at once: row, queue, copy engine or None, `duration_ns`, `latency_ns` and `gap_ns` of
    `GpuWork`, whether it is a copy of pageable memory, and whether it takes a place in the launch queue. Of a graph,
    which a single call launches, only the last node takes one."""
    own_ns: float
    call: Call | None
    """The call itself, if it does more than launch this work and take its time."""


class HostTimes(NamedTuple):
    """The times of the host in the fields of `Call` with these names, one entry per call, in ns."""

    gap: Floats
    input: Floats
    artefact: Floats
    python: Floats
    events: Floats
    input_events: Floats
    cost: Floats
    own: Floats


_REPLAYED_TIMES = attrgetter(
    "gap_ns", "input_ns", "artefact_ns", "python_ns", "events", "input_events", "cost_ns", "own_ns"
)


@dataclass(frozen=True)
class Program:
    """Calls in order, and the work that the GPU still had when the first one began."""

    calls: tuple[Call, ...]
    start_ns: int = 0
    """When the program begins, on the trace's clock: with the first step, otherwise with the first call."""
    ready_ns: dict[int, float] = field(default_factory=dict)
    """Per queue: the end of work launched before the recording, since `start_ns`."""
    first_row: int = NONE
    """The row of the trace's first call: the recording holds only a part of the host's time before it."""
    tail_ns: float = 0.0
    """The host's time in the last step after its last call."""
    device: dict[int, int] = field(default_factory=dict)
    """The device of each queue."""
    launch_ns: float = 0.0
    """The median time of the calls that launch one kernel and do not wait; 0 if there are none."""
    launch_spread: float = 1.0
    """The 90th percentile of these calls as a multiple of the median: a host with other work launches unevenly."""
    queue_depth: int = QUEUE_DEPTH
    """Launches that a stream holds before the next one has to wait."""
    represented_error: float | None = None
    """The `step_error` of all steps, if the calls are those of some steps that represent them; otherwise None."""
    edited_from: "Program | None" = None
    """The program from which this one was edited; most calls are the same objects."""

    @cached_property
    def host(self) -> HostTimes:
        """The host's times, for replays at another speed."""
        rows = list(map(_REPLAYED_TIMES, self.calls))
        return HostTimes(*np.array(rows, dtype=np.float64).reshape(-1, len(HostTimes._fields)).T)

    def paused(self, pause_ns: float) -> "Program":
        """Return the program with a pause of the host in its middle."""
        middle = len(self.calls) // 2
        call = self.calls[middle]
        longer = structs.replace(call, own_ns=call.own_ns + pause_ns)
        return replace(self, calls=(*self.calls[:middle], longer, *self.calls[middle + 1 :]))

    @cached_property
    def step_error(self) -> float:
        """The standard error of the host's time in a step, as a share of its mean."""
        if self.represented_error is not None:
            return self.represented_error
        times: dict[int, float] = defaultdict(float)
        for call in self.calls:
            times[call.step] += call.gap_ns + call.own_ns
        if len(times) < 2:  # noqa: PLR2004  # a single one shows no spread
            return ERROR_OF_SINGLE_STEP
        mean = statistics.fmean(times.values())
        return statistics.stdev(times.values()) / (mean * math.sqrt(len(times))) if mean > 0 else 0.0

    @cached_property
    def moves(self) -> list[Move]:
        """The calls as a replay takes them; kept, because dozens of replays are made, mostly with the same calls."""
        source = self.edited_from
        known = {id(call): move for call, move in zip(source.calls, source.moves, strict=True)} if source else {}
        return [
            known.get(id(call))
            or Move(call.row, self._launched(call), call.own_ns, None if call.kind in (ISSUE, PAUSE) else call)
            for call in self.calls
        ]

    def with_calls(self, calls: Iterable[Call]) -> "Program":
        """Return the program with other calls, most of them the same."""
        return replace(self, calls=tuple(calls), edited_from=self)

    @cached_property
    def meetings(self) -> dict[int, list[GpuWork]]:
        """The kernels of collectives by the index of the call that launches them."""
        meeting = (
            (index, [work for work in call.works if work.meeting != NONE]) for index, call in enumerate(self.calls)
        )
        return {index: works for index, works in meeting if works}

    def engine(self, work: GpuWork, queue: int) -> int | None:
        """Return the number of the copy engine that makes a copy on a queue; None for other work."""
        return None if work.engine == NONE else 2 * self.device.get(queue, SIDE_STREAM - queue) + work.engine

    def _launched(self, call: Call) -> LaunchedWork:
        if not call.works or call.kind in (STAGED, AHEAD):
            return ()
        last = None if call.in_graph else call.works[-1]
        return tuple(
            [
                (
                    work.row,
                    work.queue,
                    None if work.engine == NONE else self.engine(work, work.queue),
                    work.duration_ns,
                    work.latency_ns,
                    work.gap_ns,
                    work.is_pageable,
                    work is last,
                )
                for work in call.works
            ]
        )

    def with_input(self, input_ns: float) -> "Program":
        """Return the program with this time for input in each step, at the call with most input in the recording."""
        most: dict[int, int] = {}
        for index, call in enumerate(self.calls):
            if call.step not in most or call.input_ns > self.calls[most[call.step]].input_ns:
                most[call.step] = index
        calls = []
        for index, call in enumerate(self.calls):
            wait = input_ns if most[call.step] == index else 0.0
            calls.append(
                structs.replace(call, gap_ns=call.gap_ns - call.input_ns + wait, input_ns=wait, input_events=0.0)
            )
        return replace(self, calls=tuple(calls))

    def of_steps(self, steps: set[int]) -> "Program":
        """Return the program with only the calls of these steps, on an idle GPU.

        The host's time before the first call of a trace is taken from the first call of the next step; if no step
        follows, the time after the last call is added to it.
        """
        chosen = [call for call in self.calls if call.step in steps]
        if chosen and chosen[0].row == self.first_row:
            first = chosen[0]
            later = next((call for call in chosen if call.step != first.step), None)
            later = later or structs.replace(first, gap_ns=first.gap_ns + self.tail_ns)
            chosen[0] = with_times_before(first, TIMES_BEFORE(later))
        return replace(self, calls=tuple(chosen), ready_ns={})
