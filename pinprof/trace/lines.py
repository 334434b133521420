"""Places in the code, and the source lines of waits that pinprof records: a Kineto stack has no lines of calls."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

LINES_KEY = "pinprof_lines"
"""Key of the recorded lines in the trace file."""

LINE_MARK = "pinprof line "
"""While lines are recorded, an annotation of this name and a number follows each wait on its thread."""


class Place(NamedTuple):
    """A place in the user's own code, or in a library's; None where it is not known."""

    file: str | None = None
    line: int | None = None
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line is not None else self.function or ""

    @property
    def names(self) -> tuple[str, ...]:
        """By what options take it: `FILE:LINE` and `FILE:FUNCTION`, as far as known."""
        ends = (self.line, self.function) if self.file is not None else ()
        return tuple(f"{self.file}:{end}" for end in ends if end is not None)


class Placed:
    """Anything that has a place in the user's own code, in fields of these names."""

    file: str | None
    line: int | None
    function: str | None

    @property
    def place(self) -> Place:
        """The place alone, by which such things are compared."""
        return Place(self.file, self.line, self.function)


@dataclass(frozen=True)
class SourceLine(Placed):
    """The place in the user's own code from which a wait was called."""

    file: str
    line: int | None
    """None where only the function is certain."""
    function: str
    stack: tuple[str, ...] = ()
    """`FILE:LINE:FUNCTION`, innermost first, of the call itself."""
    cause: str | None = None
    """Why the host waited, where the recorded Python functions told more than the ops."""


@dataclass(frozen=True)
class RecordedLines:
    """The places of the waits of one kind in a step, in order; None where none was certain.

    There is one for each number of such waits that steps have.
    """

    op: str
    """The outermost op around the wait; the call itself where there is none."""
    thread: str
    """Role of the thread."""
    at: tuple[SourceLine | None, ...]


def lines_of_metadata(entry: object) -> tuple[RecordedLines, ...]:
    """Return the recorded lines from pinprof's metadata; none if they are missing or malformed."""
    try:
        return msgspec.convert(entry, tuple[RecordedLines, ...])
    except msgspec.ValidationError:
        return ()
