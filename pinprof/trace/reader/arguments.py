"""Looks up the args of single events in a file, unchanged, and the sizes of the inputs of ops.

Reading keeps only the args that are measured. A page shows all args of the events that it draws; so the file is read
once more when a page is made.
"""

import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from math import prod
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from pinprof.errors import TraceError
from pinprof.trace.files import open_trace
from pinprof.trace.reader.blocks import Blocks, as_list, list_end
from pinprof.trace.reader.decimals import InexactError, exact_nanoseconds, nanoseconds
from pinprof.trace.reader.events import NOT_EVENTS, Event, LooseFile
from pinprof.trace.reader.read import LIST_START
from pinprof.trace.reader.rows import CALL_CATEGORIES, CATEGORY, DURATION, NAME, START, category_name
from pinprof.trace.reader.salvage import salvage
from pinprof.trace.reader.unpack import Unpacked
from pinprof.trace.tables import CATEGORIES, NONE, Bools, Int64s, Table, Trace
from pinprof.urls import STANDARD_INPUT, is_url, shown

TABLES = {
    "ops": ("cpu_op",),
    "annotations": ("user_annotation",),
    "functions": ("python_function",),
    "calls": CALL_CATEGORIES,
    "gpu": CATEGORIES,
}
"""The tables of a trace whose events can be looked up, with their categories."""
PIPE = "the trace came through a pipe; save it, and make the page from the file to see them"
SEEDS = np.random.default_rng()
"""A trace cannot be written to make its events collide: every process has other keys."""

Keys: TypeAlias = npt.NDArray[np.uint64]


class EventArgs(NamedTuple):
    """The args of some events of a table, in the order of the file, as the file has them."""

    table: str
    row: Int64s
    args: list[bytes]
    """JSON, as it stands in the file; empty without any."""


class PlainEvent(Event, gc=False):
    """An event whose args are not looked into."""

    args: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)  # type: ignore[assignment]  # as they stand


class TimedRecorded(PlainEvent, gc=False):
    """One whose times are numbers, which may have lost digits."""

    ts: int | float = math.nan  # type: ignore[assignment]
    dur: int | float = math.nan  # type: ignore[assignment]


class Durations(NamedTuple):
    """Duration events of a file, with their times in ns."""

    events: Sequence[PlainEvent]
    start_ns: Int64s
    duration_ns: Int64s
    timed: Bools
    """Whether both are numbers."""


def look_up(trace: Trace, wanted: Mapping[str, Bools]) -> Iterator[EventArgs]:
    """Yield what the trace's file says of the wanted rows of its tables (`TABLES`), a part of the file at a time.

    Raises TraceError, without the file's name, if the file cannot be read again: it is a pipe, a URL, or gone. Of a
    file that has changed since, events that are not those of the trace are passed over.
    """
    if not any(rows.any() for rows in wanted.values()):
        return
    _check_again(trace.path)
    finder = _EventFinder(trace, wanted)
    with open_trace(trace.path) as stream:
        for durations in _durations(Unpacked(stream)):
            yield from finder.among(durations)


def _check_again(path: str) -> None:
    """Raise TraceError if what is read of this name is not a file of this machine."""
    if path == shown(STANDARD_INPUT):
        raise TraceError(PIPE)
    if is_url(path):
        raise TraceError("the trace came from a URL; download it, and make the page from the file to see them")
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  Path would change the name
    except (OSError, ValueError):
        raise TraceError("the file of the trace is gone") from None
    if not is_file:
        raise TraceError(PIPE)


