"""Rows by name: the sums of each name, the costliest names, and where most of the time of each comes from."""

from dataclasses import dataclass

import numpy as np

from pinprof.ground.intervals import numbered
from pinprof.trace.callers import module_around, module_name, places_of, users_of
from pinprof.trace.lines import Place, Placed
from pinprof.trace.links import follow
from pinprof.trace.sources import Sources
from pinprof.trace.tables import NONE, Int32s, Int64s, Table, Trace

MAX_KEPT_NAMES = 200  # names that are kept, the costliest: a profile stays small
LONGEST_KEPT_NAME_CHARS = 500  # characters of a name that are kept: the name of a kernel can have thousands


@dataclass(frozen=True)
class NamedRows:
    """Rows of a table by name, the name with most time first."""

    codes: Int64s  # the names, as indices into those of the table
    which: Int64s  # per row: the index of its name in `codes`
    count: Int64s  # per name: its number of rows
    time_ns: Int64s  # per name: its time
    most: int = MAX_KEPT_NAMES  # how many names are kept

    @property
    def kept(self) -> range:
        """The places in `codes` of the names that are kept."""
        return range(min(len(self.codes), self.most))

    @property
    def left_ns(self) -> int:
        """The time of the names that are not kept."""
        return int(self.time_ns[self.most :].sum())

    def sums(self, values: Int64s) -> Int64s:
        """Return the sum of the rows' values of each name."""
        return _sums(self.which, values, len(self.codes))

    def leading(self, value: Int32s, weight: Int64s) -> tuple[Int64s, Int64s]:
        """Return two columns, per name: the value with most weight (-1 for none), and the number of different values.

        Rows with the value -1 do not count.
        """
        is_known = value != NONE
        known, known_value = self.which[is_known], value[is_known]
        pairs, pair = numbered(known, known_value)
        of_name, values = known[pairs], known_value[pairs]
        order = np.lexsort((-_sums(pair, weight[is_known], len(pairs)), of_name))
        names, first = np.unique(of_name[order], return_index=True)
        result = np.full(len(self.codes), NONE, np.int64)
        result[names] = values[order][first]
        return result, np.bincount(of_name, minlength=len(self.codes))


def by_name(table: Table, rows: Int64s, time_ns: Int64s) -> NamedRows:
    """Return rows of a table by name; `time_ns` is that of each row."""
    first, which = numbered(table.name[rows])
    codes = table.name[rows][first]
    times = _sums(which, time_ns, len(codes))
    order = np.argsort(-times, kind="stable")
    order_of_name = np.empty(len(codes), np.int64)
    order_of_name[order] = np.arange(len(codes))
    which = order_of_name[which]
    return NamedRows(codes[order].astype(np.int64), which, np.bincount(which, minlength=len(codes)), times[order])


def _sums(which: Int64s, values: Int64s, count: int) -> Int64s:
    """Return the sum of the values of each number below `count`; a double holds 100 days in ns exactly."""
    return np.bincount(which, values, minlength=count).astype(np.int64)


@dataclass(frozen=True)
class Origin(Placed):
    """The place that most of the time of a name comes from; None where it is not known."""

    file: str | None
    line: int | None  # None where only the function is certain
    function: str | None
    places: int  # how many known places of the user's code the name comes from
    module: str | None  # the innermost module around most of the time, as torch numbers those of a class: `Linear_3`
    modules: int  # how many modules the name comes from


class Origins:
    """The places and modules from which rows come."""

    def __init__(self, trace: Trace, function: Int32s, sources: Sources) -> None:
        """Find the origins by `function`, the innermost Python function around each row."""
        self._names = trace.functions.names
        first, self._which = numbered(function)
        functions = function[first]
        lines, of_line = places_of(trace, users_of(trace, functions), sources)
        codes: dict[Place, int] = {}
        code = [codes.setdefault(line.place, len(codes)) if line else NONE for line in lines]
        self._places = tuple(codes)
        self._place_index = np.array(code, np.int32)[of_line]
        self._module = follow(trace.functions.name, module_around(trace, functions))

    def of(self, names: NamedRows, weight_ns: Int64s) -> list[Origin]:
        """Return the origin of each name that is kept; rows count by their time."""
        origins = []
        place, places = names.leading(self._place_index[self._which], weight_ns)
        module, modules = names.leading(self._module[self._which], weight_ns)
        for index in names.kept:
            file, line, function = self._places[place[index]] if place[index] != NONE else Place()
            around = module_name(self._names[module[index]]) if modules[index] else None
            origins.append(Origin(file, line, function, int(places[index]), around, int(modules[index])))
        return origins
