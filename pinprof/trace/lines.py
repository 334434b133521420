"""Places in the code, and the source lines of waits, which pinprof records because Kineto's stacks have none."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

from msgspec import Meta

from pinprof.document import converted

LINES_KEY = "pinprof_lines"  # key of the recorded lines in the trace file
LINE_MARK = "pinprof line "
"""While lines are recorded, an annotation of this name and a number follows each wait on its thread."""
CONTEXTS_KEY = "pinprof_contexts"  # key of the contexts of the recorded waits in the trace file
END_OF_STEP = -1  # in a context: no more ops, for the step begins or ends here


class Place(NamedTuple):
    """A place in the user's own code, or in a library's; None where it is not known."""

    file: str | None = None
    line: int | None = None
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line is not None else self.function or ""

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in options: `FILE:LINE` and `FILE:FUNCTION`, as far as known."""
        ends = (self.line, self.function) if self.file is not None else ()
        return tuple(f"{self.file}:{end}" for end in ends if end is not None)


class Placed:
    """Anything that has a place in the code, in fields of these names."""

    file: str | None
    line: int | None
    function: str | None

    @property
    def place(self) -> Place:
        """The place by itself, which can be compared."""
        return Place(self.file, self.line, self.function)


@dataclass(frozen=True)
class SourceLine(Placed):
    """The place in the user's own code from which a wait was called."""

    file: str
    line: int | None  # None where only the function is certain
    function: str
    stack: tuple[str, ...] = ()  # the stack of the call: `FILE:LINE:FUNCTION`, innermost first
    cause: str | None = None  # why the host waited, if the recorded Python functions show more than the ops


@dataclass(frozen=True)
class RecordedLines:
    """The places of the waits of one kind in a step that has `len(at)` of them.

    A trace has one such record for each number of waits that its steps have.
    """

    op: str  # the outermost op around the wait; the call itself if there is none
    thread: str  # the role of the thread
    at: tuple[SourceLine | None, ...]  # in the order of the waits; None where a place is not certain


@dataclass(frozen=True)
class Context:
    """The ops around a wait in its step: those before and after it on its thread, the nearest first.

    Each op is an index into `Contexts.names`. Both sequences end with `END_OF_STEP` where the step ends, or after the
    number of ops that is kept.
    """

    op: str  # as in `RecordedLines`
    thread: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    line: int  # index into `Contexts.lines`, -1 where none was certain
    most: int  # the largest number of waits of one step that had this context


@dataclass(frozen=True)
class Contexts:
    """The contexts of all waits whose lines were recorded, each once."""

    names: tuple[str, ...] = ()
    lines: tuple[SourceLine, ...] = ()
    waits: tuple[Context, ...] = ()


def contexts_of_metadata(entry: object) -> Contexts | None:
    """Return the contexts from pinprof's metadata; None if they are missing or malformed."""
    contexts = converted(entry, Contexts)
    if contexts is None:
        return None
    names, lines = len(contexts.names), len(contexts.lines)
    are_valid = all(
        -1 <= wait.line < lines and all(END_OF_STEP <= name < names for name in wait.before + wait.after)
        for wait in contexts.waits
    )
    return contexts if are_valid else None


OPS_KEY = "pinprof_ops"  # key of the places of ops in the trace file


@dataclass(frozen=True)
class OpPlace(Placed):
    """The only place in the user's own code from which the ops of one name, or those of a loop, launch work."""

    op: str
    file: str
    line: int | None
    function: str


MAX_RECORDED_MS, MAX_RECORDED_NS = 10**9, 10**15  # no code runs for longer in some recorded steps
MAX_WATCHED_STEPS = 10**6  # more steps than are ever watched
BACKWARD_KEY = "pinprof_backward"  # key of the Python code of backward passes in the trace file


@dataclass(frozen=True)
class PauseCode(Placed):
    """Code that runs in pauses: a line of the program, and the functions of a library that it calls there."""

    file: str | None
    """None where no function of the program is around it."""
    line: int | None
    function: str | None
    called: tuple[str, ...]
    """The library's function, and the one within it that takes the time if that is another; empty for own code."""
    package: str
    """The package of the library's function; empty for own code."""
    ns: float
    """The time in all complete steps."""


def backward_of_metadata(entry: object) -> tuple[PauseCode, ...]:
    """Return the Python code of backward passes from pinprof's metadata; none if it is missing or malformed."""
    return tuple(code for code in converted(entry, tuple[PauseCode, ...]) or () if 1 <= code.ns <= MAX_RECORDED_NS)


WATCHED_KEY = "pinprof_watched"  # key of the watched waits in the trace file
BACKWARD_CALL = "run_backward"
"""The function that Python calls to run the autograd engine, whose threads have no Python frames of their own."""


@dataclass(frozen=True)
class WatchedWait:
    """Waits at one place of the program, over the steps that were watched."""

    line: SourceLine
    called: str | None  # the call in the user's line: a name, `bool`, `[]`, ...; None where that is not certain
    waited: str | None  # the call that waited, in the innermost Python frame, which may be a library's
    thread: str  # `main`, or `other`
    waits: int
    at: tuple[int, ...]  # the watched steps in which it waited, counted from 0, in order


@dataclass(frozen=True)
class DebugModeWaits:
    """The waits that torch's sync debug mode reported over some steps."""

    steps: Annotated[int, Meta(ge=0, le=MAX_WATCHED_STEPS)]
    """The number N of complete steps that were watched, 0 to N - 1; waits after the last have step number N."""
    waits: tuple[WatchedWait, ...]
    sequences: tuple[tuple[int, ...], ...] | None = None
    """The waits of the main thread in a step, in order, as indices into `waits`; each sequence once.

    None where they are too many.
    """


def watched_of_metadata(entry: object) -> DebugModeWaits | None:
    """Return the watched waits from pinprof's metadata; None if they are missing or malformed."""
    watched = converted(entry, DebugModeWaits)
    if watched is None:
        return None
    named = (index for sequence in watched.sequences or () for index in sequence)
    are_waits = all(0 <= index < len(watched.waits) for index in named)
    are_steps = all(wait.at and 0 <= min(wait.at) <= max(wait.at) <= watched.steps for wait in watched.waits)
    return watched if are_waits and are_steps else None


def period(indices: Collection[int], steps: int) -> int | None:
    """Return after how many steps something returns, by the steps that have it; None if gaps differ, or of one step."""
    ordered = sorted(set(indices))
    if len(ordered) == steps == 1:
        return None
    gaps = {after - before for before, after in pairwise(ordered)}
    if len(gaps) != 1:
        return None
    (gap,) = gaps
    return gap if ordered[0] < gap and steps - ordered[-1] <= gap else None
