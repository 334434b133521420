"""HTA's own classes with pinprof's data: DataFrames of recordings, a Trace with these, and its TraceAnalysis."""

import re
from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from hta.common.trace import Trace, transform_correlation_to_index
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.trace_analysis import TraceAnalysis

from pinprof.hta.recording import HTA_UNIT_NS, EventColumns, check_output
from pinprof.trace.reader.rows import CALL_CATEGORIES, HOST_CATEGORIES, by_appearance, known_category
from pinprof.trace.tables import NONE, Bools, Int64s

STEP_NAME = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})(?!\d)")
COMPACT_COLUMNS = (
    *("index", "stream", "correlation", "bytes", "external_id"),
    *("wait_on_stream", "wait_on_cuda_event_record_corr_id"),
)
"""Columns with the narrowest dtype that holds their values."""
NOT_RECORDED = "-1"  # HTA's value for shapes that were not recorded


def symbols_of(recordings: Mapping[int, EventColumns]) -> TraceSymbolTable:
    """Return the texts that HTA numbers: names and categories of all ranks."""
    table = TraceSymbolTable()
    for recording in recordings.values():
        category = recording.rows.category.astype(np.int32)
        for texts, codes in ((recording.categories, category), (recording.names, recording.rows.name)):
            table.add_symbols(texts[code] for code in by_appearance([codes], len(texts)).tolist())
    return table


def _is_of(recording: EventColumns, *categories: str) -> Bools:
    """Return which events are of one of these categories, by its old or its new name."""
    known_names = {known_category(category) for category in categories}
    return recording.of_category({text for text in recording.categories if known_category(text) in known_names})


def frame_of(recording: EventColumns, symbols: TraceSymbolTable, begin_ns: int) -> pd.DataFrame:
    """Return HTA's frame of a rank before it leaves out incomplete steps, with times since `begin_ns`."""
    rows = recording.rows
    start, duration = rows.start_ns, recording.end_ns - rows.start_ns
    columns: dict[str, object] = {
        "index": rows.entry,
        "cat": _symbols(recording.categories, symbols)[rows.category],
        "name": _symbols(recording.names, symbols)[rows.name],
        "pid": _thread_ids(recording, 0),
        "tid": _thread_ids(recording, 1),
        "ts": _microseconds(start - begin_ns),
        "dur": duration / HTA_UNIT_NS,
        "end": _microseconds(start + duration - begin_ns),
        "stream": np.where(_is_of(recording, *HOST_CATEGORIES, *CALL_CATEGORIES), NONE, recording.id("stream")),
        "correlation": recording.id("correlation"),
        "bytes": recording.id("bytes"),
        "memory_bw_gbps": _bandwidths(recording),
        "wait_on_stream": recording.id("awaited_stream"),
        "wait_on_cuda_event_record_corr_id": recording.id("awaited_record"),
        **{name: _values(recording, name) for name in ("input_dims", "input_type", "input_strides")},
        "external_id": recording.id("external_id"),
    }
    frame = pd.DataFrame(columns, index=rows.entry)
    for column in COMPACT_COLUMNS:
        frame[column] = pd.to_numeric(frame[column], downcast="integer")
    frame.index = pd.Index(frame["index"].to_numpy())
    frame = transform_correlation_to_index(frame, symbols)
    frame["iteration"] = pd.to_numeric(_iterations(frame, recording), downcast="integer")
    return frame


def _symbols(texts: tuple[str, ...], symbols: TraceSymbolTable) -> Int64s:
    return np.array([symbols.sym_index.get(text, NONE) for text in texts], np.int64)


def _thread_ids(recording: EventColumns, index: int) -> np.ndarray:
    """Return the process or the thread ids, as integers if all of them are integers."""
    used = np.unique(recording.rows.thread)
    ids = [recording.threads[thread][index] for thread in used.tolist()]
    values = np.zeros(len(recording.threads), np.int64 if all(map(_fits, ids)) else object)
    values[used] = ids
    return values[recording.rows.thread]


def _fits(number: object) -> bool:
    return isinstance(number, int) and abs(number) < 1 << 63


def _microseconds(times: Int64s) -> np.ndarray:
    return times / HTA_UNIT_NS if (times % HTA_UNIT_NS).any() else times // HTA_UNIT_NS


def _bandwidths(recording: EventColumns) -> np.ndarray:
    """Return the recorded bandwidths of copies in GB/s, 0 where none is recorded."""
    codes = recording.text("bandwidth")
    result = np.zeros(len(codes))
    recorded = np.flatnonzero(codes != NONE)
    result[recorded] = pd.to_numeric(pd.Series([recording.names[code] for code in codes[recorded].tolist()]), "coerce")
    return np.nan_to_num(result, nan=0.0, posinf=0.0)


def _values(recording: EventColumns, name: str) -> object:
    """Return an argument that is a list; events with equal lists share one object."""
    codes = recording.text(name)
    if (codes == NONE).all():
        return NOT_RECORDED
    values = np.full(len(recording.names) + 1, NOT_RECORDED, object)
    for code in np.unique(codes[codes != NONE]).tolist():
        values[code] = msgspec.json.decode(recording.names[code])
    return values[codes]  # -1 takes the last one


