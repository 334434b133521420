"""What a trace holds besides its events: its rank, its GPUs, the facts of the program, and where a file was cut off."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from pinprof.trace.lines import MOST_MS, Contexts, DebugModeWaits, OpPlace, PauseCode, RecordedLines
from pinprof.trace.loaders import Made
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
    mean_ms: Annotated[float, Meta(ge=0, le=MOST_MS)]
    p10_ms: Annotated[float, Meta(ge=0, le=MOST_MS)] | None
    p90_ms: Annotated[float, Meta(ge=0, le=MOST_MS)] | None


@dataclass(frozen=True)
class HostMemory:
    """The memory that a program has pinned, as pinprof recorded it after the last step; bytes.

    These are counts of torch's allocator: memory that others pin (NCCL, `cudaHostRegister`) is not in them. Raises
    ValueError if more is pinned than the machine has in use: pinned memory is never available, so the count is wrong.
    """

    pinned_bytes: int
    """Pinned memory in use or kept for later; each size is rounded up as the allocator does."""
    used_bytes: int | None
    """The part in use, by tensors and by copies that have not ended; None where torch miscounts it."""
    peak_bytes: int
    """The most that was pinned so far."""
    total_bytes: int
    """The machine's memory."""
    available_bytes: int
    """The memory that the machine could still give to programs, its page cache included (`MemAvailable`)."""
    limit_bytes: int | None
    """The limit of the process's cgroups; None without a limit below the machine's memory."""

    def __post_init__(self) -> None:
        """Refuse an impossible count."""
        if self.pinned_bytes > self.total_bytes - self.available_bytes:
            raise ValueError("more memory is pinned than the machine misses")

    @property
    def unpinned_bytes(self) -> int:
        """The memory that the program could have if it had pinned none."""
        room = self.available_bytes + self.pinned_bytes
        return room if self.limit_bytes is None else min(room, self.limit_bytes)


@dataclass(frozen=True)
class UnreadGradients:
    """Gradients that nothing had read when the last recorded step had ended."""

    inputs: tuple[tuple[int, ...], ...] = ()
    """The shapes of tensors that are not parameters, the largest first."""
    parameters: int = 0
    modules: tuple[str, ...] = ()
    """The classes of the modules that hold these parameters."""
    elements: int = 0
    """How many numbers all these gradients have."""


@dataclass(frozen=True)
class Info:
    """The metadata of a trace; None where it is missing."""

    rank: int | None = None
    world_size: int | None = None
    base_ns: int | None = None
    """The origin of the trace's times, in ns since 1970; old versions of torch count from 1970 itself."""
    torch_version: str | None = None
    devices: tuple[Device, ...] = ()
    step_marker: str | None = None
    """What marked the end of a step in the recorded run, in words."""
    plain_step: PlainStep | None = None
    steps_before: int | None = None
    """How many steps the program had made before the recorded ones."""
    lines: tuple[RecordedLines, ...] = ()
    contexts: Contexts | None = None
    backward: tuple[PauseCode, ...] = ()
    """The Python code that backward passes called, such as hooks, in steps that were recorded with Python functions."""
    op_places: tuple[OpPlace, ...] = ()
    """Where the ops of some names are called, as such steps showed it."""
    watched: DebugModeWaits | None = None
    loaders_pin: bool | None = None
    """Whether the active DataLoaders had `pin_memory=True`; None also without any, or if only some had."""
    tries_convolutions: bool | None = None
    """Whether torch.backends.cudnn.benchmark was on; None also where the program asks for determinism."""
    made: Made | None = None
    """The DataLoaders of the program; None where pinprof did not record it."""
    host_memory: HostMemory | None = None
    unread: UnreadGradients | None = None
    profiled: bool = False
    """Whether a profiler of the program was on in the timed steps."""
    spawned: bool | None = None
    """Whether multiprocessing started the recorded process: tensors sent to it are in shared memory, unpinned."""
    by_pinprof: bool = False
    """Whether pinprof recorded it: remedies then name the option to change, not pinprof itself."""
    host: HostProfile | None = None
    """Samples of the host's Python stack, taken without the profiler."""
    worker: HostProfile | None = None
    """Samples of a DataLoader's worker while it makes batches, which are its steps."""
    with_memory: bool = False
    """Whether allocations were recorded."""


@dataclass(frozen=True)
class Cut:
    """Where a file ended too early."""

    why: str
    """What is missing, in words."""
    last_ns: int | None
    """When the last event of the file began, if it is GPU work or a call: no later one is in the trace."""
