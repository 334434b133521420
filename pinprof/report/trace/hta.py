"""HTA's figures on traces, for the terminal."""

from collections.abc import Iterator, Sequence

from msgspec.structs import astuple

from pinprof.documents.report import HtaKernel
from pinprof.ground.units import NS_PER_MS, duration, percent, shortened
from pinprof.hta.breakdowns import LATE_US, SLOW_CALL_US, Breakdown
from pinprof.report.html import Column, number_columns
from pinprof.report.terminal import laid_out
from pinprof.report.view import ReportTable, Section, in_terminal
from pinprof.report.words import NOTHING

MAX_HTA_TRACES = 16
MAX_HTA_KERNELS = 8
HTA_NAME_CHARS = 60
HTA_TIMES = ("idle", "compute", "other", "overlapped comm.", "launches", "longer than work", f"over {SLOW_CALL_US} us")
LATE_LAUNCHES = f"start over {LATE_US} us late"


def hta_to_text(breakdowns: Sequence[Breakdown], *, width: int = 100, color: bool = False) -> str:
    """Return HTA's figures on traces as text for a terminal of this width."""
    return laid_out(in_terminal(_section(breakdowns)), width=width, color=color)


def _section(breakdowns: Sequence[Breakdown]) -> Section:
    chosen, notes = breakdowns[:MAX_HTA_TRACES], []
    streams = [row for breakdown in chosen for row in _stream_rows(breakdown)]
    kernels = [] if len(breakdowns) > 1 else list(map(_kernel_row, breakdowns[0].figures.kernels[:MAX_HTA_KERNELS]))
    if len(breakdowns) > 1:
        notes.append("the JSON report has the kernels of each rank; the report on one trace has those of its rank")
    if len(breakdowns) > len(chosen):
        notes.append(f"these are {len(chosen)} of {len(breakdowns)} traces; the JSON report has all")
    notes.append("all but the last step; compute is all but copies, memsets and communication")
    notes += [f"rank {one.rank}: HTA does not give its {failure}" for one in chosen for failure in one.figures.failed]
    waits = number_columns("waits for the host", "between kernels", "other", "queue", "longest")
    tables = (
        ReportTable("", [Column("rank"), *number_columns(*HTA_TIMES, LATE_LAUNCHES)], list(map(_shares_row, chosen))),
        ReportTable("", [Column("rank"), Column("stream"), *waits], streams),
        ReportTable("", [Column("kernel"), Column("kind"), *number_columns("time", "mean", "longest")], kernels),
    )
    return Section("HolisticTraceAnalysis", tables=tables, notes=notes)


def _durations(*times_ms: float) -> Iterator[str]:
    return (duration(time * NS_PER_MS) for time in times_ms)


def _kernel_row(kernel: HtaKernel) -> tuple[str, ...]:
    times = _durations(kernel.time_ms, kernel.mean_ms, kernel.max_ms)
    return shortened(kernel.name, HTA_NAME_CHARS), kernel.kind.lower(), *times


def _shares_row(breakdown: Breakdown) -> tuple[str, ...]:
    times, overlapped, launches = breakdown.figures.times, breakdown.figures.overlapped, breakdown.figures.launches
    shares = [NOTHING] * 3
    if times and times.span_ms:
        shares = [percent(time / times.span_ms) for time in (times.idle_ms, times.compute_ms, times.other_ms)]
    counts = [NOTHING] * 4 if launches is None else map(str, astuple(launches))
    return (str(breakdown.rank), *shares, NOTHING if overlapped is None else percent(overlapped), *counts)


def _stream_rows(breakdown: Breakdown) -> Iterator[tuple[str, ...]]:
    for stream in breakdown.figures.streams:
        waits = _durations(stream.host_wait_ms, stream.kernel_wait_ms, stream.other_ms)
        queue = NOTHING if stream.mean_queue is None else f"{stream.mean_queue:.1f}"
        longest = NOTHING if stream.longest_queue is None else str(stream.longest_queue)
        yield str(breakdown.rank), str(stream.stream), *waits, queue, longest
