"""HTA's figures on a trace, for the report."""

import itertools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pinprof.documents.report import Hta, HtaKernel, HtaLaunches, HtaStream, HtaTimes
from pinprof.ground.units import ms
from pinprof.hta import trace_analysis
from pinprof.hta.recording import HTA_UNIT_NS
from pinprof.trace.tables import NONE

T = TypeVar("T")
SLOW_CALL_US, LATE_US = 50, 100
"""HTA's thresholds of a slow launch and of a late start, in `get_cuda_kernel_launch_stats`."""


class Breakdown(NamedTuple):
    """HTA's figures on the trace of a rank."""

    rank: int
    figures: Hta


def breakdown_of(path: str, rank: int | None = None) -> Breakdown:
    """Return HTA's figures on the trace of a rank, with all nanoseconds. Raises TraceError if it cannot be read."""
    with _quiet():
        analysis = trace_analysis(path if rank is None else {rank: path})
        (rank,) = analysis.t.get_ranks()
        failed: list[str] = []

        def figure_of(measure: Callable[[Any, int], T], default: T) -> T:
            try:
                return measure(analysis, rank)
            except Exception as error:  # noqa: BLE001  HTA raises anything on traces that it does not expect
                failed.append(f"{measure.__name__.strip('_')} ({type(error).__name__}: {error})")
                return default

        if (analysis.t.get_trace(rank)["stream"] == NONE).all():
            return Breakdown(rank, Hta(None, None, [], [], None, ["figures (no GPU work in its steps)"]))
        figures = Hta(
            times=figure_of(_gpu_shares, None),
            overlapped=figure_of(_overlapped, None),
            kernels=figure_of(_kernels, []),
            streams=figure_of(_streams, []),
            launches=figure_of(_launches, None),
            failed=failed,
        )
        return Breakdown(rank, figures)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep HTA's log and its warnings out of a report."""
    log = logging.getLogger("hta")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _gpu_shares(analysis: Any, _: int) -> HtaTimes | None:
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    parts = ("idle", "compute", "non_compute", "kernel")
    return HtaTimes(*(_in_ms(row[f"{part}_time(us)"]) for part in parts))


def _overlapped(analysis: Any, _: int) -> float | None:
    percent = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return percent / 100 if np.isfinite(percent) else None


def _kernels(analysis: Any, _: int) -> list[HtaKernel]:
    symbols = len(analysis.t.symbol_table.sym_table)  # with a smaller number HTA sums up the rest
    _, rows = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=symbols)
    times = (map(_in_ms, rows[f"{what} (us)"]) for what in ("sum", "mean", "max"))
    kernels = itertools.starmap(HtaKernel, zip(rows["name"], rows["kernel_type"], *times, strict=True))
    return sorted(kernels, key=lambda kernel: -kernel.time_ms)


def _streams(analysis: Any, rank: int) -> list[HtaStream]:
    gaps, _ = analysis.get_idle_time_breakdown([rank], visualize=False)
    causes = gaps.pivot_table(index="stream", columns="idle_category", values="idle_time", aggfunc="sum", fill_value=0)
    queues = analysis.get_queue_length_summary([rank])
    queues = {} if queues is None else {stream: row for (_, stream), row in queues["queue_length"].iterrows()}
    streams = []
    for stream, row in causes.iterrows():
        host, kernel, other = (_in_ms(row.get(cause, 0.0)) for cause in ("host_wait", "kernel_wait", "other"))
        queue = queues.get(stream)
        mean, longest = (None, None) if queue is None else (float(queue["mean"]), int(queue["max"]))
        streams.append(HtaStream(int(stream), host, kernel, other, mean, longest))
    return streams


def _launches(analysis: Any, rank: int) -> HtaLaunches:
    stats = analysis.get_cuda_kernel_launch_stats([rank], visualize=False)[rank]
    call, work, delay = (stats[column] for column in ("cpu_duration", "gpu_duration", "launch_delay"))
    counts = (work < call, call > SLOW_CALL_US, delay > LATE_US)
    return HtaLaunches(len(stats), *(int(count.sum()) for count in counts))


def _in_ms(us: float) -> float:
    return ms(us * HTA_UNIT_NS)
