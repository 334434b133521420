"""Recovers events from text that is not JSON because it is cut off, or its names were not escaped.

Some versions of torch wrote quotes, backslashes and control characters in names as they are, and `N/A` without quotes.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from pinprof.ground.errors import TraceError
from pinprof.trace.reader.events import Event, Metadata, decode_event

EVENT_SEAM = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:)')
"""The text between two events, or within the arguments of one."""
MAX_SEAMS_IN_EVENT = 8
"""An event that has more such seams than this is taken for broken."""
LIST_END = re.compile(rb"\}\s*\](?=\s*(?:[,}]|\Z))")
MAX_LIST_ENDS_TRIED = 16
"""How many possible ends of the list are tried; each try reads all text before it."""
MAX_SEARCHED_BYTES = 4 << 20
"""Bytes of the last event, and of a key of the metadata, that are searched for its end."""
MAX_MALFORMED_EVENTS = 50_000
"""Broken events of a file, which are tried in all ways to repair them."""
MAX_VALUES_OF_KEY = 4
"""How often a key of the metadata is looked for."""
NO_VALUE = re.compile(rb"(:\s*)(?:N/A|n/a|-?NaN|-?nan|-?Infinity|-?inf)(?=\s*[,}\]])")
CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f]")
STRAY_BACKSLASH = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
BACKSLASH = re.compile(rb'\\(?!")')
NAME_KEY = re.compile(rb'"name"\s*:\s*"')
NAME_END = re.compile(rb'"\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:|\})')
QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)"')


class Salvaged(NamedTuple):
    """The content of a text that is not JSON."""

    events: list[Event]
    repaired: int
    """Events that were not JSON and have been repaired."""
    malformed: int
    """Entries that are not events."""
    rest: bytes
    """The text after the last whole event."""
    closed: bool
    """Whether the list ends there; otherwise the rest is the beginning of another event, or empty."""


def salvage(text: bytes, *, is_last: bool) -> Salvaged:
    """Return the events in a text that begins with one; `is_last` says that the list ends in it, or should.

    Each event is read by itself; one that is not JSON is repaired if possible, and otherwise counted.
    Raises TraceError if there are too many of these.
    """
    cuts = [0, *(match.end() for match in EVENT_SEAM.finditer(text))]
    bounds = [*cuts[1:], len(text)]
    if is_last:
        bounds[-1] = cuts[-1] + _whole(text[cuts[-1] :])
    events: list[Event] = []
    repaired = malformed = index = 0
    while index < len(cuts):
        event, width = _event(text, cuts[index], bounds[index : index + MAX_SEAMS_IN_EVENT])
        if event is None and (event := _repaired(_stripped(text[cuts[index] : bounds[index]]))):
            repaired += 1
        if event is not None:
            events.append(event)
        elif bounds[index] > cuts[index]:
            malformed += 1
            check_malformed(malformed)
        index += width
    rest = text[bounds[-1] :]
    return Salvaged(events, repaired, malformed, rest, closed=rest.lstrip(b" \t\r\n,").startswith(b"]"))


def check_malformed(count: int) -> None:
    """Raise TraceError if this number of broken events is that of no trace."""
    if count > MAX_MALFORMED_EVENTS:
        raise TraceError(f"the JSON is broken: more than {MAX_MALFORMED_EVENTS:,} events are; record the trace again")


def _event(text: bytes, begin: int, ends: list[int]) -> tuple[Event | None, int]:
    """Return the event that ends at the first of these positions at which it is whole, and how many were tried."""
    for width, end in enumerate(ends, start=1):
        event = decode_event(_stripped(text[begin:end]))
        if event is not None:
            return event, width
    return None, 1


def _stripped(text: bytes) -> bytes:
    return text.rstrip(b" \t\r\n").removesuffix(b",")


def _whole(text: bytes) -> int:
    """Return where the event at the beginning of a text ends; 0 if it is not whole."""
    text = text[:MAX_SEARCHED_BYTES]
    try:
        return json.JSONDecoder().raw_decode(text.decode("latin-1"))[1]
    except (ValueError, RecursionError):
        ends = (
            match.start() + 1 for match, _ in zip(LIST_END.finditer(text), range(MAX_LIST_ENDS_TRIED), strict=False)
        )
        return next((end for end in ends if _repaired(text[:end])), 0)


def _repaired(text: bytes) -> Event | None:
    """Return an event whose text is not JSON, None if its meaning is unclear."""
    for repair in (_without_controls, _with_escapes, _with_quoted_name):
        text = repair(text)
        event = decode_event(text)
        if event is not None:
            return event
    return None


def _without_controls(text: bytes) -> bytes:
    """Return a text with `null` in place of invalid values, and without control characters and broken UTF-8."""
    text = NO_VALUE.sub(rb"\1null", text)
    return CONTROL_CHARACTER.sub(b" ", text).decode(errors="replace").encode()


def _with_escapes(text: bytes) -> bytes:
    """Return a text with all backslashes escaped if one is not: then none is, as in Windows paths."""
    return BACKSLASH.sub(rb"\\\\", text) if STRAY_BACKSLASH.search(text) else text


def _with_quoted_name(text: bytes) -> bytes:
    begin = NAME_KEY.search(text)
    end = NAME_END.search(text, begin.end()) if begin else None
    if begin is None or end is None:
        return text
    name = QUOTE.sub(rb'\1\\"', text[begin.end() : end.start()])
    return text[: begin.end()] + name + text[end.start() :]


def salvage_metadata(around: bytes) -> Metadata:
    """Return the metadata that can be read in the text around the events."""
    text = around.decode("latin-1")
    metadata = Metadata()
    for field in msgspec.structs.fields(Metadata):
        for value in _values_of(text, field.encode_name):
            setattr(metadata, field.name, msgspec.Raw(value.encode("latin-1")))
    return metadata


def _values_of(text: str, key: str) -> Iterator[str]:
    """Yield the values of a key that are whole."""
    for match in islice(re.finditer(rf'"{re.escape(key)}"\s*:\s*', text), MAX_VALUES_OF_KEY):
        value = text[match.end() :][:MAX_SEARCHED_BYTES]
        with suppress(ValueError, RecursionError):
            yield value[: json.JSONDecoder().raw_decode(value)[1]]
