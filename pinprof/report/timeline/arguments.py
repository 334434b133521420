"""The args of events for the page: sentences on those that pinprof knows, and the others as recorded.

A value that torch did not write in its usual form is shown as recorded. Texts that many events share are stored once,
ids of single events in columns.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.report.timeline.lane import Columns, Lane, Rising
from pinprof.report.words import cut
from pinprof.trace.reader.arguments import look_up
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.units import counted, how_many, listed, size

ArgsByName: TypeAlias = Mapping[str, Any]

INPUTS = "inputs"
"""The beginning of the line on an op's inputs, which the op's GPU work also shows."""
MAX_INPUTS, MAX_TENSORS = 16, 4
"""The most inputs of an op that are shown, and tensors in a list of them."""
MAX_LINE_CHARS, MAX_KEY_CHARS, MAX_VALUE_CHARS, MAX_OTHER_ARGS = 600, 60, 200, 60
"""Characters of a line, of a key and of a value, and how many others are listed."""
GRID_DIMENSIONS, IMAGE_DIMENSIONS = 3, 4
"""The dimensions of a grid and of a block, and of a batch of images."""
LARGEST_SIZE = 1 << 62

DIMS, TYPES, STRIDES, CONCRETE = "Input Dims", "Input type", "Input Strides", "Concrete Inputs"
BYTES_OF_TYPE = {
    **dict.fromkeys(("byte", "char", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16", "short"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long"), 8),
}
"""The size of an element by torch's name for its type, in lower case."""


class EventTexts(NamedTuple):
    """The texts on an event."""

    lines: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    """Keys and values as recorded, cut if they are long."""


def event_texts(args: ArgsByName) -> EventTexts:
    """Return the texts on args: sentences on those that pinprof knows, and the others as recorded."""
    lines: list[str] = []
    in_lines: set[str] = set()
    for write_line, keys in LINE_WRITERS:
        line = write_line(args)
        if line:
            lines.append(cut(line, MAX_LINE_CHARS))
            in_lines.update(keys)
    others = [(cut(key, MAX_KEY_CHARS), value_in_words(value)) for key, value in args.items() if key not in in_lines]
    left_out = len(others) - MAX_OTHER_ARGS
    more = [("…", f"{left_out:,} more")] if left_out > 0 else []
    return EventTexts(tuple(lines), (*others[:MAX_OTHER_ARGS], *more))


