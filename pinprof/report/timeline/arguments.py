"""The args of events for the page: texts that many events share are stored once, ids of single events in columns.

A value that torch did not write in its usual form is shown as recorded.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.report.timeline.lane import Columns, Lane, Rising
from pinprof.report.timeline.own_numbers import LARGEST, OWN, count_of_numbers, own_keys, split
from pinprof.report.words import cut
from pinprof.trace.reader.arguments import EventArgs, look_up
from pinprof.trace.tables import NONE, Bools, Int64s, Trace
from pinprof.units import counted, how_many, listed, size

Args: TypeAlias = Mapping[str, Any]

INPUTS = "inputs"
"""The beginning of a line of an op, which its GPU work shows, too."""
MAX_INPUTS, MAX_TENSORS = 16, 4
"""The most inputs of an op that are shown, and tensors in a list of them."""
MAX_LINE, MAX_KEY, MAX_VALUE, MAX_OTHERS = 600, 60, 200, 60
"""Characters of a line, of a key and of a value, and how many others are listed."""
DIMENSIONS, IMAGES = 3, 4
"""The dimensions of a grid and of a block, and of a batch of images."""
LARGEST_SIZE = 1 << 62

DIMS, TYPES, STRIDES, CONCRETE = "Input Dims", "Input type", "Input Strides", "Concrete Inputs"
BYTES = {
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


def event_texts(args: Args) -> EventTexts:
    """Return the texts on args: sentences on those that pinprof knows, and the others as recorded."""
    lines: list[str] = []
    in_lines: set[str] = set()
    for tell, keys in LINE_WRITERS:
        line = tell(args)
        if line:
            lines.append(cut(line, MAX_LINE))
            in_lines.update(keys)
    others = [(cut(key, MAX_KEY), value_in_words(value)) for key, value in args.items() if key not in in_lines]
    left = len(others) - MAX_OTHERS
    more = [("…", f"{left:,} more")] if left > 0 else []
    return EventTexts(tuple(lines), (*others[:MAX_OTHERS], *more))


def value_in_words(value: object) -> str:
    """Return a value of JSON as recorded, cut if it is long."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_VALUE)


def _inputs(args: Args) -> str:
    """Return shapes and types of input tensors, and the values of other inputs."""
    dims, types = args.get(DIMS), args.get(TYPES)
    if not isinstance(dims, list) or not isinstance(types, list) or not dims or len(types) != len(dims):
        return ""
    strides, concrete = (_beside(args.get(key), dims) for key in (STRIDES, CONCRETE))
    if CONCRETE in args and concrete is not args[CONCRETE]:
        return ""
    columns = zip(dims[:MAX_INPUTS], types, strides, concrete, strict=False)
    shown = ", ".join(_input(*column) for column in columns)
    more = f" and {len(dims) - MAX_INPUTS:,} more" if len(dims) > MAX_INPUTS else ""
    return f"{INPUTS}: {shown}{more}"


def _beside(values: object, dims: list[Any]) -> list[Any]:
    return values if isinstance(values, list) and len(values) == len(dims) else [None] * len(dims)


def _input(dims: object, kind: object, strides: object, concrete: object) -> str:
    name = kind.removeprefix("c10::") if isinstance(kind, str) else ""
    value = concrete if isinstance(concrete, str) else ""
    if value:
        return value_in_words(value)
    if _is_shape(dims):
        if dims or name not in {"", "Scalar", "ScalarList", "GenericList"}:
            return f"{_plain(dims)} {value_in_words(name)}".rstrip() + _form(dims, strides)
        return value_in_words(name).lower() or "None"
    if isinstance(dims, list) and all(map(_is_shape, dims)):
        return f"{counted(len(dims), 'tensor')} ({listed(list(map(_plain, dims)), MAX_TENSORS)})"
    return value_in_words(dims)


def _is_shape(dims: object) -> TypeGuard[list[int]]:
    return isinstance(dims, list) and all(map(_is_size, dims))


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_SIZE


