"""Cuts a stream of bytes into blocks of whole events, and reads the text around the events."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from pinprof.trace.reader.events import NOT_EVENTS, Event, LooseFile, Metadata, decode_each, decode_events
from pinprof.trace.reader.not_a_trace import START_BYTES, check_start
from pinprof.trace.reader.salvage import salvage, salvage_metadata

BLOCK_BYTES = 128 << 10
"""Large enough that calls for each block cost little, small enough for the caches of a core."""
LARGEST_BLOCK = 64 << 20
"""A longer text without a seam between events is not read in blocks."""

JSON = json.JSONDecoder()
SPACE = rb"[ \t\r\n]*"
HEADER = re.compile(rb'(?:\xef\xbb\xbf)?%b(?:\{.*?"traceEvents"%b:%b)?\[%b(?=\{%b")' % ((SPACE,) * 5), re.DOTALL)
LONGEST_EVENT = 1 << 16
"""A block does not end before an event longer than this."""
SEAM = re.compile(rb"\}%b,%b\Z" % (SPACE, SPACE))
"""The text between two events."""
WIDEST_SEAM = 128
"""No program that writes traces puts more white space than this between two events."""
MOST_TRIES = 64
"""Braces that are tried to find that of the last event: objects in arguments may also follow each other."""


class FileEnd(NamedTuple):
    """The events after the last block, and the text around the events."""

    events: list[Event]
    malformed: int
    repaired: int
    metadata: Metadata
    closed: bool
    """Whether the list of events ended; otherwise the file was cut off."""
    around: bytes = b""
    """The JSON text of the file without its events, empty if it is not JSON."""


class Blocks:
    """The blocks of a stream of bytes, which can be iterated once; `ending` then returns the rest of the file.

    A block is the text of whole events, with the commas between and after them. If the stream does not hold events as
    torch writes them, there are no blocks, and `whole` holds all of it.
    """

    def __init__(self, content: Iterable[bytes]) -> None:
        self.whole: bytes | None = None
        self._chunks = (
            chunk[begin : begin + BLOCK_BYTES] for chunk in content for begin in range(0, len(chunk), BLOCK_BYTES)
        )
        self.header = b""
        """The text before the events; known when the first block has come."""
        self.rest = b""
        """The text after the last block, which begins with an event; known when all blocks have come."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the blocks in order."""
        text, is_last = self._filled(b"", max(BLOCK_BYTES, START_BYTES))
        check_start(text[:START_BYTES])
        while not ((match := HEADER.match(text)) and _is_event(text, match.end())):
            if is_last or len(text) > LARGEST_BLOCK:
                self.whole = text + b"".join(self._chunks)
                return
            text, is_last = self._filled(text, 2 * len(text))
        self.header = match[0].removeprefix(b"\xef\xbb\xbf")
        text = text[match.end() :]
        while True:
            end = _last_seam(text)
            if end:
                yield text[:end]
            text = text[end:]
            if is_last or len(text) > LARGEST_BLOCK:
                break
            text, is_last = self._filled(text, 2 * len(text) + BLOCK_BYTES)
        self.rest = text + b"".join(self._chunks)

    def _filled(self, carried: bytes, size: int) -> tuple[bytes, bool]:
        """Return the carried text with more of the stream, `size` bytes or more, and whether the stream has ended."""
        pieces, filled = [carried], len(carried)
        while filled < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b"".join(pieces), True
            pieces.append(chunk)
            filled += len(chunk)
        return b"".join(pieces), False

    def ending(self) -> FileEnd:
        """Return the events after the last block and the text around the events, as far as they can be read."""
        text = b"[" + self.rest
        try:
            end = list_end(text)
            events, malformed = decode_events(text[:end])
        except (ValueError, RecursionError, msgspec.MsgspecError):
            salvaged = salvage(self.rest, is_last=True)
            tail = salvaged.rest.lstrip(b" \t\r\n,") if salvaged.closed else b""
            ending = FileEnd(salvaged.events, salvaged.malformed, salvaged.repaired, Metadata(), salvaged.closed)
            return self._with_metadata(ending, tail)
        return self._with_metadata(FileEnd(events, malformed, 0, Metadata(), closed=True), b"]" + text[end:])

    def _with_metadata(self, ending: FileEnd, tail: bytes) -> FileEnd:
        """Return the ending with the metadata of the file; `tail` is the text after the events."""
        around = self.header + tail
        if around.startswith(b"["):
            return ending
        try:
            file = msgspec.json.decode(around, type=LooseFile)
        except NOT_EVENTS:
            return ending._replace(metadata=salvage_metadata(around))
        more, malformed = decode_each(file.events or [])  # the events are there twice
        return ending._replace(
            events=[*ending.events, *more], malformed=ending.malformed + malformed, metadata=file, around=around
        )


def as_list(block: bytes) -> bytes:
    """Return the JSON list of the events of a block."""
    return b"".join((b"[", memoryview(block)[: block.rfind(b"}") + 1], b"]"))


def list_end(text: bytes) -> int:
    """Return where the JSON list that begins a text ends. Raises ValueError or RecursionError if it does not."""
    return JSON.raw_decode(text.decode("latin-1"))[1]


def _last_seam(text: bytes) -> int:
    """Return where the last event begins that is recognized as one; 0 if it is the only one.

    If the arguments of an event hold two objects in a row, the second one is taken for an event if it has a key `ph`;
    no program is known to write such arguments.
    """
    position = len(text)
    for _ in range(MOST_TRIES):
        position = text.rfind(b"{", 0, position)
        if position <= 0:
            break
        if SEAM.search(text, max(0, position - WIDEST_SEAM), position) and _is_event(text, position):
            return position
    return 0


def _is_event(text: bytes, begin: int) -> bool:
    """Return whether a whole event begins at this brace."""
    try:
        value, _ = JSON.raw_decode(text[begin : begin + LONGEST_EVENT].decode("latin-1"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "ph" in value
