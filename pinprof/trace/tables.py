"""What was recorded: a trace as frozen tables of typed columns, with the links between their rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pinprof.ground.intervals import Intervals, covered, union
from pinprof.ground.units import counted, one_line
from pinprof.trace.metadata.info import Cut, Info, Thread
from pinprof.trace.metadata.run_log import RunLog

if TYPE_CHECKING:
    import pandas as pd

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Source = TypeVar("Source")
Result = TypeVar("Result")
NONE = -1  # the only sentinel: no such row, no such value
EVERY = slice(None)  # all rows of a table
KERNEL, MEMCPY, MEMSET = 0, 1, 2
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
EventKind: TypeAlias = Literal["wait", "call", "kernel", "copy", "memset", "op", "host", "unknown"]
"""Kinds of events: `wait`, a call that can make the host wait, or the record of a wait; `call`, any other call; `host`,
an annotation, a function or an overhead; `unknown` if the file does not show it."""
StepSource: TypeAlias = Literal["profiler_step", "annotation", "model_call", "repetition", "whole_trace"]
"""What shows the steps of a trace: the profiler's marks, an annotation, calls of a language model, repeated launches,
or nothing."""
WHOLE_TRACE: Final = "whole_trace"
"""The source of steps of a trace in which none was found: the whole trace is the only step."""
DIRECTIONS = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "other")
HOST_MEMORIES = ("pageable", "pinned", "unknown", "none")
"""Kinds of memory on the host side of a copy; `none` for a copy without a host side."""
HTOD, DTOH, DTOD = (DIRECTIONS.index(direction) for direction in ("HtoD", "DtoH", "DtoD"))
PAGEABLE, PINNED, UNKNOWN = (HOST_MEMORIES.index(memory) for memory in ("pageable", "pinned", "unknown"))


_NO_NUMBERS: Int64s = np.zeros(0, np.int64)
_NO_CODES: Int32s = np.zeros(0, np.int32)


def computed_once(measure: Callable[[Source], Result]) -> Callable[[Source], Result]:
    """Return a pure function of a trace, or of a table, that keeps its result with it; nobody may write to that."""
    key = f"{measure.__module__}.{measure.__qualname__}"

    @wraps(measure)
    def kept(source: Source) -> Result:
        values = vars(source)
        if key not in values:
            values[key] = measure(source)
        result: Result = values[key]
        return result

    return kept


def rows_by(codes: Int32s | Int64s) -> list[Int64s]:
    """Return the rows of each different code, the codes in ascending order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []


