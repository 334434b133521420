"""What a trace holds besides its events: its rank, its GPUs, the facts of the program, and where a file was cut off."""

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from pinprof.document import ByteSize, doc
from pinprof.trace.lines import MAX_RECORDED_MS, Contexts, DebugModeWaits, OpPlace, PauseCode, RecordedLines
from pinprof.trace.metadata.sampled_stacks import HostProfile

BATCHES_PREFETCHED_PER_WORKER = 2  # torch's default of `prefetch_factor`
PossibleMs: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_RECORDED_MS)]


@dataclass(frozen=True)
class Device:
    """One GPU."""

    index: int
    name: str | None
    major: int | None = None  # the first number of its compute capability


@dataclass(frozen=True)
class Thread:
    """One host thread, by the ids that the trace gives it."""

    pid: int | float | str | None
    tid: int | float | str | None
    name: str
    role: str  # `main`, `autograd`, `pin_memory` or `other`


@dataclass(frozen=True)
class PlainStep:
    """The step without a profiler, as pinprof measured it in the recorded run; milliseconds."""

    steps: int
    mean_ms: PossibleMs
    p10_ms: PossibleMs | None
    p90_ms: PossibleMs | None


class HostMemory(Struct, frozen=True):
    """Memory that torch had pinned after the last recorded step."""

    # These are counts of torch's allocator, which rounds each size up: memory that others pin (NCCL,
    # `cudaHostRegister`) is not in them. Available memory includes the page cache (`MemAvailable`).
    pinned_bytes: Annotated[ByteSize, doc("pinned, in use or kept for later")]
    used_bytes: Annotated[ByteSize | None, doc("the part in use; null where torch miscounts it")]
    peak_bytes: Annotated[ByteSize, doc("the most that was pinned so far")]
    total_bytes: Annotated[ByteSize, doc("the machine's memory")]
    available_bytes: Annotated[ByteSize, doc("what the machine could still give to programs")]
    limit_bytes: Annotated[ByteSize | None, doc("what the process may have; null without a limit")]

    def __post_init__(self) -> None:
        """Raise ValueError if more is pinned than the machine has in use: pinned memory is never available."""
        if self.pinned_bytes > self.total_bytes - self.available_bytes:
            raise ValueError("more memory is pinned than the machine misses")


@dataclass(frozen=True)
class UnreadGradients:
    """Gradients that nothing had read when the last recorded step had ended."""

    inputs: tuple[tuple[int, ...], ...] = ()  # the shapes of tensors that are not parameters, the largest first
    parameters: int = 0
    modules: tuple[str, ...] = ()  # the classes of the modules that hold these parameters
    elements: int = 0  # how many numbers all these gradients have


@dataclass(frozen=True)
class MadeLoader:
    """A DataLoader."""

    num_workers: int
    persistent_workers: bool
    drawn: int = 0
    """Batches that were drawn in the recorded steps."""
    prefetch_factor: int | None = None
    """Batches that each worker prepares in advance; None without workers, and in recordings of old versions."""
    yields_tensors: bool = False
    """Whether its batches have dense tensors in host memory, which can be pinned."""


@dataclass(frozen=True)
class Made:
    """The DataLoaders that had yielded a batch, and existed when the recorded steps had ended."""

    loaders: tuple[MadeLoader, ...] = ()
    cpus: int | None = None
    """How many CPUs the process could use."""
    hashes: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of the program's own files, when its steps were recorded."""

    @property
    def drawn(self) -> tuple[MadeLoader, ...]:
        """The DataLoaders from which the recorded steps drew."""
        return tuple(loader for loader in self.loaders if loader.drawn)


def batches_held(made: Made | None) -> int | None:
    """Return how many batches the queues hold from which the steps drew; None if that is unknown."""
    held = (
        [loader.num_workers * (loader.prefetch_factor or BATCHES_PREFETCHED_PER_WORKER) for loader in made.drawn]
        if made
        else []
    )
    return max(held, default=0) or None


@dataclass(frozen=True)
class Info:
    """The metadata of a trace; None where it is missing."""

    rank: int | None = None
    world_size: int | None = None
    base_ns: int | None = None
    """The origin of the trace's times, in ns since 1970; old versions of torch count from 1970 itself."""
    torch_version: str | None = None
    devices: tuple[Device, ...] = ()
    machine: tuple[str, ...] = ()
    """The GPUs that torch found, whether the recorded process uses them or not."""
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
