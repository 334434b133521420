"""Cuts a stream of bytes into blocks of whole events, and reads the text around the events."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
import numpy as np

from pinprof.ground.errors import TraceError
from pinprof.trace.reader.events import NOT_EVENTS, Event, LooseFile, Metadata, decode_each, decode_events
from pinprof.trace.reader.not_a_trace import START_BYTES, WHAT_A_TRACE_IS, check_start, what_it_seems
from pinprof.trace.reader.salvage import salvage, salvage_metadata

BLOCK_BYTES = 128 << 10  # large enough that calls for each block cost little, small enough for the caches of a core
MAX_ENTRY_BYTES = 1 << 20
"""Where none of the last entries is an event, as in a list of empty objects, a text longer than this is cut anyway."""
MAX_BLOCK_BYTES = 8 << 20  # no event is longer than this, and no metadata before the events
MAX_WHOLE_BYTES = 2 << 20
"""A file is decoded in one piece only up to this size: its smallest entries take a hundred times their text."""
JSON_DECODER = json.JSONDecoder()
SPACE = rb"[ \t\r\n]*"
BEFORE_EVENTS = rb'(?:\xef\xbb\xbf)?%b(?:\{.*?"traceEvents"%b:%b)?\[%b' % ((SPACE,) * 4)
TRACE_HEADER = re.compile(rb'%b(?=\{%b")' % (BEFORE_EVENTS, SPACE), re.DOTALL)
ANY_HEADER = re.compile(BEFORE_EVENTS, re.DOTALL)  # the text before a list whose first entry is not an event
ESCAPED_BYTE = re.compile(rb"\\.", re.DOTALL)
DEPTH_BY_BYTE = np.zeros(256, np.int8)  # by how much a byte outside of texts changes the depth of what follows
DEPTH_BY_BYTE[list(b"[{")], DEPTH_BY_BYTE[list(b"]}")] = 1, -1
MAX_EVENT_BYTES = 1 << 16  # a block does not end before an event longer than this
SEAM = re.compile(rb"\}%b,%b\Z" % (SPACE, SPACE))  # the text between two events
WIDEST_SEAM = 128  # no program that writes traces puts more white space than this between two events
MAX_BRACES_TRIED = 64
"""Braces that are tried to find that of the last event: objects in arguments may also follow each other."""


class FileEnd(NamedTuple):
    """The events after the last block, and the text around the events."""

    events: list[Event]
    malformed: int
    repaired: int
    metadata: Metadata
    closed: bool  # whether the list of events ended; otherwise the file was cut off
    around: bytes = b""  # the JSON text of the file without its events, empty if it is not JSON
    trailing: int = 0  # bytes after the end of the JSON text of the file


class Blocks:
    """The blocks of a stream of bytes, which can be iterated once; `ending` then returns the rest of the file.

    A block is the text of whole events, with the commas between and after them. If the stream does not hold events as
    torch writes them, there are no blocks, and `whole` holds all of it; it is small. Raises TraceError if an event, or
    what comes before the events, is longer than that of any trace.
    """

    def __init__(self, content: Iterable[bytes]) -> None:
        self.whole: bytes | None = None
        self._chunks = (
            chunk[begin : begin + BLOCK_BYTES] for chunk in content for begin in range(0, len(chunk), BLOCK_BYTES)
        )
        self.start = b""  # the beginning of the text, however it goes on
        self.header = b""  # the text before the events; known when the first block has come
        self.rest = b""  # the text after the last block, which begins with an event; known when all blocks have come

    def __iter__(self) -> Iterator[bytes]:
        """Yield the blocks in order."""
        text, is_last = self._filled(b"", max(BLOCK_BYTES, START_BYTES))
        self.start = text[:START_BYTES]
        check_start(self.start)
        while not ((match := TRACE_HEADER.match(text)) and _is_event(text, match.end())):
            if is_last and len(text) <= MAX_WHOLE_BYTES:
                self.whole = text
                return
            if is_last or len(text) > MAX_BLOCK_BYTES:
                match = ANY_HEADER.match(text)
                if match is None:
                    raise TraceError(f"has no list of events{what_it_seems(text)}; {WHAT_A_TRACE_IS}")
                break
            text, is_last = self._filled(text, 2 * len(text))
        self.header = match[0].removeprefix(b"\xef\xbb\xbf")
        text = text[match.end() :]
        while True:
            end, closed = _block_end(text)
            if end:
                yield text[:end]
            text = text[end:]
            if end and not closed and len(text) > MAX_ENTRY_BYTES:
                continue
            if is_last or closed:
                break
            if len(text) > MAX_BLOCK_BYTES:
                raise TraceError(
                    f"the JSON is broken: an event of more than {MAX_BLOCK_BYTES >> 20} MiB; {WHAT_A_TRACE_IS}"
                )
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
            end = JSON_DECODER.raw_decode(text[:MAX_BLOCK_BYTES].decode("latin-1"))[1]
            events, malformed = decode_events(text[:end])
        except (ValueError, RecursionError, msgspec.MsgspecError):
            salvaged = salvage(self.rest, is_last=True)
            tail = salvaged.rest.lstrip(b" \t\r\n,") if salvaged.closed else b""
            ending = FileEnd(salvaged.events, salvaged.malformed, salvaged.repaired, Metadata(), salvaged.closed)
            return self._with_metadata(ending, tail)
        return self._with_metadata(FileEnd(events, malformed, 0, Metadata(), closed=True), b"]" + text[end:])

    def _with_metadata(self, ending: FileEnd, tail: bytes) -> FileEnd:
        """Return the ending with the metadata of the file; `tail` is the text after the events."""
        tail, trailing = without_trailing(self.header, tail)
        around, ending = self.header + tail, ending._replace(trailing=trailing)
        if around.startswith(b"["):
            return ending
        is_small = len(around) <= MAX_WHOLE_BYTES
        try:
            file = msgspec.json.decode(around, type=LooseFile if is_small else Metadata)
        except NOT_EVENTS:
            return ending._replace(metadata=salvage_metadata(around))
        more, malformed = decode_each(getattr(file, "events", None) or [])  # the events are there twice
        return ending._replace(
            events=[*ending.events, *more], malformed=ending.malformed + malformed, metadata=file, around=around
        )


def as_list(block: bytes) -> bytes:
    """Return the JSON list of the events of a block."""
    return b"".join((b"[", block.rstrip(b" \t\r\n,"), b"]"))


def without_trailing(header: bytes, tail: bytes) -> tuple[bytes, int]:
    """Return the text after the events up to the end of the file's JSON, if it is JSON, and how many bytes follow."""
    text = (header.lstrip() + tail)[:MAX_BLOCK_BYTES].decode("latin-1")
    with suppress(ValueError, RecursionError):
        end = JSON_DECODER.raw_decode(text)[1] - len(header.lstrip())
        if end > 0:
            return tail[:end], len(tail[end:].strip())
    return tail, 0


