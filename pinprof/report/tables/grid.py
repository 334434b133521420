"""Tables of events in groups, with sums over the regular steps and over the whole recording."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.by_name.names import NamedRows, Origins
from pinprof.ground.intervals import numbered
from pinprof.ground.units import shortened
from pinprof.report.words import place, with_more
from pinprof.trace.lines import Place
from pinprof.trace.tables import Bools, Int32s, Int64s

MAX_TABLE_ROWS = 20_000
"""The most rows of a table, those of most time: each takes about 40 bytes of the page."""
MAX_TABLE_NAME_CHARS = 300

Scopes: TypeAlias = "tuple[Sequence[float | None], Sequence[float | None]]"
"""A figure of each row: in the regular steps, and in the whole recording."""
TEXT_VALUES, COUNT_VALUES, TIME_VALUES = "text", "count", "time"
BYTES_VALUES, RATE_VALUES, SHARE_VALUES = "bytes", "rate", "share"
"""The kinds of columns: times are ns, rates bytes per ns."""


class Field(NamedTuple):
    """A column."""

    key: str
    title: str
    kind: str = TEXT_VALUES
    meaning: str = ""
    ratio: tuple[str, str] | None = None
    """The two columns that it divides; `whole` is the total time."""
    adds: bool = False
    """Whether it adds up over events; per step it is the sum divided by the number of steps."""
    over_rows: bool = True
    """Whether its sum over rows has a meaning."""


COUNT_COLUMN = Field("count", "count", COUNT_VALUES, adds=True)
MEAN_COLUMN = Field("mean", "mean", TIME_VALUES, ratio=("total", "count"))
LONGEST_COLUMN = Field("most", "longest", TIME_VALUES, "press it to see the longest in the timeline")


def timed(*more: Field, total: str = "total") -> tuple[Field, ...]:
    """Return the columns of events: count, total, mean and longest time, and `more`."""
    return COUNT_COLUMN, Field("total", total, TIME_VALUES, adds=True), MEAN_COLUMN, LONGEST_COLUMN, *more


@dataclass(frozen=True)
class Grid:
    """A table of a page, a row for each group of events."""

    name: str
    title: str
    note: str
    fields: tuple[Field, ...]
    texts: dict[str, list[str]]
    numbers: dict[str, Scopes]
    seen: dict[str, list[Any]]
    """The values by which the timeline finds the events of each row."""
    source: str
    """The timeline's source of the events of the rows."""
    longest_ns: tuple[Int64s, Int64s]
    """When the longest event of each row starts and ends."""
    places: list[Place] = field(default_factory=list)
    whole_ns: tuple[int, int] = (0, 0)
    """The total time, for shares, in the regular steps and in the recording."""
    stacks: list[tuple[str, ...]] = field(default_factory=list)
    """The call stack of each row, innermost first, if there are any."""
    together: dict[str, list[list[int]]] = field(default_factory=dict)
    """Ways to gather rows, each with the rows that become one; any other row stands alone."""

    def __len__(self) -> int:
        return len(self.longest_ns[0])


@dataclass(frozen=True)
class EventGroups:
    """Events in groups, the group of most time first."""

    first: Int64s
    """One event of each group."""
    which: Int64s
    """The group of each event; events of the last number are in no group."""
    time_ns: Int64s
    inside: Bools
    """Whether each event is in a regular step."""

    @classmethod
    def by(cls, keys: Sequence[np.ndarray], time_ns: Int64s, inside: Bools) -> "EventGroups":
        """Return events gathered by their keys."""
        first, which = numbered(*keys)
        total = np.bincount(which, time_ns, minlength=len(first))
        order = np.argsort(-total, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return cls(first[order][:MAX_TABLE_ROWS], np.minimum(rank[which], MAX_TABLE_ROWS), time_ns, inside)

    def __len__(self) -> int:
        return len(self.first)

    def sums(self, values: np.ndarray) -> Scopes:
        """Return the sums of the values of the events of each group."""
        size = len(self) + 1
        sums = (np.bincount(self.which[rows], values[rows], minlength=size) for rows in (self.inside, slice(None)))
        inside, whole = (scope[: len(self)].astype(np.int64).tolist() for scope in sums)
        return inside, whole

    @property
    def timed(self) -> dict[str, Scopes]:
        """The figures of `timed()`: how many events each group has, their time, and that of the longest."""
        inside, whole = np.zeros((2, len(self) + 1), np.int64)
        np.maximum.at(inside, self.which[self.inside], self.time_ns[self.inside])
        np.maximum.at(whole, self.which, self.time_ns)
        return {
            "count": self.sums(np.ones(len(self.which), np.int64)),
            "total": self.sums(self.time_ns),
            "most": (inside[: len(self)].tolist(), whole[: len(self)].tolist()),
        }

    @cached_property
    def longest(self) -> Int64s:
        """The longest event of each group, of equal ones the last."""
        longest = np.zeros(len(self) + 1, np.int64)
        np.maximum.at(longest, self.which, self.time_ns)
        rows = np.flatnonzero(self.time_ns == longest[self.which])
        longest[self.which[rows]] = rows  # the last assignment holds
        return longest[: len(self)]

    @cached_property
    def names(self) -> NamedRows:
        """The groups as rows of names, to find the leading value of each."""
        total = np.bincount(self.which, self.time_ns, minlength=len(self))[: len(self)].astype(np.int64)
        return NamedRows(np.arange(len(self)), self.which, np.zeros(0, np.int64), total, MAX_TABLE_ROWS)

    def origins(self, origins: Origins) -> tuple[dict[str, list[str]], list[Place]]:
        """Return the columns on where most of each group comes from, and the places."""
        leading = origins.of(self.names, self.time_ns) if len(self) else []
        texts = {
            "line": [with_more(place(origin.place), origin.places) for origin in leading],
            "module": [with_more(origin.module or "", origin.modules) for origin in leading],
        }
        return texts, [origin.place for origin in leading]

    def leading(self, value: Int32s, names: Sequence[str]) -> list[str]:
        """Return the name with most time in each group; empty if it has none."""
        if not len(self):
            return []
        leading, _ = self.names.leading(value, self.time_ns)
        return [short_name(names[index]) if index >= 0 else "" for index in leading[: len(self)].tolist()]


def short_name(name: str) -> str:
    """Return a name, shortened for a table."""
    return shortened(name, MAX_TABLE_NAME_CHARS)


ORIGIN_COLUMNS = (Field("line", "line"), Field("module", "module"))
