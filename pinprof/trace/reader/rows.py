"""The duration events of a file as columns, in the order of the file: made by reading, used by `assemble`."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec.structs import astuple

from pinprof.trace.reader.blocks import as_list
from pinprof.trace.reader.decimals import InexactError, exact_nanoseconds, nanoseconds
from pinprof.trace.reader.events import (
    NO_ARGS,
    NOT_EVENTS,
    Args,
    Event,
    Metadata,
    Number,
    decode_arguments,
    decode_events,
    decode_exact_events,
    decode_timed_events,
)
from pinprof.trace.reader.salvage import check_malformed, salvage
from pinprof.trace.spans.idle_times import LONG_OP_NS
from pinprof.trace.spans.model_calls import EMBEDDING_OP
from pinprof.trace.tables import GPU_CATEGORIES, NONE, Bools, Int8s, Int32s, Int64s
from pinprof.trace.threads import ThreadKey
from pinprof.trace.vendors import FOREIGN_CALL, OWN_CALLS

HOST_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "overhead")
FOREIGN_RUNTIME = "foreign_runtime"
"""The category here of the calls of other vendors' runtimes, whatever they are called in a file."""
CALL_CATEGORIES = (*OWN_CALLS, FOREIGN_RUNTIME)
KNOWN_CATEGORIES = (*HOST_CATEGORIES, *CALL_CATEGORIES, *GPU_CATEGORIES, "cuda_sync")
FIRST_WITH_IDS = len(HOST_CATEGORIES)
"""Arguments are read only of events of this category and later ones in KNOWN_CATEGORIES."""
CATEGORY_ALIASES = {
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "hip_runtime": "cuda_runtime",
    "operator": "cpu_op",
}
"""Categories that old versions of torch named differently."""
ID_ARGUMENTS = ("device", "from_device", "stream", "own_stream", "correlation", "bytes")
"""The arguments that are read as integers, as `Args` names them."""
MEMORY_IDS = ("device_type", "device_id", "allocated", "reserved")
"""The arguments of an event of memory, as `Args` names them."""
MEMORY_NUMBERS = attrgetter(*MEMORY_IDS)
TEXT_ARGUMENTS = ("collective", "group", "message", "copy")
"""The arguments that are read as texts, as `Args` names them."""
Key = TypeVar("Key", bound=Hashable)
ReadTimes: TypeAlias = tuple[Int64s, Bools]  # times in ns, and which of them are numbers
MEMORY_EVENT = "[memory]"  # the name of the instant events that Kineto writes with `profile_memory=True`
NEEDED_FOR_TEXT = {"message": "collective", "copy": "copy_kind"}
"""By text that `Args` composes of several arguments: the argument without which the text is empty."""
_INT64_MAX = np.iinfo(np.int64).max
_CATEGORY = {category: index for index, category in enumerate(KNOWN_CATEGORIES)}


@dataclass(frozen=True)
class Rows:
    """Duration events of the wanted categories, in the order of the file."""

    category: Int8s
    """Index into KNOWN_CATEGORIES, or another code from `ReadOptions.category`."""
    name: Int32s
    """Index into the values of `Shared.names`."""
    thread: Int32s
    """Index into the values of `Shared.threads`."""
    start_ns: Int64s
    duration_ns: Int64s
    timed: Bools
    """Whether start and duration are numbers."""
    entry: Int32s
    """Which entry of the list of events it is, counted within the part."""
    ids: Int32s | Int64s
    """Lines: ids, then texts as indices into `Shared.names`; columns: rows with arguments; -1: none."""

    def __len__(self) -> int:
        return len(self.category)

    def columns(self) -> tuple[Any, ...]:
        """Return the columns that have a value for every row."""
        return self.category, self.name, self.thread, self.start_ns, self.duration_ns, self.timed, self.entry


class MemoryRows(NamedTuple):
    """The memory of torch's allocators after each allocation and release, in the order of the file."""

    thread: Int32s  # index into the values of `Shared.threads`
    at_ns: Int64s
    timed: Bools  # whether the time is a number
    numbers: Int64s  # a matrix with a line per name of `MEMORY_IDS`; -1 where not recorded


def category_name(text: str) -> str:
    """Return the name of a category in KNOWN_CATEGORIES, whatever its age and case; others as they are written."""
    category = text.lower()
    name = CATEGORY_ALIASES.get(category, category)
    return name if name in _CATEGORY or FOREIGN_CALL.fullmatch(name) else text


def known_category(text: str) -> int:
    """Return the index of a category in KNOWN_CATEGORIES, whatever its age, case and vendor, -1 if it is none."""
    name = category_name(text)
    return _CATEGORY.get(FOREIGN_RUNTIME if FOREIGN_CALL.fullmatch(name) else name, NONE)


class ReadOptions(NamedTuple):
    """What to read of a file."""

    category: Callable[[str], int] = known_category
    """Returns the code of a category, -1 for one whose events are not wanted."""
    first_with_ids: int = FIRST_WITH_IDS
    """Arguments are read only of events of categories with this code or a higher one."""
    ids: tuple[str, ...] = ID_ARGUMENTS
    texts: tuple[str, ...] = TEXT_ARGUMENTS
    """Arguments to read as texts, by their names in `Args`."""


