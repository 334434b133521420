"""Reads the events of a block of bytes all at once, without making an object of each.

torch writes every event alike. Where an event is of that form to the byte, its numbers are read out of the bytes; every
other one is decoded for itself. Nothing is taken on trust: the texts between the values are compared, or looked up
whole; no event that holds a backslash is read this way, and braces are counted, so that in valid JSON a quote begins or
ends a string, and a key is one of the event's own. What is not read is not judged: an argument that is no JSON costs
nothing if nobody asks for it.
"""

import re
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.trace.events import Args, Event, decode_events
from pinprof.trace.rows import (
    Part,
    Rows,
    Shared,
    Wanted,
    by_appearance,
    category_name,
    joined,
    part_of_events,
)
from pinprof.trace.seams import SPACE, Block, Seams, find_seams
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s
from pinprof.trace.texts import Texts
from pinprof.trace.words import byte_at, decimals_at, integers_at, stands_at, word

_PLAIN = rb'[^"\\\x00-\x1f]*'
_INTEGER = rb"(-?(?:0|[1-9][0-9]{0,17}))"


def _spaced(*tokens: bytes) -> re.Pattern[bytes]:
    return re.compile(SPACE.join(tokens))


HEAD = _spaced(b'"ph"', b":", b'"X"', b",", b'"cat"', b":", b'"(' + _PLAIN + b')"', b",", b'"name"', b":", b'"')
TRACK = _spaced(b'"', b",", b'"pid"', b":", _INTEGER, b",", b'"tid"', b":", _INTEGER, b",", b'"ts"')
DURATION = _spaced(b"", b",", b'"dur"', b":", b"")
ARGUMENTS = _spaced(b"", b",", b'"args"', b":", rb"\{")
NAME_OPENS, NAME_CLOSES, TIME_KEY_CLOSES, LEAST_QUOTES = 10, 11, 17, 22
"""Which of the quotes of a duration event they are, and how many it has at least."""
EXAMPLES = 16
"""So many events are looked at to learn how a file separates its values."""

QUOTED = {field.name: b'"%b"' % field.encode_name.encode() for field in msgspec.structs.fields(Args)}
QUOTED["copy"] = QUOTED["copy_kind"]
"""The arguments as they stand in the file."""


class _Read(NamedTuple):
    """Duration events that were read."""

    pieces: Int64s
    rows: Rows
    """With pieces for entries."""
    counts: Counter[str]