class _EventFinder:
    """The events of a trace, found again by their table, name and times; equal ones by their order."""

    def __init__(self, trace: Trace, wanted: Mapping[str, Bools]) -> None:
        self._tables = tuple(wanted)
        self._names: dict[str, int] = {}
        self._of_category = _TableCodes(self._tables)
        tables: list[Table] = [getattr(trace, name) for name in self._tables]
        for table in tables:
            for name in table.names:
                self._names.setdefault(name, len(self._names))
        self._factors = SEEDS.integers(1 << 64, size=4, dtype=np.uint64, endpoint=False) | np.uint64(1)
        keys = [self._keys_of_table(number, table) for number, table in enumerate(tables)]
        key = np.concatenate(keys)
        order = np.argsort(key, kind="stable")  # equal events stay in the order of their table, which is the file's
        self._key = key[order]
        self._table = np.repeat(np.arange(len(tables)), [len(table) for table in tables])[order]
        self._row = np.concatenate([np.arange(len(table)) for table in tables])[order]
        self._is_wanted = np.concatenate([wanted[name] for name in self._tables])[order]
        same = self._key[1:] == self._key[:-1]
        self._is_one_of_many = np.append(same, False) | np.append(False, same)
        self._given: dict[int, int] = {}
        """Of events that equal others, how many were given, by the place of the first."""

    def among(self, durations: Durations) -> Iterator[EventArgs]:
        """Yield those of these events that are wanted, by table; each of the file must be given once, in order."""
        events, count = durations.events, len(durations.events)
        table = np.fromiter(map(self._of_category.__getitem__, map(CATEGORY, events)), np.int64, count)
        name = np.fromiter(map(self._names.get, map(NAME, events), repeat(NONE)), np.int64, count)
        usable = np.flatnonzero((table != NONE) & (name != NONE) & durations.timed)
        columns = (table, name, durations.start_ns, durations.duration_ns)
        place = self._places(self._keys(*(column[usable] for column in columns)))
        is_sought = place != NONE
        is_sought[is_sought] = self._is_wanted[place[is_sought]]
        place, usable = place[is_sought], usable[is_sought]
        for number, table_name in enumerate(self._tables):
            of_table = np.flatnonzero(self._table[place] == number)
            if len(of_table):
                args = [bytes(events[event].args) for event in usable[of_table].tolist()]
                yield EventArgs(table_name, self._row[place[of_table]], args)

    def _places(self, key: Keys) -> Int64s:
        """Return where events with these keys are, -1 for those that are not; of equal ones each is given once."""
        if not len(self._key):
            return np.full(len(key), NONE)
        place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        place[self._key[place] != key] = NONE
        for at in np.flatnonzero((place != NONE) & self._is_one_of_many[place]).tolist():
            first = int(place[at])
            place[at] += self._given.setdefault(first, 0)
            self._given[first] += 1
            if place[at] >= len(self._key) or self._key[place[at]] != key[at]:
                place[at] = NONE
        return place

    def _keys_of_table(self, number: int, table: Table) -> Keys:
        codes = np.array([self._names[name] for name in table.names], np.int64)
        name = codes[table.name] if len(codes) else np.zeros(0, np.int64)
        return self._keys(np.full(len(table), number), name, table.start_ns, table.duration_ns)

    def _keys(self, *columns: Int64s) -> Keys:
        return sum(
            (column.astype(np.uint64) * factor for column, factor in zip(columns, self._factors, strict=True)),
            np.zeros(len(columns[0]), np.uint64),
        )


class _TableCodes(dict[str | None, int]):
    """The index of the table of each category, as it stands in the file; -1 for none."""

    def __init__(self, tables: Sequence[str]) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, category: str | None) -> int:
        name = category_name(category or "")
        self[category] = code = next((code for code, table in enumerate(self._tables) if name in TABLES[table]), NONE)
        return code


def _durations(content: Unpacked) -> Iterator[Durations]:
    """Yield all duration events of a file, as reading finds them."""
    blocks, exact = Blocks(content), True
    for block in blocks:
        data = as_list(block)
        if exact:
            try:
                yield _timed(_TIMED_LIST.decode(data))
                continue
            except (InexactError, *NOT_EVENTS):
                exact = False  # other blocks will be like this one
        yield _with_decimals(_decoded(data, block, is_last=False))
    yield _with_decimals(_at_the_end(blocks))