def _form(dims: Any, strides: Any) -> str:
    """Return the memory layout of a tensor that is not contiguous; empty for others."""
    if not isinstance(strides, list) or len(strides) != len(dims) or not all(map(_is_size, strides)):
        return ""
    outwards = range(len(dims) - 1, -1, -1)
    if _is_dense(dims, strides, outwards):
        return ""
    if len(dims) == IMAGES and _is_dense(dims, strides, (1, 3, 2, 0)):
        return " channels last"
    return f" with strides {_plain(strides)}"


def _is_dense(dims: list[int], strides: list[int], outwards: Iterable[int]) -> bool:
    """Return whether a tensor has no gaps, given its dimensions from the innermost in memory outwards."""
    behind = 1
    for dimension in outwards:
        if dims[dimension] > 1 and strides[dimension] != behind:
            return False
        behind *= max(dims[dimension], 1)
    return True


def _plain(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), MAX_VALUE)


def _grid(args: Args) -> str:
    """Return grid and block of a kernel, with its numbers of blocks and threads."""
    grid, block = args.get("grid"), args.get("block")
    if not _is_shape(grid) or not _is_shape(block) or {len(grid), len(block)} != {DIMENSIONS}:
        return ""
    blocks, threads = math.prod(grid), math.prod(grid) * math.prod(block)
    sizes = f"grid {_product(grid)}, block {_product(block)}"
    return f"{sizes}: {counted(blocks, 'block')}, {counted(threads, 'thread')}"


