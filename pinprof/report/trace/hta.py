"""What HTA tells of traces, for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import RenderableType

from pinprof.hta.breakdowns import LATE_US, SLOW_CALL_US, Breakdown
from pinprof.report.layout import bullet, laid_out, section, table
from pinprof.report.words import NOTHING
from pinprof.units import duration, percent

MAX_TRACES = 16
MAX_KERNELS = 8
MAX_NAME = 60
"""Characters of a kernel's name."""


def to_text(breakdowns: Sequence[Breakdown], *, width: int = 100, color: bool = False) -> str:
    """Return what HTA tells of traces as text for a terminal of this width."""
    return laid_out(_parts(breakdowns), width=width, color=color)


def _parts(breakdowns: Sequence[Breakdown]) -> Iterator[RenderableType]:
    chosen = breakdowns[:MAX_TRACES]
    yield section("HolisticTraceAnalysis")
    yield from _times(chosen)
    yield from _streams(chosen)
    if len(breakdowns) == 1:
        yield from _kernels(breakdowns[0])
    else:
        yield bullet("the JSON report has the kernels of each rank; the report on one trace has those of its rank")
    if len(breakdowns) > len(chosen):
        yield bullet(f"these are {len(chosen)} of {len(breakdowns)} traces; the JSON report has all")
    yield bullet("all but the last step; compute is all but copies, memsets and communication")
    for breakdown in chosen:
        for failure in breakdown.failed:
            yield bullet(f"rank {breakdown.rank}: HTA does not give its {failure}")


def _times(breakdowns: Sequence[Breakdown]) -> Iterator[RenderableType]:
    launch = ("launches", "longer than work", f"over {SLOW_CALL_US} us", f"start over {LATE_US} us late")
    rows = table("rank", "idle", "compute", "other", "overlapped comm.", *launch, text_columns=1)
    for one in breakdowns:
        times = one.times
        shares = [NOTHING] * 3
        if times and times.span_ns:
            shares = [percent(time / times.span_ns) for time in (times.idle_ns, times.compute_ns, times.other_ns)]
        overlapped = NOTHING if one.overlapped is None else percent(one.overlapped)
        counts = [NOTHING] * 4 if one.launches is None else [str(count) for count in asdict(one.launches).values()]
        rows.add_row(str(one.rank), *shares, overlapped, *counts)
    yield rows


def _streams(breakdowns: Sequence[Breakdown]) -> Iterator[RenderableType]:
    rows = table(
        *("rank", "stream", "waits for the host", "between kernels", "else"), "queue", "longest", text_columns=2
    )
    for one in breakdowns:
        for stream in one.streams:
            waits = (duration(time) for time in (stream.host_wait_ns, stream.kernel_wait_ns, stream.other_ns))
            queue = NOTHING if stream.mean_queue is None else f"{stream.mean_queue:.1f}"
            longest = NOTHING if stream.longest_queue is None else str(stream.longest_queue)
            rows.add_row(str(one.rank), str(stream.stream), *waits, queue, longest)
    if rows.row_count:
        yield rows


def _kernels(breakdown: Breakdown) -> Iterator[RenderableType]:
    rows = table("kernel", "kind", "time", "mean", "longest")
    for kernel in breakdown.kernels[:MAX_KERNELS]:
        times = (duration(time) for time in (kernel.time_ns, kernel.mean_ns, kernel.max_ns))
        rows.add_row(_shortened(kernel.name), kernel.kind.lower(), *times)
    if rows.row_count:
        yield rows


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."
