"""The args of the events that are drawn, for the page: what many share is there once, their own numbers apart."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.report.timeline.columns import Column, PackedColumns
from pinprof.report.timeline.lane import Lane
from pinprof.report.timeline.recorded import Recorded, in_words
from pinprof.trace.arguments import Found, look_up
from pinprof.trace.tables import Int64s, Trace

TABLE_OF = {"ops": "ops", "annotations": "annotations", "frames": "functions", "calls": "calls", "gpu": "gpu"}
"""The tables of a trace, by the sources of lanes that draw them."""
OWN = ("External id", "correlation", "Ev Idx", "Record function id", "Sequence number", "Python id", "Python parent id")
"""Args with another number in each event."""
SIZE, RATE = "bytes", "memory bandwidth (GB/s)"
"""Args of GPU work that the page tells anyway: the rate is the size by the length."""
LARGEST = 1 << 52
"""Larger numbers are no whole numbers to a page, and stay with the texts."""
LONGEST = 1 << 20
"""Longer args are not looked into; those of an op on a thousand tensors have 50,000 characters."""
MOST_CHARACTERS = 3_000_000
"""Of args in a page, what is shared counted once; a recording of 100 MB with shapes has a tenth of that."""
CODE_CHARACTERS = 6
"""Of the number of a text in a page."""
TOO_LONG = Recorded(("its args are too long for this page",), ())
TOO_MANY = Recorded(("its args are not in this page: too many events have different ones",), ())
UNREADABLE = Recorded(("its args cannot be read",), ())
CHANGED = "its file has changed since it was read"


class Interned:
    """What is told of events, by number; equal ones have the same, and 0 is nothing."""

    def __init__(self) -> None:
        self.texts: dict[str | tuple[str, str], int] = {}
        """Lines, and others as key and value, with their numbers."""
        self.sets: list[tuple[list[int], list[int]]] = []
        """Of each number the texts that are its lines, and its others."""
        self._of_args: dict[bytes, int] = {}
        self._of_told: dict[Recorded, int] = {}
        self._left = MOST_CHARACTERS
        self.told(Recorded((), ()))

    def args(self, args: dict[str, Any]) -> int:
        """Return the number of args."""
        key = msgspec.json.encode(args)
        number = self._of_args.get(key)
        if number is None:
            number = self.told(in_words(args)) if self._left > 0 else self.told(TOO_MANY)
            if self._left > 0:
                self._of_args[key] = number
        return number

    def told(self, told: Recorded) -> int:
        """Return the number of what is told of an event."""
        if told not in self._of_told:
            self._of_told[told] = len(self.sets)
            self.sets.append((self._texts(told.lines), self._texts(told.others)))
        return self._of_told[told]

    def _texts(self, texts: Iterable[str | tuple[str, str]]) -> list[int]:
        numbers = []
        for text in texts:
            if text not in self.texts:
                self.texts[text] = len(self.texts)
                self._left -= sum(map(len, text))
            self._left -= CODE_CHARACTERS
            numbers.append(self.texts[text])
        return numbers


class Arguments:
    """What a trace's file says of the events that some lanes draw."""

    def __init__(self, trace: Trace, lanes: Iterable[Lane]) -> None:
        rows = _rows(lanes)
        self.why = ""
        """Why nothing is known, in words."""
        self._interned = Interned()
        self._sets = {table: np.zeros(len(getattr(trace, table)), np.int64) for table in rows}
        self._own: dict[str, dict[str, Int64s]] = {table: {} for table in rows}
        """Of each table the numbers by key, one more than they are; 0 is none."""
        wanted = {table: np.zeros(len(getattr(trace, table)), bool) for table in rows}
        for table, drawn in rows.items():
            wanted[table][np.concatenate(drawn)] = True
        self._look_up(trace, wanted)

    def _look_up(self, trace: Trace, wanted: Mapping[str, "np.ndarray"]) -> None:
        found = 0
        try:
            for event in look_up(trace, wanted):
                found += 1
                self._sets[event.table][event.row] = self._number(event)
        except TraceError as error:
            self.why = str(error)
        if not found and not self.why and any(rows.any() for rows in wanted.values()):
            self.why = CHANGED

    def _number(self, event: Found) -> int:
        """Return the number of what is told of an event, and keep its own numbers."""
        if not event.args:
            return 0
        if len(event.args) > LONGEST:
            return self._interned.told(TOO_LONG)
        try:
            decoded = msgspec.json.decode(event.args)
            args = decoded if isinstance(decoded, dict) else {"args": decoded}
            self._take_own(event, args)
            return self._interned.args(args)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError):
            return self._interned.told(UNREADABLE)

    def _take_own(self, event: Found, args: dict[str, Any]) -> None:
        own = self._own[event.table]
        for key in OWN:
            value = args.get(key)
            if type(value) is int and 0 <= value < LARGEST:
                if key not in own:
                    own[key] = np.zeros(len(self._sets[event.table]), np.int64)
                own[key][event.row] = value + 1
                del args[key]
        if event.table == "gpu" and type(args.get(SIZE)) is int:
            del args[SIZE]
            args.pop(RATE, None)

    def columns(self, lane: Lane, block: PackedColumns) -> dict[str, Column]:
        """Return the columns of a lane; nothing is known of merged events."""
        table = TABLE_OF.get(lane.source)
        if table is None:
            return {}
        alone = lane.count == 1
        numbers = {"set": self._sets[table]} | {f"own {OWN.index(key)}": own for key, own in self._own[table].items()}
        columns = {}
        for name, values in numbers.items():
            of_lane = np.where(alone, values[lane.row], 0)
            if of_lane.any():
                columns[name] = block.add(of_lane) if name == "set" else block.add_signed(np.diff(of_lane, prepend=0))
        return columns

    @property
    def header(self) -> dict[str, Any]:
        """What the numbers of the columns mean."""
        return {"why": self.why, "own": OWN, "texts": list(self._interned.texts), "sets": self._interned.sets}


def _rows(lanes: Iterable[Lane]) -> dict[str, list[Int64s]]:
    """Return the rows of tables that are drawn one by one."""
    rows: dict[str, list[Int64s]] = {}
    for lane in lanes:
        if lane.source in TABLE_OF:
            rows.setdefault(TABLE_OF[lane.source], []).append(lane.row[lane.count == 1])
    return rows
