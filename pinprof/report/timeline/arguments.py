"""The args of events for the page: texts that many events share are stored once, ids of single events in columns."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.report.timeline.argument_text import EventTexts, event_texts
from pinprof.report.timeline.lane import Columns, Lane, Rising
from pinprof.trace.reader.arguments import EventArgs, look_up
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s, Trace

OWN = ("External id", "correlation", "Ev Idx", "Record function id", "Sequence number", "Python id", "Python parent id")
"""Args whose number differs in each event."""
LARGEST = 1 << 52
"""JavaScript does not keep larger numbers exactly; these stay in the texts."""

SEPARATOR = b"\0"
"""A byte that JSON does not contain."""
NUMBER = re.compile(
    rb'": (?:%b)(\d+)(?=[,}\s])' % b"|".join(b'(?<="%b": )' % key.encode() for key in OWN)
)  # begins with what is the same for all: a search for that is fast
PLACEHOLDER = b'": 0'
KEY = re.compile(rb'"(%b)": 0(?=[,}\s])' % "|".join(OWN).encode())

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


class Split(NamedTuple):
    """The args of some events."""

    texts: list[bytes]
    """JSON, with 0 in place of each id."""
    numbers: Int64s
    """The ids, in the order of the events and their texts."""


def split(args: Sequence[bytes | msgspec.Raw]) -> Split:
    """Split args, which are JSON. Raises ValueError if they are of an unusual form."""
    pieces = NUMBER.split(SEPARATOR.join(args))
    texts = PLACEHOLDER.join(pieces[::2]).split(SEPARATOR)
    try:
        numbers = np.array(msgspec.json.decode(b"[%b]" % b",".join(pieces[1::2]), type=list[int]), np.int64)
    except (msgspec.DecodeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if len(texts) != len(args) or numbers.max(initial=0) >= LARGEST:
        raise ValueError("bytes that are not JSON, or a number that is too large")
    return Split(texts, numbers)


def own_keys(text: bytes, args: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the keys of the ids that `split` took from a text, None if some of them lie deeper in the args."""
    keys = tuple(key.decode() for key in KEY.findall(text))
    return keys if keys == tuple(key for key, value in args.items() if key in OWN and type(value) is int) else None


def count_of_numbers(text: bytes) -> int:
    """Return how many ids `split` took from a text."""
    return len(KEY.findall(text))


class Interned:
    """Numbers the texts on events: equal texts have the same number, and 0 stands for none."""

    def __init__(self) -> None:
        self.texts: dict[str | tuple[str, str], int] = {}
        """Lines, and others as key and value, with their numbers."""
        self.sets: list[tuple[list[int], list[int]]] = []
        """The texts of each number: its lines, and its others."""
        self._of_args: dict[bytes, int] = {}
        self._numbers: dict[EventTexts, int] = {}
        self._characters_left = MOST_CHARACTERS
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
            self._characters_left -= CODE_CHARACTERS
            numbers.append(self.texts[text])
        return numbers


class SharedKeys(NamedTuple):
    """What events share whose args differ only in the ids of single events."""

    number: int
    """The number of their texts, -1 if each event must be read by itself."""
    keys: tuple[str, ...]
    """The keys of the ids; empty texts if each event must be read by itself."""


SHARED_NUMBER, SHARED_KEYS = map(attrgetter, SharedKeys._fields)


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
        self._own: dict[str, dict[str, Int32s | Int64s]] = {table: {} for table in wanted}
        """The ids of each table by key, plus one; 0 is none."""
        self._shared = {table: lru_cache(MOST_SHARED)(partial(self._look_at, table)) for table in wanted}
        """Of each table what events share by the text that `split` leaves of their args."""
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
        shared = list(map(of_text, texts)) or [unusual] * len(events.args)
        keys_of = list(map(SHARED_KEYS, shared))
        kinds = {keys: code for code, keys in enumerate(dict.fromkeys(keys_of))}
        kind = np.fromiter(map(kinds.__getitem__, keys_of), np.int64, len(shared))
        count = np.array(list(map(len, kinds)))[kind]
        first = np.cumsum(count) - count
        for keys, code in kinds.items():
            of_kind = np.flatnonzero(kind == code)
            for index, key in enumerate(filter(None, keys)):
                of_key = numbers[first[of_kind] + index] + 1
                self._column(events.table, key, int(of_key.max()))[events.row[of_kind]] = of_key
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
                self._column(table, key, args[key] + 1)[row] = args[key] + 1
            return self._interned.args(_without_size(table, _without(args, keys)))
        except UNREADABLE_ARGS:
            return self._interned.number(UNREADABLE)

    def _column(self, table: str, key: str, most: int) -> Int32s | Int64s:
        """Return the column of a key, for numbers up to `most`."""
        own = self._own[table]
        if key not in own:
            own[key] = np.zeros(len(self._sets[table]), np.int32)
        if most > np.iinfo(own[key].dtype).max:
            own[key] = own[key].astype(np.int64)
        return own[key]

    def columns(self, lane: Lane) -> Columns:
        """Return the columns of a lane; merged events have none."""
        table = lane.source.table
        if not table:
            return {}
        alone = lane.count == 1
        own = {
            f"own {OWN.index(key)}": numbers[lane.row].astype(np.int64) * alone
            for key, numbers in self._own[table].items()
        }
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
