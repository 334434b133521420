"""What the guard finds, and its text: unsafe uses of memory, and synchronizes that the host did not need."""

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pinprof.ground.units import duration, size
from pinprof.races.clocks import Stream
from pinprof.races.pending_copies import Access, Copy, Extent, PendingCopies
from pinprof.rules.catalogue import (
    pin502_early_read,
    pin503_source_written,
    pin504_destination_written,
    pin505_memory_given_up,
    pin506_view_during_copy,
)
from pinprof.rules.rule import Rule
from pinprof.trace.lines import Place, SourceLine

MAX_FRAMES_BESIDE_LINE = 5
"""How many library frames a text shows between the user's line and the call."""
SOURCE_CHARS = 100


@dataclass(frozen=True)
class HostWait:
    """A wait of the host."""

    how: str
    """The waiting call or operation: `Event.synchronize`, `an operator`."""
    place: SourceLine


@dataclass(frozen=True)
class Violation:
    """Host memory, and two uses of it that nothing orders."""

    rule: Rule
    direction: str
    """`HtoD` or `DtoH`."""
    dtype: str
    shape: tuple[int, ...]
    """The shape of the copied tensor on the host."""
    nbytes: int
    stream: Stream
    """The stream of the copy."""
    copy: SourceLine
    """Where the copy was called, with its stack."""
    access: SourceLine
    """Where the host used the memory, with its stack."""
    action: str
    """What used it, and how: `aten::mean reads`."""
    access_stream: Stream | None
    """The stream of the access if that is a copy too; None if the host uses the memory."""
    thread: str
    """The name of the thread of the access."""
    had_ended: bool
    """Whether the copy had in fact ended by then."""
    copy_ns: float | None
    """How long the copy took on the GPU; None while a CUDA graph is captured."""
    sources: tuple[str, str]
    """The source text of the copy and of the access, empty if unknown."""
    latest_wait: HostWait | None
    """The latest wait between the two that did not cover the copy: for another stream, or for earlier work."""
    times: int = 1
    """How often these two places had this violation."""

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
    yield f"  {_timing(violation)}"
    if violation.latest_wait:
        where = _at(violation.latest_wait.place)
        yield f"  The host waited in between, but not for this copy: {violation.latest_wait.how} at {where}"
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


def _timing(violation: Violation) -> str:
    copy_time = f"; it took {duration(violation.copy_ns)} on the GPU" if violation.copy_ns is not None else ""
    if violation.had_ended:
        return f"The copy had in fact ended{copy_time}, but by luck: nothing had waited for it."
    return f"The copy had not ended{copy_time}."


@dataclass(eq=False)
class Synchronize:
    """A place where the program makes the host wait for the GPU."""

    call: str
    """`torch.cuda.synchronize`, `Stream.synchronize` or `Event.synchronize`."""
    place: SourceLine
    times: int = 0
    copies: int = 0
    """How many copies it was the first to prove to have ended."""
    is_needed: bool = False
    """Whether the host then used the memory of one of them in a way that would have been unsafe before the wait."""

    def __str__(self) -> str:
        awaited = f"waited for {self.copies} copies" if self.copies else "no copy was under way"
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"{_at(self.place)}: {self.call}, {times}; {awaited}, and the host used none of their memory"


class Synchronizes:
    """The synchronizes of a program by place, and the copies that each of them proved to have ended."""

    def __init__(self) -> None:
        self._sites: dict[tuple[str, Place], Synchronize] = {}
        self._settled = PendingCopies()
        self._settled_by: WeakKeyDictionary[Copy, Synchronize] = WeakKeyDictionary()

    def note_wait(self, call: str, line: SourceLine, settled: list[Copy]) -> None:
        """Note a synchronize, and the copies that it was the first to prove to have ended."""
        site = self._sites.setdefault((call, line.place), Synchronize(call, line))
        site.times += 1
        site.copies += len(settled)
        for copy in settled:
            self._settled.add(copy)
            self._settled_by[copy] = site

    def note_use(self, memory: Extent, kind: Access, is_over: Callable[[Copy], bool]) -> None:
        """Note a use of memory: it needed the synchronizes without which it would be unsafe.

        `is_over` returns whether a copy would have ended before this use even without the host.
        """
        for copy in self._settled.overlapping(memory):
            if is_over(copy):
                continue
            if copy.is_past or copy.conflicts_with(kind):
                self._settled_by[copy].is_needed |= not copy.is_past
                self._settled.remove(copy)

    def unneeded(self) -> tuple[Synchronize, ...]:
        """Return those that the host never needed, as far as its uses of memory show."""
        return tuple(site for site in self._sites.values() if not site.is_needed)
