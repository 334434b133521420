"""HTA's own classes with pinprof's data: a Trace with its frames, and the TraceAnalysis around it."""

from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from typing import Any

import pandas as pd
from hta.common.trace import Trace
from hta.configs.env_options import disable_ns_rounding
from hta.trace_analysis import TraceAnalysis

from pinprof.hta.frames import US, frame_of, symbols_of, times_of
from pinprof.hta.recording import EventColumns, check_output, document_of
from pinprof.trace.tables import NONE


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
    """A Trace of HTA that reads and writes its files as pinprof does."""

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return the whole document of a rank's file. Raises TraceError if the file is incomplete."""
        if rank not in self.trace_files:
            raise ValueError(f"no trace of rank {rank}")
        return document_of(self.trace_files[rank])

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Write a changed document. Raises PinprofError if the output is a URL or a trace."""
        check_output(output_file, self.trace_files)
        super().write_raw_trace(output_file, trace_contents)


def _without_syncs(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of TraceAnalysis that does not take synchronizations for GPU work."""

    @wraps(method)
    def run(analysis: TraceAnalysis, *args: Any, **options: Any) -> Any:
        sync = analysis.t.symbol_table.sym_index.get("cuda_sync", NONE)
        return method(_changed(analysis, lambda frame: frame[frame["cat"] != sync]), *args, **options)

    return run


def _in_pandas_3(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of TraceAnalysis that also works in pandas 3, which HTA 0.5 does not support."""

    @wraps(method)
    def run(analysis: TraceAnalysis, *args: Any, **options: Any) -> Any:
        return method(_changed(analysis, Pandas2Frame), *args, **options)

    return run


def _changed(analysis: TraceAnalysis, change: Callable[[pd.DataFrame], pd.DataFrame]) -> "RecordedAnalysis":
    """Return an analysis of changed frames."""
    trace = copy(analysis.t)
    trace.traces = {rank: change(frame) for rank, frame in trace.traces.items()}
    return RecordedAnalysis(trace)


class RecordedAnalysis(TraceAnalysis):  # type: ignore[misc]
    """A TraceAnalysis of HTA on a trace that is already loaded."""

    def __init__(self, trace: RecordedTrace) -> None:
        self.t = trace

    critical_path_analysis = _in_pandas_3(TraceAnalysis.critical_path_analysis)
    get_comm_comp_overlap = _without_syncs(TraceAnalysis.get_comm_comp_overlap)
    get_cupti_counter_data_with_operators = _in_pandas_3(TraceAnalysis.get_cupti_counter_data_with_operators)
    get_frequent_cuda_kernel_sequences = _in_pandas_3(_without_syncs(TraceAnalysis.get_frequent_cuda_kernel_sequences))
    get_gpu_kernel_breakdown = _without_syncs(TraceAnalysis.get_gpu_kernel_breakdown)
    get_temporal_breakdown = _without_syncs(TraceAnalysis.get_temporal_breakdown)


def analysis_of(recordings: Mapping[int, EventColumns], *, include_last: bool, exact: bool) -> RecordedAnalysis:
    """Return HTA's analysis of recordings by rank."""
    exact = exact or disable_ns_rounding()
    times = {rank: times_of(recording, exact=exact) for rank, recording in recordings.items()}
    begin_ns = min(int(start.min()) for start, _ in times.values())
    if not exact:
        begin_ns -= begin_ns % US
    trace = RecordedTrace(trace_files={})
    trace.trace_files = {rank: recording.path for rank, recording in recordings.items()}
    trace.meta_data = {rank: recording.metadata for rank, recording in recordings.items()}
    trace.symbol_table = symbols_of(recordings)
    frames = {
        rank: frame_of(recording, trace.symbol_table, times[rank], begin_ns) for rank, recording in recordings.items()
    }
    trace.traces = {rank: frame[FILTERED_BY] for rank, frame in frames.items()}
    trace.align_and_filter_trace(include_last)  # HTA's own choice of rows; few columns, because it copies them often
    trace.traces = {rank: frames[rank].loc[chosen["index"].to_numpy()] for rank, chosen in trace.traces.items()}
    trace.min_ts = begin_ns / US if exact else begin_ns // US
    trace.is_parsed = True
    return RecordedAnalysis(trace)
