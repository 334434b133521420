"""Looks up the args of single events in a file, unchanged, and the sizes of the inputs of ops.

Reading keeps only the args that are measured. A page shows all args of the events that it draws, so the file is read
again when a page is made.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.trace.files import open_trace, stamp_of
from pinprof.trace.reader.blocks import Blocks, as_list, list_end
from pinprof.trace.reader.events import NOT_EVENTS, Event, LooseFile, decode_event
from pinprof.trace.reader.read import LIST_START
from pinprof.trace.reader.salvage import salvage
from pinprof.trace.reader.unpack import Unpacked
from pinprof.trace.tables import Bools, FileEvents, Int32s, Int64s, Trace
from pinprof.urls import STANDARD_INPUT, is_url, shown

CAME_BY_PIPE = "the trace came through a pipe; save it, and make the page from the file to see them"
FILE_CHANGED = "its file has changed since it was read"


class EventArgs(NamedTuple):
    """The args of some events of a table, in the order of the file."""

    table: str
    row: Int32s
    args: list[msgspec.Raw]
    """The JSON text in the file; empty for an event without args."""


class OnlyArgs(msgspec.Struct, gc=False):
    """The args of an event, not decoded."""

    args: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class PlainEvent(Event, gc=False):
    """An event whose args are not decoded."""

    args: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)  # type: ignore[assignment]  # their text


ARGS = attrgetter("args")


def look_up(trace: Trace, wanted: Mapping[str, Bools]) -> Iterator[EventArgs]:
    """Yield the args of the wanted rows of the tables in `TABLES`, from the trace's file, one part of it at a time.

    Raises TraceError, without the file's name, if the file cannot be read again: it is a pipe, a URL, gone, or has
    changed since.
    """
    if not any(rows.any() for rows in wanted.values()):
        return
    _check_again(trace)
    finder = _EventFinder(trace.events, wanted)
    with open_trace(trace.path) as stream:
        blocks, number = Blocks(Unpacked(stream)), 0
        for number, block in enumerate(blocks, start=1):
            yield from finder.among(number - 1, partial(_of_block, block))
        yield from finder.among(number, partial(_of_the_end, blocks))


def _check_again(trace: Trace) -> None:
    """Raise TraceError if the trace's name is not, or no longer, that of the file that was read."""
    path = trace.path
    if path == shown(STANDARD_INPUT):
        raise TraceError(CAME_BY_PIPE)
    if is_url(path):
        raise TraceError("the trace came from a URL; download it, and make the page from the file to see them")
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  Path would change the name
    except (OSError, ValueError):
        raise TraceError("the file of the trace is gone") from None
    if not is_file:
        raise TraceError(CAME_BY_PIPE)
    if stamp_of(path) != trace.events.stamp:
        raise TraceError(FILE_CHANGED)


class _EventFinder:
    """Finds the wanted rows of tables in the parts of the file."""

    def __init__(self, events: FileEvents, wanted: Mapping[str, Bools]) -> None:
        self._counts = events.counts
        self._first = np.cumsum([0, *events.counts])
        """The first event of each part."""
        self._rows: dict[str, Int32s] = {}
        self._events: dict[str, Int32s] = {}
        """The number of the event of each of these rows."""
        self._bounds: dict[str, Int64s] = {}
        """Where the rows of each part begin among these rows."""
        for table, is_wanted in wanted.items():
            rows = np.flatnonzero(is_wanted).astype(np.int32)
            number = events.of_table[table][rows]
            order = np.argsort(number, kind="stable")
            self._rows[table], self._events[table] = rows[order], number[order]
            self._bounds[table] = np.searchsorted(self._events[table], self._first)

    def among(self, part: int, decode: Callable[[int], list[msgspec.Raw]]) -> Iterator[EventArgs]:
        """Yield the args of the wanted rows of a part; `decode` returns those of all its events, given their number."""
        if part >= len(self._counts):
            raise TraceError(FILE_CHANGED)
        chosen = {table: slice(*bounds[part : part + 2].tolist()) for table, bounds in self._bounds.items()}
        chosen = {table: rows for table, rows in chosen.items() if rows.stop > rows.start}
        if not chosen:
            return
        args = decode(self._counts[part])
        args += [msgspec.Raw()] * (self._counts[part] - len(args))  # a broken file may hold events twice
        for table, rows in chosen.items():
            places = (self._events[table][rows] - self._first[part]).tolist()
            yield EventArgs(table, self._rows[table][rows], [args[index] for index in places])


