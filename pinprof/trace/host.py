"""Where the host's time goes without the profiler: the sampled Python stacks that a trace holds."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias

import msgspec

from pinprof.trace.lines import Placed

HOST_KEY = "pinprof_host"
"""Key of the sampled stacks in the trace file."""

DEEPEST = 64
"""Frames of a stack that are kept."""

MOST_STACKS = 5_000
"""Different stacks that are kept, the most frequent ones; samples of others are only counted."""

MOST_SAMPLES = 1_000_000_000
"""A larger count is corrupt: at 10 ms each it would be four months."""

Origin: TypeAlias = Literal["user", "torch", "library"]
"""Whose code a frame is: the program's own, of torch, or of Python and other installed packages."""


@dataclass(frozen=True)
class HostFrame(Placed):
    """A line of Python code that was running, or that had called what was running."""

    file: str
    line: int | None
    """None where only the function is certain."""
    function: str
    """Qualified by its class where Python tells (3.11)."""
    origin: Origin


@dataclass(frozen=True)
class HostStack:
    """A Python stack, and how often it was met."""

    frames: tuple[int, ...]
    """Indices into `HostProfile.frames`, the outermost first."""
    count: int


@dataclass(frozen=True)
class HostProfile:
    """Samples of the main thread's Python stack, taken at random times while no profiler ran."""

    interval_ms: float
    """The mean time between samples."""
    samples: int
    steps: int
    """Whole steps in which they were taken."""
    window_ms: float
    """How long these steps took together."""
    frames: tuple[HostFrame, ...] = ()
    stacks: tuple[HostStack, ...] = ()
    """The most frequent first."""
    folded: int = 0
    """Samples whose stacks are not among those kept."""
    why_not: str | None = None
    """Why there are no samples, or none of the later steps, in words."""


def host_of_metadata(entry: object) -> HostProfile | None:
    """Return the samples from pinprof's metadata, None if they are missing or malformed."""
    try:
        profile = msgspec.convert(entry, HostProfile)
    except msgspec.ValidationError:
        return None
    return profile if _is_sound(profile) else None


def _is_sound(profile: HostProfile) -> bool:
    """Return whether the numbers fit each other, and are not larger than a recording makes them."""
    times = profile.interval_ms, profile.window_ms
    counts = [*(stack.count for stack in profile.stacks), profile.folded]
    return (
        all(isfinite(time) and time >= 0 for time in times)
        and profile.steps >= 0
        and len(profile.stacks) <= MOST_STACKS
        and all(stack.count > 0 and 0 < len(stack.frames) <= DEEPEST for stack in profile.stacks)
        and all(0 <= index < len(profile.frames) for stack in profile.stacks for index in stack.frames)
        and profile.folded >= 0
        and sum(counts) == profile.samples <= MOST_SAMPLES
    )