class Codes(dict[Key, int], Generic[Key]):
    """Numbers for values, in the order in which they are first looked up."""

    def __missing__(self, value: Key) -> int:
        self[value] = number = len(self)
        return number


class Shared:
    """The common data of all parts of a file: what to read, and the numbers of texts and threads."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.arguments = attrgetter(*options.ids, *(NEEDED_FOR_TEXT.get(name, name) for name in options.texts))
        """Returns the wanted arguments of an event, as `Args` has them."""
        self.category = cache(lambda text: options.category(text or ""))
        """Returns the code of a category as it stands in the file."""
        self.names: Codes[str] = Codes()
        self.threads: Codes[ThreadKey] = Codes()
        self.exact_times = True  # whether a double has held all digits of all times so far
        self.malformed = 0  # broken events of the blocks so far


@dataclass(frozen=True)
class FilePart:
    """The content of a part of a file."""

    rows: Rows
    counts: Counter[str]
    """Duration events by category, as `category_name` calls it."""
    labels: dict[ThreadKey, str]
    """Names that the file gives threads."""
    malformed: int
    """Entries that are not events."""
    entries: int
    """All entries of the list of events."""
    memory: MemoryRows | None = None
    """The memory of torch's allocators; None without such events."""
    repaired: int = 0
    """Events that were not JSON and have been repaired."""
    lookups: Mapping[int, bytes] = field(default_factory=dict)
    """The `Input Dims` of `EMBEDDING_OP` ops as JSON, by their row."""
    input_sizes: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """The bytes of each tensor among the inputs of long ops, by their row, where recorded."""
    op_numbers: tuple[int, ...] = ()
    """The numbers of its first and last ops, where recorded: torch numbers the host's events as it writes them."""


class FileContent(NamedTuple):
    """The content of a trace file."""

    metadata: Metadata
    parts: list[FilePart]  # in the order of the file
    shared: Shared
    cut: str | None  # why the end of the file is missing, None if it is there
    around: bytes  # the JSON text of the file, mostly without its events; empty if it is not JSON
    trailing: int = 0  # bytes after the end of the JSON text
    start: bytes = b""  # the beginning of the text


def part_of_block(block: bytes, shared: Shared) -> FilePart:
    """Return the content of a block; if it is not JSON, the events that can be recovered."""
    data = as_list(block)
    with suppress(*NOT_EVENTS):
        if shared.exact_times:
            try:
                return _part(decode_timed_events(data), shared, _exact_times, decode_arguments)
            except InexactError:
                shared.exact_times = False  # such as times since 1970; other blocks will have them, too
        return _part(decode_exact_events(data), shared, nanoseconds, decode_arguments)
    try:
        return part_of_events(*decode_events(data), shared)
    except NOT_EVENTS:
        salvaged = salvage(block, is_last=False)
        shared.malformed += salvaged.malformed
        check_malformed(shared.malformed)
        return part_of_events(salvaged.events, salvaged.malformed, shared, repaired=salvaged.repaired)


def part_of_events(events: Sequence[Event], malformed: int, shared: Shared, *, repaired: int = 0) -> FilePart:
    """Return the part of a file that consists of these events."""
    part = _part(events, shared, nanoseconds, lambda chosen: [event.args or NO_ARGS for event in chosen])
    return replace(part, malformed=malformed, entries=len(events) + malformed, repaired=repaired)


def _exact_times(microseconds: Sequence[float]) -> ReadTimes:
    return exact_nanoseconds(microseconds), np.ones(len(microseconds), bool)


