"""Cuts a stream of bytes into blocks that begin and end with events, and reads what lies around the events."""

import json
import re
from collections.abc import Iterator
from typing import Protocol

import msgspec

from pinprof.trace.events import LooseFile, Metadata
from pinprof.trace.seams import FIRST_KEY, SEAM, SPACE, WIDEST, Block, Unusual
from pinprof.trace.words import PADDING

BLOCK_BYTES = 4 << 20
"""Large enough that a step over a block costs more than its call, small enough for the caches of a core."""
FIRST_BLOCK_BYTES = 1 << 19
"""Most traces are small; each further block is twice as large."""
LARGEST_BLOCK = 64 << 20
"""A longer text without a seam is not read in blocks."""

HEADER = re.compile(rb'(?:\xef\xbb\xbf)?%b(?:\{.*?"traceEvents"%b:%b)?\[%b(?=\{%b"ph":)' % ((SPACE,) * 5), re.DOTALL)


class Stream(Protocol):
    """Bytes to read."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as there are bytes, and return how many it took."""


class Blocks:
    """The blocks of a stream; when all are taken, `metadata` and `rest` tell what lay around them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._header = b""
        self._rest = b""

    def __iter__(self) -> Iterator[Block]:
        """Return the blocks in order. Raises Unusual if the stream is not one of events as torch writes them."""
        step = min(FIRST_BLOCK_BYTES, BLOCK_BYTES)
        buffer, size = self._filled(b"", step)
        while not (match := HEADER.match(buffer, 0, size)):
            if size < len(buffer) - PADDING or size > LARGEST_BLOCK:
                raise Unusual
            buffer, size = self._filled(bytes(buffer[:size]), 2 * size)
        self._header = match[0]
        begin = match.end()
        while True:
            is_last = size < len(buffer) - PADDING
            end = _last_seam(buffer, begin, size)
            if end > begin:
                yield Block(buffer, begin, end)
                begin = end
            if is_last:
                self._rest = bytes(buffer[begin:size])
                return
            carried = bytes(buffer[begin:size])
            if len(carried) > LARGEST_BLOCK:
                raise Unusual
            step = min(2 * step, BLOCK_BYTES)
            buffer, size = self._filled(carried, len(carried) + step)
            begin = 0

    def _filled(self, carried: bytes, size: int) -> tuple[bytearray, int]:
        """Return a buffer with what was carried over and what follows in the stream, and how much that is."""
        buffer = bytearray(size + PADDING)
        buffer[: len(carried)] = carried
        filled = len(carried)
        with memoryview(buffer) as view:
            while filled < size and (taken := self._stream.readinto(view[filled:size])):
                filled += taken
        return buffer, filled

    def ending(self) -> tuple[bytes, Metadata]:
        """Return the JSON list of the events behind the last block, and the metadata of the file."""
        text = b"[" + self._rest
        try:
            _, end = json.JSONDecoder().raw_decode(text.decode("latin-1"))
        except (ValueError, RecursionError):
            raise Unusual from None
        around = self._header.removeprefix(b"\xef\xbb\xbf") + b"]" + text[end:]
        if around.lstrip().startswith(b"["):
            if msgspec.json.decode(around) != []:
                raise Unusual
            return text[:end], Metadata()
        file = msgspec.json.decode(around, type=LooseFile)
        if file.events != [] or around.count(b'"traceEvents"') != 1:
            raise Unusual
        return text[:end], file


def _last_seam(buffer: bytearray, begin: int, size: int) -> int:
    """Return where the last event begins that can be told from what lies around it, `begin` if it is the only one."""
    at = size
    while (at := buffer.rfind(FIRST_KEY, begin, at)) > begin:
        match = SEAM.search(buffer, max(begin, at - WIDEST), at)
        if match:
            return match.start(1)
    return begin
