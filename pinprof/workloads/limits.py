"""E15: what pinned memory costs by size, what comes of asking for too much, and what the host does beside it."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.workloads.timing import Budget, Cases, answer, by_host, figure, repeated
from pinprof.workloads.transfers import Sizes

GROWTH = 4
TOO_MUCH_BYTES = 1 << 60
"""More than any machine addresses: it is refused at once. What a machine may just have would be taken from all others
on it before it is refused."""
COPIED_BYTES = 1 << 27
"""Beyond the caches of a CPU, so that the host's memory is what is timed."""
CPU = torch.device("cpu")


def allocations(device: torch.device, sizes: Sizes) -> Cases:  # noqa: ARG001  one shape for all cases
    """E15, to be recorded: get memory of the largest size and write it, pageable, pinned, and pinned once more."""
    count = sizes["most"]

    def anew() -> Tensor:
        free_pinned()
        return _written(count, pinned=True)

    return {
        "allocate, pageable": lambda: _written(count, pinned=False),
        "allocate, pinned": anew,
        "allocate, pinned again": lambda: _written(count, pinned=True),
    }


def _written(count: int, *, pinned: bool) -> Tensor:
    """Return memory that has been written: of pageable memory the system gives pages only then."""
    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned).fill_(1)


def free_pinned() -> None:
    """Give back the pinned memory that torch keeps for later, where this torch can."""
    getattr(torch._C, "_host_emptyCache", lambda: None)()  # noqa: SLF001  no public name


def limits(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """Yield what memory of each size costs, what comes of too much, and the host's copies with much memory pinned."""
    count = sizes["least"]
    while count <= sizes["most"]:
        yield from _costs(count, budget)
        count *= GROWTH
    yield answer("too much raises an error", [_is_refused(TOO_MUCH_BYTES)])
    works = float(_written(8, pinned=True).to(device, non_blocking=True).sum())
    yield answer("the GPU works after it", [works == 8.0])  # noqa: PLR2004
    yield from _host_copies(sizes["held"], budget)


def _costs(count: int, budget: Budget) -> Iterator[Figure]:
    pageable, pinned = (partial(_written, count, pinned=kind) for kind in (False, True))
    yield figure("allocate, pageable", "ms", repeated(pageable, by_host(CPU), budget), count)
    yield figure("allocate, pinned", "ms", repeated(pinned, by_host(CPU, before=free_pinned), budget), count)
    yield figure("allocate, pinned again", "ms", repeated(pinned, by_host(CPU), budget), count)
    free_pinned()


def _is_refused(count: int) -> bool:
    """Return whether so much pinned memory is refused with an error that a program can handle."""
    try:
        torch.empty(count, dtype=torch.uint8, pin_memory=True)
    except (RuntimeError, MemoryError):
        return True
    return False


def _host_copies(held: int, budget: Budget) -> Iterator[Figure]:
    """Yield what a copy within the host's memory takes, before and while so much of it is pinned."""
    source, target = torch.ones(COPIED_BYTES, dtype=torch.uint8), torch.ones(COPIED_BYTES, dtype=torch.uint8)
    copy = partial(target.copy_, source)
    yield figure("host copy, nothing pinned", "ms", repeated(copy, by_host(CPU), budget))
    kept = _written(held, pinned=True)
    yield figure("host copy, much pinned", "ms", repeated(copy, by_host(CPU), budget))
    del kept
    free_pinned()
