"""Cuts a stream of bytes into blocks that begin and end with events, and reads what lies around the events."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from pinprof.trace.scan.events import Event, LooseFile, Metadata, decode_each, decode_events
from pinprof.trace.scan.layouts import SPACE
from pinprof.trace.scan.salvage import salvage, salvage_metadata
from pinprof.trace.scan.seams import SEAM, WIDEST, Block
from pinprof.trace.scan.words import PADDING
from pinprof.trace.start import START_BYTES, check_start

FIRST_BLOCK_BYTES = 512 << 10
"""The first blocks are small, so that all threads have one soon; each next one is twice as large, up to the largest."""
BLOCK_BYTES = 4 << 20
"""Large enough that a step over a block costs more than its call, small enough for the caches of a core."""
LARGEST_BLOCK = 64 << 20
"""A longer text without a seam is not read in blocks."""

HEADER = re.compile(rb'(?:\xef\xbb\xbf)?%b(?:\{.*?"traceEvents"%b:%b)?\[%b(?=\{%b")' % ((SPACE,) * 5), re.DOTALL)
LONGEST_EVENT = 1 << 16
"""A block does not end before an event longer than this."""
MOST_TRIES = 64
"""At most this many braces are tried to find the last event's: objects in arguments may follow each other as events
do."""


class Ending(NamedTuple):
    """What follows the last block, and what lies around the events."""

    events: list[Event]
    malformed: int
    repaired: int
    metadata: Metadata
    closed: bool
    """Whether the list of events ended: else the file was cut off."""
    around: bytes = b""
    """The JSON text of the file without its events, empty if it is not JSON."""


class Blocks:
    """The blocks of a stream of bytes, which can be iterated once; `ending` then tells what lies around them.

    If the stream does not hold events as torch writes them, there are no blocks, and `whole` holds all of it.
    """

    def __init__(self, content: Iterable[bytes]) -> None:
        self.whole: bytes | None = None
        self._chunks = iter(content)
        self._left = memoryview(b"")
        self.header = b""
        """What lies before the events, once the first block is there."""
        self.rest = b""
        """What follows the last block, from the beginning of an event on, once all blocks have come."""

    def __iter__(self) -> Iterator[Block]:
        """Return the blocks in order."""
        step = min(FIRST_BLOCK_BYTES, BLOCK_BYTES)
        buffer, size = self._filled(b"", step)
        check_start(bytes(buffer[: min(size, START_BYTES)]))
        while not ((match := HEADER.match(buffer, 0, size)) and _is_event(buffer, match.end(), size)):
            if size < len(buffer) - PADDING or size > LARGEST_BLOCK:
                self.whole = bytes(buffer[:size]) + self._everything()
                return
            buffer, size = self._filled(bytes(buffer[:size]), 2 * size)
        self.header = match[0].removeprefix(b"\xef\xbb\xbf")
        begin = match.end()
        while True:
            is_last = size < len(buffer) - PADDING
            end = _last_seam(buffer, begin, size)
            if end > begin:
                yield Block(buffer, begin, end)
                begin = end
            carried = bytes(buffer[begin:size])
            if is_last or len(carried) > LARGEST_BLOCK:
                self.rest = carried + self._everything()
                return
            step = min(2 * step, BLOCK_BYTES)
            buffer, size = self._filled(carried, len(carried) + step)
            begin = 0

    def _filled(self, carried: bytes, size: int) -> tuple[bytearray, int]:
        """Return a buffer with what was carried over and what follows in the stream, and how much that is."""
        buffer = bytearray(size + PADDING)
        buffer[: len(carried)] = carried
        filled = len(carried)
        while filled < size:
            if not self._left:
                self._left = memoryview(next(self._chunks, b""))
            taken = self._left[: size - filled]
            if not taken:
                break
            buffer[filled : filled + len(taken)] = taken
            filled += len(taken)
            self._left = self._left[len(taken) :]
        return buffer, filled

    def _everything(self) -> bytes:
        """Return what is left of the stream."""
        return bytes(self._left) + b"".join(self._chunks)

    def ending(self) -> Ending:
        """Return what follows the last block and what lies around the events, as far as it can be read."""
        text = b"[" + self.rest
        try:
            end = list_end(text)
            events, malformed = decode_events(text[:end])
        except (ValueError, RecursionError, msgspec.MsgspecError):
            found = salvage(self.rest, is_last=True)
            tail = found.rest.lstrip(b" \t\r\n,") if found.closed else b""
            return self._with_metadata(
                Ending(*found[:1], found.malformed, found.repaired, Metadata(), found.closed), tail
            )
        return self._with_metadata(Ending(events, malformed, 0, Metadata(), closed=True), b"]" + text[end:])

    def _with_metadata(self, ending: Ending, tail: bytes) -> Ending:
        """Return the ending with the metadata of the file, given what follows the events."""
        around = self.header + tail
        if around.startswith(b"["):
            return ending
        try:
            file = msgspec.json.decode(around, type=LooseFile)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ending._replace(metadata=salvage_metadata(around))
        more, malformed = decode_each(file.events or [])  # the events are there twice
        return ending._replace(
            events=[*ending.events, *more], malformed=ending.malformed + malformed, metadata=file, around=around
        )


def list_end(text: bytes) -> int:
    """Return where the JSON list at the beginning of a text ends; ValueError or RecursionError if it does not."""
    return json.JSONDecoder().raw_decode(text.decode("latin-1"))[1]


def _last_seam(buffer: bytearray, begin: int, size: int) -> int:
    """Return where the last event begins that is seen to be one, `begin` if it is the only one.

    If an event's arguments hold two objects beside each other, the second one is taken for an event if it has a key
    `ph`; no program is known to write such arguments.
    """
    at = size
    for _ in range(MOST_TRIES):
        at = buffer.rfind(b"{", begin, at)
        if at <= begin:
            break
        if SEAM.search(buffer, max(begin, at - WIDEST), at + 1) and _is_event(buffer, at, size):
            return at
    return begin


def _is_event(buffer: bytearray, begin: int, size: int) -> bool:
    """Return whether a whole object begins at this brace, and is an event."""
    text = buffer[begin : min(begin + LONGEST_EVENT, size)].decode("latin-1")
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "ph" in found
