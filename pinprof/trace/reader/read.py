"""Reads a trace file: bytes in, a Trace out, or an error that says what the file is instead."""

import re
from pathlib import Path

import msgspec

from pinprof.ground.errors import TraceError
from pinprof.ground.urls import shown
from pinprof.trace.files import open_trace
from pinprof.trace.reader.assemble import assemble
from pinprof.trace.reader.blocks import Blocks, without_trailing
from pinprof.trace.reader.events import Event, LooseFile, Metadata, decode_each
from pinprof.trace.reader.not_a_trace import WHAT_A_TRACE_IS, other_profiler, what_it_seems
from pinprof.trace.reader.rows import FileContent, ReadOptions, Shared, known_category, part_of_events
from pinprof.trace.reader.salvage import salvage, salvage_metadata
from pinprof.trace.reader.second_core import parts_of_blocks
from pinprof.trace.reader.unpack import Unpacked
from pinprof.trace.tables import NONE, Trace

LIST_START = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
NOTHING_RECORDED = (
    "has no duration events: nothing was recorded; give a trace that torch.profiler's export_chrome_trace wrote after "
    "steps had run, or record one with pinprof run"
)
ENDS_EARLY = "the JSON ends too early; the file is truncated, copy it or record it again"


def read_trace(path: str | Path) -> Trace:
    """Return the trace in a Kineto JSON file, plain, gzip or zstd, with all its columns and links.

    The file is a path, a URL that fsspec knows, or `-`, standard input.

    Events of categories that pinprof does not know are counted in `Trace.counts`; duration events of known categories
    that cannot be used are counted by reason in `Trace.skipped`. If a file is cut off, its whole events are read, and
    `Trace.cut` says so. Events that are not JSON are repaired where possible, and counted in `Trace.repaired`.

    Raises TraceError, with the file's name, if the file cannot be read, is not a trace, or has no duration event.
    """
    path = str(path)
    read = read_rows(path, ReadOptions())
    if not any(part.counts for part in read.parts):
        raise TraceError(f"{shown(path)}: {read.cut or NOTHING_RECORDED}")
    categories = {category for part in read.parts for category in part.counts}
    is_read = any(known_category(category) != NONE for category in categories)
    if not is_read and not read.cut and (other := other_profiler(categories, read.start, read.around)):
        raise TraceError(f"{shown(path)}: {other}")
    return assemble(shown(path), read)


def read_rows(path: str, wanted: ReadOptions) -> FileContent:
    """Return the wanted content of a file, read as by `read_trace`. Raises TraceError, with the file's name."""
    try:
        with open_trace(path) as stream:
            return _read(Unpacked(stream), wanted)
    except TraceError as error:
        raise TraceError(f"{shown(path)}: {error}") from error


def _read(content: Unpacked, wanted: ReadOptions) -> FileContent:
    shared = Shared(wanted)
    blocks = Blocks(content)
    parts = parts_of_blocks(blocks, shared)
    if blocks.whole is not None:
        return _read_whole(blocks.whole, wanted, content.lost)._replace(start=blocks.start)
    ending = blocks.ending()
    parts.append(part_of_events(ending.events, ending.malformed, shared, repaired=ending.repaired))
    if not any(part.counts or part.labels for part in parts) and (not ending.closed or any(p.malformed for p in parts)):
        raise TraceError(
            content.lost or ENDS_EARLY if not ending.closed else "the JSON is broken; record the trace again"
        )
    cut = content.lost or (None if ending.closed else ENDS_EARLY)
    return FileContent(ending.metadata, parts, shared, cut, ending.around, ending.trailing, blocks.start)


def _read_whole(data: bytes, wanted: ReadOptions, lost: str | None) -> FileContent:
    """Decode a file in one piece: it may be any JSON; errors say what is wrong with a file that is not JSON."""
    if not data.strip():
        raise TraceError(lost or "the file is empty; record the trace again")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        metadata, events, malformed = _decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return _salvaged(data, wanted, lost, error)
    shared = Shared(wanted)
    return FileContent(metadata, [part_of_events(events, malformed, shared)], shared, lost, data)


def _decode(data: bytes) -> tuple[Metadata, list[Event], int]:
    try:
        if data.lstrip().startswith(b"["):
            file = LooseFile(events=msgspec.json.decode(data, type=list[msgspec.Raw]))
        else:
            file = msgspec.json.decode(data, type=LooseFile)
    except msgspec.ValidationError:
        raise TraceError(_not_a_trace(data)) from None
    entries = file.events or []
    events, malformed = decode_each(entries)
    if file.events is msgspec.UNSET or (entries and not any(event.ph for event in events)):
        raise TraceError(_not_a_trace(data))
    return file, events, malformed


def _salvaged(data: bytes, wanted: ReadOptions, lost: str | None, error: Exception) -> FileContent:
    """Return what can be recovered from a file that is not JSON, event by event."""
    begin = LIST_START.search(data)
    salvaged = salvage(data[begin.end() :].lstrip(), is_last=True) if begin else None
    if not begin or not salvaged or not any(event.ph for event in salvaged.events):
        raise TraceError(lost or _broken_json(data, error)) from error
    metadata = salvage_metadata(data[: begin.start()] + salvaged.rest)
    shared = Shared(wanted)
    part = part_of_events(salvaged.events, salvaged.malformed, shared, repaired=salvaged.repaired)
    _, trailing = without_trailing(data[: begin.end()], salvaged.rest.lstrip(b" \t\r\n,"))
    return FileContent(metadata, [part], shared, lost or (None if salvaged.closed else ENDS_EARLY), b"", trailing)


def _broken_json(data: bytes, error: Exception) -> str:
    seems = what_it_seems(data)
    if seems or not data.lstrip().startswith((b"{", b"[")):
        return f"is not JSON{seems}; {WHAT_A_TRACE_IS}"
    if isinstance(error, RecursionError):
        return "the JSON is broken: nested far deeper than any trace is"
    return ENDS_EARLY if "truncated" in str(error) else f"the JSON is broken ({error})"


def _not_a_trace(data: bytes) -> str:
    return f"is JSON but no trace{what_it_seems(data)}; give the file that torch.profiler's export_chrome_trace wrote"
