"""The plain window: times the steps without a profiler."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch

from pinprof.analyses.course import regular_figure, regular_since
from pinprof.capture.sampling import sampling
from pinprof.trace.host import HostProfile
from pinprof.trace.run import PLAIN
from pinprof.units import NS_PER_MS

if TYPE_CHECKING:
    from pinprof.capture.journal import Journal

NS_PER_S = 1_000_000_000
FEWEST_STEPS = 3  # a mean of fewer says nothing about the spread
NEXT_LOOK = 1.25
"""The window looks at its precision again after so many times the steps."""
LONGER = 20
ENOUGH_S = 5.0
"""With a GPU, it takes at most so many times the fewest steps, or so long, to be precise: many programs are short."""

Mark: TypeAlias = Any
"""A moment on the GPU (`torch.cuda.Event`), or None."""


class Progress(NamedTuple):
    """The step that begins: the `step`-th of `of` in this window. The plain window may exceed its `of`."""

    window: str
    step: int
    of: int


@dataclass(frozen=True)
class PlainWindow:
    """The step without a profiler: `mean_ms` over the whole window, the rest over single steps."""

    steps: int
    mean_ms: float
    median_ms: float
    p10_ms: float
    p90_ms: float
    clock: str
    """What timed the single steps: "cuda_event" or "host"."""


@dataclass(frozen=True)
class PlainBounds:
    """When the plain window ends: after `steps` and `seconds`, or after `max_seconds` with 3 steps or more.

    It goes on until the mean of the regular steps is certain by the share `precision` (95 % confidence; 1 asks for
    nothing), or until it has had `max_seconds`; with a GPU already after `LONGER` times `steps` and `ENOUGH_S`.
    """

    steps: int = 20
    seconds: float = 1.0
    max_seconds: float = 20.0
    precision: float = 0.02

    def reached(self, steps: int, seconds: float) -> bool:
        """Return whether a window of so many steps and seconds is long enough, or too long to go on."""
        enough = steps >= self.steps and seconds >= self.seconds
        return enough or (steps >= FEWEST_STEPS and seconds >= self.max_seconds)

    def steps_of(self, step_ns: float) -> int:
        """Return after how many steps of this length the bounds are reached."""
        enough = max(self.steps, ceil(self.seconds * NS_PER_S / max(step_ns, 1.0)))
        return min(enough, max(FEWEST_STEPS, ceil(self.max_seconds * NS_PER_S / max(step_ns, 1.0))))


class Clock:
    """Times steps by the host's clock, for programs that do not use a GPU."""

    kind = "host"

    def now_ns(self) -> int:
        """Return the host's time."""
        return time.perf_counter_ns()

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""

    def mark(self) -> Mark:
        """Note this moment on the GPU; None without one."""
        return None

    def make_ready(self, marks: int = 1) -> None:
        """Prepare the next marks, so that they take no time."""

    def between(self, start: Mark, end: Mark) -> int | None:
        """Return the GPU's time between two marks, None if it has not come to the second. They are not asked again."""
        raise NotImplementedError


class CudaClock(Clock):
    """Times single steps also by events in the current stream, which cause neither a wait nor a copy."""

    kind = "cuda_event"

    def __init__(self) -> None:
        super().__init__()
        self._device = torch.cuda.current_device()
        self._spare: list[Mark] = []

    def synchronize(self) -> None:
        """Wait until the GPU has done all its work."""
        torch.cuda.synchronize(self._device)

    def mark(self) -> Mark:
        """Note in the GPU's queue that one step ends here and the next begins; None while a graph is captured."""
        stream = torch.cuda.current_stream(self._device)
        if torch.cuda.is_current_stream_capturing():
            return None
        event = self._spare.pop() if self._spare else _new_event()
        event.record(stream)
        return event

    def make_ready(self, marks: int = 1) -> None:
        """Make marks ahead: on a virtual machine each takes 0.1 ms, in which a moment would pass."""
        if torch.cuda.is_current_stream_capturing():
            return
        while len(self._spare) < marks:
            event = _new_event()
            event.record(torch.cuda.current_stream(self._device))  # only now it is made
            self._spare.append(event)

    def between(self, start: Mark, end: Mark) -> int | None:
        """Return the GPU's time between two marks in ns, and use them again; None if it has not come to the second."""
        if not end.query():
            return None
        time_ns = max(round(start.elapsed_time(end) * NS_PER_MS), 1)
        self._spare += [start, end]
        return time_ns