def _product(sizes: list[int]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(map(how_many, sizes))


def _collective(args: Args) -> str:
    """Return what a collective sends and receives."""
    name, given, taken = args.get("Collective name"), args.get("In msg nelems"), args.get("Out msg nelems")
    if not isinstance(name, str) or not _is_size(given) or not _is_size(taken):
        return ""
    kind = str(args.get("dtype", "")).lower()
    amounts = [f"{how_many(number)}{_in_bytes(number, kind)}" for number in (given, taken)]
    what = amounts[0] if given == taken else f"{amounts[0]} in, {amounts[1]} out"
    return f"{value_in_words(name)}: elements {what}{f', {value_in_words(kind)}' if kind else ''}"


def _in_bytes(elements: int, kind: str) -> str:
    return f" ({size(elements * BYTES[kind])})" if kind in BYTES else ""


LINE_WRITERS: tuple[tuple[Callable[[Args], str], frozenset[str]], ...] = (
    (_inputs, frozenset((DIMS, TYPES, CONCRETE))),
    (_grid, frozenset(("grid", "block"))),
    (_collective, frozenset(("Collective name", "In msg nelems", "Out msg nelems", "dtype"))),
)
"""Functions that write a line, each with the args that it uses; the line is empty where these are missing."""


SIZE, RATE = "bytes", "memory bandwidth (GB/s)"
"""Args of GPU work that the page has in other columns: the rate is the size by the length."""
LONGEST = 1 << 20
"""Longer args are not read; those of an op on a thousand tensors have 50,000 characters."""
MOST_CHARACTERS = 3_000_000
"""The most characters of args in a page; a recording of 100 MB with shapes has a tenth of that."""
CODE_CHARACTERS = 6
"""The size of the number of a text in a page."""
TOO_LONG = EventTexts(("its args are too long for this page",), ())
TOO_MANY = EventTexts(("its args are not in this page: too many events have different ones",), ())
UNREADABLE = EventTexts(("its args cannot be read",), ())
MOST_SHARED = 20_000
"""The number of texts of args that are kept for events that share them; copies have one for each rate."""
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
        self._left = MOST_CHARACTERS
        self.number(EventTexts((), ()))

    def args(self, args: dict[str, Any]) -> int:
        """Return the number of args."""
        key = msgspec.json.encode(args)
        if key not in self._of_args:
            if self._left <= 0:
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
                self._left -= sum(map(len, text))
            self._left -= CODE_CHARACTERS
            numbers.append(self.texts[text])
        return numbers


class SharedKeys(NamedTuple):
    """What events share whose args differ only in the ids of single events."""

    number: int
    """The number of their texts, -1 if each event must be read by itself."""
    keys: tuple[str, ...]
    """The keys of the ids; empty texts if each event must be read by itself."""


SHARED_NUMBER, SHARED_KEYS = map(attrgetter, SharedKeys._fields)


class KeysByText(dict[bytes, SharedKeys]):
    """The `SharedKeys` of events by the text that `split` leaves of their args; `look_at` reads a new text."""

    def __init__(self, look_at: Callable[[bytes], SharedKeys]) -> None:
        super().__init__()
        self._look_at = look_at

    def __missing__(self, text: bytes) -> SharedKeys:
        if len(self) >= MOST_SHARED:
            self.clear()
        self[text] = shared = self._look_at(text)
        return shared


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
        self._shared = {table: KeysByText(partial(self._look_at, table)) for table in wanted}
        try:
            for events in look_up(trace, wanted):
                self._take(events)
        except TraceError as error:
            self.why = str(error)

    def _take(self, events: EventArgs) -> None:
        """Keep the number of the texts of each event, and its ids."""
        try:
            texts, numbers = split(events.args)
        except ValueError:
            texts, numbers = [], np.empty(0, np.int64)
        of_text, unusual = self._shared[events.table], SharedKeys(NONE, ())
        shared = list(map(of_text.__getitem__, texts)) or [unusual] * len(events.args)
        keys_of = list(map(SHARED_KEYS, shared))
        kinds = {keys: code for code, keys in enumerate(dict.fromkeys(keys_of))}
        kind = np.fromiter(map(kinds.__getitem__, keys_of), np.int64, len(shared))
        count = np.array(list(map(len, kinds)))[kind]
        first = np.cumsum(count) - count
        for keys, code in kinds.items():
            of_kind = np.flatnonzero(kind == code)
            for place, key in enumerate(filter(None, keys)):
                self._column(events.table, key)[events.row[of_kind]] = numbers[first[of_kind] + place] + 1
        number = np.fromiter(map(SHARED_NUMBER, shared), np.int64, len(shared))
        for alone in np.flatnonzero(number == NONE).tolist():
            number[alone] = self._number(events.table, int(events.row[alone]), bytes(events.args[alone]))
        self._sets[events.table][events.row] = number

    def _look_at(self, table: str, text: bytes) -> SharedKeys:
        """Return what the events of a table share whose args were split into this text and numbers."""
        unusual = SharedKeys(NONE, ("",) * count_of_numbers(text))
        if not text:
            return SharedKeys(0, ())
        if len(text) > LONGEST:
            return unusual
        try:
            args = msgspec.json.decode(text, type=dict[str, Any])
            keys = own_keys(text, args)
            if keys is None:
                return unusual
            return SharedKeys(self._interned.args(_without_size(table, _without(args, keys))), keys)
        except UNREADABLE_ARGS:
            return unusual

    def _number(self, table: str, row: int, text: bytes) -> int:
        """Return the number of the texts on an event, and keep its ids."""
        if not text:
            return 0
        if len(text) > LONGEST:
            return self._interned.number(TOO_LONG)
        try:
            decoded = msgspec.json.decode(text)
            args = decoded if isinstance(decoded, dict) else {"args": decoded}
            keys = [key for key in OWN if type(args.get(key)) is int and 0 <= args[key] < LARGEST]
            for key in keys:
                self._column(table, key)[row] = args[key] + 1
            return self._interned.args(_without_size(table, _without(args, keys)))
        except UNREADABLE_ARGS:
            return self._interned.number(UNREADABLE)

    def _column(self, table: str, key: str) -> Int64s:
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
        own = {f"own {OWN.index(key)}": numbers[lane.row] * alone for key, numbers in self._own[table].items()}
        columns: Columns = {name: Rising(numbers) for name, numbers in own.items() if numbers.any()}
        sets = self._sets[table][lane.row] * alone
        return {"set": sets, **columns} if sets.any() else columns

    @property
    def header(self) -> dict[str, Any]:
        """The meaning of the numbers in the columns."""
        return {"why": self.why, "own": OWN, "texts": list(self._interned.texts), "sets": self._interned.sets}


def _without(args: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in args.items() if key not in keys}


def _without_size(table: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return args without the size and the rate of GPU work, which the page has already."""
    return _without(args, (SIZE, RATE)) if table == "gpu" and type(args.get(SIZE)) is int else args
