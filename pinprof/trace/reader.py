"""Reads a trace file: bytes in, events out, and a good sentence when it is not one."""

from contextlib import suppress
from pathlib import Path

import msgspec

from pinprof.errors import TraceError
from pinprof.trace.assemble import assemble
from pinprof.trace.events import Event, File, LooseFile, Metadata
from pinprof.trace.files import open_trace
from pinprof.trace.tables import Trace
from pinprof.trace.unpack import Unpacked
from pinprof.urls import shown


def read_trace(path: str | Path) -> Trace:
    """Return the trace in a Kineto JSON file, plain, gzip or zstd, with all its columns and links.

    The file is a path, a URL that fsspec knows, or `-`, standard input.

    Events of categories that pinprof does not know are counted in `Trace.counts`; duration events of known categories
    that cannot be used are counted by reason in `Trace.skipped`.

    Raises TraceError, with the file's name, if the file cannot be read or is not a trace.
    """
    path = str(path)
    try:
        metadata, events, malformed = _decode(_load(path))
    except TraceError as error:
        raise TraceError(f"{shown(path)}: {error}") from error
    return assemble(shown(path), metadata, events, malformed)


def _load(path: str) -> bytes:
    with open_trace(path) as stream:
        content = Unpacked(stream)
        data = b"".join(content)
    if content.lost:
        raise TraceError(content.lost)
    if not data.strip():
        raise TraceError("the file is empty; record the trace again")
    return data


def _decode(data: bytes) -> tuple[Metadata, list[Event], int]:
    """Return the metadata, the events, and how many entries of the event list were not events."""
    is_list = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        file = (
            File(events=msgspec.json.decode(data, type=list[Event]))
            if is_list
            else msgspec.json.decode(data, type=File)
        )
        if any(event.ph for event in file.events):
            return file, file.events, 0
    except (msgspec.ValidationError, UnicodeDecodeError):
        pass  # something is not of the usual form: look at each event by itself
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken_json(data, error) from error
    return _decode_loosely(data, is_list=is_list)


def _decode_loosely(data: bytes, *, is_list: bool) -> tuple[Metadata, list[Event], int]:
    try:
        if is_list:
            metadata, raw_events = Metadata(), msgspec.json.decode(data, type=list[msgspec.Raw])
        else:
            file = msgspec.json.decode(data, type=LooseFile)
            if file.events is msgspec.UNSET:
                raise TraceError(_not_a_trace(data))
            metadata, raw_events = file, file.events
    except msgspec.ValidationError:
        raise TraceError(_not_a_trace(data)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken_json(data, error) from error
    decoder = msgspec.json.Decoder(Event)
    events = []
    for raw in raw_events:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            events.append(decoder.decode(raw))
    if raw_events and not any(event.ph for event in events):
        raise TraceError(_not_a_trace(data))
    return metadata, events, len(raw_events) - len(events)


def _broken_json(data: bytes, error: Exception) -> TraceError:
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return TraceError("is not JSON; a trace is what torch.profiler's export_chrome_trace writes")
    if "truncated" in str(error):
        return TraceError("the JSON ends too early; the file is truncated, copy it or record it again")
    return TraceError(f"the JSON is broken ({error})")


def _not_a_trace(data: bytes) -> str:
    """Say what a JSON document without trace events seems to be."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "the JSON is broken; record the trace again"
    looks_like = ""
    if isinstance(document, dict) and "nodes" in document and "schema" in document:
        looks_like = " (it looks like an execution graph, which ExecutionTraceObserver writes)"
    elif isinstance(document, list) and document and isinstance(document[0], list):
        looks_like = " (it looks like a memory timeline, which export_memory_timeline writes)"
    return f"is JSON but no trace{looks_like}; give the file that torch.profiler's export_chrome_trace wrote"
