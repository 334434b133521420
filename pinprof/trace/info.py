"""What a trace says about itself: its rank, its GPUs, and what pinprof noted of the recorded program."""

from dataclasses import dataclass

from pinprof.trace.constructors import Made
from pinprof.trace.lines import Contexts, DebugModeWaits, RecordedLines
from pinprof.trace.sampled_stacks import HostProfile


@dataclass(frozen=True)
class Device:
    """One GPU."""

    index: int
    name: str | None
    major: int | None = None
    """The first number of its compute capability."""


@dataclass(frozen=True)
class PlainStep:
    """The step without a profiler, as pinprof measured it in the recorded run; milliseconds."""

    steps: int
    mean_ms: float
    p10_ms: float | None
    p90_ms: float | None


@dataclass(frozen=True)
class HostMemory:
    """The memory that a program has pinned, as pinprof recorded it after the last step; bytes.

    torch's allocator has pinned it: nobody counts what others pin by themselves (NCCL, `cudaHostRegister`). Raises
    ValueError if more is pinned than the machine misses: pinned memory is never available, so the count is wrong.
    """

    pinned_bytes: int
    """In use or kept for later; each size is rounded up as the allocator does."""
    used_bytes: int | None
    """The part in use, by tensors and by copies that have not ended; None where torch miscounts it."""
    peak_bytes: int
    """The most that was pinned so far."""
    total_bytes: int
    """The machine's memory."""
    available_bytes: int
    """What the machine could still give to programs, its page cache included (`MemAvailable`)."""
    limit_bytes: int | None
    """What the process may have by its cgroups; None without a limit below the machine's memory."""

    def __post_init__(self) -> None:
        """Refuse a count that cannot be true."""
        if self.pinned_bytes > self.total_bytes - self.available_bytes:
            raise ValueError("more memory is pinned than the machine misses")

    @property
    def unpinned_bytes(self) -> int:
        """What the program could have if it had pinned nothing."""
        room = self.available_bytes + self.pinned_bytes
        return room if self.limit_bytes is None else min(room, self.limit_bytes)


@dataclass(frozen=True)
class Info:
    """What the trace says about itself; None where it does not."""

    rank: int | None = None
    world_size: int | None = None
    base_ns: int | None = None
    """The origin of the trace's times, in ns since 1970; old versions of torch count from 1970 itself."""
    torch_version: str | None = None
    devices: tuple[Device, ...] = ()
    step_marker: str | None = None
    """What ended a step in the recorded run, in words."""
    plain_step: PlainStep | None = None
    steps_before: int | None = None
    """How many steps the program had made before those recorded."""
    lines: tuple[RecordedLines, ...] = ()
    contexts: Contexts | None = None
    watched: DebugModeWaits | None = None
    loaders_pin: bool | None = None
    """Whether the DataLoaders at work had `pin_memory=True`; None also without any, or if only some had."""
    made: Made | None = None
    """The DataLoaders and optimizers of the program; None where pinprof did not record it."""
    host_memory: HostMemory | None = None
    spawned: bool | None = None
    """Whether multiprocessing started the recorded process: tensors that it was sent are in shared memory, unpinned."""
    by_pinprof: bool = False
    """Whether pinprof recorded it: remedies then name the option to change, not pinprof itself."""
    host: HostProfile | None = None
    """Samples of the host's Python stack, taken without the profiler."""
    worker: HostProfile | None = None
    """Samples of a DataLoader's worker, of the times in which it makes batches: these are its steps."""
    with_memory: bool = False
    """Whether allocations were recorded."""
