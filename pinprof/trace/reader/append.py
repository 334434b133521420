"""Adds events to a trace file: its own bytes stay as they are, and more events follow its last one."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from pinprof.ground.errors import TraceError
from pinprof.trace.reader.blocks import Blocks, without_trailing
from pinprof.trace.reader.events import NOT_EVENTS
from pinprof.trace.reader.read import LIST_START
from pinprof.trace.reader.salvage import salvage


def with_events(content: Iterable[bytes], events: Iterable[bytes], on_cut: Callable[[], object]) -> Iterator[bytes]:
    """Yield the text of a trace file with more events; one that was cut off is closed (`on_cut`). Raises TraceError."""
    blocks = Blocks(content)
    before = b""
    for block in blocks:
        before = block if before else blocks.header + block
        yield before
    whole = blocks.header + blocks.rest if blocks.whole is None else blocks.whole.removeprefix(b"\xef\xbb\xbf")
    kept, tail, is_cut = _split(whole)
    kept = kept[len(blocks.header) if before else 0 :]
    yield kept
    separator = b"\n" if (kept or before.rstrip()).endswith((b"[", b",")) else b",\n"
    for event in events:
        yield separator + event
        separator = b",\n"
    yield b"\n" + tail
    if is_cut:
        on_cut()


def _split(text: bytes) -> tuple[bytes, bytes, bool]:
    """Return a file up to the end of its last event, the text after the events, and whether the file is cut off."""
    begin = LIST_START.search(text)
    if begin is None:
        raise TraceError("has no list of events that pinprof could add to")
    header = text[: begin.end()]
    is_list = header.lstrip().startswith(b"[")
    try:
        decode = msgspec.json.decode
        raw = decode(text, type=msgspec.Raw) if is_list else decode(text, type=_Events).events
    except NOT_EVENTS:
        return _split_broken(text, header, b"]" if is_list else b"]}")
    events = bytes(raw).strip()
    end = text.index(events, begin.start()) + len(events) - 1
    return text[:end].rstrip(), text[end:], False


def _split_broken(text: bytes, header: bytes, closing: bytes) -> tuple[bytes, bytes, bool]:
    """Split, as `_split` does, a text that is not JSON: it is cut off, or one of its events is broken."""
    salvaged = salvage(text[len(header) :].lstrip(), is_last=True)
    kept, tail = text[: len(text) - len(salvaged.rest)].rstrip(), salvaged.rest.lstrip(b" \t\r\n,")
    tail, _ = without_trailing(header, tail)
    if salvaged.closed and (_is_json(header + tail) or not _is_json(header + closing)):
        return kept, tail, False
    return kept, closing, not salvaged.closed


class _Events(msgspec.Struct):
    events: msgspec.Raw = msgspec.field(name="traceEvents")


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except NOT_EVENTS:
        return False
    return True