class Scanner:
    """Reads blocks of one file; for one thread alone."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._categories: list[tuple[str, int]] = []
        self._heads, self._names, self._tracks = Texts(self._head, 8), Texts(self._name), Texts(self._track, 10)

    def scan(self, block: Block) -> Part:
        """Return what a block holds. Raises Unusual, or an error of msgspec, if it cannot be cut into events."""
        seams = find_seams(block)
        alone = seams.is_seam[:-1] & seams.is_seam[1:] & ~seams.with_backslash()
        before = np.searchsorted(seams.braces, seams.starts)
        inside = np.diff(before)  # that of the next event is one of them
        ends_with_arguments = _ends_with_arguments(seams)
        is_duration, is_other = _phases(seams)
        done = alone & is_other & ((inside == 1) | (inside == 2) & ends_with_arguments)  # noqa: PLR2004
        candidates = np.flatnonzero(alone & is_duration & ends_with_arguments)
        read = self._durations(seams, candidates, before)
        done[read.pieces] = True
        return self._with_others(seams, read, np.flatnonzero(~done))

    def _durations(self, seams: Seams, pieces: Int64s, before: Int64s) -> _Read:
        """Read those of the pieces that are duration events in the usual form."""
        buffer, words, quotes = seams.block.buffer, seams.words, seams.quotes
        pieces = pieces[np.diff(seams.first)[pieces] >= LEAST_QUOTES]
        first = seams.first[pieces]
        name, behind_name = quotes[first + NAME_OPENS] + 1, quotes[first + NAME_CLOSES]
        behind_track = quotes[first + TIME_KEY_CLOSES] + 1
        head = self._heads.codes(buffer, words, quotes[first], name)
        thread = self._tracks.codes(buffer, words, behind_name, behind_track)
        start, duration, arguments, usual = _times(seams, behind_track)
        usual &= (head != NONE) & (thread != NONE)
        nested = _nested(seams, pieces, arguments, before)
        if nested.any():
            usual[nested] &= seams.last_to_the_end(pieces[nested], arguments[nested])
        category = np.array([known for _, known in self._categories] or [NONE], np.int8)[head]
        known = np.flatnonzero(usual & (category != NONE))
        code = np.zeros(len(pieces), np.int32)
        code[known] = self._names.codes(buffer, words, name[known], behind_name[known])
        usual &= code != NONE
        with_ids = np.flatnonzero(usual & (category >= self._shared.wanted.first_with_ids))
        ids, plain = _ids(seams, self._shared.wanted, pieces[with_ids], np.where(nested, arguments, NONE)[with_ids])
        usual[with_ids] &= plain
        kept = np.flatnonzero(usual & (category != NONE))
        columns: list[Any] = [column[kept] for column in (category, code, thread, start, duration, usual, pieces)]
        return _Read(pieces[usual], Rows(*[*columns, ids[:, plain]]), self._counts(head[usual]))

    def _with_others(self, seams: Seams, read: _Read, pieces: Int64s) -> Part:
        """Return the part of what was read and of the pieces that are to be decoded."""
        entries = seams.is_seam[:-1].astype(np.int32)  # those that begin with each piece
        events: list[Event] = []
        places: list[int] = []
        malformed = 0
        for piece, behind, text in _runs(seams, pieces) if len(pieces) else ():
            decoded, bad = decode_events(b"[%b]" % text)
            events += decoded
            places += [piece] * len(decoded)
            malformed += bad
            entries[piece:behind] = 0
            entries[piece] = len(decoded) + bad
        before = np.cumsum(entries, dtype=np.int32) - entries
        rows = replace(read.rows, entry=before[read.rows.entry])
        if not events:
            return Part(rows, read.counts, {}, malformed, int(entries.sum()))
        part = part_of_events(events, malformed, self._shared)
        entry = (before[places] + _numbered(places))[part.rows.entry]
        rows = joined([rows, replace(part.rows, entry=entry)]).ordered(self._shared.wanted.first_with_ids)
        return Part(rows, read.counts + part.counts, part.labels, malformed, int(entries.sum()))

    def _counts(self, head: Int32s) -> Counter[str]:
        times = np.bincount(head, minlength=len(self._categories))
        counts: Counter[str] = Counter()
        for code in by_appearance([head], len(self._categories)):
            counts[category_name(self._categories[code][0])] += int(times[code])
        return counts

    def _head(self, text: bytes) -> int:
        match = HEAD.fullmatch(text)
        category = _decoded(match[1]) if match else None
        if category is None:
            return NONE
        self._categories.append((category, self._shared.wanted.category(category)))
        return len(self._categories) - 1

    def _name(self, text: bytes) -> int:
        name = _decoded(text) if re.fullmatch(_PLAIN, text) else None
        return NONE if name is None else self._shared.names[name]

    def _track(self, text: bytes) -> int:
        match = TRACK.fullmatch(text)
        return self._shared.threads[int(match[1]), int(match[2])] if match else NONE


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _phases(seams: Seams) -> tuple[Bools, Bools]:
    """Return which pieces are duration events, and which are of kinds that have nothing to read."""
    phase = seams.keys[seams.first[:-1]]
    is_duration = (phase == word(b'"ph": "X')) | (phase == word(b'"ph":"X"'))
    opens, closes = (seams.quotes[np.minimum(seams.first[:-1] + quote, seams.first[1:])] for quote in (2, 3))
    letter = byte_at(seams.words, opens + 1)
    near = opens - seams.starts[:-1] <= len(b'"ph": ')
    is_other = near & (closes - opens == 2) & (letter != ord("X")) & (letter != ord("M"))  # noqa: PLR2004  one letter
    return is_duration, is_other


def _ends_with_arguments(seams: Seams) -> Bools:
    """Return which pieces end with their arguments, spaced as in the first piece that does."""
    for piece in range(min(EXAMPLES, len(seams.first) - 1)):
        text = seams.tail(piece)
        if text:
            return stands_at(seams.words, seams.starts[1:] - len(text), text)
    return np.zeros(len(seams.first) - 1, bool)


def _times(seams: Seams, behind_key: Int64s) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """Return start and duration in ns, the brace of the arguments, and which events have all of them as usual."""
    words = seams.words
    start, end, usual = decimals_at(words, _value(seams, behind_key))
    usual &= byte_at(words, behind_key) == ord(":")
    separator = _example(seams, end, DURATION)
    usual &= stands_at(words, end, separator)
    duration, end, plain = decimals_at(words, end + len(separator))
    separator = _example(seams, end, ARGUMENTS)
    usual &= plain & stands_at(words, end, separator)
    return start, duration, end + len(separator) - 1, usual


def _value(seams: Seams, colon: Int64s) -> Int64s:
    """Return where the value begins whose colon is given, which a blank may follow."""
    return colon + 1 + (byte_at(seams.words, colon + 1) == ord(" "))


def _example(seams: Seams, at: Int64s, pattern: re.Pattern[bytes]) -> bytes:
    """Return the text of this pattern that stands at the first of the places, one that stands nowhere without any."""
    matches = (pattern.match(seams.block.buffer, position) for position in at[:EXAMPLES].tolist())
    return next((match[0] for match in matches if match), b"\0")


def _nested(seams: Seams, pieces: Int64s, arguments: Int64s, before: Int64s) -> Bools:
    """Return which pieces hold braces in their arguments; there are `before` ones before each start."""
    inside = before[pieces + 1] - before[pieces]
    nested = inside > 2  # noqa: PLR2004  of the arguments and of the next event
    named = np.flatnonzero(nested)
    nested[named] = before[pieces[named] + 1] - np.searchsorted(seams.braces, arguments[named]) > 2  # noqa: PLR2004
    return nested


def _numbered(places: list[int]) -> Int32s:
    """Return for each of these ascending values how many equal ones stand before it."""
    return (np.arange(len(places)) - np.searchsorted(places, places)).astype(np.int32)


def _ids(seams: Seams, wanted: Wanted, pieces: Int64s, brace: Int64s) -> tuple[Int64s, Bools]:
    """Return the ids of duration events, as in `Rows`, and which events have them as plain integers and no texts.

    `brace` is that of the arguments where there are others within, which may hold the same keys, else -1.
    """
    ids = np.full((len(wanted.ids) + len(wanted.texts), len(pieces)), NONE)
    usual = np.ones(len(pieces), bool)
    column = np.full(len(seams.first), NONE)
    column[pieces] = np.arange(len(pieces))
    for name in wanted.texts:
        at = column[np.searchsorted(seams.first, _quotes_of(seams, QUOTED[name]), side="right") - 1]
        usual[at[at != NONE]] = False
    for line, name in zip(ids, wanted.ids, strict=False):  # the lines of the texts stay empty
        quoted = QUOTED[name]
        found = _quotes_of(seams, quoted)
        at = column[np.searchsorted(seams.first, found, side="right") - 1]
        own = at != NONE
        within = np.flatnonzero(own & (brace[at] != NONE)) if len(brace) else own[:0].nonzero()[0]
        if len(within):
            own[within] = seams.level(seams.quotes[found[within]]) == seams.level(brace[at[within]])
        found, at = found[own], at[own]
        colon = seams.quotes[found] + len(quoted)
        value, plain = integers_at(seams.words, _value(seams, colon))
        line[at] = value
        usual[at[~plain | (byte_at(seams.words, colon) != ord(":"))]] = False
        usual[at[1:][at[1:] == at[:-1]]] = False  # the key is there twice
    return ids, usual


def _quotes_of(seams: Seams, quoted: bytes) -> Int64s:
    """Return which quotes open this key."""
    found = np.flatnonzero((seams.keys & word(b"\xff" * min(8, len(quoted)))) == word(quoted[:8]))
    return found[stands_at(seams.words, seams.quotes[found] + 8, quoted[8:])]


def _runs(seams: Seams, pieces: Int64s) -> list[tuple[int, int, bytes]]:
    """Return the text of the events in these pieces, those that follow each other together, from piece to piece.

    A piece that does not begin with a seam belongs to the event before it.
    """
    wanted = np.zeros(len(seams.first), bool)
    wanted[pieces] = True
    event = np.cumsum(seams.is_seam) - 1
    seam = np.flatnonzero(seams.is_seam)
    chosen = np.unique(event[wanted.nonzero()[0]])
    new = np.flatnonzero(np.diff(chosen, prepend=-2) > 1)
    last = np.append(new[1:], len(chosen)) - 1
    return [
        (int(seam[a]), int(seam[b + 1]), seams.text(int(seam[a]), int(seam[b + 1])))
        for a, b in zip(chosen[new].tolist(), chosen[last].tolist(), strict=True)
    ]
