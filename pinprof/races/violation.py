"""What the guard finds, and its text: unsafe uses of memory."""

import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from pinprof.ground.units import size
from pinprof.races.clocks import Stream
from pinprof.races.pending_copies import Access
from pinprof.rules.catalogue import (
    pin502_early_read,
    pin503_source_written,
    pin504_destination_written,
    pin505_memory_given_up,
    pin506_view_during_copy,
)
from pinprof.rules.rule import Rule
from pinprof.trace.lines import SourceLine

MAX_FRAMES_BESIDE_LINE = 5  # how many library frames a text shows between the user's line and the call
SOURCE_CHARS = 100


@dataclass(frozen=True)
class Violation:
    """Host memory, and two uses of it that nothing orders."""

    rule: Rule
    direction: str  # `HtoD` or `DtoH`
    dtype: str
    shape: tuple[int, ...]  # the shape of the copied tensor on the host
    nbytes: int
    stream: Stream  # the stream of the copy
    copy: SourceLine  # where the copy was called, with its stack
    access: SourceLine  # where the host used the memory, with its stack
    action: str  # what used it, and how: `aten::mean reads`
    access_stream: Stream | None  # the stream of the access if that is a copy too; None if the host uses the memory
    thread: str  # the name of the thread of the access
    had_ended: bool  # whether the copy had in fact ended by then
    sources: tuple[str, str]  # the source text of the copy and of the access, empty if unknown
    times: int = 1  # how often these two places had this violation

    @property
    def is_certain(self) -> bool:
        """Whether something is wrong: a view of a copy's source may be for reading, which is safe."""
        return self.direction == "DtoH" or self.rule is not pin506_view_during_copy.RULE

    @property
    def fix(self) -> str:
        """What to do."""
        if self.access_stream is None:
            return self.rule.fix
        return (
            f"Record an event after the copy, on {self.stream}, and let {self.access_stream} wait for it "
            "(wait_event) before the second copy is queued."
        )

    @property
    def headline(self) -> str:
        """Rule and both places on one line."""
        return (
            f"{self.rule.id}: {self.action} at {_at(self.access)}; nothing had waited for the copy at {_at(self.copy)}"
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def rule_for(kind: Access, *, to_host: bool) -> Rule:
    """Return the rule that an access breaks, by what it does and by the direction of the copy."""
    if kind == "unpin":
        return pin505_memory_given_up.RULE
    if kind == "view":
        return pin506_view_during_copy.RULE
    if kind == "read":
        return pin502_early_read.RULE
    return (pin504_destination_written if to_host else pin503_source_written).RULE


def _lines(violation: Violation) -> Iterator[str]:
    doubt = "" if violation.is_certain else " (safe if it is only read)"
    yield f"{violation.rule.id}: {violation.rule.title}{doubt}"
    copied = f"{violation.direction} of {violation.dtype} {violation.shape}, {size(violation.nbytes)}"
    yield from _side(f"the copy: {copied}, on {violation.stream}", violation.copy, violation.sources[0])
    thread = "" if violation.thread == "MainThread" else f" in thread {violation.thread}"
    on_stream = f" on {violation.access_stream}" if violation.access_stream else ""
    yield from _side(f"the access: {violation.action}{on_stream}{thread}", violation.access, violation.sources[1])
    had_ended = "had in fact ended, but by luck: nothing had waited for it" if violation.had_ended else "had not ended"
    yield f"  The copy {had_ended}."
    if violation.times > 1:
        yield f"  Seen {violation.times} times from these two places; the rest describes the first time."
    yield f"  Fix: {violation.fix}"


def source_of(place: SourceLine) -> str:
    """Return the text of a line, if its file is at the path that reports show."""
    return linecache.getline(place.file, place.line).strip() if place.line is not None else ""


def _side(title: str, place: SourceLine, source: str) -> Iterator[str]:
    yield from (f"  {title}", f"    at {_at(place)}")
    if source:
        yield f"        {source[:SOURCE_CHARS]}"
    own_frame = f"{place.file}:{place.line}:{place.function}"
    depth = place.stack.index(own_frame) if own_frame in place.stack else 0
    for frame in reversed(place.stack[:depth][:MAX_FRAMES_BESIDE_LINE]):
        yield f"      within it {_frame(frame)}"
    for frame in place.stack[depth + 1 :][:MAX_FRAMES_BESIDE_LINE]:
        yield f"      called from {_frame(frame)}"


def _at(place: SourceLine) -> str:
    return f"{place.file}:{place.line} in {place.function}"


def _frame(frame: str) -> str:
    return " in ".join(frame.rsplit(":", 1))
