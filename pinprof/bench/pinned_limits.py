"""E15: what pinned memory costs by size, what happens if too much is asked for, and what it leaves to the host."""

import ctypes
import mmap
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof.bench.experiment import GIB, MIB, CaseRuns, Experiment, Lab, Size, free_pinned
from pinprof.bench.judge import Claim, all_of, any_of, barely, given, less, less_at_most_sizes, mostly, opposite, yes
from pinprof.bench.results import LEAST, MOST, Figure, Measured, figures
from pinprof.processes import MEMINFO, machine_memory

if TYPE_CHECKING:
    import torch

PAGEABLE, PINNED, AGAIN = CASES = figures("E15", "ms", "allocate, pageable; allocate, pinned; allocate, pinned again")
MEMORIES = ("pageable", "pinned")
TOO_MUCH, WORKS, MORE = figures(
    "E15", "yes", "too much raises an error; the GPU works after it; more than is available can be allocated, pageable"
)
ALLOCATED, WRITTEN, SWAPPED = (
    {memory: Figure("E15", f"{what}, {memory}", "%") for memory in MEMORIES}
    for what in ("taken from the host, allocated", "taken from the host, written", "swapped out when asked")
)
"""Percent of a tensor's bytes that are gone from MemAvailable, and that Linux swaps out when asked to."""
HOST_COPY = Figure("E15", "host copy")
TOO_MUCH_BYTES = 1 << 60
"""More than any machine addresses, so that it is refused at once. A request that the machine can almost meet would take
the memory from all other programs before it fails."""
SEEN_BYTES, SWAPPED_BYTES, COPIED_BYTES = 512 * MIB, 64 * MIB, 128 * MIB
"""Enough to be seen among what other programs allocate, to be read back quickly, and to be in no cache of a CPU."""
LEFT_SHARE = 0.25
"""The share of the host's memory that always stays available to other programs."""
PINNING_S = 25.0
"""The host of an H100 pins a GiB in half a second."""
MADV_PAGEOUT = 21
"""Asks Linux 5.4 and later to move pages out of memory, to swap if no file has their data (madvise(2))."""


def _empty(count: int, *, pinned: bool = False) -> "torch.Tensor":
    import torch

    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned)


def _written(count: int, *, pinned: bool = False) -> "torch.Tensor":
    """Return memory that has been written: only then does the system provide pages for pageable memory."""
    return _empty(count, pinned=pinned).fill_(1)


def allocations(lab: Lab, count: int) -> CaseRuns:
    """Return the steps of the cases, of this size."""

    def anew() -> object:
        free_pinned()
        return _written(count, pinned=lab.on_gpu)

    again = partial(_written, count, pinned=lab.on_gpu)
    return partial(_written, count), anew, again


def measure_allocations(lab: Lab) -> Iterator[Measured]:
    """Yield what memory of each size costs, and whether too large a request fails safely."""
    for count in lab.growing():
        pageable, _, again = allocations(lab, count)
        for case, run, before in ((PAGEABLE, pageable, None), (PINNED, again, free_pinned), (AGAIN, again, None)):
            yield case.of(lab.times(run, partial(lab.time, before=before)), count)
        free_pinned()
    yield TOO_MUCH.of([_is_refused(TOO_MUCH_BYTES, pinned=lab.on_gpu)])
    yield WORKS.of([int(_written(64, pinned=lab.on_gpu).to(lab.device, non_blocking=True).sum()) == 64])  # noqa: PLR2004
    yield from measure_host(lab)


def _is_refused(count: int, *, pinned: bool = False) -> bool:
    """Return whether a request raises an error that a program can handle."""
    try:
        _empty(count, pinned=pinned)
    except (RuntimeError, MemoryError):
        return True
    return False


