"""E13: measure the rate of copies of all sizes, and how long the call of one holds the host."""

import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from pinprof.bench.processes_judges import PAGEABLE_ACCESS
from pinprof.bench.results import Figure
from pinprof.workloads.hazards import long_kernel
from pinprof.workloads.machine import can_access_pageable
from pinprof.workloads.timing import Budget, Cases, TimedRun, answer, by_events, figure, repeated
from pinprof.workloads.transfers import Sizes

GROWTH = 4
IN_A_ROW_BYTES = 4 * 1024**2
MOST_IN_A_ROW = 64
"""Small copies are timed in rows of up to this many, because two events are too coarse for one."""
HELD = 4
"""The number of calls whose time on the host is measured; the first does not count."""
WATCHED = 2
"""Copies of the largest size during which the CPU time of the process is measured."""
TAKEN_BYTES, TAKEN_TRIES = 16 * 1024, 5
"""A copy that may be taken along by its call: up to 64 KiB the call does not wait for the stream."""


def directions(device: torch.device, sizes: Sizes) -> Cases:
    """Return the copies of the largest size, in both directions, from and to pageable and pinned memory."""
    return _copies(device, sizes["most"])


def _copies(device: torch.device, count: int) -> Cases:
    pageable = torch.ones(count, dtype=torch.uint8)
    pinned = pageable.pin_memory()
    on_device, other = (torch.ones(count, dtype=torch.uint8, device=device) for _ in range(2))

    def copy(target: Tensor, source: Tensor) -> TimedRun:
        return lambda: target.copy_(source, non_blocking=True)

    return {
        "HtoD pageable": copy(on_device, pageable),
        "HtoD pinned": copy(on_device, pinned),
        "DtoH pageable": copy(pageable, on_device),
        "DtoH pinned": copy(pinned, on_device),
        "DtoD": copy(other, on_device),
    }


def bandwidth(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """Yield the rate of each kind of copy at each size, and how long one to the GPU holds the host."""
    count = sizes["least"]
    while count <= sizes["most"]:
        cases = _copies(device, count)
        in_a_row = max(1, min(MOST_IN_A_ROW, IN_A_ROW_BYTES // count))
        for name, run in cases.items():
            times = repeated(partial(_row, run, in_a_row), by_events, budget)
            yield figure(name, "GB/s", [count * in_a_row / (ms * 1e6) for ms in times], count)
        for name in ("HtoD pageable", "HtoD pinned"):
            held = [_held(cases[name]) for _ in range(HELD)][1:]
            yield figure(f"blocked, {name}", "ms", held, count)
        if count * GROWTH > sizes["most"]:
            yield from _host_during_copies(cases, count)
        count *= GROWTH
    yield answer("taken along by the call, HtoD pageable", [_takes_along(pinned=False) for _ in range(TAKEN_TRIES)])
    yield answer("taken along by the call, HtoD pinned", [_takes_along(pinned=True) for _ in range(TAKEN_TRIES)])
    can_access = can_access_pageable(torch.cuda.current_device())
    if can_access is not None:
        yield answer(PAGEABLE_ACCESS, [can_access])


def _host_during_copies(cases: Cases, count: int) -> Iterator[Figure]:
    """Yield the share of a copy's time that its call lasts, and the share for which the process uses a CPU."""
    for name, run in cases.items():
        if name == "DtoD":
            continue
        in_call, busy = zip(*(_watched(run) for _ in range(WATCHED)), strict=True)
        yield figure(f"call, {name}", "%", in_call, count)
        yield figure(f"host busy, {name}", "%", busy, count)


def _watched(run: TimedRun) -> tuple[float, float]:
    """Return how many percent of a copy's time its call lasts, and how many percent of it this process uses a CPU.

    The wait for a blocking event sleeps: polling would keep a CPU busy by itself.
    """
    end = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start, start_cpu = time.perf_counter(), time.process_time()
    run()
    returned = time.perf_counter()
    end.record()
    end.synchronize()
    elapsed, busy = time.perf_counter() - start, time.process_time() - start_cpu
    return 100 * (returned - start) / elapsed, 100 * busy / elapsed


def _takes_along(*, pinned: bool) -> bool:
    """Return whether the GPU gets the old values of a source that is written while its copy waits for a kernel.

    If so, the call itself has copied the values: it returned before the GPU's copy could begin.
    """
    source = torch.ones(TAKEN_BYTES, dtype=torch.uint8, pin_memory=pinned)
    target = torch.zeros(TAKEN_BYTES, dtype=torch.uint8, device="cuda")
    before = torch.cuda.Event()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    long_kernel()
    before.record()
    target.copy_(source, non_blocking=True)
    source.zero_()
    waiting = not before.query()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return waiting and bool(target.all())


def _row(run: TimedRun, times: int) -> None:
    for _ in range(times):
        run()


def _held(run: TimedRun) -> float:
    """Return for how many milliseconds a call holds the host while a long kernel runs before it on the stream."""
    torch.cuda.synchronize()
    long_kernel()
    start = time.perf_counter()
    run()
    held_ms = (time.perf_counter() - start) * 1e3
    torch.cuda.synchronize()
    return held_ms