@dataclass(frozen=True, repr=False)
class Table:
    """Columns of equal length, one row per event, by start in int64 ns; texts are indices into `names`, -1 for none."""

    names: tuple[str, ...] = field(repr=False)
    start_ns: Int64s
    end_ns: Int64s
    name: Int32s

    def __post_init__(self) -> None:
        for column in fields(self)[1:]:
            getattr(self, column.name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.start_ns)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in fields(self)[1:])
        return f"<pinprof {type(self).__name__}, {counted(len(self), 'row')}: {columns}; to_pandas() has them>"

    if not TYPE_CHECKING:  # otherwise mypy would not report misspelled names

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a table of a trace has no {name}; to_pandas() makes it a DataFrame, and pinprof.load(path).events is "
                "one with the step, the op and the line of each event"
            )

    @property
    def duration_ns(self) -> Int64s:
        """Length of each event in ns."""
        return self.end_ns - self.start_ns

    def times(self, rows: Int64s | Bools | slice = EVERY) -> Intervals:
        """Return the times that these events cover; they may overlap."""
        return union(self.start_ns[rows], self.end_ns[rows])

    def name_of(self, row: int) -> str:
        """Return the text of a row's name."""
        return self.names[self.name[row]]

    def named(self, wanted: Callable[[str], object]) -> Bools:
        """Return for each row whether its name is wanted; `wanted` is called once for each different name."""
        is_wanted = np.zeros(len(self.names), bool)
        is_wanted[self._used] = [bool(wanted(self.names[code])) for code in self._used.tolist()]
        return is_wanted[self.name]

    @cached_property
    def _used(self) -> Int64s:
        """The codes of its names: most names are those of other tables."""
        used = np.flatnonzero(np.bincount(self.name))
        used.setflags(write=False)
        return used

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table as a DataFrame: one column per field, coded texts as categoricals."""
        import pandas as pd  # noqa: PLC0415  heavy, and only people in a notebook ask for it

        columns: dict[str, object] = {}
        for column in fields(self)[1:]:
            values = getattr(self, column.name)
            named = column.name == "name" or "named" in column.metadata
            texts = self.names if named else column.metadata.get("texts")
            columns[column.name] = values if texts is None else pd.Categorical.from_codes(values, pd.Index(texts))
        return pd.DataFrame(columns)


@dataclass(frozen=True, repr=False)
class HostEvents(Table):
    """Ranges on a host thread: `cpu_op`, `user_annotation`, `python_function` or `overhead`."""

    thread: Int32s  # index into `Trace.threads`


@dataclass(frozen=True, repr=False)
class Calls(HostEvents):
    """Calls of the CUDA or HIP runtime and driver (`cuda_runtime`, `cuda_driver`)."""

    correlation: Int64s


@dataclass(frozen=True, repr=False)
class Activities(Table):
    """Work of the GPU: `kernel`, `gpu_memcpy`, `gpu_memset`."""

    category: Int8s = field(metadata={"texts": GPU_CATEGORIES})
    device: Int32s
    stream: Int64s
    correlation: Int64s
    bytes: Int64s
    """Bytes copied or set; -1 where not recorded."""
    direction: Int8s = field(metadata={"texts": DIRECTIONS})
    """Index into DIRECTIONS of a copy; -1 for kernels and memsets."""
    host_memory: Int8s = field(metadata={"texts": HOST_MEMORIES})
    """Index into HOST_MEMORIES of a copy; -1 for kernels and memsets."""
    collective: Int32s = field(metadata={"named": True})
    """What torch.distributed calls the collective of a kernel (`allreduce`); -1 for other work."""
    group: Int32s = field(metadata={"named": True})
    """The ranks of the process group of a collective's kernel (`[0, 1]`); -1 where not recorded."""
    message: Int32s = field(metadata={"named": True})
    """Type, elements in and out, and ranks of a collective's kernel (`Float 64 64 2`); -1 for other work."""

    @cached_property
    def of_device(self) -> dict[int, Int64s]:
        """The rows of each device, by its number."""
        return {int(self.device[rows[0]]): rows for rows in rows_by(self.device)}

    def on(self, device: int, chosen: Bools) -> Int64s:
        """Return the rows of a device among the chosen activities; none of a device without work."""
        rows = self.of_device.get(device, np.empty(0, np.int64))
        return rows[chosen[rows]]

    @cached_property
    def is_transfer(self) -> Bools:
        """Whether each is a copy from or to another memory; a copy within the GPU's own is its work, as kernels are."""
        result: Bools = (self.category == MEMCPY) & (self.direction != DTOD)
        return result

    @cached_property
    def is_compute(self) -> Bools:
        """Whether each is a kernel, or a copy within the GPU's own memory."""
        result: Bools = (self.category != MEMSET) & ~self.is_transfer
        return result

    def overlap_with_ns(self, rows: Int64s, others: Bools) -> Int64s:
        """Return how long each of these rows runs while one of the others runs on its device."""
        overlap = np.zeros(len(rows), np.int64)
        for chosen in rows_by(self.device[rows]):
            of_device = self.of_device[int(self.device[rows[chosen[0]]])]
            times = self.times(of_device[others[of_device]])
            overlap[chosen] = covered(times, self.start_ns[rows[chosen]], self.end_ns[rows[chosen]])
        return overlap

    @cached_property
    def of_stream(self) -> list[Int64s]:
        """The rows of each stream, by device and number."""
        return [rows[within] for rows in self.of_device.values() for within in rows_by(self.stream[rows])]


@dataclass(frozen=True, repr=False)
class SyncEvents(Table):
    """CUPTI's synchronization records (`cuda_sync`); not GPU work."""

    device: Int32s
    stream: Int64s  # stream that was synchronized; -1 for a context or an event
    correlation: Int64s


MIN_EVENTS_OF_TWO_CORES, MAX_EVENTS_OF_TWO_CORES = 300_000, 2_000_000
HOST_DEVICE = NONE  # the device of what torch allocates in the memory of the host


class MemoryUse(NamedTuple):
    """What torch's allocators held after each allocation and release, in the order of time (`profile_memory=True`)."""

    at_ns: Int64s = _NO_NUMBERS
    device: Int32s = _NO_CODES  # the GPU, or HOST_DEVICE; of the host only what was allocated since the recording began
    allocated: Int64s = _NO_NUMBERS  # bytes in tensors on this device
    reserved: Int64s = _NO_NUMBERS  # bytes taken from the device; -1 where not recorded
    thread: Int32s = _NO_CODES  # index into `Trace.threads`; -1 for a thread without other events

    @property
    def of_gpu(self) -> dict[int, Int64s]:
        """The rows of each GPU, by its number."""
        return {int(device): np.flatnonzero(self.device == device) for device in np.unique(self.device) if device >= 0}


