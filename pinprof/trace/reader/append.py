"""Adds events to a trace file: its own bytes stay as they are, and more events follow its last one."""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.trace.reader.blocks import Blocks, list_end, without_trailing
from pinprof.trace.reader.events import NOT_EVENTS
from pinprof.trace.reader.read import LIST_START
from pinprof.trace.reader.salvage import salvage

NUMBERS_FROM = 1_886_000_000
"""Perfetto keeps process and thread ids as unsigned 32-bit numbers, and gives low ones to ids that are texts."""
NUMBERS = 1_000_000
ROOM = 10_000
"""The added events may use this number of ids in a row."""
NUMBER = re.compile(rb"1886[0-9]{6}")
NUMBER_BYTES = 10


class UnusedIds:
    """Finds ids that no event has, by looking at every number in the text of the file."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._carried = b""

    def look(self, text: bytes | memoryview) -> None:
        """Look at the next piece of the text."""
        seam = self._carried + bytes(text[: NUMBER_BYTES - 1])
        for numbers in (NUMBER.findall(seam), NUMBER.findall(text)):
            self._used.update(int(number) - NUMBERS_FROM for number in numbers)
        end = bytes(text[1 - NUMBER_BYTES :])
        self._carried = (self._carried + end)[1 - NUMBER_BYTES :]

    def first(self) -> int:
        """Return the first of `ROOM` successive numbers that did not occur."""
        rooms = {number // ROOM for number in self._used}
        free = next((block for block in range(NUMBERS // ROOM) if block not in rooms), None)
        if free is None:
            raise TraceError("uses every process id that pinprof could take for its own tracks")
        return NUMBERS_FROM + free * ROOM


class WithEvents:
    """The text of a trace file with more events after its own, as pieces of bytes; it can be iterated once.

    `make` gets the first of `ROOM` successive ids that are not in the file, and returns the texts of one or more
    events. A file that was cut off is closed after its last whole event; then `cut` is set after the last piece.

    Raises TraceError, without the name, if this is not a trace.
    """

    def __init__(self, content: Iterable[bytes], make: Callable[[int], Iterable[bytes]]) -> None:
        self.cut = False
        self._content = content
        self._make = make

    def __iter__(self) -> Iterator[bytes]:
        """Yield the file."""
        unused, blocks = UnusedIds(), Blocks(self._content)
        first = True
        before = b""
        for block in blocks:
            before = blocks.header + block if first else block
            first = False
            unused.look(before)
            yield before
        if blocks.whole is not None:
            kept, tail = self._split_whole(blocks.whole.removeprefix(b"\xef\xbb\xbf"))
        else:
            kept, tail = self._split(blocks.rest, blocks.header)
            kept = blocks.header + kept if first else kept
        unused.look(kept)
        unused.look(tail)
        yield kept
        yield from self._events(unused.first(), kept.rstrip() or before.rstrip())
        yield tail

    def _events(self, number: int, before: bytes) -> Iterator[bytes]:
        separator = b"\n" if before.endswith((b"[", b",")) else b",\n"
        for event in self._make(number):
            yield separator + event
            separator = b",\n"
        yield b"\n"

    def _split(self, rest: bytes, header: bytes) -> tuple[bytes, bytes]:
        """Return the last events of a file, and the text after its list of events."""
        try:
            end = list_end(b"[" + rest) - 2  # of the bracket that closes it
        except (ValueError, RecursionError):
            return self._split_broken(rest, header)
        return rest[:end].rstrip(), self._whole_tail(header, rest[end:])

    def _split_broken(self, rest: bytes, header: bytes) -> tuple[bytes, bytes]:
        """Split, as `_split` does, a text that is not JSON: it is cut off, or one of its events is broken."""
        salvaged = salvage(rest, is_last=True)
        kept = rest[: len(rest) - len(salvaged.rest)].rstrip()
        if salvaged.closed:
            return kept, self._whole_tail(header, salvaged.rest.lstrip(b" \t\r\n,"))
        self.cut = True
        return kept, _closing(header)

    def _split_whole(self, data: bytes) -> tuple[bytes, bytes]:
        """Return a file up to the end of its list of events, and the rest of it."""
        try:
            end = _end_of_events(data)
        except NOT_EVENTS:
            begin = LIST_START.search(data)
            if begin is None:
                raise TraceError("has no list of events that pinprof could add to") from None
            header, events = data[: begin.end()], data[begin.end() :].lstrip()
            kept, tail = self._split_broken(events, header)
            return header + kept, tail
        return data[:end].rstrip(), data[end:]

    def _whole_tail(self, header: bytes, tail: bytes) -> bytes:
        """Return the text after the events; only the closing brackets if this part is cut off."""
        tail = without_trailing(header + tail)[0][len(header) :]
        if _is_json(header + tail) or not _is_json(header + _closing(header)):
            return tail
        self.cut = True
        return _closing(header)


def _end_of_events(data: bytes) -> int:
    """Return the position of the bracket that closes the list of events. Raises an error of msgspec."""
    if data.lstrip().startswith(b"["):
        events = msgspec.json.decode(data, type=msgspec.Raw)
    else:
        events = msgspec.json.decode(data, type=_Events).events
    text = memoryview(events)  # a view on the data: its address gives the position
    return _address(text) - _address(memoryview(data)) + len(bytes(text).rstrip()) - 1


def _address(text: memoryview) -> int:
    return int(np.frombuffer(text, np.uint8).ctypes.data)


class _Events(msgspec.Struct):
    """A trace file, decoded only to find its events."""

    events: msgspec.Raw = msgspec.field(name="traceEvents")


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except NOT_EVENTS:
        return False
    return True


def _closing(header: bytes) -> bytes:
    return b"]}" if header.lstrip().startswith(b"{") else b"]"
