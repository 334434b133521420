"""The duration events of a file as columns, in the order of the file, as reading makes and assembly takes them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.trace.scan.decimals import nanoseconds
from pinprof.trace.scan.events import Event, Number
from pinprof.trace.scan.texts import Codes
from pinprof.trace.tables import CATEGORIES, NONE, Bools, Int8s, Int32s, Int64s
from pinprof.trace.threads import ThreadKey

HOST_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "overhead")
CALL_CATEGORIES = ("cuda_runtime", "cuda_driver")
KNOWN_CATEGORIES = (*HOST_CATEGORIES, *CALL_CATEGORIES, *CATEGORIES, "cuda_sync")
FIRST_WITH_IDS = len(HOST_CATEGORIES)
"""No argument is read of events of the categories before this one."""

ALIASES = {
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "operator": "cpu_op",
}
"""Categories that old versions of torch named differently."""

IDS = ("device", "from_device", "stream", "own_stream", "correlation", "bytes")
"""The arguments that are read as integers, as `Args` names them."""
TEXTS = ("collective", "group", "copy")
"""The arguments that are read as texts, as `Args` names them."""

_CATEGORY = {category: index for index, category in enumerate(KNOWN_CATEGORIES)}


@dataclass(frozen=True)
class Rows:
    """Duration events of the wanted categories, in the order of the file."""

    category: Int8s
    """Index into KNOWN_CATEGORIES, or another code from `Wanted.category`."""
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
    ids: Int64s
    """One line for each of `Wanted.ids` and one for each text, which are indices into the values of `Shared.names`; one
    column for each row whose category has them; -1 where not recorded."""

    def __len__(self) -> int:
        return len(self.category)

    def ordered(self, first_with_ids: int) -> "Rows":
        """Return the rows in the order of their entries."""
        order = np.argsort(self.entry, kind="stable")
        with_ids = self.category >= first_with_ids
        column = np.cumsum(with_ids) - 1
        ids = self.ids[:, column[order[with_ids[order]]]]
        return Rows(*[*(values[order] for values in self.columns()), ids])

    def columns(self) -> tuple[Any, ...]:
        """Return the columns that have a value for every row."""
        return self.category, self.name, self.thread, self.start_ns, self.duration_ns, self.timed, self.entry


def category_name(text: str) -> str:
    """Return what a category is called in KNOWN_CATEGORIES, whatever its age and case; others as they are written."""
    category = text.lower()
    name = ALIASES.get(category, category)
    return name if name in _CATEGORY else text


def known_category(text: str) -> int:
    """Return the index of a category in KNOWN_CATEGORIES, whatever its age and case, -1 if it is none of them."""
    return _CATEGORY.get(category_name(text), NONE)


class Wanted(NamedTuple):
    """What is read of a file."""

    category: Callable[[str], int] = known_category
    """Tells the code of a category, -1 for one whose events are not wanted."""
    first_with_ids: int = FIRST_WITH_IDS
    """No argument is read of events of categories with lower codes."""
    ids: tuple[str, ...] = IDS
    texts: tuple[str, ...] = TEXTS
    """Arguments, as `Args` names them; events that have one of the texts are decoded one by one."""


@dataclass(frozen=True)
class Shared:
    """What all parts of a file have in common: what is wanted of it, and texts and threads that they number alike."""

    wanted: Wanted
    names: Codes = field(default_factory=Codes)
    threads: Codes = field(default_factory=Codes)


@dataclass(frozen=True)
class Part:
    """What a part of a file holds."""

    rows: Rows
    counts: Counter[str]
    """Duration events by category, as `category_name` calls it."""
    labels: dict[ThreadKey, str]
    """Names that the file gives threads."""
    malformed: int
    """Entries that are not events."""
    entries: int
    """Entries of the list of events in all."""
    repaired: int = 0
    """Events that were not JSON and have been repaired."""


def part_of_events(events: Sequence[Event], malformed: int, shared: Shared, *, repaired: int = 0) -> Part:
    """Return the part that decoded events make."""
    labels = {
        (event.pid, event.tid): str(event.args.name).strip()
        for event in events
        if event.ph == "M" and event.name == "thread_name" and event.args and event.args.name
    }
    counts = Counter(category_name(event.cat or "") for event in events if event.ph == "X")
    code = shared.wanted.category
    category = np.array([code(event.cat or "") if event.ph == "X" else NONE for event in events], np.int8)
    used = np.flatnonzero(category != NONE)
    rows = _rows([events[row] for row in used.tolist()], category[used], used.astype(np.int32), shared)
    return Part(rows, counts, labels, malformed, len(events) + malformed, repaired)


def _rows(events: Sequence[Event], category: Int8s, entry: Int32s, shared: Shared) -> Rows:
    wanted = shared.wanted
    start, has_start = nanoseconds([bytes(event.ts) for event in events])
    duration, has_duration = nanoseconds([bytes(event.dur) for event in events])
    arguments = [events[row].args for row in np.flatnonzero(category >= wanted.first_with_ids).tolist()]
    ids = [[NONE if args is None else as_integer(getattr(args, name)) for args in arguments] for name in wanted.ids]
    texts = [["" if args is None else _text(getattr(args, name)) for args in arguments] for name in wanted.texts]
    ids += [[shared.names[text] if text else NONE for text in line] for line in texts]
    return Rows(
        category=category,
        name=np.array([shared.names[event.name] for event in events], np.int32),
        thread=np.array([shared.threads[event.pid, event.tid] for event in events], np.int32),
        start_ns=start,
        duration_ns=duration,
        timed=has_start & has_duration,
        entry=entry,
        ids=np.array(ids, np.int64).reshape(len(ids), -1),
    )


def _text(value: Number | msgspec.Raw) -> str:
    return (bytes(value).decode(errors="replace") if isinstance(value, msgspec.Raw) else str(value)).strip()


def joined(parts: Iterable[Rows]) -> Rows:
    """Return the rows of several parts, one after the other."""
    listed = list(parts)
    columns: list[Any] = [np.concatenate(columns) for columns in zip(*(part.columns() for part in listed), strict=True)]
    return Rows(*[*columns, np.concatenate([part.ids for part in listed], axis=1)])


def by_appearance(columns: Sequence[Int32s], count: int) -> Int64s:
    """Return those of `count` codes that the columns hold, in the order in which they first appear."""
    first = np.full(count, sum(map(len, columns)))
    behind = len(first) and int(first[0])
    for codes in reversed(columns):
        begin = behind - len(codes)
        first[codes[::-1]] = np.arange(behind - 1, begin - 1, -1)  # of several places the last one given is kept
        behind = begin
    order = np.argsort(first, kind="stable")
    return order[: np.count_nonzero(first < sum(map(len, columns)))]


def as_integer(value: Number) -> int:
    """Return an id or a size that the trace may have written as text, -1 if it is none."""
    if type(value) is int and abs(value) < 1 << 63:
        return value
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[arg-type]  # None is caught
    except (TypeError, ValueError, OverflowError):
        return NONE
    return number if abs(number) <= np.iinfo(np.int64).max else NONE