def _timed(events: list[TimedRecorded]) -> Durations:
    """Raise InexactError if the times are to be read from their texts."""
    durations = [event for event in events if event.ph == "X"]
    start, duration = (exact_nanoseconds(list(map(get, durations))) for get in (START, DURATION))
    return Durations(durations, start, duration, np.ones(len(durations), bool))


def _with_decimals(events: list[PlainEvent]) -> Durations:
    durations = [event for event in events if event.ph == "X"]
    start, has_start = nanoseconds([bytes(event.ts) for event in durations])
    duration, has_duration = nanoseconds([bytes(event.dur) for event in durations])
    return Durations(durations, start, duration, has_start & has_duration)


def _at_the_end(blocks: Blocks) -> list[PlainEvent]:
    """Return the events that follow the last block."""
    if blocks.whole is not None:
        return _of_whole(blocks.whole.removeprefix(b"\xef\xbb\xbf"))
    text = b"[" + blocks.rest
    try:
        text = text[: list_end(text)]
    except (ValueError, RecursionError):
        return _salvaged(blocks.rest, is_last=True)
    return _decoded(text, blocks.rest, is_last=True)


def _decoded(data: bytes, bare: bytes, *, is_last: bool) -> list[PlainEvent]:
    """Return the events of a JSON list, which is `bare` without its brackets if it is not JSON."""
    try:
        return _LIST.decode(data)
    except NOT_EVENTS:
        pass
    try:
        return _recorded_in(_ENTRIES.decode(data))
    except NOT_EVENTS:
        return _salvaged(bare, is_last=is_last)


def _of_whole(data: bytes) -> list[PlainEvent]:
    """Return the events of a file that is read in one piece."""
    try:
        if data.lstrip().startswith(b"["):
            return _recorded_in(_ENTRIES.decode(data))
        return _recorded_in(msgspec.json.decode(data, type=LooseFile).events or [])
    except NOT_EVENTS:
        begin = LIST_START.search(data)
        return _salvaged(data[begin.end() :].lstrip(), is_last=True) if begin else []


def _recorded_in(entries: list[msgspec.Raw]) -> list[PlainEvent]:
    """Return the entries of a list that are events."""
    return [event for event in map(_plain_event, entries) if event is not None]


def _salvaged(text: bytes, *, is_last: bool) -> list[PlainEvent]:
    return [
        event for event in salvage(text, is_last=is_last, decode=_plain_event).events if isinstance(event, PlainEvent)
    ]


def _plain_event(data: bytes | msgspec.Raw) -> PlainEvent | None:
    """Return the event in a JSON text, None if it is not one."""
    try:
        return _EVENT.decode(data)
    except NOT_EVENTS:
        return None


_EVENT = msgspec.json.Decoder(PlainEvent)
_LIST = msgspec.json.Decoder(list[PlainEvent])
_TIMED_LIST = msgspec.json.Decoder(list[TimedRecorded])
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])


BYTES = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short int", "short"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes of an element, by what torch.profiler calls its type."""


def input_sizes(trace: Trace, ops: Int64s) -> Mapping[int, frozenset[int]]:
    """Return the bytes of each input of these rows of `Trace.ops` that is a tensor.

    Ops whose shapes were not recorded are left out, and all where the file of the trace cannot be read again.
    """
    wanted = np.zeros(len(trace.ops), bool)
    wanted[ops] = True
    try:
        parts = list(look_up(trace, {"ops": wanted}))
    except TraceError:
        return {}
    texts = ((row, text) for part in parts for row, text in zip(part.row.tolist(), part.args, strict=True) if text)
    args = ((row, msgspec.json.decode(text)) for row, text in texts)
    return {
        row: frozenset(_sizes(values)) for row, values in args if isinstance(values, dict) and values.get("Input Dims")
    }


def _sizes(args: dict[str, Any]) -> Iterator[int]:
    """Yield the bytes of each tensor among the inputs."""
    shapes, types = args["Input Dims"], args.get("Input type") or []
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return
    for shape, name in zip(shapes, types, strict=False):
        if isinstance(shape, list) and name in BYTES and all(isinstance(side, int) for side in shape):
            yield prod(shape) * BYTES[name]
