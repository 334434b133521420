"""What pinprof saw of waits without the profiler: their lines, and how often they come."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from pinprof.trace.lines import SourceLine

WATCHED_KEY = "pinprof_watched"
"""Key of what was watched in the trace file."""

BACKWARD_CALL = "run_backward"
"""What Python calls to run the autograd engine, whose threads wait without a Python frame of their own."""


@dataclass(frozen=True)
class WatchedWait:
    """Waits at one place of the program, over the steps that were watched."""

    line: SourceLine
    called: str | None
    """What the user's line called: a function's name, `bool`, `[]`, ...; None where that is not certain."""
    waited: str | None
    """What the innermost Python frame called, which may be a library's: that call waited."""
    thread: str
    """`main`, or `other`."""
    waits: int
    at: tuple[int, ...]
    """The watched steps in which it waited, counted from 0, in order."""


@dataclass(frozen=True)
class Watched:
    """The waits that torch's sync debug mode told of over some steps."""

    steps: int
    """Complete steps that were watched; what came after them has the next number."""
    waits: tuple[WatchedWait, ...]
    sequences: tuple[tuple[int, ...], ...] | None = None
    """The waits of the main thread in a step, in order, as indices into `waits`; each sequence once.

    None where they are too many.
    """

    def without(self, dropped: Collection[int]) -> "Watched":
        """Return the same without some waits, by index, and without the steps that had them."""
        number = {index: place for place, index in enumerate(sorted({*range(len(self.waits))} - {*dropped}))}
        sequences = self.sequences and tuple(
            tuple(number[index] for index in sequence)
            for sequence in self.sequences
            if all(index in number for index in sequence)
        )
        return Watched(self.steps, tuple(self.waits[index] for index in number), sequences)


def watched_of_metadata(entry: object) -> Watched | None:
    """Return what was watched from pinprof's metadata; None if it is missing or malformed."""
    try:
        watched = msgspec.convert(entry, Watched)
    except msgspec.ValidationError:
        return None
    named = (index for sequence in watched.sequences or () for index in sequence)
    whole = all(0 <= index < len(watched.waits) for index in named)
    seen = all(wait.at and 0 <= min(wait.at) <= max(wait.at) <= watched.steps for wait in watched.waits)
    return watched if whole and seen else None


def period(at: Collection[int], steps: int) -> int | None:
    """Return the period of what comes in these of so many steps; None where the gaps differ, or it came only once."""
    places = sorted(set(at))
    if len(places) == steps == 1:
        return None
    gaps = {after - before for before, after in pairwise(places)}
    if len(gaps) != 1:
        return None
    (gap,) = gaps
    return gap if places[0] < gap and steps - places[-1] <= gap else None
