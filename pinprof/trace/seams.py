"""Finds where the events of a block of bytes begin and end, by the places of its quotes and braces."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pinprof.trace.tables import Bools, Int64s
from pinprof.trace.words import Words, overlapping_words, stands_at, word

SPACE = rb"[ \t\r\n]*"
SEAM = re.compile(rb"\}%b,%b(\{%b)\Z" % (SPACE, SPACE, SPACE))
"""What lies between two events, up to the first key of the second one."""
TAIL = re.compile(rb"%b\}%b\}%b,%b\{%b\Z" % (SPACE, SPACE, SPACE, SPACE, SPACE))
"""The same where the first one ends with its arguments."""
WIDEST = 128
"""More white space than this between two events is none of torch's."""
FIRST_KEY = b'"ph":'


class Block(NamedTuple):
    """Bytes of a file from the first brace of an event up to that of another one, which is in the buffer too."""

    buffer: bytearray
    begin: int
    end: int


class Unusual(Exception):  # noqa: N818  it is no error: the file is to be read in another way
    """A block is not made of events as was assumed."""


@dataclass(frozen=True)
class Seams:
    """A block with the places of its quotes, cut into pieces that begin with the first key of an event.

    There is one more start than there are pieces: that of the event behind the block.
    """

    block: Block
    words: Words
    quotes: Int64s
    """Where quotes are."""
    keys: Words
    """The word at each quote."""
    first: Int64s
    """Which quote is the first one of each piece."""
    is_seam: Bools
    """Per start, whether an event begins there for certain, if the file is JSON."""
    indent: int
    """How far before its first key an event begins."""

    @cached_property
    def starts(self) -> Int64s:
        """Where the first key of each piece stands."""
        return self.quotes[self.first]

    def text(self, piece: int, behind: int) -> bytes:
        """Return the text of the events from one seam to another, separated by commas."""
        text = bytes(self.block.buffer[self._brace(piece) : self._brace(behind)])
        return text.rstrip(b" \t\r\n").removesuffix(b",")

    def _brace(self, seam: int) -> int:
        if seam == 0:
            return self.block.begin
        return self.block.end if seam == len(self.first) - 1 else int(self.starts[seam]) - self.indent

    def with_backslash(self) -> Bools:
        """Return which pieces hold a backslash: there a quote may be part of a text."""
        result = np.zeros(len(self.first), bool)
        buffer, begin, end = self.block
        if buffer.find(b"\\", begin, end) >= 0:
            at = np.flatnonzero(np.frombuffer(buffer, np.uint8, end) == ord("\\"))
            result[np.searchsorted(self.starts, at[at >= begin], side="right") - 1] = True
        return result[:-1]

    @cached_property
    def braces(self) -> Int64s:
        """Where the opening braces of the block are, with that of the event behind it."""
        return self._places_of(ord("{"))

    def level(self, at: Int64s) -> Int64s:
        """Return how deep in braces each place is, to be compared within a piece that has no backslash."""
        place, level = self._levels
        return level[np.searchsorted(place, at, side="right")]

    def last_to_the_end(self, pieces: Int64s, brace: Int64s) -> Bools:
        """Return in which pieces this opening brace is closed last, just before the one of the event."""
        place, level = self._levels
        begin, behind = np.searchsorted(place, brace, side="right"), np.searchsorted(place, self.starts[pieces + 1])
        closing = behind - 3  # the last three are those that close it and the event, and that of the next event
        lowest = np.minimum.reduceat(level, np.column_stack([begin, closing + 1]).ravel())[::2]
        return (closing >= begin) & (lowest == level[begin]) & (level[behind] == level[begin] - 1)

    @cached_property
    def _levels(self) -> tuple[Int64s, Int64s]:
        opening, closing = self.braces, self._places_of(ord("}"))
        place = np.concatenate([opening, closing])
        change = np.repeat([1, -1], [len(opening), len(closing)])
        order = np.argsort(place)
        place, change = place[order], change[order]
        first = self.first[np.maximum(np.searchsorted(self.starts, place, side="right") - 1, 0)]
        in_text = (np.searchsorted(self.quotes, place) - first) % 2 == 1
        return place, np.append(0, np.cumsum(np.where(in_text, 0, change)))

    def _places_of(self, character: int) -> Int64s:
        begin, behind = self.block.begin, int(self.starts[-1])
        return np.flatnonzero(np.frombuffer(self.block.buffer, np.uint8, behind - begin, begin) == character) + begin

    def tail(self, piece: int) -> bytes:
        """Return what follows the last argument of a piece up to the key of the next one, empty if it has none."""
        return _before(self.block.buffer, int(self.starts[piece + 1]), TAIL)


def find_seams(block: Block) -> Seams:
    """Return the pieces of a block. Raises Unusual if it does not begin with an event as torch writes it."""
    buffer, begin, end = block
    words = overlapping_words(buffer)
    behind = buffer.find(b'"', end) + 1
    quotes = np.flatnonzero(np.frombuffer(buffer, np.uint8, behind - begin, begin) == ord('"')) + begin
    keys = words[quotes]
    first = np.flatnonzero((keys & word(b"\xff" * len(FIRST_KEY))) == word(FIRST_KEY))
    if len(first) < 2 or first[0] != 0 or first[-1] != len(quotes) - 1:  # noqa: PLR2004  one event and the next one
        raise Unusual
    starts = quotes[first]
    text = _before(buffer, int(starts[1]), SEAM)
    is_seam = stands_at(words, starts - len(text), text) if text else np.zeros(len(starts), bool)
    is_seam[[0, -1]] = True
    return Seams(block, words, quotes, keys, first, is_seam, len(text) - text.rfind(b"{"))


def _before(buffer: bytearray, at: int, pattern: re.Pattern[bytes]) -> bytes:
    match = pattern.search(buffer, max(0, at - WIDEST), at)
    return match[0] if match else b""
