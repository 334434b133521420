"""The sampled Python stacks of a trace, which show where the host's time goes without the profiler."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Struct

from pinprof.document import Count, Ms, Words, converted, doc
from pinprof.ground.units import NS_PER_MS
from pinprof.trace.lines import MAX_RECORDED_MS, Placed

HOST_KEY = "pinprof_host"  # key of the sampled stacks in the trace file
WORKER_KEY = "pinprof_worker"  # key of the sampled stacks of a DataLoader's worker, whose steps are batches
MAX_KEPT_FRAMES = 64  # frames of a stack that are kept
MAX_KEPT_STACKS = 5_000  # different stacks that are kept, the most frequent ones; samples of others are only counted
MAX_HOST_SAMPLES = 1_000_000_000  # a larger count is corrupt: at 10 ms each it would be four months
CodeOrigin: TypeAlias = Annotated[
    Literal["user", "torch", "library"],
    doc("whose code it is: the program's own, torch's, or that of Python and other installed packages"),
]


class HostFrame(Placed, Struct, frozen=True):
    """A line of Python code that was running, or that had called what was running."""

    file: Annotated[str, doc("the file of the code, as it was recorded")]
    line: Annotated[Count | None, doc("its line; null where only the function is certain")]
    function: Annotated[str, doc("the function around it, qualified by its class from Python 3.11 on")]
    origin: CodeOrigin

    def is_of(self, file: str, function: str | None = None) -> bool:
        """Return whether it is in a file whose path ends so, with / on every system, and in this function if given."""
        return self.file.replace("\\", "/").endswith(file) and function in (None, self.function)


class HostStack(Struct, frozen=True):
    """A Python stack, and how often it was met."""

    frames: Annotated[tuple[Count, ...], doc("indices into `frames`, the outermost first")]
    count: Annotated[Count, doc("samples")]


class HostProfile(Struct, frozen=True):
    """Samples of the main thread's Python stack, taken at random times while no profiler ran."""

    interval_ms: Annotated[Ms, doc("the mean time between samples")]
    samples: Annotated[Count, doc("how many")]
    steps: Annotated[Count, doc("whole steps in which they were taken")]
    window_ms: Annotated[Ms, doc("how long these took together")]
    frames: Annotated[tuple[HostFrame, ...], doc("all frames")] = ()
    stacks: Annotated[tuple[HostStack, ...], doc("all stacks, the most frequent first")] = ()
    folded: Annotated[Count, doc("further samples, of stacks that are not kept")] = 0
    why_not: Annotated[Words | None, doc("why there are no samples, or none of the later steps")] = None

    @property
    def step_ns(self) -> float:
        """The mean of these steps, if there are any; for a worker, the time in which it makes a batch."""
        return self.window_ms * NS_PER_MS / self.steps


def host_of_metadata(entry: object) -> HostProfile | None:
    """Return the samples from pinprof's metadata, None if they are missing or malformed."""
    profile = converted(entry, HostProfile)
    return profile if profile is not None and _is_sound(profile) else None


def _is_sound(profile: HostProfile) -> bool:
    """Return whether the numbers fit each other, and are not larger than a recording makes them."""
    times = profile.interval_ms, profile.window_ms
    counts = [*(stack.count for stack in profile.stacks), profile.folded]
    return (
        all(0 <= time <= MAX_RECORDED_MS for time in times)
        and profile.steps <= MAX_HOST_SAMPLES
        and len(profile.stacks) <= MAX_KEPT_STACKS
        and all(stack.count > 0 and 0 < len(stack.frames) <= MAX_KEPT_FRAMES for stack in profile.stacks)
        and all(0 <= index < len(profile.frames) for stack in profile.stacks for index in stack.frames)
        and sum(counts) == profile.samples <= MAX_HOST_SAMPLES
    )