def _iterations(frame: pd.DataFrame, recording: EventColumns) -> Int64s:
    """Return the step of each event, or -1: of GPU work that of its launch, else that of the last mark in the file."""
    numbers = [STEP_NAME.match(name) for name in recording.names]
    number = np.array([int(match[1]) if match else NONE for match in numbers], np.int64)[recording.rows.name]
    start, stop = frame["ts"].to_numpy(), (frame["ts"] + frame["dur"]).to_numpy()
    order = np.argsort(start, kind="stable")
    marks = np.flatnonzero(number != NONE)
    first, last = (np.searchsorted(start[order], times[marks]) for times in (start, stop))
    at_place = np.full(len(frame), NONE, np.int64)
    for begin, end, step in zip(first.tolist(), last.tolist(), number[marks].tolist(), strict=True):
        at_place[begin:end] = step
    iteration = np.empty(len(frame), np.int64)
    iteration[order] = at_place
    on_gpu: Bools = frame["stream"].to_numpy() >= 0
    launch = np.searchsorted(recording.rows.entry, frame["index_correlation"].to_numpy())
    linked = on_gpu & (frame["index_correlation"].to_numpy() > 0)
    iteration[on_gpu] = np.where(linked[on_gpu], iteration[np.minimum(launch[on_gpu], len(frame) - 1)], NONE)
    return iteration


class Pandas2Frame(pd.DataFrame):
    """A DataFrame with two methods as before pandas 3; frames made from it are of this class too."""

    @property
    def _constructor(self) -> type["Pandas2Frame"]:
        return Pandas2Frame

    def drop(self, *args: Any, **options: Any) -> Any:
        """Drop columns even if the call also names an axis, as critical paths do."""
        if options.get("columns") is not None:
            options.pop("axis", None)
        return super().drop(*args, **options)

    def replace(self, *args: Any, **options: Any) -> Any:
        """Replace texts by numbers and make the column numeric, as call stacks need it."""
        replaced = super().replace(*args, **options)
        return None if replaced is None else replaced.infer_objects()


FILTERED_BY = ["index", "name", "ts", "end", "stream", "correlation"]
"""The columns by which HTA chooses the rows of whole steps."""


class RecordedTrace(Trace):  # type: ignore[misc]  # HTA has no types
    """A Trace of HTA that overwrites no trace."""

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Write a changed document. Raises PinprofError if the output is a URL or a trace."""
        check_output(output_file, self.trace_files)
        super().write_raw_trace(output_file, trace_contents)


def _with_frames(
    change: Callable[[TraceAnalysis, pd.DataFrame], pd.DataFrame], method: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a method of TraceAnalysis that works on changed frames."""

    @wraps(method)
    def run(analysis: TraceAnalysis, *args: Any, **options: Any) -> Any:
        trace = copy(analysis.t)
        trace.traces = {rank: change(analysis, frame) for rank, frame in trace.traces.items()}
        return method(RecordedAnalysis(trace), *args, **options)

    return run


def _without_syncs(analysis: TraceAnalysis, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without synchronizations, which some methods take for GPU work."""
    return frame[frame["cat"] != analysis.t.symbol_table.sym_index.get("cuda_sync", NONE)]


def _as_pandas_2(_: TraceAnalysis, frame: pd.DataFrame) -> Pandas2Frame:
    """Return a frame for methods that do not work in pandas 3, which HTA 0.5 does not support."""
    return Pandas2Frame(frame)


class RecordedAnalysis(TraceAnalysis):  # type: ignore[misc]
    """A TraceAnalysis of HTA on a trace that is already loaded."""

    def __init__(self, trace: RecordedTrace) -> None:
        self.t = trace

    critical_path_analysis = _with_frames(_as_pandas_2, TraceAnalysis.critical_path_analysis)
    get_comm_comp_overlap = _with_frames(_without_syncs, TraceAnalysis.get_comm_comp_overlap)
    get_frequent_cuda_kernel_sequences = _with_frames(
        _as_pandas_2, _with_frames(_without_syncs, TraceAnalysis.get_frequent_cuda_kernel_sequences)
    )
    get_gpu_kernel_breakdown = _with_frames(_without_syncs, TraceAnalysis.get_gpu_kernel_breakdown)
    get_temporal_breakdown = _with_frames(_without_syncs, TraceAnalysis.get_temporal_breakdown)


def analysis_of(recordings: Mapping[int, EventColumns], *, include_last: bool) -> RecordedAnalysis:
    """Return HTA's analysis of recordings by rank."""
    begin_ns = min(int(recording.rows.start_ns.min()) for recording in recordings.values())
    trace = RecordedTrace(trace_files={})
    trace.trace_files = {rank: recording.path for rank, recording in recordings.items()}
    trace.meta_data = {rank: recording.metadata for rank, recording in recordings.items()}
    trace.symbol_table = symbols_of(recordings)
    frames = {rank: frame_of(recording, trace.symbol_table, begin_ns) for rank, recording in recordings.items()}
    trace.traces = {rank: frame[FILTERED_BY] for rank, frame in frames.items()}
    trace.align_and_filter_trace(include_last)  # HTA's own choice of rows; few columns, because it copies them often
    trace.traces = {rank: frames[rank].loc[chosen["index"].to_numpy()] for rank, chosen in trace.traces.items()}
    trace.min_ts = begin_ns / HTA_UNIT_NS
    trace.is_parsed = True
    return RecordedAnalysis(trace)