def _of_block(block: bytes, count: int) -> list[msgspec.Raw]:
    return _decoded(as_list(block), block, count, is_last=False)


def _of_the_end(blocks: Blocks, count: int) -> list[msgspec.Raw]:
    """Return the args of the events after the last block."""
    if blocks.whole is not None:
        return _of_whole(blocks.whole.removeprefix(b"\xef\xbb\xbf"))
    text = b"[" + blocks.rest
    try:
        text = text[: list_end(text)]
    except (ValueError, RecursionError):
        return _salvaged(blocks.rest, is_last=True)
    return _decoded(text, blocks.rest, count, is_last=True)


def _decoded(data: bytes, bare: bytes, count: int, *, is_last: bool) -> list[msgspec.Raw]:
    """Return the args of the `count` events of a JSON list; if it is not JSON, those of `bare`, without brackets.

    If the list has entries that are not events, it is longer than `count`.
    """
    with suppress(*NOT_EVENTS):
        args = list(map(ARGS, _LIST.decode(data)))
        if len(args) == count:
            return args
    try:
        return _recorded_in(_ENTRIES.decode(data))
    except NOT_EVENTS:
        return _salvaged(bare, is_last=is_last)


def _of_whole(data: bytes) -> list[msgspec.Raw]:
    """Return the args of the events of a file that is read in one piece."""
    try:
        if data.lstrip().startswith(b"["):
            return _recorded_in(_ENTRIES.decode(data))
        return _recorded_in(msgspec.json.decode(data, type=LooseFile).events or [])
    except NOT_EVENTS:
        begin = LIST_START.search(data)
        return _salvaged(data[begin.end() :].lstrip(), is_last=True) if begin else []


def _recorded_in(entries: list[msgspec.Raw]) -> list[msgspec.Raw]:
    """Return the args of the entries of a list that are events."""
    return [event.args for event in map(_plain_event, entries) if event is not None]


def _salvaged(text: bytes, *, is_last: bool) -> list[msgspec.Raw]:
    return list(map(ARGS, salvage(text, is_last=is_last, decode=_plain_event).events))


def _plain_event(data: bytes | msgspec.Raw) -> PlainEvent | None:
    """Return the event in a JSON text; None if reading would not take it for one."""
    return None if decode_event(data) is None else PlainEvent(args=_ONLY_ARGS.decode(data).args)


_ONLY_ARGS = msgspec.json.Decoder(OnlyArgs)
_LIST = msgspec.json.Decoder(list[OnlyArgs])
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])


BYTES_OF_DTYPE = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short int", "short"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes of an element, by torch.profiler's name of its type."""


def input_sizes(trace: Trace, ops: Int64s) -> Mapping[int, frozenset[int]]:
    """Return the bytes of each tensor among the inputs of these rows of `Trace.ops`.

    Ops whose shapes were not recorded are left out, and all ops if the file of the trace cannot be read again.
    """
    wanted = np.zeros(len(trace.ops), bool)
    wanted[ops] = True
    try:
        parts = list(look_up(trace, {"ops": wanted}))
    except TraceError:
        return {}
    texts = (
        (row, text) for part in parts for row, text in zip(part.row.tolist(), part.args, strict=True) if bytes(text)
    )
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
        if isinstance(shape, list) and name in BYTES_OF_DTYPE and all(isinstance(side, int) for side in shape):
            yield prod(shape) * BYTES_OF_DTYPE[name]
