"""The plain window: times the steps without a profiler."""

import time
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np
import torch

from pinprof.capture.sampling import sampling
from pinprof.trace.host import HostProfile
from pinprof.units import NS_PER_MS

NS_PER_S = 1_000_000_000
FEWEST_STEPS = 3  # a mean of fewer says nothing about the spread


class Progress(NamedTuple):
    """The step that begins: the `step`-th of `of` in this window. The plain window may exceed its `of`."""

    window: str
    step: int
    of: int


@dataclass(frozen=True)
class PlainWindow:
    """The step without a profiler: `mean_ms` over the window by the host's clock, the rest over single steps."""

    steps: int
    mean_ms: float
    median_ms: float
    p10_ms: float
    p90_ms: float
    clock: str
    """What timed the single steps: "cuda_event" or "host"."""


@dataclass(frozen=True)
class PlainBounds:
    """When the plain window ends: after `steps` and `seconds`, or after `max_seconds` with 3 steps or more."""

    steps: int = 20
    seconds: float = 1.0
    max_seconds: float = 20.0

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

    def __init__(self) -> None:
        self._marks_ns: list[int] = []

    def now_ns(self) -> int:
        """Return the host's time."""
        return time.perf_counter_ns()

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""

    def mark(self) -> None:
        """Note that one step ends here and the next begins."""
        self._marks_ns.append(self.now_ns())

    def step_ms(self) -> list[float]:
        """Return the time between consecutive marks; call it after `synchronize`."""
        return [(end - start) / NS_PER_MS for start, end in pairwise(self._marks_ns)]


class CudaClock(Clock):
    """Times single steps by events in the current stream, which cause neither a wait nor a copy."""

    kind = "cuda_event"

    def __init__(self) -> None:
        super().__init__()
        self._device = torch.cuda.current_device()
        self._events: list[torch.cuda.Event] = []

    def synchronize(self) -> None:
        """Wait until the GPU has done all its work."""
        torch.cuda.synchronize(self._device)

    def mark(self) -> None:
        """Note in the GPU's queue that one step ends here and the next begins."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        self._events.append(event)

    def step_ms(self) -> list[float]:
        """Return the GPU's time between consecutive marks; call it after `synchronize`."""
        return [start.elapsed_time(end) for start, end in pairwise(self._events)]


def uses_cuda() -> bool:
    """Return whether this program has used a GPU so far; asking does not start one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def clock_of_program() -> Clock:
    """Return the clock for the devices that the program has used so far."""
    return CudaClock() if uses_cuda() else Clock()


def plain_window(clock: Clock, bounds: PlainBounds) -> Generator[Progress, None, tuple[PlainWindow, HostProfile]]:
    """Wait at every step boundary until the bounds are reached; return the measured step and the host's stacks in it.

    It synchronizes the device at both ends only. The mean is the host's time between them, so it is right even if host
    or GPU runs ahead of the other.
    """
    clock.synchronize()
    start_ns = clock.now_ns()
    clock.mark()
    steps = 0
    with sampling() as sampler:
        while not bounds.reached(steps, (clock.now_ns() - start_ns) / NS_PER_S):
            yield Progress("plain", steps + 1, bounds.steps)
            clock.mark()
            sampler.step()
            steps += 1
        clock.synchronize()
        mean_ms = (clock.now_ns() - start_ns) / NS_PER_MS / steps
    p10_ms, median_ms, p90_ms = (float(ms) for ms in np.percentile(clock.step_ms(), [10, 50, 90]))
    return PlainWindow(steps, mean_ms, median_ms, p10_ms, p90_ms, clock.kind), sampler.profile()
