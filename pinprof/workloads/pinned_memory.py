"""E15: the cost of pinned memory by size, requests for too much of it, and what it leaves to the host."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.workloads import host_memory
from pinprof.workloads.pinned_share import CHUNK_BYTES, room, work_while_pinning
from pinprof.workloads.timing import Budget, Cases, answer, by_host, figure, repeated
from pinprof.workloads.transfers import Sizes

GROWTH = 4
TOO_MUCH_BYTES = 1 << 60
"""More than any machine addresses, so that it is refused at once. A request that the machine can almost meet would take
the memory from all other programs before it fails."""
SOME_BYTES = 64
CPU = torch.device("cpu")
Allocator = Callable[[], Tensor]

SEEN_BYTES, SEEN_TRIES = 1 << 29, 3
"""The tensor whose effect on Linux's counters is measured: large against what other programs allocate meanwhile."""

SWAPPED_BYTES = 1 << 26
"""The memory that Linux is asked to swap out: enough to be noticed, and read back quickly."""


def allocations(device: torch.device, sizes: Sizes) -> Cases:
    """E15, to be recorded: allocate and write memory of the largest size: pageable, pinned, and pinned once more."""
    pageable, pinned = _allocators(sizes["most"], device)

    def pinned_anew() -> Tensor:
        free_pinned()
        return pinned()

    return {"allocate, pageable": pageable, "allocate, pinned": pinned_anew, "allocate, pinned again": pinned}


def _allocators(count: int, device: torch.device) -> tuple[Allocator, Allocator]:
    """Return functions that allocate pageable and pinned memory; without a GPU both are pageable."""
    return partial(_written, count, pinned=False), partial(_written, count, pinned=device.type == "cuda")


def _written(count: int, *, pinned: bool) -> Tensor:
    """Return memory that has been written: only then does the system provide pages for pageable memory."""
    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned).fill_(1)


def free_pinned() -> None:
    """Free the pinned memory that torch keeps for later, if this torch can."""
    getattr(torch._C, "_host_emptyCache", lambda: None)()  # noqa: SLF001  no public name


def pinned_limits(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """Yield what memory of each size costs, and whether too large a request fails safely."""
    count = sizes["least"]
    while count <= sizes["most"]:
        yield from _costs(*_allocators(count, device), budget)
        count *= GROWTH
    _, too_much = _allocators(TOO_MUCH_BYTES, device)
    yield answer("too much raises an error", [_is_refused(too_much)])
    _, a_little = _allocators(SOME_BYTES, device)
    yield answer("the GPU works after it", [int(a_little().to(device, non_blocking=True).sum()) == SOME_BYTES])


def _costs(pageable: Allocator, pinned: Allocator, budget: Budget) -> Iterator[Figure]:
    count = pageable().numel()
    yield figure("allocate, pageable", "ms", repeated(pageable, by_host(CPU), budget), count)
    yield figure("allocate, pinned", "ms", repeated(pinned, by_host(CPU, before=free_pinned), budget), count)
    yield figure("allocate, pinned again", "ms", repeated(pinned, by_host(CPU), budget), count)
    free_pinned()


def _is_refused(too_much: Allocator) -> bool:
    """Return whether a request raises an error that a program can handle."""
    try:
        too_much()
    except (RuntimeError, MemoryError):
        return True
    return False


def left_to_the_host(device: torch.device, sizes: Sizes, _budget: Budget) -> Iterator[Figure]:
    """Yield how Linux counts pinned memory, and how long the host's work takes while more and more is pinned.

    Pinning that much takes seconds, so a bench does it once. All memory is freed at the end, whatever happens.
    """
    memory = host_memory.total()
    if not memory:
        return
    yield from _counted_by_linux(device, min(SEEN_BYTES, host_memory.available() // 4))
    yield from _swapped_out(device)
    yield answer("more than is available can be allocated, pageable", [not _is_refused(partial(_allocated, memory))])
    free_pinned()
    yield from work_while_pinning(
        partial(_allocated, CHUNK_BYTES, pinned=device.type == "cuda"),
        free_pinned,
        memory,
        sizes["share"],
        room(memory, sizes["most"]),
    )


def _allocated(count: int, *, pinned: bool = False) -> Tensor:
    """Return memory that has not been written."""
    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned)


def _counted_by_linux(device: torch.device, count: int) -> Iterator[Figure]:
    """Yield the share of a tensor's bytes that is no longer available, and that is locked, by each counter of Linux."""
    for memory, pinned in (("pageable", False), ("pinned", device.type == "cuda")):
        tries = [_shares_counted(count, pinned=pinned) for _ in range(SEEN_TRIES)]
        for name in tries[0]:
            values = [100 * shares[name] for shares in tries if name in shares]
            yield figure(f"{name}, {memory}", "%", values)


def _swapped_out(device: torch.device) -> Iterator[Figure]:
    """Yield which share of a tensor's bytes Linux swaps out when asked to; nothing on a host without swap."""
    for memory, allocate in zip(("pageable", "pinned"), _allocators(SWAPPED_BYTES, device), strict=True):
        tensor = allocate()
        swapped = host_memory.swapped_out(tensor.data_ptr(), SWAPPED_BYTES)
        if swapped is not None:
            yield figure(f"swapped out when asked, {memory}", "%", [100 * swapped / SWAPPED_BYTES])


def _shares_counted(count: int, *, pinned: bool) -> dict[str, float]:
    """Return which shares of the bytes of a new tensor Linux counts as taken and as locked."""
    free_pinned()
    available, locked = host_memory.available_to_all(), host_memory.locked()
    tensor = _allocated(count, pinned=pinned)
    allocated = available - host_memory.available_to_all()
    tensor.fill_(1)
    written = available - host_memory.available_to_all()
    shares = {"taken from the host, allocated": allocated / count, "taken from the host, written": written / count}
    shares |= {f"locked by {name}": (now - locked.get(name, 0)) / count for name, now in host_memory.locked().items()}
    mapping = host_memory.mapping_of(tensor.data_ptr())
    of_mapping, flags = host_memory.amounts(mapping), host_memory.flags(mapping)
    if "Locked" in of_mapping:
        shares["locked by smaps"] = min(1.0, of_mapping["Locked"] / count)
    if flags:
        shares["locked by VmFlags"] = float(bool(flags & host_memory.NEVER_SWAPPED))
    return shares
