"""Reads the events of a block of bytes all at once, without making an object of each.

A program writes its events alike: torch in one way, others that write a trace anew in another. How they are laid out is
learnt from the first ones; where an event is of that form to the byte, its numbers are read out of the bytes; every
other one is decoded for itself. Nothing is taken on trust: the texts between the values are compared, or looked up
whole, and braces are counted, so that in valid JSON a key is one of the event's own. What is not read is not judged: an
argument that is no JSON costs nothing if nobody asks for it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.trace.scan.events import Args, Event, decode_events
from pinprof.trace.scan.layouts import Layout, learn_layout
from pinprof.trace.scan.rows import Part, Rows, Shared, Wanted, by_appearance, category_name, joined, part_of_events
from pinprof.trace.scan.seams import PHASE, Block, Seams, find_seams
from pinprof.trace.scan.texts import Codes, Texts
from pinprof.trace.scan.words import WORD, byte_at, decimals_at, integers_at, stands_at, word
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s

TO_TEXT = re.compile(rb' ?: ?"')
"""What stands between a key and a value that is a text."""
GAP_BITS = 10
"""Room for what stands between the values of events of some hundred threads."""
EXAMPLES = 16
"""How many events of a block are looked at to learn layouts that its scanner does not know."""
MOST_LAYOUTS = 8
"""No file is known to mix the events of programs with more layouts; each costs a look at all events left unread."""

QUOTED = {field.name: b'"%b"' % field.encode_name.encode() for field in msgspec.structs.fields(Args)}
QUOTED["copy"] = QUOTED["copy_kind"]
"""The arguments as they stand in the file."""


class _Read(NamedTuple):
    """Duration events that were read."""

    pieces: Int64s
    rows: Rows
    """With pieces in place of entries."""
    categories: Int32s
    """Which of the scanner's each of the pieces has."""


class _Values(NamedTuple):
    """Where duration events of one layout have their values, and what they are."""

    category: Int32s
    """Which of the scanner's."""
    thread: Int32s
    name: Int64s
    behind_name: Int64s
    start_ns: Int64s
    duration_ns: Int64s
    brace: Int64s
    """That of the arguments, -1 if the layout has none."""
    closing: Int64s
    """The brace that closes it."""
    usual: Bools
    """Which events are of the layout."""


class _Known(NamedTuple):
    """A layout with what its gaps were found to mean."""

    layout: Layout
    texts: list[Texts | None]
    """For each gap that differs from event to event, which of the meanings it has."""
    meanings: list[tuple[int, int]]
    """Category and thread, each -1 where the gap does not tell."""


