"""E15: what pinned memory costs by size, what comes of asking for too much, and what the host does beside it."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.workloads.timing import Budget, Cases, answer, by_host, figure, repeated
from pinprof.workloads.transfers import Sizes

GROWTH = 4
TOO_MUCH_BYTES = 1 << 60
"""More than any machine addresses: it is refused at once. A request that the machine can just about meet would take the
memory from all other programs before it fails."""
SOME_BYTES = 64
COPIED_BYTES = 1 << 27
"""Beyond the caches of a CPU, so that the host's memory is what is timed."""
CPU = torch.device("cpu")
Getting = Callable[[], Tensor]


def allocations(device: torch.device, sizes: Sizes) -> Cases:
    """E15, to be recorded: get memory of the largest size and write it, pageable, pinned, and pinned once more."""
    pageable, pinned = _getting(sizes["most"], device)

    def anew() -> Tensor:
        free_pinned()
        return pinned()

    return {"allocate, pageable": pageable, "allocate, pinned": anew, "allocate, pinned again": pinned}


def _getting(count: int, device: torch.device) -> tuple[Getting, Getting]:
    """Return what gets pageable memory and what gets pinned memory, which only a machine with a GPU has."""
    return partial(_written, count, pinned=False), partial(_written, count, pinned=device.type == "cuda")


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
        yield from _costs(*_getting(count, device), budget)
        count *= GROWTH
    _, too_much = _getting(TOO_MUCH_BYTES, device)
    yield answer("too much raises an error", [_is_refused(too_much)])
    _, a_little = _getting(SOME_BYTES, device)
    yield answer("the GPU works after it", [int(a_little().to(device, non_blocking=True).sum()) == SOME_BYTES])
    _, much = _getting(sizes["held"], device)
    yield from _host_copies(much, budget)


def _costs(pageable: Getting, pinned: Getting, budget: Budget) -> Iterator[Figure]:
    count = pageable().numel()
    yield figure("allocate, pageable", "ms", repeated(pageable, by_host(CPU), budget), count)
    yield figure("allocate, pinned", "ms", repeated(pinned, by_host(CPU, before=free_pinned), budget), count)
    yield figure("allocate, pinned again", "ms", repeated(pinned, by_host(CPU), budget), count)
    free_pinned()


def _is_refused(too_much: Getting) -> bool:
    """Return whether it raises an error that a program can handle."""
    try:
        too_much()
    except (RuntimeError, MemoryError):
        return True
    return False


def _host_copies(much: Getting, budget: Budget) -> Iterator[Figure]:
    """Yield what a copy within the host's memory takes, before and while much of it is pinned."""
    source, target = torch.ones(COPIED_BYTES, dtype=torch.uint8), torch.ones(COPIED_BYTES, dtype=torch.uint8)
    copy = partial(target.copy_, source)
    yield figure("host copy, nothing pinned", "ms", repeated(copy, by_host(CPU), budget))
    kept = much()
    yield figure("host copy, much pinned", "ms", repeated(copy, by_host(CPU), budget))
    del kept
    free_pinned()
