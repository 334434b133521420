"""Finds where the events of a block of bytes begin and end, by the places of its quotes and braces."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pinprof.trace.scan.layouts import SPACE
from pinprof.trace.scan.words import Words, overlapping_words, stands_at, word
from pinprof.trace.tables import Bools, Int64s

SEAM = re.compile(rb"\}%b,%b(\{)%b\Z" % ((SPACE,) * 3))
"""What lies between two events, up to the first key of the second one."""
PHASE = b'"ph"'
WIDEST = 128
"""No program that writes traces puts more white space than this between two events."""

AFTER_VALUE = np.frombuffer(b",}]", np.uint8)
"""One of these, or white space, follows a text that is not a key."""


class Block(NamedTuple):
    """Bytes of a file from the first brace of an event up to that of another one, which is in the buffer too."""

    buffer: bytearray
    begin: int
    end: int


class Unusual(Exception):  # noqa: N818  not an error: the file is to be read in another way
    """A block is not made of events as was assumed."""


@dataclass(frozen=True)
class Seams:
    """A block cut into pieces where one event ends and the next one begins, if the file is JSON.

    A piece holds several events where other white space lies between them than at the end of the block, and less than
    one where objects in its arguments lie beside each other as events do. There is one more start than there are
    pieces: that of the event after the block.
    """

    block: Block
    words: Words
    quotes: Int64s
    """Where the quotes are that begin or end a text: the former are every second one."""
    keys: Words
    """The word at each quote."""
    first: Int64s
    """Which quote is the first one of each piece."""
    phases: Int64s
    """Which quotes open a key `ph`, or a text of that meaning."""
    braces: Int64s
    """Where the opening braces are."""
    own: Int64s
    """Which brace is the first one of each piece."""
    escapes: Int64s
    """Where backslashes are in what may be keys: then a key may be written otherwise than usual."""
    seam: bytes
    """What lies before the first key of each piece but the first, from the brace on that closes the piece before."""

    @cached_property
    def starts(self) -> Int64s:
        """Where the first key of each piece stands."""
        return self.quotes[self.first]

    def nested(self) -> Bools:
        """Return which pieces begin with a brace that is within others, if the file is JSON."""
        return self.level(self.braces[self.own]) != 1

    def without(self, nested: Bools) -> "Seams":
        """Return the block with these pieces as parts of those before them."""
        return replace(self, first=self.first[~nested], own=self.own[~nested])

    def text(self, piece: int, behind: int) -> bytes:
        """Return the text of the events from one piece up to another one, separated by commas."""
        begin, end = self.braces[self.own[[piece, behind]]].tolist()
        return bytes(self.block.buffer[begin:end]).rstrip(b" \t\r\n").removesuffix(b",")

    def with_escapes(self, begin: Int64s, end: Int64s) -> Bools:
        """Return which of these ranges hold a key with a backslash."""
        if not len(self.escapes):
            return np.zeros(len(begin), bool)
        return np.searchsorted(self.escapes, begin) < np.searchsorted(self.escapes, end)

    def level(self, at: Int64s) -> Int64s:
        """Return how deep in braces each place is."""
        place, level = self._levels
        return level[np.searchsorted(place, at, side="right")]

    def closes(self, closing: Int64s, opening: Int64s) -> Bools:
        """Return which of these closing braces belong to the opening ones beside them."""
        place, level = self._levels
        inside, last = np.searchsorted(place, opening, side="right"), np.searchsorted(place, closing)
        lowest = np.minimum.reduceat(level, np.column_stack([inside, last + 1]).ravel())[::2]
        return (inside <= last) & (lowest == level[inside]) & (level[last] == level[inside])

    @cached_property
    def _levels(self) -> tuple[Int64s, Int64s]:
        """Where the braces outside of texts are, and the level before each of them and after the last one."""
        buffer, begin, _ = self.block
        text = np.frombuffer(buffer, np.uint8, int(self.starts[-1]) - begin, begin)
        place = np.flatnonzero((text == ord("{")) | (text == ord("}"))) + begin
        place = place[np.searchsorted(self.quotes, place) % 2 == 0]
        return place, np.append(0, np.cumsum(np.where(text[place - begin] == ord("{"), 1, -1)))


def find_seams(block: Block) -> Seams:
    """Return the pieces of a block. Raises Unusual if its end is in a text, as it cannot be in JSON."""
    buffer, begin, end = block
    words = overlapping_words(buffer)
    behind = buffer.find(b'"', end) + 1
    text = np.frombuffer(buffer, np.uint8, behind - begin, begin)
    quotes, braces = (np.flatnonzero(text == ord(character)) + begin for character in '"{')
    escapes = np.empty(0, np.int64)
    if buffer.find(b"\\", begin, end) >= 0:
        backslashes = np.flatnonzero(text == ord("\\")) + begin
        escaped = _escaped(backslashes)
        quotes = np.delete(quotes, np.searchsorted(quotes, escaped[text[escaped - begin] == ord('"')]))
        following = words[quotes[np.searchsorted(quotes, backslashes)] + 1]
        escapes = backslashes[~np.isin(following & np.uint64(255), AFTER_VALUE)]
    match = SEAM.search(buffer, max(begin, behind - 1 - WIDEST), behind - 1)
    if not match or len(quotes) % 2 == 0:
        raise Unusual
    is_seam = stands_at(words, braces - (match.start(1) - match.start()), match[0] + b'"')
    is_seam[[0, -1]] = True
    own = np.flatnonzero(is_seam)
    keys = words[quotes]
    phases = np.flatnonzero((keys & word(b"\xff" * len(PHASE))) == word(PHASE))
    starts = np.append(quotes[0], braces[own[1:]] + (match.end() - match.start(1)))
    as_torch = np.array_equal(quotes[phases], starts)  # then the first keys need not be looked for
    first = phases if as_torch else np.searchsorted(quotes, braces[own])
    certain = first % 2 == 0
    own, first, phases = own[certain], first[certain], phases[phases % 2 == 0]
    return Seams(block, words, quotes, keys, first, phases, braces, own, escapes, match[0])


def _escaped(backslashes: Int64s) -> Int64s:
    """Return where the characters are that these escape."""
    count = np.arange(len(backslashes))
    begins = np.diff(backslashes, prepend=-2) > 1
    in_run = count - np.maximum.accumulate(np.where(begins, count, 0))
    return backslashes[in_run % 2 == 0] + 1
