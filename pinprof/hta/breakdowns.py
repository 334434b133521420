"""HTA's figures on a trace, for the report."""

import itertools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pinprof.hta import trace_analysis
from pinprof.trace.tables import NONE
from pinprof.urls import shown

T = TypeVar("T")
US = 1000
SLOW_CALL_US, LATE_US = 50, 100
"""HTA's thresholds of a slow launch and of a late start, in `get_cuda_kernel_launch_stats`."""


@dataclass(frozen=True)
class GpuShares:
    """What the GPU does from its first work to its last, in ns; the first three add up to the span."""

    idle_ns: float
    compute_ns: float
    other_ns: float
    """Only copies, memsets and communication."""
    span_ns: float


@dataclass(frozen=True)
class KernelTimes:
    """A kernel, or copies or memsets of one kind; times in ns."""

    name: str
    kind: str
    """HTA's COMPUTATION, COMMUNICATION or MEMORY."""
    time_ns: float
    mean_ns: float
    max_ns: float


@dataclass(frozen=True)
class StreamTimes:
    """The gaps of a stream by HTA's cause, in ns, and its queue: work that was launched but had not begun."""

    stream: int
    host_wait_ns: float
    """Gaps that began before the launch of the next work."""
    kernel_wait_ns: float
    """Other gaps under 30 µs."""
    other_ns: float
    mean_queue: float | None
    longest_queue: int | None


@dataclass(frozen=True)
class LaunchTimes:
    """Launches whose work is in the trace, and how many of them are of these kinds."""

    count: int
    longer_than_work: int
    slow: int
    late: int


@dataclass(frozen=True)
class Breakdown:
    """HTA's figures on one trace without its last step; None if HTA has none."""

    path: str
    rank: int
    times: GpuShares | None
    overlapped: float | None
    """Share of the communication time during which the GPU also computes; None without communication."""
    kernels: tuple[KernelTimes, ...]
    """Most time first."""
    streams: tuple[StreamTimes, ...]
    launches: LaunchTimes | None
    failed: tuple[str, ...]
    """Methods of HTA that raised, with the error."""


def breakdown_of(path: str, rank: int | None = None) -> Breakdown:
    """Return HTA's figures on the trace of a rank, with all nanoseconds. Raises TraceError if it cannot be read."""
    with _quiet():
        analysis = trace_analysis(path if rank is None else {rank: path}, exact=True)
        (rank,) = analysis.t.get_ranks()
        failed: list[str] = []

        def figure_of(tell: Callable[[Any, int], T], default: T) -> T:
            try:
                return tell(analysis, rank)
            except Exception as error:  # noqa: BLE001  HTA raises anything on traces that it does not expect
                failed.append(f"{tell.__name__.strip('_')} ({type(error).__name__}: {error})")
                return default

        if (analysis.t.get_trace(rank)["stream"] == NONE).all():
            return Breakdown(shown(path), rank, None, None, (), (), None, ("figures (no GPU work in its steps)",))
        return Breakdown(
            path=shown(path),
            rank=rank,
            times=figure_of(_gpu_shares, None),
            overlapped=figure_of(_overlapped, None),
            kernels=figure_of(_kernels, ()),
            streams=figure_of(_streams, ()),
            launches=figure_of(_launches, None),
            failed=tuple(failed),
        )


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


def _gpu_shares(analysis: Any, _: int) -> GpuShares | None:
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    parts = ("idle", "compute", "non_compute", "kernel")
    return GpuShares(*(float(row[f"{part}_time(us)"]) * US for part in parts))


def _overlapped(analysis: Any, _: int) -> float | None:
    percent = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return percent / 100 if np.isfinite(percent) else None


def _kernels(analysis: Any, _: int) -> tuple[KernelTimes, ...]:
    symbols = len(analysis.t.symbol_table.sym_table)  # with a smaller number HTA sums up the rest
    _, rows = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=symbols)
    times = (rows[f"{what} (us)"] * US for what in ("sum", "mean", "max"))
    kernels = itertools.starmap(KernelTimes, zip(rows["name"], rows["kernel_type"], *times, strict=True))
    return tuple(sorted(kernels, key=lambda kernel: -kernel.time_ns))


def _streams(analysis: Any, rank: int) -> tuple[StreamTimes, ...]:
    gaps, _ = analysis.get_idle_time_breakdown([rank], visualize=False)
    causes = gaps.pivot_table(index="stream", columns="idle_category", values="idle_time", aggfunc="sum", fill_value=0)
    queues = analysis.get_queue_length_summary([rank])
    queues = {} if queues is None else {stream: row for (_, stream), row in queues["queue_length"].iterrows()}
    streams = []
    for stream, row in causes.iterrows():
        host, kernel, other = (float(row.get(cause, 0.0)) * US for cause in ("host_wait", "kernel_wait", "other"))
        queue = queues.get(stream)
        mean, longest = (None, None) if queue is None else (float(queue["mean"]), int(queue["max"]))
        streams.append(StreamTimes(int(stream), host, kernel, other, mean, longest))
    return tuple(streams)


def _launches(analysis: Any, rank: int) -> LaunchTimes:
    stats = analysis.get_cuda_kernel_launch_stats([rank], visualize=False)[rank]
    call, work, delay = (stats[column] for column in ("cpu_duration", "gpu_duration", "launch_delay"))
    counts = (work < call, call > SLOW_CALL_US, delay > LATE_US)
    return LaunchTimes(len(stats), *(int(count.sum()) for count in counts))