def value_in_words(value: object) -> str:
    """Return a value of JSON as recorded, cut if it is long."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)


def _inputs(args: ArgsByName) -> str:
    """Return shapes and types of input tensors, and the values of other inputs."""
    dims, types = args.get(DIMS), args.get(TYPES)
    if not isinstance(dims, list) or not isinstance(types, list) or not dims or len(types) != len(dims):
        return ""
    strides, concrete = (_per_input(args.get(key), dims) for key in (STRIDES, CONCRETE))
    if CONCRETE in args and concrete is not args[CONCRETE]:
        return ""
    columns = zip(dims[:MAX_INPUTS], types, strides, concrete, strict=False)
    shown = ", ".join(_input(*column) for column in columns)
    more = f" and {len(dims) - MAX_INPUTS:,} more" if len(dims) > MAX_INPUTS else ""
    return f"{INPUTS}: {shown}{more}"


def _per_input(values: object, dims: list[Any]) -> list[Any]:
    return values if isinstance(values, list) and len(values) == len(dims) else [None] * len(dims)


def _input(dims: object, kind: object, strides: object, concrete: object) -> str:
    name = kind.removeprefix("c10::") if isinstance(kind, str) else ""
    value = concrete if isinstance(concrete, str) else ""
    if value:
        return value_in_words(value)
    if _is_shape(dims):
        if dims or name not in {"", "Scalar", "ScalarList", "GenericList"}:
            return f"{_plain(dims)} {value_in_words(name)}".rstrip() + _layout(dims, strides)
        return value_in_words(name).lower() or "None"
    if isinstance(dims, list) and all(map(_is_shape, dims)):
        return f"{counted(len(dims), 'tensor')} ({listed(list(map(_plain, dims)), MAX_TENSORS)})"
    return value_in_words(dims)


def _is_shape(dims: object) -> TypeGuard[list[int]]:
    return isinstance(dims, list) and all(map(_is_size, dims))


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_SIZE


def _layout(dims: Any, strides: Any) -> str:
    """Return the memory layout of a tensor that is not contiguous; empty for others."""
    if not isinstance(strides, list) or len(strides) != len(dims) or not all(map(_is_size, strides)):
        return ""
    outwards = range(len(dims) - 1, -1, -1)
    if _is_dense(dims, strides, outwards):
        return ""
    if len(dims) == IMAGE_DIMENSIONS and _is_dense(dims, strides, (1, 3, 2, 0)):
        return " channels last"
    return f" with strides {_plain(strides)}"


def _is_dense(dims: list[int], strides: list[int], outwards: Iterable[int]) -> bool:
    """Return whether a tensor has no gaps, given its dimensions from the innermost in memory outwards."""
    expected_stride = 1
    for dimension in outwards:
        if dims[dimension] > 1 and strides[dimension] != expected_stride:
            return False
        expected_stride *= max(dims[dimension], 1)
    return True


def _plain(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)


def _grid(args: ArgsByName) -> str:
    """Return grid and block of a kernel, with its numbers of blocks and threads."""
    grid, block = args.get("grid"), args.get("block")
    if not _is_shape(grid) or not _is_shape(block) or {len(grid), len(block)} != {GRID_DIMENSIONS}:
        return ""
    blocks, threads = math.prod(grid), math.prod(grid) * math.prod(block)
    sizes = f"grid {_product(grid)}, block {_product(block)}"
    return f"{sizes}: {counted(blocks, 'block')}, {counted(threads, 'thread')}"


def _product(sizes: list[int]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(map(how_many, sizes))


def _collective(args: ArgsByName) -> str:
    """Return what a collective sends and receives."""
    name, sent, received = args.get("Collective name"), args.get("In msg nelems"), args.get("Out msg nelems")
    if not isinstance(name, str) or not _is_size(sent) or not _is_size(received):
        return ""
    kind = str(args.get("dtype", "")).lower()
    amounts = [
        how_many(number) + (f" ({size(number * BYTES_OF_TYPE[kind])})" if kind in BYTES_OF_TYPE else "")
        for number in (sent, received)
    ]
    what = amounts[0] if sent == received else f"{amounts[0]} in, {amounts[1]} out"
    return f"{value_in_words(name)}: elements {what}{f', {value_in_words(kind)}' if kind else ''}"


LINE_WRITERS: tuple[tuple[Callable[[ArgsByName], str], frozenset[str]], ...] = (
    (_inputs, frozenset((DIMS, TYPES, CONCRETE))),
    (_grid, frozenset(("grid", "block"))),
    (_collective, frozenset(("Collective name", "In msg nelems", "Out msg nelems", "dtype"))),
)
"""Functions that write a line, each with the args that it uses; the line is empty where these are missing."""


# The args of all events of a page

OWN_NUMBER_ARGS = (
    "External id",
    "correlation",
    "Ev Idx",
    "Record function id",
    "Sequence number",
    "Python id",
    "Python parent id",
)
"""Args whose number differs in each event."""
MAX_EXACT_NUMBER = 1 << 52
"""JavaScript does not keep larger numbers exactly; these stay in the texts."""

SIZE_ARG = "bytes"
IN_COLUMNS = (SIZE_ARG, "memory bandwidth (GB/s)")
"""Args of GPU work that the page has in other columns: the rate is the size by the length."""
MAX_ARGS_CHARS = 1 << 20
"""Longer args are not read; those of an op on a thousand tensors have 50,000 characters."""
MAX_PAGE_ARGS_CHARS = 3_000_000
"""The most characters of args in a page; a recording of 100 MB with shapes has a tenth of that."""
TEXT_NUMBER_CHARS = 6
"""The size of the number of a text in a page."""
TOO_LONG = EventTexts(("its args are too long for this page",), ())
TOO_MANY = EventTexts(("its args are not in this page: too many events have different ones",), ())
UNREADABLE = EventTexts(("its args cannot be read",), ())
ARGS_DECODER = msgspec.json.Decoder()
UNREADABLE_ARGS = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)


class Interned:
    """Numbers the texts on events: equal texts have the same number, and 0 stands for none."""

    def __init__(self) -> None:
        self.texts: dict[str | tuple[str, str], int] = {}
        """Lines, and others as key and value, with their numbers."""
        self.sets: list[tuple[list[int], list[int]]] = []
        """The texts of each number: its lines, and its others."""
        self._of_args: dict[bytes, int] = {}
        self._numbers: dict[EventTexts, int] = {}
        self._characters_left = MAX_PAGE_ARGS_CHARS
        self.number(EventTexts((), ()))

    def args(self, args: dict[str, Any]) -> int:
        """Return the number of args."""
        key = msgspec.json.encode(args)
        if key not in self._of_args:
            if self._characters_left <= 0:
                return self.number(TOO_MANY)
            self._of_args[key] = self.number(event_texts(args))
        return self._of_args[key]

    def number(self, recorded: EventTexts) -> int:
        """Return the number of the texts on an event."""
        if recorded not in self._numbers:
            self._numbers[recorded] = len(self.sets)
            self.sets.append((self._texts(recorded.lines), self._texts(recorded.others)))
        return self._numbers[recorded]

    def _texts(self, texts: Iterable[str | tuple[str, str]]) -> list[int]:
        numbers = []
        for text in texts:
            if text not in self.texts:
                self.texts[text] = len(self.texts)
                self._characters_left -= sum(map(len, text))
            self._characters_left -= TEXT_NUMBER_CHARS
            numbers.append(self.texts[text])
        return numbers


class Arguments:
    """The args of the events of some lanes, read from the trace's file."""

    def __init__(self, trace: Trace, lanes: Iterable[Lane]) -> None:
        self.why = ""
        """The reason why no args are known."""
        self._interned = Interned()
        wanted: dict[str, Bools] = {}
        for lane in lanes:
            if table := lane.source.table:
                wanted.setdefault(table, np.zeros(len(getattr(trace, table)), bool))[lane.row[lane.count == 1]] = True
        self._sets = {table: np.zeros(len(rows), np.int32) for table, rows in wanted.items()}
        self._own: dict[str, dict[str, Int64s]] = {table: {} for table in wanted}
        """The ids of each table by key, plus one; 0 is none."""
        try:
            for events in look_up(trace, wanted):
                sets = self._sets[events.table]
                for row, text in zip(events.row.tolist(), map(bytes, events.args), strict=True):
                    sets[row] = self._number(events.table, row, text)
        except TraceError as error:
            self.why = str(error)

    def _number(self, table: str, row: int, text: bytes) -> int:
        """Return the number of the texts on an event, and keep its ids."""
        if not text:
            return 0
        if len(text) > MAX_ARGS_CHARS:
            return self._interned.number(TOO_LONG)
        try:
            decoded = ARGS_DECODER.decode(text)
            args = decoded if isinstance(decoded, dict) else {"args": decoded}
            own = [
                key
                for key, value in args.items()
                if key in OWN_NUMBER_ARGS and type(value) is int and 0 <= value < MAX_EXACT_NUMBER
            ]
            for key in own:
                self._ids(table, key)[row] = args.pop(key) + 1
            if table == "gpu" and type(args.get(SIZE_ARG)) is int:
                args = {key: value for key, value in args.items() if key not in IN_COLUMNS}
            return self._interned.args(args)
        except UNREADABLE_ARGS:
            return self._interned.number(UNREADABLE)

    def _ids(self, table: str, key: str) -> Int64s:
        """Return the column of the ids of a key."""
        own = self._own[table]
        if key not in own:
            own[key] = np.zeros(len(self._sets[table]), np.int64)
        return own[key]

    def columns(self, lane: Lane) -> Columns:
        """Return the columns of a lane; merged events have none."""
        table = lane.source.table
        if not table:
            return {}
        alone = lane.count == 1
        own = {
            f"own {OWN_NUMBER_ARGS.index(key)}": numbers[lane.row] * alone for key, numbers in self._own[table].items()
        }
        columns: Columns = {name: Rising(numbers) for name, numbers in own.items() if numbers.any()}
        sets = self._sets[table][lane.row] * alone
        return {"set": sets, **columns} if sets.any() else columns

    @property
    def header(self) -> dict[str, Any]:
        """The meaning of the numbers in the columns."""
        return {
            "why": self.why,
            "own": OWN_NUMBER_ARGS,
            "texts": list(self._interned.texts),
            "sets": self._interned.sets,
        }
