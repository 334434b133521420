"""Where in the program ops and launches come from: the user's line, and the module."""

from dataclasses import dataclass

import numpy as np

from pinprof.analyses.spent.names import Names
from pinprof.trace.callers import places_of, users_of
from pinprof.trace.lines import Place, Placed
from pinprof.trace.links import follow
from pinprof.trace.modules import module_around, module_name
from pinprof.trace.sources import Sources
from pinprof.trace.tables import NONE, Int32s, Int64s, Trace


@dataclass(frozen=True)
class Origin(Placed):
    """The place that most of the time of a name comes from; None where it is not known."""

    file: str | None
    line: int | None
    """None where only the function is certain."""
    function: str | None
    places: int
    """How many known places of the user's code there are."""
    module: str | None
    """The innermost module around most of it, as torch numbers those of a class: `Linear_3`."""
    modules: int
    """How many there are."""


class Origins:
    """The places and modules of rows."""

    def __init__(self, trace: Trace, function: Int32s, sources: Sources) -> None:
        """Find them by the innermost Python function around each row."""
        self._names = trace.functions.names
        functions, self._which = np.unique(function, return_inverse=True)
        lines, of_line = places_of(trace, users_of(trace, functions), sources)
        codes: dict[Place, int] = {}
        code = [codes.setdefault(line.place, len(codes)) if line else NONE for line in lines]
        self._places = tuple(codes)
        self._place = np.array(code, np.int32)[of_line]
        self._module = follow(trace.functions.name, module_around(trace, functions))

    def of(self, names: Names, weight_ns: Int64s) -> list[Origin]:
        """Return the origin of each name that is kept; each row counts for its time."""
        found = []
        place, places = names.leading(self._place[self._which], weight_ns)
        module, modules = names.leading(self._module[self._which], weight_ns)
        for at in names.kept:
            file, line, function = self._places[place[at]] if place[at] != NONE else Place()
            named = module_name(self._names[module[at]]) if modules[at] else None
            found.append(Origin(file, line, function, int(places[at]), named, int(modules[at])))
        return found
