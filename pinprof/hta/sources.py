"""Finds the files for HTA to analyze, the rank of each, and what each contains."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pinprof.errors import PinprofError, TraceError
from pinprof.hta.recording import EventColumns, read_recording
from pinprof.trace import Trace
from pinprof.trace.files import open_trace, rank_in_name, trace_files
from pinprof.trace.scan.unpack import Unpacked
from pinprof.urls import HIDDEN, STANDARD_INPUT, is_url, shown

Source: TypeAlias = str | Path | Trace


def recorded_ranks(
    traces: Source | Sequence[Source] | Mapping[int, Source], jobs: int | None
) -> dict[int, EventColumns]:
    """Return the events of the traces, by rank. Raises TraceError and PinprofError as `trace_analysis` does."""
    if isinstance(traces, Mapping):
        named = {rank: _file(source) for rank, source in traces.items()}
        found = {rank: read_recording(path, jobs) for rank, path in sorted(named.items())}
    else:
        listed = [traces] if isinstance(traces, str | Path | Trace) else traces
        found = _by_rank([read_recording(path, jobs) for source in listed for path in trace_files(_file(source))])
    if not found:
        raise PinprofError("no trace to analyze; give its path")
    return found


def _by_rank(recordings: Sequence[EventColumns]) -> dict[int, EventColumns]:
    found: dict[int, EventColumns] = {}
    for recording in recordings:
        rank = _rank(recording, alone=len(recordings) == 1)
        if rank in found:
            both = f"{shown(found[rank].path)} and {shown(recording.path)}"
            raise PinprofError(f"{both} are both of rank {rank}; say which is which: {{0: path, 1: path}}")
        found[rank] = recording
    return dict(sorted(found.items()))


def _file(source: Source) -> str:
    if not isinstance(source, Trace):
        return str(source)
    if source.path == shown(STANDARD_INPUT) or HIDDEN in source.path:
        raise TraceError(f"{source.path}: HTA needs to read this trace again; give its file or URL instead")
    return source.path


def _rank(recording: EventColumns, *, alone: bool) -> int:
    for rank in (recording.rank, rank_in_name(recording.path)):
        if rank is not None:
            return rank
    if not alone:
        name = shown(recording.path)
        raise PinprofError(f"the rank of {name} is unknown; say which is which: {{0: path, 1: path}}")
    return 0


def document_of(path: str) -> dict[str, Any]:
    """Return the whole JSON document of a trace for HTA to change. Raises TraceError if the file is incomplete."""
    try:
        with open_trace(path) as stream:
            content = Unpacked(stream)
            data = b"".join(content)
        document = json.loads(data) if not content.lost else {}
    except TraceError as error:
        raise TraceError(f"{shown(path)}: {error}") from error
    except ValueError as error:
        raise TraceError(f"{shown(path)}: HTA copies the whole file, which is not JSON ({error})") from error
    if content.lost:
        raise TraceError(f"{shown(path)}: HTA copies the whole file, and {content.lost}")
    return document if isinstance(document, dict) else {"traceEvents": document}


def check_output(output: str, traces: Mapping[int, str]) -> None:
    """Raise PinprofError if HTA would write to a URL or overwrite a trace."""
    if is_url(output):
        raise PinprofError(
            f"HTA writes its output beside the trace, and {shown(output)} is a URL; copy the trace here first"
        )
    if os.path.realpath(output) in map(os.path.realpath, traces.values()):
        raise PinprofError(f"HTA would overwrite {output}; name the trace NAME.json or NAME.json.gz")


def counters(path: str, entries: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of these entries of the list of events: CUPTI's ranges have counters of any name."""
    events = document_of(path)["traceEvents"]
    return (events[entry].get("args") or {} for entry in entries)