def _part(events: Sequence[Event], shared: Shared, times: Callable[[Any], ReadTimes], arguments: Any) -> FilePart:
    phases = [event.ph for event in events]
    is_duration = [phase == "X" for phase in phases]
    durations = list(compress(events, is_duration))
    columns = _columns(durations)
    counts: Counter[str] = Counter()
    for text, count in Counter(columns[1]).items():
        counts[category_name(text or "")] += count
    category = np.fromiter(map(shared.category, columns[1]), np.int8, len(durations))
    is_wanted = category != NONE
    chosen = durations
    if not is_wanted.all():
        chosen = list(compress(durations, is_wanted.tolist()))
        columns = _columns(chosen)
    _, _, names, processes, threads, starts, lengths, _ = columns
    (start, has_start), (duration, has_duration) = times(starts), times(lengths)
    category = category[is_wanted]
    with_ids = compress(chosen, (category >= shared.options.first_with_ids).tolist())
    keys = zip(processes, threads, strict=True)
    rows = Rows(
        category=category,
        name=np.fromiter(map(shared.names.__getitem__, names), np.int32, len(chosen)),
        thread=np.fromiter(map(shared.threads.__getitem__, keys), np.int32, len(chosen)),
        start_ns=start,
        duration_ns=duration,
        timed=has_start & has_duration,
        entry=np.flatnonzero(is_duration)[is_wanted].astype(np.int32),
        ids=_ids(arguments(with_ids), shared),
    )
    phases_here = set(phases)
    named = _of_phase("M", "thread_name", events, phases) if "M" in phases_here else []
    labels = {
        (event.pid, event.tid): str(args.name).strip()
        for event, args in zip(named, arguments(named), strict=True)
        if args.name
    }
    instants = _of_phase("i", MEMORY_EVENT, events, phases) if "i" in phases_here else []
    memory = _memory(instants, shared, times, arguments)

    def args_of(places: Int64s) -> Iterator[tuple[int, Args]]:
        return zip(places.tolist(), arguments([chosen[place] for place in places.tolist()]), strict=True)

    looked_up = np.flatnonzero(rows.name == shared.names.get(EMBEDDING_OP, NONE))
    lookups = {place: bytes(args.input_dims) for place, args in args_of(looked_up)}
    ops = np.flatnonzero(category == _CATEGORY["cpu_op"])
    long = ops[duration[ops] >= LONG_OP_NS]
    input_sizes = {place: sizes for place, args in args_of(long) if (sizes := args.input_sizes) is not None}
    at_edges = args_of(np.concatenate((ops[:1], ops[-1:])))
    numbers = tuple(number for _, args in at_edges if (number := as_integer(args.number)) != NONE)
    return FilePart(
        rows, counts, labels, 0, len(events), memory, lookups=lookups, input_sizes=input_sizes, op_numbers=numbers
    )


def _columns(events: Sequence[Event]) -> Sequence[Sequence[Any]]:
    """Return the values of each field of events, in its order; that is much faster than to ask for each field."""
    return list(zip(*map(astuple, events), strict=True)) or [()] * len(Event.__struct_fields__)


def _of_phase(phase: str, name: str, events: Sequence[Event], phases: Sequence[str]) -> list[Event]:
    return [event for event in compress(events, map(phase.__eq__, phases)) if event.name == name]


def _memory(
    events: Sequence[Event], shared: Shared, times: Callable[[Any], ReadTimes], arguments: Any
) -> MemoryRows | None:
    if not events:
        return None
    _, _, _, processes, threads, starts, _, _ = _columns(events)
    at_ns, timed = times(starts)
    keys = zip(processes, threads, strict=True)
    thread = np.fromiter(map(shared.threads.__getitem__, keys), np.int32, len(events))
    recorded = arguments(events)
    numbers = np.array([_integers(values) for values in zip(*map(MEMORY_NUMBERS, recorded), strict=True)])
    return MemoryRows(thread, at_ns, timed, numbers)


def _ids(arguments: Sequence[Args], shared: Shared) -> Int32s | Int64s:
    options = shared.options
    ids = np.full((len(options.ids) + len(options.texts), len(arguments)), NONE)
    columns = list(zip(*map(shared.arguments, arguments), strict=True))
    for line, values in zip(ids, columns[: len(options.ids)], strict=False):
        line[:] = _integers(values)
    for line, name, values in zip(ids[len(options.ids) :], options.texts, columns[len(options.ids) :], strict=False):
        for place in [place for place, value in enumerate(values) if value != ""]:  # few have any
            text = _text(getattr(arguments[place], name))
            line[place] = shared.names[text] if text else NONE
    narrow = ids.astype(np.int32)  # of large traces these are most of what reading holds
    return narrow if (narrow == ids).all() else ids


def _integers(values: Sequence[Number]) -> Int64s:
    column = np.array(values)
    if column.dtype == np.int64 and column.min() >= -_INT64_MAX:
        return column
    return np.array([as_integer(value) for value in values], np.int64)


def _text(value: Number | msgspec.Raw) -> str:
    return (bytes(value).decode(errors="replace") if isinstance(value, msgspec.Raw) else str(value)).strip()


def joined(parts: Iterable[Rows]) -> Rows:
    """Return the rows of several parts, one after the other."""
    listed = list(parts)
    columns: list[Any] = [np.concatenate(columns) for columns in zip(*(part.columns() for part in listed), strict=True)]
    return Rows(*[*columns, np.concatenate([part.ids for part in listed], axis=1)])


def by_appearance(columns: Sequence[Int32s], count: int) -> Int64s:
    """Return the codes, of `count`, that the columns hold, in the order in which they first appear."""
    first = np.full(count, sum(map(len, columns)))
    end = len(first) and int(first[0])
    for codes in reversed(columns):
        begin = end - len(codes)
        first[codes[::-1]] = np.arange(end - 1, begin - 1, -1)  # of equal codes the last assignment holds
        end = begin
    order = np.argsort(first, kind="stable")
    return order[: np.count_nonzero(first < sum(map(len, columns)))]


def as_integer(value: Number) -> int:
    """Return an id or a size, which the trace may have written as text; -1 for any other value."""
    if type(value) is int and abs(value) < 1 << 63:
        return value
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[arg-type]  # None is caught
    except (TypeError, ValueError, OverflowError):
        return NONE
    return number if abs(number) <= _INT64_MAX else NONE