def measure_host(lab: Lab) -> Iterator[Measured]:
    """Yield how Linux counts pinned memory, and how long a copy in the host takes while much is pinned.

    Pinning that much takes seconds, so a bench has one round of it. All memory is freed at the end, whatever happens.
    """
    total, available = machine_memory()
    for memory, pinned in zip(MEMORIES, (False, lab.on_gpu), strict=True):
        shares = [_taken(min(SEEN_BYTES, available // 4), pinned=pinned) for _ in range(3)]
        for of, taken in zip((ALLOCATED, WRITTEN), zip(*shares, strict=True), strict=True):
            yield of[memory].of(taken)
        swapped = _swapped_out(_written(SWAPPED_BYTES, pinned=pinned))
        yield from [SWAPPED[memory].of([swapped])] if swapped is not None else []
    yield MORE.of([not _is_refused(total)])
    copy, end = partial(_written(COPIED_BYTES).copy_, _written(COPIED_BYTES)), time.monotonic() + PINNING_S
    chunks: list[torch.Tensor] = []
    yield HOST_COPY.of(lab.times(copy), 0)
    try:
        with suppress(RuntimeError):  # a limit may refuse more
            while len(chunks) * GIB < total * lab.sizes["share"] / 100 and time.monotonic() < end:
                if machine_memory()[1] - GIB < LEFT_SHARE * total:
                    break
                chunks.append(_empty(GIB, pinned=lab.on_gpu))
        count, times = len(chunks) * GIB, lab.times(copy)
    finally:
        chunks.clear()
        free_pinned()
    yield from [HOST_COPY.of(times, count)] if count else []


def _taken(count: int, *, pinned: bool) -> tuple[float, float]:
    """Return how many percent of a new tensor's bytes Linux counts as taken: once allocated, and once written.

    A virtual machine may get more memory while it is used, so what is in use counts, not what is left.
    """
    free_pinned()
    before = _used()
    tensor = _empty(count, pinned=pinned)
    allocated = _used()
    tensor.fill_(1)
    return 100 * (allocated - before) / count, 100 * (_used() - before) / count


def _used() -> int:
    total, available = machine_memory()
    return total - available


def _swapped_out(tensor: "torch.Tensor") -> float | None:
    """Ask Linux to swap a tensor out, and return how many percent of its bytes are in swap afterwards.

    None if swap has no room for twice as many, or if Linux does not report it.
    """
    count, address = tensor.numel(), tensor.data_ptr()
    before, room = swap_of(address), re.search(r"SwapFree: *(\d+) kB", MEMINFO.read_text() if MEMINFO.exists() else "")
    if before is None or room is None or int(room[1]) * 1024 < 2 * count:
        return None
    first, end = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE, (address + count) // mmap.PAGESIZE * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MADV_PAGEOUT)
    return 100 * ((swap_of(address) or before) - before) / count


def swap_of(address: int, smaps: Path = Path("/proc/self/smaps")) -> int | None:
    """Return how many bytes of the mapping with this address are in swap; None if Linux does not report it."""
    text = smaps.read_text(errors="replace") if smaps.exists() else ""
    for start, end, swap in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*?^Swap: *(\d+) kB", text, re.DOTALL | re.MULTILINE):
        if int(start, 16) <= address < int(end, 16):
            return int(swap) * 1024
    return None


TAKEN_AT_ONCE = given(mostly(WRITTEN["pageable"]), all_of(mostly(ALLOCATED["pinned"]), barely(ALLOCATED["pageable"])))
PINNED_LIMITS = Experiment(
    "E15",
    "pinned_limits",
    "what pinned memory costs by size, what happens if too much is asked for, and what it costs other host work",
    (
        Claim("An allocation may fail, and the error can be handled", "processes: concepts", yes(TOO_MUCH, WORKS)),
        Claim(
            "Pinning too much memory makes the machine slower",
            "processes: concepts; tutorial: memory",
            any_of(less(HOST_COPY.at(LEAST), HOST_COPY.at(MOST)), otherwise="unknown"),
        ),
        Claim(
            "Pinned memory is locked: it cannot be swapped out",
            "tutorial: memory; processes: concepts",
            given(mostly(SWAPPED["pageable"]), barely(SWAPPED["pinned"])),
        ),
        Claim("It reduces the memory that is available to other programs", "processes: concepts", TAKEN_AT_ONCE),
        Claim("It is limited by the RAM at hand", "tutorial: memory", all_of(TAKEN_AT_ONCE, yes(MORE))),
        Claim(
            "Each pin_memory() gets its memory anew, by cudaHostAlloc",
            "tutorial: pinned memory",
            opposite(less_at_most_sizes((AGAIN, PINNED))),
            "torch keeps pinned memory that is given back, and hands it out again",
        ),
        Claim("It costs more to get than pageable memory", "pinprof", less_at_most_sizes((PAGEABLE, PINNED))),
    ),
    CASES,
    lambda lab: allocations(lab, lab.sizes["most"]),
    measure_allocations,
    sizes=(
        Size("least", MIB, "bytes of the smallest allocation"),
        Size("most", GIB, "bytes of the largest one", 64 * MIB),
        Size("share", 20, "percent of the host's memory pinned at most, within room and time", 5),
    ),
    changed="the text warns of it and has no program for it",
    rounds=1,
)