@dataclass(frozen=True)
class Steps:
    """The training steps of a trace, in order."""

    source: StepSource
    marker: str
    """What marks a step: an annotation's name, or a phrase."""
    start_ns: Int64s
    end_ns: Int64s
    complete: Bools
    """Whether a step is measured: not if it is cut off at an edge of the trace, or `unlike` the others."""
    on_host: bool
    """Whether the times are those of host code; in a trace without host events they are those of GPU activities."""
    unlike: Bools | None = None
    """Steps that were recorded whole but are not measured, since they are unlike the others; None without any."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def whole(self) -> Bools:
        """Return whether each step is recorded whole, measured or not."""
        return self.complete if self.unlike is None else self.complete | self.unlike

    @property
    def followed(self) -> Int64s:
        """Return the complete steps that are followed by another step: their length is known."""
        complete = np.flatnonzero(self.complete)
        return complete[complete + 1 < len(self)]

    def holds(self, step: Int32s) -> Bools:
        """Return whether each index of a step, -1 for none, is that of a complete step."""
        return (step != NONE) & self.complete[step] if len(self) else np.zeros(len(step), bool)


@dataclass(frozen=True)
class Links:
    """Row indices from one table into another, -1 for none; and what follows from the launches of GPU work."""

    launch: Int32s  # per activity: the call that launched it
    op: Int32s  # per call: the innermost `cpu_op` around it
    op_parent: Int32s  # per op: the innermost op around it
    function: Int32s  # per call: the innermost `python_function` around it
    function_parent: Int32s  # per Python function: the innermost one around it
    op_function: Int32s  # per op: the innermost `python_function` around it
    call_step: Int32s  # per call: the step in which it began
    activity_step: Int32s  # per activity: the step in which it was launched
    in_flight: Bools  # per activity: whether it was queued before the recording began
    launched_ns: Int64s  # per activity: when its launch began; the latest possible time if that is unknown


@dataclass(frozen=True)
class ModelCalls:
    """The calls of a language model that answers requests, one per token, of the thread that makes most, in order."""

    start_ns: Int64s
    end_ns: Int64s  # the end of the events that show the call; the call itself may end later
    decodes: Bools  # whether a call makes one further token per request; otherwise it takes in prompts
    requests: Int64s  # -1 where unknown
    tokens: Int64s  # tokens that all requests put in; -1 where unknown
    thread: int = NONE  # index into `Trace.threads` of the thread that makes them

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Trace:
    """A recorded trace: tables, their links, and what was left out."""

    path: str
    info: Info
    threads: tuple[Thread, ...]
    ops: HostEvents
    annotations: HostEvents
    functions: HostEvents
    calls: Calls
    gpu: Activities
    syncs: SyncEvents
    overheads: HostEvents
    model_calls: ModelCalls
    steps: Steps
    links: Links
    counts: dict[str, int]
    """Duration events in the file by category: known categories by their present name, others as recorded."""
    skipped: dict[str, int]
    """Duration events that could not be used, by reason."""
    skipped_kinds: Mapping[EventKind, int] = field(default_factory=dict)
    """The same by kind of event."""
    repaired: int = 0
    """Events that were not JSON and were repaired, because their meaning was clear."""
    trailing: int = 0
    """Bytes after the end of the JSON text of the file."""
    cut: Cut | None = None
    """Where the file ended too early, if it did; the trace holds the events before that."""
    absurd_sizes: int = 0
    """How many recorded sizes are impossible; they count as not recorded."""
    run: RunLog | None = None
    """The log of the whole run; None if pinprof did not record the trace."""
    memory: MemoryUse = field(default_factory=MemoryUse)
    input_sizes: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By row of `ops`, for long ops with recorded shapes: the bytes of each input tensor."""
    numbered_ops: int = 0
    """The least number of ops that ran, by the numbers of the first and the last op; 0 if torch gave no numbers."""

    def __repr__(self) -> str:
        """Say how much was recorded, and of which GPUs."""
        complete = counted(int(self.steps.complete.sum()), "complete step")
        steps = f"{complete} of {len(self.steps)} ({self.steps.source})"
        gpus = (device.name or f"GPU {device.index}" for device in self.info.devices)
        return one_line(f"trace {self.path!r}", (steps, counted(sum(self.counts.values()), "event"), *gpus))

    if not TYPE_CHECKING:  # otherwise mypy would not report misspelled names

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a trace has no {name}; pinprof.load(path).events has .kernels, .copies, .calls and .ops as DataFrames"
            )

    @property
    def is_worth_two_cores(self) -> bool:
        """Whether two cores shall work on it: not if it is short, or so long that memory may become scarce."""
        return MIN_EVENTS_OF_TWO_CORES <= sum(self.counts.values()) <= MAX_EVENTS_OF_TWO_CORES

    def has_role(self, *roles: str) -> Bools:
        """Return for each thread whether it has one of these roles."""
        return np.array([thread.role in roles for thread in self.threads], dtype=bool)

    @property
    def shows_host(self) -> bool:
        """Whether anything but calls of the runtime shows what the host does: not with `activities=[CUDA]` alone."""
        return any(map(len, (self.ops, self.annotations, self.functions)))

    @cached_property
    def launches_work(self) -> Bools:
        """Per call: whether it launched work that is in the trace."""
        result = np.zeros(len(self.calls), bool)
        result[self.links.launch[self.links.launch != NONE]] = True
        result.setflags(write=False)
        return result

    @cached_property
    def launching_threads(self) -> Int32s:
        """The numbers of the threads that launch work, except for those that pin memory."""
        threads = np.unique(self.calls.thread[self.launches_work])
        return threads[~self.has_role("pin_memory")[threads]]