class Scanner:
    """Reads blocks of one file; for one thread alone."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._categories = Codes()
        self._known: list[_Known] = []
        self._names = Texts(self._name)

    def scan(self, block: Block) -> Part:
        """Return what a block holds. Raises Unusual, or an error of msgspec, if it cannot be cut into events."""
        seams = find_seams(block)
        try:
            return self._scan(seams)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the piece before a nested one is not JSON
            nested = seams.nested()
            if not nested.any():
                raise
            return self._scan(seams.without(nested))

    def _scan(self, seams: Seams) -> Part:
        is_duration, done = _phases(seams)
        pieces = np.flatnonzero(is_duration)
        read = []
        for known in self._layouts(seams, pieces, done):
            read.append(self._of_layout(seams, known, pieces[~done[pieces]]))
            done[read[-1].pieces] = True
        return self._with_others(seams, read, np.flatnonzero(~done))

    def _layouts(self, seams: Seams, pieces: Int64s, done: Bools) -> Iterator[_Known]:
        """Yield the known layouts, and those that are learnt of pieces that are then left."""
        yield from tuple(self._known)
        while new := self._learnt(seams, pieces[~done[pieces]][:EXAMPLES]):
            yield from map(self._known_from_now_on, new)

    def _learnt(self, seams: Seams, examples: Int64s) -> list[Layout]:
        """Return the layouts that two or more of these pieces have and that are not known."""
        begins, ends = seams.starts[[examples, examples + 1]].tolist()
        texts = (bytes(seams.block.buffer[begin:end]) for begin, end in zip(begins, ends, strict=True))
        layouts = [layout for text in texts if (layout := learn_layout(text))]
        times = Counter(layout.like for layout in layouts)
        known = {known.layout.like for known in self._known}
        new = {layout.like: layout for layout in layouts if times[layout.like] > 1 and layout.like not in known}
        return list(new.values())[: MOST_LAYOUTS - len(known)]

    def _known_from_now_on(self, layout: Layout) -> _Known:
        """Make a layout known."""
        meanings: list[tuple[int, int]] = []
        texts = [gap.pattern and Texts(partial(self._gap, gap.pattern, meanings), GAP_BITS) for gap in layout.gaps]
        self._known.append(_Known(layout, texts, meanings))
        return self._known[-1]

    def _of_layout(self, seams: Seams, known: _Known, pieces: Int64s) -> _Read:
        """Read those of the pieces that are duration events of this layout."""
        wanted, colon = self._shared.wanted, known.layout.colon
        pieces = pieces[np.diff(seams.first)[pieces] >= known.layout.quotes]
        values = _values(seams, known, pieces)
        brace, closing, usual = values.brace, values.closing, values.usual
        nested = usual & _nested(seams, pieces, brace, closing)
        if nested.any():
            usual[nested] &= seams.closes(closing[nested], brace[nested])
        category = np.array([*map(wanted.category, self._categories.values()), NONE], np.int8)[values.category]
        read = np.flatnonzero(usual & (category != NONE))
        code = np.zeros(len(pieces), np.int32)
        code[read] = self._names.codes(seams.block.buffer, seams.words, values.name[read], values.behind_name[read])
        usual &= code != NONE
        with_ids = np.flatnonzero(usual & (category >= wanted.first_with_ids))
        inner = np.where(nested, brace, NONE)[with_ids]
        ids, plain = _ids(seams, wanted, colon, pieces[with_ids], inner)
        plain &= ~seams.with_escapes(brace[with_ids], closing[with_ids])
        usual[with_ids] = plain
        kept = np.flatnonzero(usual & (category != NONE))
        columns = (category, code, values.thread, values.start_ns, values.duration_ns, usual, pieces)
        taken: list[Any] = [column[kept] for column in columns]
        return _Read(pieces[usual], Rows(*[*taken, ids[:, plain]]), values.category[usual])

    def _with_others(self, seams: Seams, read: Sequence[_Read], pieces: Int64s) -> Part:
        """Return the part of what was read and of the pieces that are to be decoded."""
        entries = np.ones(len(seams.first) - 1, np.int32)  # those that begin with each piece
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
        part = part_of_events(events, malformed, self._shared)
        rows = [replace(part.rows, entry=(before[places] + _numbered(places))[part.rows.entry])] if events else []
        rows += [replace(some.rows, entry=before[some.rows.entry]) for some in read]
        whole = joined(rows).ordered(self._shared.wanted.first_with_ids) if len(rows) > 1 else [*rows, part.rows][0]
        counts = self._counts([some.categories for some in read]) + part.counts
        return Part(whole, counts, part.labels, malformed, int(entries.sum()))

    def _counts(self, columns: Sequence[Int32s]) -> Counter[str]:
        texts = self._categories.values()
        times = sum((np.bincount(column, minlength=len(texts)) for column in columns), np.zeros(len(texts), np.int64))
        counts: Counter[str] = Counter()
        for code in by_appearance(columns, len(texts)):
            counts[category_name(texts[code])] += int(times[code])
        return counts

    def _gap(self, pattern: re.Pattern[bytes], meanings: list[tuple[int, int]], text: bytes) -> int:
        match = pattern.fullmatch(text)
        if not match:
            return NONE
        category = thread = NONE
        told = match.groupdict()
        if "cat" in told:
            decoded = _decoded(told["cat"])
            if decoded is None:
                return NONE
            category = self._categories[decoded]
        if "pid" in told:
            thread = self._shared.threads[int(told["pid"]), int(told["tid"])]
        meanings.append((category, thread))
        return len(meanings) - 1

    def _name(self, text: bytes) -> int:
        name = _decoded(text)
        return NONE if name is None else self._shared.names[name]


def _decoded(text: bytes) -> str | None:
    """Return what a JSON text means, None if it is not JSON."""
    try:
        return msgspec.json.decode(b'"%b"' % text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _phases(seams: Seams) -> tuple[Bools, Bools]:
    """Return which pieces are duration events, and which are an event of a kind that has nothing to read."""
    found = seams.phases
    if np.array_equal(found, seams.first):
        piece = np.arange(len(found))
    else:
        piece = np.searchsorted(seams.first, found, side="right") - 1
    phase = seams.first.copy()
    phase[piece] = found
    phase = phase[:-1]
    behind_key = seams.quotes[phase] + len(PHASE)
    separator = _example(seams, behind_key, TO_TEXT)
    letter = behind_key + len(separator)
    is_one = np.bincount(piece, minlength=len(seams.first))[:-1] == 1
    is_one &= stands_at(seams.words, behind_key, separator) & (byte_at(seams.words, letter + 1) == ord('"'))
    kind = byte_at(seams.words, letter)
    is_duration = is_one & (kind == ord("X"))
    is_other = is_one & ~is_duration & (kind != ord("M"))
    is_other &= ~seams.with_escapes(seams.starts[:-1], seams.starts[1:])  # another key may be `ph` as well
    nested = np.flatnonzero(is_other & (np.diff(seams.own) > 1))
    if len(nested):
        brace, closing = seams.braces[seams.own[nested]], seams.starts[nested + 1] - len(seams.seam)
        is_other[nested] = seams.closes(closing, brace)
        is_other[nested] &= seams.level(seams.quotes[phase[nested]]) == seams.level(brace)
    return is_duration, is_other


def _example(seams: Seams, at: Int64s, pattern: re.Pattern[bytes]) -> bytes:
    """Return the first text of this pattern at one of the places; if there is none, a text that occurs nowhere."""
    matches = (pattern.match(seams.block.buffer, position) for position in at[:EXAMPLES].tolist())
    return next((match[0] for match in matches if match), b"\0")


def _values(seams: Seams, known: _Known, pieces: Int64s) -> _Values:
    """Return the values of events, each of which has at least as many quotes as the layout."""
    words, quotes, gaps = seams.words, seams.quotes, known.layout.gaps
    base, at, behind = seams.first[pieces], seams.starts[pieces], seams.starts[pieces + 1]
    usual = np.ones(len(pieces), bool)
    told = np.full((2, len(pieces)), NONE, np.int32)
    name = behind_name = start = duration = at
    brace = closing = np.full(len(pieces), NONE)
    passed = 0  # quotes from the base on
    for number, (gap, texts) in enumerate(zip(gaps, known.texts, strict=True)):
        if texts is None:
            usual &= stands_at(words, at, gap.text)
            at = at + len(gap.text)
        else:
            end = quotes[base + (passed + gap.quotes - 1)] + gap.tail if gap.value else behind
            codes = texts.codes(seams.block.buffer, words, np.minimum(at, end), end)
            usual &= (at <= end) & (codes != NONE)
            told = np.maximum(told, np.array([*known.meanings, (NONE, NONE)], np.int32)[codes].T)
            at = end
        passed += gap.quotes
        match gap.value:
            case b"name":
                name, behind_name = at, quotes[base + passed]
                at = behind_name
            case b"ts":
                start, at, plain = decimals_at(words, at)
                usual &= plain
            case b"dur":
                duration, at, plain = decimals_at(words, at)
                usual &= plain
            case b"args":  # what follows them is found from the end
                base, passed = seams.first[pieces + 1], -sum(later.quotes for later in gaps[number + 1 :])
                brace, closing = at - 1, quotes[base + passed] - gaps[number + 1].lead
                usual &= brace < closing
                at = closing
    usual &= at == behind
    return _Values(told[0], told[1], name, behind_name, start, duration, brace, closing, usual)


def _nested(seams: Seams, pieces: Int64s, brace: Int64s, closing: Int64s) -> Bools:
    """Return which pieces hold other braces in their arguments."""
    nested = np.diff(seams.own)[pieces] > 2  # noqa: PLR2004  of the event and of the arguments
    some = np.flatnonzero(nested)
    begin, end = np.searchsorted(seams.braces, brace[some]), np.searchsorted(seams.braces, closing[some])
    nested[some] = end - begin > 1
    return nested


def _numbered(places: list[int]) -> Int32s:
    """Return for each of these ascending values how many equal ones stand before it."""
    return (np.arange(len(places)) - np.searchsorted(places, places)).astype(np.int32)


def _ids(seams: Seams, wanted: Wanted, colon: bytes, pieces: Int64s, brace: Int64s) -> tuple[Int64s, Bools]:
    """Return the ids of duration events, as in `Rows`, and which events have them as plain integers and no texts.

    `colon` is what stands between a key and its value. `brace` is that of the arguments where there are others within,
    which may hold the same keys, else -1.
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
        behind_key = seams.quotes[found] + len(quoted)
        value, plain = integers_at(seams.words, behind_key + len(colon))
        line[at] = value
        usual[at[~plain | ~stands_at(seams.words, behind_key, colon)]] = False
        usual[at[1:][at[1:] == at[:-1]]] = False  # the key is there twice
    return ids, usual


def _quotes_of(seams: Seams, quoted: bytes) -> Int64s:
    """Return which quotes open this key."""
    keys = seams.keys if len(quoted) >= WORD else seams.keys & word(b"\xff" * len(quoted))
    found = np.flatnonzero(keys == word(quoted[:WORD]))
    return found[stands_at(seams.words, seams.quotes[found] + WORD, quoted[WORD:])]


def _runs(seams: Seams, pieces: Int64s) -> list[tuple[int, int, bytes]]:
    """Return the text of these pieces, those that follow each other together, from piece to piece."""
    new = np.flatnonzero(np.diff(pieces, prepend=-2) > 1)
    last = np.append(new[1:], len(pieces)) - 1
    begins, ends = pieces[new].tolist(), (pieces[last] + 1).tolist()
    return [(begin, end, seams.text(begin, end)) for begin, end in zip(begins, ends, strict=True)]