def _block_end(text: bytes) -> tuple[int, bool]:
    """Return where a block ends, as early as it can, 0 if nowhere, and whether the list of events ends there."""
    end, closed = _last_seam(text[:MAX_ENTRY_BYTES]), False
    if not end and len(text) > MAX_ENTRY_BYTES:
        end, closed = _last_comma(text[:MAX_ENTRY_BYTES])
        if not end and not closed:
            end = _last_seam(text)
        if not end and not closed:
            end, closed = _last_comma(text)
    return end, closed


def _last_comma(text: bytes) -> tuple[int, bool]:
    """Return where the last whole entry of a text ends that begins with one, and whether the list ends in the text."""
    data = np.frombuffer(ESCAPED_BYTE.sub(b"__", text), np.uint8)
    outside = ~np.logical_xor.accumulate(data == ord('"'))
    depth = np.cumsum(DEPTH_BY_BYTE[data] * outside, dtype=np.int32)
    ends = np.flatnonzero(depth < 0)[:1]
    last = int(ends[0]) if len(ends) else len(data)
    commas = np.flatnonzero((data[:last] == ord(",")) & outside[:last] & (depth[:last] == 0))
    return int(commas[-1]) + 1 if len(commas) else 0, bool(len(ends))


def _last_seam(text: bytes) -> int:
    """Return where the last event begins, 0 if it is the only one; an object with `ph` in arguments counts as one."""
    position = len(text)
    for _ in range(MAX_BRACES_TRIED):
        position = text.rfind(b"{", 0, position)
        if position <= 0:
            break
        if SEAM.search(text, max(0, position - WIDEST_SEAM), position) and _is_event(text, position):
            return position
    return 0


def _is_event(text: bytes, begin: int) -> bool:
    try:
        value, _ = JSON_DECODER.raw_decode(text[begin : begin + MAX_EVENT_BYTES].decode("latin-1"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "ph" in value
