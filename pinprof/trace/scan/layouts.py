"""Learns from one duration event how its writer lays events out: which keys in which order, and what lies between.

An event is cut at what differs from event to event: its name, its times and its arguments. The texts between these are
few, for they hold keys, the category and the thread; so each of them is looked at once.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

PLAIN = rb'[^"\\\x00-\x1f]*'
SPACE = rb"[ \t\r\n]*"
KEY = re.compile(rb'%b"(%b)"(%b:%b)' % (SPACE, PLAIN, SPACE, SPACE))
COMMA = re.compile(rb"%b," % SPACE)
END = re.compile(rb"%b\}%b,%b\{%b" % ((SPACE,) * 4))
"""What follows the last value of an event, up to the first key of the next one."""
INTEGER = rb"-?(?:0|[1-9][0-9]{0,17})"
REPEATED = {
    b"ph": rb'"X"',
    b"cat": rb'"(?P<cat>%b)"' % PLAIN,
    b"pid": rb"(?P<pid>%b)" % INTEGER,
    b"tid": rb"(?P<tid>%b)" % INTEGER,
}
"""Values that many events have in common."""
OWN = {b"name": rb'"(?:[^"\\]|\\.)*"', b"ts": rb"[0-9.]+", b"dur": rb"[0-9.]+"}
SCALARS = {key: re.compile(value, re.DOTALL) for key, value in (REPEATED | OWN).items()}
ARGUMENTS = b"args"
LEAST = SCALARS.keys()
"""Keys that an event must have to be read by its layout."""
LONGEST_GAP = 256
"""No program that writes traces puts longer texts between values."""


class Gap(NamedTuple):
    """The text between two values, with the quotes and braces around them."""

    text: bytes
    """As it stands in the event from which the layout was learnt."""
    pattern: re.Pattern[bytes] | None
    """What it is in others, None if it is the same in all."""
    value: bytes
    """The key of the value that follows, empty at the end."""

    @property
    def quotes(self) -> int:
        """How many quotes it holds."""
        return self.text.count(b'"')

    @property
    def lead(self) -> int:
        """How far before its first quote it begins; before its end if it has none."""
        return len(self.text.partition(b'"')[0])

    @property
    def tail(self) -> int:
        """How far after its last quote it ends."""
        return len(self.text) - self.text.rfind(b'"')

    @property
    def like(self) -> bytes:
        """What it has in common with the gaps of the other events of its layout."""
        return self.pattern.pattern if self.pattern else self.text


class Layout(NamedTuple):
    """How an event is laid out, from its first key up to that of the next event."""

    gaps: tuple[Gap, ...]
    colon: bytes
    """What stands between a key's closing quote and its value."""

    @property
    def quotes(self) -> int:
        """How many quotes an event has at least."""
        return sum(gap.quotes for gap in self.gaps)

    @property
    def like(self) -> tuple[bytes, ...]:
        """What all events of this layout have in common."""
        return tuple(gap.like for gap in self.gaps)


class _Value(NamedTuple):
    key: bytes
    begin: int
    end: int


def learn_layout(text: bytes) -> Layout | None:
    """Return the layout of an event, None if it cannot be read by one; the text ends where the next event's key begins.

    The process and the thread must stand together, as they do wherever they are known to be written.
    """
    values = list(_values(text))
    keys = [value.key for value in values]
    if not set(keys) >= LEAST or len(set(keys)) < len(keys) or not END.fullmatch(text, values[-1].end):
        return None
    gaps = tuple(_gaps(text, values))
    together = any(gap.pattern and {"pid", "tid"} <= gap.pattern.groupindex.keys() for gap in gaps)
    if not together or max(len(gap.text) for gap in gaps) > LONGEST_GAP:
        return None
    colon = KEY.match(text)
    return Layout(gaps, colon[2]) if colon else None


def _values(text: bytes) -> Iterator[_Value]:
    """Yield the values of an event in order, up to one that no layout has."""
    at = 0
    while key := KEY.match(text, at):
        begin = key.end()
        end = _end_of_value(key[1], text, begin)
        if end is None:
            return
        yield _Value(key[1], begin, end)
        comma = COMMA.match(text, end)
        if not comma:
            return
        at = comma.end()


def _end_of_value(key: bytes, text: bytes, begin: int) -> int | None:
    if key != ARGUMENTS:
        match = SCALARS[key].match(text, begin) if key in SCALARS else None
        return match.end() if match else None
    try:
        found, size = json.JSONDecoder().raw_decode(text[begin:].decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    return begin + size if isinstance(found, dict) else None


def _gaps(text: bytes, values: list[_Value]) -> Iterator[Gap]:
    begin = taken = 0
    pattern, varies = b"", False
    for key, value, end in values:
        if key in REPEATED:
            pattern += re.escape(text[taken:value]) + REPEATED[key]
            varies |= key != b"ph"
            taken = end
            continue
        quoted = key in (b"name", ARGUMENTS)  # quotes and braces belong to the gaps
        pattern += re.escape(text[taken : value + quoted])
        yield Gap(text[begin : value + quoted], re.compile(pattern) if varies else None, key)
        begin = taken = end - quoted
        pattern, varies = b"", False
    pattern += re.escape(text[taken:])
    yield Gap(text[begin:], re.compile(pattern) if varies else None, b"")
