"""E1: the cost of pinned memory that is new to torch, how long calls hold the host, and buffers that are refilled."""

from collections.abc import Iterator
from functools import partial

import torch

from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import CALL, FRESH, KEPT_BUFFER, LARGER, LARGER_TIMES, MADE
from pinprof.workloads.pinned_memory import free_pinned
from pinprof.workloads.timing import Budget, by_call, by_host, figure, repeated, time_cases
from pinprof.workloads.transfers import Sizes, pinning_cost

PINNING = ("pageable.pin_memory()", "pageable.pin_memory().to", "pageable.pin_memory().to, non_blocking")
"""The cases of E1 that pin."""


def pinning_in_full(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E1: yield how long pinning takes in memory new to torch, how long calls hold the host, and refilled buffers.

    Torch keeps freed pinned memory, so that repeated runs of the cases pin into the same memory; the first run of a
    program, or one of a larger tensor, needs fresh memory. That is measured only if this torch can be made to free
    pinned memory.
    """
    cases, call, pinning = pinning_cost(device, sizes), by_call(device), PINNING[0]
    pageable = torch.ones(sizes["floats"])
    pinned = pageable.pin_memory()
    asynchronous = partial(pinned.to, device, non_blocking=True)

    def refilled() -> torch.Tensor:
        pinned.copy_(pageable)
        return asynchronous()

    def made_pageable() -> torch.Tensor:
        return pageable.fill_(1).pin_memory().to(device, non_blocking=True)

    def made_pinned() -> torch.Tensor:
        return pinned.fill_(1).to(device, non_blocking=True)

    yield figure(f"{CALL}{pinning}", "ms", repeated(cases[pinning], call, budget))
    yield figure(f"{CALL}pinned.to, non_blocking", "ms", repeated(asynchronous, call, budget))
    yield figure(KEPT_BUFFER, "ms", repeated(refilled, by_host(device), budget))
    yield from time_cases(dict(zip(MADE, (made_pageable, made_pinned), strict=True)), by_host(device), budget)
    larger = torch.ones(LARGER_TIMES * sizes["floats"])
    yield figure(f"{CALL}{pinning}{LARGER}", "ms", repeated(larger.pin_memory, call, budget))
    if can_free_pinned():
        call_anew, anew = by_call(device, before=free_pinned), by_host(device, before=free_pinned)
        yield figure(f"{CALL}{pinning}{FRESH}", "ms", repeated(cases[pinning], call_anew, budget))
        yield figure(f"{CALL}{pinning}{LARGER}{FRESH}", "ms", repeated(larger.pin_memory, call_anew, budget))
        for name in PINNING:
            yield figure(f"{name}{FRESH}", "ms", repeated(cases[name], anew, budget))


def can_free_pinned() -> bool:
    """Return whether `free_pinned` does anything with this torch.

    It frees blocks that no copy uses any more: a stopwatch that synchronizes after each run leaves none in use.
    """
    return hasattr(torch._C, "_host_emptyCache")  # noqa: SLF001  no public name
