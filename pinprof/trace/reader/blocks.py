"""Cuts a stream of bytes into blocks that begin and end with events, and reads what lies around the events."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from pinprof.trace.reader.events import NOT_EVENTS, Event, LooseFile, Metadata, decode_each, decode_events
from pinprof.trace.reader.not_a_trace import START_BYTES, check_start
from pinprof.trace.reader.salvage import salvage, salvage_metadata

BLOCK_BYTES = 128 << 10
"""Large enough that the work on a block costs more than its calls, small enough for the caches of a core."""
LARGEST_BLOCK = 64 << 20
"""A longer text without a seam is not read in blocks."""

SPACE = rb"[ \t\r\n]*"
HEADER = re.compile(rb'(?:\xef\xbb\xbf)?%b(?:\{.*?"traceEvents"%b:%b)?\[%b(?=\{%b")' % ((SPACE,) * 5), re.DOTALL)
LONGEST_EVENT = 1 << 16
"""A block does not end before an event longer than this."""
SEAM = re.compile(rb"\}%b,%b\Z" % (SPACE, SPACE))
"""What lies between two events."""
WIDEST = 128
"""No program that writes traces puts more white space than this between two events."""
MOST_TRIES = 64
"""At most this many braces are tried to find the last event's: objects in arguments may follow each other as events
do."""


class FileEnd(NamedTuple):
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
    """The blocks of a stream of bytes, which can be iterated once; `ending` then returns what lies around them.

    A block is the text of whole events, with the commas between and behind them. If the stream does not hold events as
    torch writes them, there are no blocks, and `whole` holds all of it.
    """

    def __init__(self, content: Iterable[bytes]) -> None:
        self.whole: bytes | None = None
        self._chunks = (
            chunk[begin : begin + BLOCK_BYTES] for chunk in content for begin in range(0, len(chunk), BLOCK_BYTES)
        )
        self.header = b""
        """What lies before the events, once the first block is there."""
        self.rest = b""
        """What follows the last block, from the beginning of an event on, once all blocks have come."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the blocks in order."""
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
        """Return what was carried over with what follows in the stream, and whether it has ended."""
        pieces, filled = [carried], len(carried)
        while filled < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b"".join(pieces), True
            pieces.append(chunk)
            filled += len(chunk)
        return b"".join(pieces), False

    def ending(self) -> FileEnd:
        """Return what follows the last block and what lies around the events, as far as it can be read."""
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
        """Return the ending with the metadata of the file, given what follows the events."""
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
    """Return where the JSON list at the beginning of a text ends; ValueError or RecursionError if it does not."""
    return json.JSONDecoder().raw_decode(text.decode("latin-1"))[1]


def _last_seam(text: bytes) -> int:
    """Return where the last event begins that is seen to be one, 0 if it is the only one.

    If an event's arguments hold two objects in a row, the second one is taken for an event if it has a key
    `ph`; no program is known to write such arguments.
    """
    at = len(text)
    for _ in range(MOST_TRIES):
        at = text.rfind(b"{", 0, at)
        if at <= 0:
            break
        if SEAM.search(text, max(0, at - WIDEST), at) and _is_event(text, at):
            return at
    return 0


def _is_event(text: bytes, begin: int) -> bool:
    """Return whether a whole object begins at this brace, and is an event."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text[begin : begin + LONGEST_EVENT].decode("latin-1"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "ph" in value
