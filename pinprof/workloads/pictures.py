"""Draw one step of a trace as bars: what the host did, what each stream did, and why copies are exposed."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from pinprof.analyses.copies import EXPOSED
from pinprof.analyses.syncs.causes import CAUSES
from pinprof.bench.results import Bar, Picture
from pinprof.details import Details
from pinprof.intervals import divided, union
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.tables import KERNEL, MEMCPY, Table, Trace
from pinprof.units import ms, percent

HOST_BARS = {COPY: "copy", ASYNC_COPY: "copy", STREAM: "wait", DEVICE: "wait", EVENT: "wait"}
"""The name of a call's bar, by what it may wait for; that of a launch is `launch`, other calls have none."""


MOST_BARS = 150
"""Bars of a picture: the beginning of a step with thousands of copies shows how they follow each other."""

BAR_DIGITS = 4
"""Digits of milliseconds: a tenth of a microsecond is less than any picture shows."""


def picture(case: str, trace: Trace, measured: Details) -> Picture:
    """Return one step in the middle of a trace, or its beginning, with what the report says about its copies."""
    complete = np.flatnonzero(trace.steps.complete)
    if len(complete) == 0:
        return Picture(case, (), why_exposed(measured))
    step = int(complete[len(complete) // 2])
    all_bars = (*_host_bars(trace, step), *_stall_bars(trace, measured, step), *_stream_bars(trace, step))
    bars = sorted(all_bars, key=lambda bar: bar.start_ms)
    why = why_exposed(measured)
    if len(bars) <= MOST_BARS:
        return Picture(case, tuple(bars), why)
    cut_ms, length_ns = bars[MOST_BARS].start_ms, trace.steps.end_ns[step] - trace.steps.start_ns[step]
    first = (replace(bar, end_ms=min(bar.end_ms, cut_ms)) for bar in bars if bar.start_ms < cut_ms)
    return Picture(case, tuple(first), why, ms(int(length_ns)))


def why_exposed(measured: Details) -> str:
    """Return how much of the copy time kernels overlap, and the reason for most of the rest."""
    share, reasons = measured.overlap.fraction, measured.overlap.by_reason
    if share is None:
        return "no copy was recorded"
    return f"{percent(share)} of the copy time overlapped" + (
        f"; else: {EXPOSED[reasons[0][0]].sentence}" if reasons else ""
    )


def _host_bars(trace: Trace, step: int) -> Iterator[Bar]:
    calls = trace.calls
    kinds = call_kinds(calls)
    launches = set(trace.links.launch[trace.gpu.category == KERNEL].tolist())
    for row in np.flatnonzero(trace.links.call_step == step).tolist():
        name = HOST_BARS.get(int(kinds[row])) or ("launch" if row in launches else None)
        if name:
            yield _bar(trace, step, "host", name, calls, row)


def _stall_bars(trace: Trace, measured: Details, step: int) -> Iterator[Bar]:
    """Yield the waits of the host, each named after its cause."""
    stalls = measured.syncs.stalls
    for row in np.flatnonzero((stalls.call_step == step) & ~stalls.profiler).tolist():
        cause = CAUSES[int(measured.syncs.cause[row])]
        yield _bar(trace, step, "stalls", cause, trace.calls, int(stalls.call[row]))


def _stream_bars(trace: Trace, step: int) -> Iterator[Bar]:
    """Yield the kernels and the copies that the step launched; a copy as its overlapped and its exposed parts."""
    gpu = trace.gpu
    of_step = trace.links.activity_step == step
    for row in np.flatnonzero(of_step & (gpu.category == KERNEL)).tolist():
        yield _bar(trace, step, f"stream {gpu.stream[row]}", "kernel", gpu, row)
    for device, rows in gpu.of_device.items():
        kernels = rows[gpu.category[rows] == KERNEL]
        busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
        copies = np.flatnonzero(of_step & (gpu.category == MEMCPY) & (gpu.device == device))
        parts = divided(busy, gpu.start_ns[copies], gpu.end_ns[copies])
        for start, end, is_overlapped, copy in zip(*(column.tolist() for column in parts), strict=True):
            name = "overlapped copy" if is_overlapped else "exposed copy"
            yield _between(trace, step, f"stream {gpu.stream[copies[copy]]}", name, start, end)


def _bar(trace: Trace, step: int, row_name: str, name: str, table: Table, row: int) -> Bar:
    return _between(trace, step, row_name, name, int(table.start_ns[row]), int(table.end_ns[row]))


def _between(trace: Trace, step: int, row_name: str, name: str, start_ns: int, end_ns: int) -> Bar:
    begin = int(trace.steps.start_ns[step])
    return Bar(row_name, name, *(round(ms(time_ns - begin), BAR_DIGITS) for time_ns in (start_ns, end_ns)))
