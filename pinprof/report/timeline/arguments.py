"""The args of events for the page: texts that many events share are stored once, ids of single events in columns."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.report.timeline.argument_text import EventTexts, event_texts
from pinprof.report.timeline.lane import Columns, Lane, Rising
from pinprof.trace.reader.arguments import look_up
from pinprof.trace.tables import Bools, Int64s, Trace

OWN = ("External id", "correlation", "Ev Idx", "Record function id", "Sequence number", "Python id", "Python parent id")
"""Args whose number differs in each event."""
LARGEST = 1 << 52
"""JavaScript does not keep larger numbers exactly; these stay in the texts."""

SIZE = "bytes"
IN_COLUMNS = (SIZE, "memory bandwidth (GB/s)")
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
JSON = msgspec.json.Decoder()
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
        if len(text) > LONGEST:
            return self._interned.number(TOO_LONG)
        try:
            decoded = JSON.decode(text)
            args = decoded if isinstance(decoded, dict) else {"args": decoded}
            own = [key for key, value in args.items() if key in OWN and type(value) is int and 0 <= value < LARGEST]
            for key in own:
                self._ids(table, key)[row] = args.pop(key) + 1
            if table == "gpu" and type(args.get(SIZE)) is int:
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
        own = {f"own {OWN.index(key)}": numbers[lane.row] * alone for key, numbers in self._own[table].items()}
        columns: Columns = {name: Rising(numbers) for name, numbers in own.items() if numbers.any()}
        sets = self._sets[table][lane.row] * alone
        return {"set": sets, **columns} if sets.any() else columns

    @property
    def header(self) -> dict[str, Any]:
        """The meaning of the numbers in the columns."""
        return {"why": self.why, "own": OWN, "texts": list(self._interned.texts), "sets": self._interned.sets}
