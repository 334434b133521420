"""One step of a trace as bars: what the host did, what each stream did, and why copies are exposed."""

from collections.abc import Iterator

import numpy as np

from pinprof.analyses.overlap import SENTENCES
from pinprof.bench.results import Bar, Picture
from pinprof.details import Details
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.tables import KERNEL, MEMCPY, Table, Trace
from pinprof.units import ms, percent

HOST_BARS = {COPY: "copy", ASYNC_COPY: "copy", STREAM: "wait", DEVICE: "wait", EVENT: "wait"}
"""What a call is called, by what it may wait for; one that launches a kernel is `launch`, others are not drawn."""
STREAM_BARS = {KERNEL: "kernel", MEMCPY: "copy"}


def picture(case: str, trace: Trace, measured: Details) -> Picture:
    """Return one step in the middle of a trace, with what the report says about its copies."""
    complete = np.flatnonzero(trace.steps.complete)
    if len(complete) == 0:
        return Picture(case, (), why_exposed(measured))
    step = int(complete[len(complete) // 2])
    bars = (*_host_bars(trace, step), *_stream_bars(trace, step))
    return Picture(case, tuple(sorted(bars, key=lambda bar: bar.start_ms)), why_exposed(measured))


def why_exposed(measured: Details) -> str:
    """Return how much of the copy time kernels overlap, and the reason for most of the rest."""
    share, reasons = measured.overlap.fraction, measured.overlap.by_reason
    if share is None:
        return "no copy was recorded"
    return f"{percent(share)} of the copy time overlapped" + (f"; else: {SENTENCES[reasons[0][0]]}" if reasons else "")


def _host_bars(trace: Trace, step: int) -> Iterator[Bar]:
    calls = trace.calls
    kinds = call_kinds(calls)
    launches = set(trace.links.launch[trace.gpu.category == KERNEL].tolist())
    for row in np.flatnonzero(trace.links.call_step == step).tolist():
        name = HOST_BARS.get(int(kinds[row])) or ("launch" if row in launches else None)
        if name:
            yield _bar(trace, step, "host", name, calls, row)


def _stream_bars(trace: Trace, step: int) -> Iterator[Bar]:
    gpu = trace.gpu
    for row in np.flatnonzero(trace.links.activity_step == step).tolist():
        name = STREAM_BARS.get(int(gpu.category[row]))
        if name:
            yield _bar(trace, step, f"stream {gpu.stream[row]}", name, gpu, row)


def _bar(trace: Trace, step: int, row_name: str, name: str, table: Table, row: int) -> Bar:
    begin = int(trace.steps.start_ns[step])
    start, end = (ms(int(time[row]) - begin) for time in (table.start_ns, table.end_ns))
    return Bar(row_name, name, start, end)