def _new_event() -> Mark:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def uses_cuda() -> bool:
    """Return whether this program has used a GPU so far; asking does not start one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def clock_of_program() -> Clock:
    """Return the clock for the devices that the program has used so far."""
    return CudaClock() if uses_cuda() else Clock()


def plain_window(
    journal: "Journal", bounds: PlainBounds, is_short: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, tuple[PlainWindow, HostProfile]]:
    """Wait at every step boundary until the bounds are reached; return the step and the host's stacks in regular steps.

    It synchronizes the device at both ends only. The mean is the host's time between them, without pinprof's own, in
    which the GPU may have worked; or the GPU's time in its current stream, in which it may have done only a part. Both
    are at most the truth, so it is the larger one. With a GPU it goes on until it is precise enough: launches
    stay slower after a profiler, by a third on an H100 (torch 2.11), so that no later step tells more. Where the
    program `is_short` of further steps, it ends after a few.
    """
    clock, first = journal.renew_clock(), len(journal)
    clock.synchronize()
    start_ns = clock.now_ns()
    with journal.timing_gpu(), sampling() as sampler:
        for progress in _plain_steps(journal, bounds, first, start_ns, is_short):
            yield progress
            sampler.step()
        ended_ns = clock.now_ns()
        clock.synchronize()
        drained_ns = clock.now_ns() - ended_ns
    steps = len(journal) - first
    times_ns = journal.times_ns(first)
    mean_ms = max((journal.ns_in(PLAIN) + drained_ns) / steps, float(times_ns.mean())) / NS_PER_MS
    p10_ms, median_ms, p90_ms = (float(ns) / NS_PER_MS for ns in np.percentile(times_ns, [10, 50, 90]))
    regular = set(regular_since(journal.log(), first).tolist())
    return PlainWindow(steps, mean_ms, median_ms, p10_ms, p90_ms, clock.kind), sampler.profile(regular)


def _plain_steps(
    journal: "Journal", bounds: PlainBounds, first: int, start_ns: int, is_short: Callable[[], bool]
) -> Generator[Progress, None, None]:
    clock = journal.clock
    while not bounds.reached(len(journal) - first, (clock.now_ns() - start_ns) / NS_PER_S):
        if len(journal) - first >= FEWEST_STEPS and is_short():
            return
        yield Progress(PLAIN, len(journal) - first + 1, bounds.steps)
    if clock.kind == CudaClock.kind:

        def is_over(steps: int, seconds: float) -> bool:
            return (steps >= LONGER * bounds.steps and seconds >= ENOUGH_S) or is_short()

        yield from _until_precise(journal, bounds, is_over)


def more_plain(journal: "Journal", bounds: PlainBounds) -> Generator[Progress, None, None]:
    """Wait at every step boundary until the steps of all plain windows tell the regular step precisely enough.

    For programs without a GPU: after the other windows, since nobody knows how many steps a program will make.
    """
    yield from _until_precise(journal, bounds, lambda _, __: False)


def _until_precise(
    journal: "Journal", bounds: PlainBounds, is_over: Callable[[int, float], bool]
) -> Generator[Progress, None, None]:
    """Wait until the regular step is precise, `is_over` of the plain steps and seconds says so, or the time is up."""
    seconds, start_ns, first, look = journal.ns_in(PLAIN) / NS_PER_S, journal.clock.now_ns(), len(journal), 0
    before = journal.steps_in(PLAIN)
    while bounds.precision < 1 and not journal.is_full:
        steps = len(journal) - first
        now = seconds + (journal.clock.now_ns() - start_ns) / NS_PER_S
        if now >= bounds.max_seconds or is_over(before + steps, now):
            return
        if steps >= look:
            figure = regular_figure(journal.log())
            if figure is not None and figure.precision <= bounds.precision:
                return
            look = max(ceil(NEXT_LOOK * steps), steps + FEWEST_STEPS)
        yield Progress(PLAIN, before + steps + 1, before + steps + 1)
