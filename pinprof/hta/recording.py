"""The recordings that HTA analyses: finds the files, and reads the duration events of all categories."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from pinprof.ground.errors import PinprofError, TraceError
from pinprof.ground.urls import CENSORED, STANDARD_INPUT, is_url, shown
from pinprof.trace import Trace
from pinprof.trace.files import rank_in_name, trace_files
from pinprof.trace.metadata.recorded import recorded_rank
from pinprof.trace.reader.assemble import usable_times
from pinprof.trace.reader.read import read_rows
from pinprof.trace.reader.rows import KNOWN_CATEGORIES, Codes, ReadOptions, Rows, joined
from pinprof.trace.tables import NONE, Bools, Int64s
from pinprof.trace.threads import ThreadKey

LEFT_OUT_BY_HTA = ("", "Trace")
"""HTA leaves out duration events of these categories; the latter is the span of the recording."""
HTA_UNIT_NS = 1000  # HTA's unit is a microsecond
HTA_TEXT_ARGUMENTS = ("bandwidth", "input_dims", "input_type", "input_strides")
HTA_ID_ARGUMENTS = ("stream", "correlation", "bytes", "external_id", "awaited_stream", "awaited_record")


@dataclass(frozen=True)
class EventColumns:
    """The events of a file, in its order."""

    path: str
    rank: int | None  # as recorded
    metadata: dict[str, Any]  # the keys of the file other than its events
    rows: Rows  # `entry` counts the events of the file; all rows are usable
    end_ns: Int64s
    categories: tuple[str, ...]
    names: tuple[str, ...]
    threads: tuple[ThreadKey, ...]

    def id(self, name: str) -> Int64s:
        """Return an argument that is an integer, -1 where not recorded."""
        return self.rows.ids[HTA_ID_ARGUMENTS.index(name)].astype(np.int64)

    def text(self, name: str) -> Int64s:
        """Return an argument as an index into `names`, -1 where not recorded."""
        return self.rows.ids[len(HTA_ID_ARGUMENTS) + HTA_TEXT_ARGUMENTS.index(name)].astype(np.int64)

    def of_category(self, categories: set[str]) -> Bools:
        """Return which rows are of one of these categories."""
        return np.array([category in categories for category in self.categories], bool)[self.rows.category]


def read_recording(path: str) -> EventColumns:
    """Return the events of a trace that HTA needs. Raises TraceError, with the file's name."""
    categories: Codes[str] = Codes()
    for category in KNOWN_CATEGORIES:
        categories[category]  # known categories keep their numbers

    def category_code(category: str) -> int:
        number = NONE if category in LEFT_OUT_BY_HTA else categories[category]
        return number if number <= np.iinfo(np.int8).max else NONE

    options = ReadOptions(category_code, first_with_ids=0, ids=HTA_ID_ARGUMENTS, texts=HTA_TEXT_ARGUMENTS)
    read = read_rows(path, options)
    before = np.cumsum([0, *(part.entries for part in read.parts)])
    parts = [
        replace(part.rows, entry=part.rows.entry + int(first))
        for part, first in zip(read.parts, before[:-1], strict=True)
    ]
    rows = joined(parts)
    end, usable, _ = usable_times(rows)
    if not usable.any():
        raise TraceError(f"{shown(path)}: has no duration events, which HTA needs")
    columns: list[Any] = [column[usable] for column in rows.columns()]
    return EventColumns(
        path=path,
        rank=recorded_rank(read.metadata),
        metadata=_metadata(read.around),
        rows=Rows(*[*columns, rows.ids[:, usable]]),
        end_ns=end[usable],
        categories=tuple(categories),
        names=tuple(read.shared.names),
        threads=tuple(read.shared.threads),
    )


def _metadata(around: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(around)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return {key: value for key, value in document.items() if key != "traceEvents"} if isinstance(document, dict) else {}


TraceSource: TypeAlias = str | Path | Trace


def recorded_ranks(traces: TraceSource | Sequence[TraceSource] | Mapping[int, TraceSource]) -> dict[int, EventColumns]:
    """Return the events of the traces, by rank. Raises TraceError and PinprofError as `trace_analysis` does."""
    if isinstance(traces, Mapping):
        named = {rank: _file(source) for rank, source in traces.items()}
        recordings = {rank: read_recording(path) for rank, path in sorted(named.items())}
    else:
        listed = [traces] if isinstance(traces, str | Path | Trace) else traces
        recordings = _by_rank([read_recording(path) for source in listed for path in trace_files(_file(source))])
    if not recordings:
        raise PinprofError("no trace to analyze; give its path")
    return recordings


def _by_rank(recordings: Sequence[EventColumns]) -> dict[int, EventColumns]:
    by_rank: dict[int, EventColumns] = {}
    for recording in recordings:
        found = (recording.rank, rank_in_name(recording.path), 0 if len(recordings) == 1 else None)
        rank = next((rank for rank in found if rank is not None), None)
        if rank is None:
            raise PinprofError(
                f"the rank of {shown(recording.path)} is unknown; say which is which: {{0: path, 1: path}}"
            )
        if rank in by_rank:
            both = f"{shown(by_rank[rank].path)} and {shown(recording.path)}"
            raise PinprofError(f"{both} are both of rank {rank}; say which is which: {{0: path, 1: path}}")
        by_rank[rank] = recording
    return dict(sorted(by_rank.items()))


def _file(source: TraceSource) -> str:
    if not isinstance(source, Trace):
        return str(source)
    if source.path == shown(STANDARD_INPUT) or CENSORED in source.path:
        raise TraceError(f"{source.path}: HTA needs to read this trace again; give its file or URL instead")
    return source.path


def check_output(output: str, traces: Mapping[int, str]) -> None:
    """Raise PinprofError if HTA would write to a URL or overwrite a trace."""
    if is_url(output):
        raise PinprofError(
            f"HTA writes into the folder of the trace, and {shown(output)} is a URL; copy the trace here first"
        )
    if os.path.realpath(output) in map(os.path.realpath, traces.values()):
        raise PinprofError(f"HTA would overwrite {output}; name the trace NAME.json or NAME.json.gz")
