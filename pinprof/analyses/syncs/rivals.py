"""What watching tells of waits: the lines that may compete for a wait, and the order of lines in a step."""

from collections import defaultdict
from functools import cached_property

from pinprof.analyses.syncs.asked import is_of, is_shown, may_be
from pinprof.analyses.syncs.contexts import Kind, Known, agreed
from pinprof.trace.lines import Place, SourceLine
from pinprof.trace.watched import BACKWARD_CALL, Watched, WatchedWait

ENOUGH_STEPS = 20
"""Watched steps after which a line that was not seen is taken not to wait: four times as many as are recorded."""

EDGE = -1
"""Stands for the beginning and the end of a step."""


class Rivals:
    """The watched waits of a trace, beside those whose lines were recorded with their contexts."""

    def __init__(self, known: Known, watched: Watched | None) -> None:
        self._known = known
        self._watched = watched
        self._of: dict[Kind, list[int]] = {}
        self._beside: dict[tuple[Place, Kind], bool] = {}
        self._kinds: dict[Place, set[Kind]] = defaultdict(set)
        self._lines: dict[tuple[Kind, Place, tuple[str, ...]], SourceLine] = {}
        for kind in known.kinds:
            for line in filter(None, known.lines(kind)):
                self._kinds[line.place].add(kind)
                self._lines[kind, line.place, line.stack] = line

    @property
    def are_known(self) -> bool:
        """Whether so many steps were watched that a line that was not seen does not wait."""
        return self._watched is not None and self._watched.steps >= ENOUGH_STEPS

    def of(self, kind: Kind) -> list[int]:
        """Return the watched waits that may be of a kind, and whose place is not one of its recorded lines."""
        if kind not in self._of:
            recorded = {line.place for line in self._known.lines(kind) if line}
            waits = self._watched.waits if self._watched else ()
            self._of[kind] = [number for number in self._possible(kind) if waits[number].line.place not in recorded]
        return self._of[kind]

    def places(self, kind: Kind) -> set[Place]:
        """Return the places of the rivals of a kind."""
        return {self._watched.waits[number].line.place for number in self.of(kind)} if self._watched else set()

    def only(self, kind: Kind) -> SourceLine | None:
        """Return the line of a wait of which no line was recorded, if one alone fits; else None."""
        if self._watched is None or not self.are_known or self._known.lines(kind):
            return None
        waits = [self._watched.waits[number] for number in self.of(kind)]
        return agreed(wait.line for wait in waits) if all(self._is_of(wait, kind) for wait in waits) else None

    def beside(self, line: SourceLine, kind: Kind) -> bool:
        """Return whether a wait at another line, which may be of the kind, was seen between the same waits."""
        if self._watched is None:
            return False
        if (line.place, kind) not in self._beside:
            waits = self._watched.waits
            here = {number for number, wait in enumerate(waits) if wait.line.place == line.place}
            others = {number for number in self._possible(kind) if number not in here}
            around = [set().union(*(self._neighbours[number] for number in some)) for some in (here, others)]
            self._beside[line.place, kind] = bool(around[0] & around[1])
        return self._beside[line.place, kind]

    def _possible(self, kind: Kind) -> list[int]:
        """Return the watched waits that may be of a kind."""
        waits = self._watched.waits if self._watched else ()
        return [number for number, wait in enumerate(waits) if self._may_be(wait, kind)]

    @cached_property
    def _neighbours(self) -> dict[int, set[tuple[int, int]]]:
        """Per watched wait: the waits before and after it in the steps."""
        neighbours: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for sequence in self.sequences:
            for before, number, after in zip((EDGE, *sequence), sequence, (*sequence[1:], EDGE), strict=False):
                neighbours[number].add((before, after))
        return neighbours

    @property
    def sequences(self) -> tuple[tuple[int, ...], ...]:
        """The watched waits of the main thread in each step, in order; none where they were too many."""
        return (self._watched and self._watched.sequences) or ()

    @cached_property
    def shown(self) -> frozenset[int]:
        """The watched waits that the trace of any step shows."""
        waits = self._watched.waits if self._watched else ()
        return frozenset(number for number, wait in enumerate(waits) if is_shown(wait))

    def that_fit(self, kind: Kind, op: str) -> frozenset[int]:
        """Return the watched waits that may be of a kind, or wait in an op on its thread."""
        waits = self._watched.waits if self._watched else ()
        return frozenset(
            number
            for number, wait in enumerate(waits)
            if _on_thread(wait, kind) and (wait.waited == BACKWARD_CALL or may_be(wait, op) or may_be(wait, kind[0]))
        )

    def line(self, number: int, kind: Kind) -> SourceLine:
        """Return the line of a watched wait as it was recorded, if it was: its cause is known."""
        assert self._watched is not None
        line = self._watched.waits[number].line
        return self._lines.get((kind, line.place, line.stack), line)

    def _may_be(self, wait: WatchedWait, kind: Kind) -> bool:
        recorded = self._recorded_kinds(wait)
        return kind in recorded if recorded else _on_thread(wait, kind) and may_be(wait, kind[0])

    def _is_of(self, wait: WatchedWait, kind: Kind) -> bool:
        recorded = self._recorded_kinds(wait)
        return kind in recorded if recorded else _on_thread(wait, kind) and is_of(wait, kind[0])

    def _recorded_kinds(self, wait: WatchedWait) -> set[Kind]:
        """Return the kinds of the waits that were recorded there, if what was called is one of them."""
        kinds = self._kinds.get(wait.line.place, set())
        fits = any(_on_thread(wait, kind) and may_be(wait, kind[0]) for kind in kinds)
        return {kind for kind in kinds if _on_thread(wait, kind)} if fits else set()


def _on_thread(wait: WatchedWait, kind: Kind) -> bool:
    """Return whether a wait may be on a thread of the kind; the autograd engine's waits are told by `backward`."""
    if wait.waited == BACKWARD_CALL:
        return kind[1] in {"autograd", "main"}
    return kind[1] != "main" if wait.thread == "other" else kind[1] == "main"
