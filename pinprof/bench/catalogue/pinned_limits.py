"""E15: what pinned memory costs by size, what happens if too much is asked for, and what it leaves to the host."""

import ctypes
import mmap
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pinprof.bench.experiment import GIB, MIB, CaseRuns, Experiment, Lab, Size, Tensor, free_pinned
from pinprof.bench.judge import Claim, ClaimJudgement, all_of, barely, given, less_in_most, mostly, yes
from pinprof.bench.results import Figure, Measured, figures
from pinprof.ground.processes import MEMINFO, machine_memory

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
TOO_MUCH_BYTES = 1 << 60
"""More than any machine addresses, so that it is refused at once. A request that the machine can almost meet would take
the memory from all other programs before it fails."""
SEEN_BYTES, SWAPPED_BYTES = 512 * MIB, 64 * MIB
"""Enough to be seen among what other programs allocate, and to be read back quickly."""
STATUS = Path("/proc/self/status")
MADV_PAGEOUT = 21
"""Asks Linux 5.4 and later to move pages out of memory, to swap if no file has their data (madvise(2))."""


def _empty(count: int, *, pinned: bool = False) -> Tensor:
    import torch

    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned)


def _written(count: int, *, pinned: bool = False) -> Tensor:
    """Return memory that has been written: only then does the system provide pages for pageable memory."""
    return _empty(count, pinned=pinned).fill_(1)


def allocations(lab: Lab, count: int) -> CaseRuns:
    """Return the steps of the cases, of this size."""

    def anew() -> object:
        free_pinned()
        return again()

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
    try:
        _empty(count, pinned=pinned)
    except (RuntimeError, MemoryError):
        return True
    return False


def measure_host(lab: Lab) -> Iterator[Measured]:
    """Yield how Linux counts pinned memory, and whether it swaps it out."""
    total, available = machine_memory()
    for memory, pinned in zip(MEMORIES, (False, lab.on_gpu), strict=True):
        shares = [_taken(min(SEEN_BYTES, available // 4), pinned=pinned) for _ in range(3)]
        for of, taken in zip((ALLOCATED, WRITTEN), zip(*shares, strict=True), strict=True):
            yield of[memory].of(taken)
        swapped = _swapped_out(_written(SWAPPED_BYTES, pinned=pinned))
        yield from [SWAPPED[memory].of([swapped])] if swapped is not None else []
    yield MORE.of([_can_be_mapped(total)])


def _can_be_mapped(count: int) -> bool:
    """Return whether Linux grants as much memory as malloc asks it for; malloc may keep a part after it is freed."""
    try:
        mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def _taken(count: int, *, pinned: bool) -> tuple[float, float]:
    """Return how many percent of a new tensor's bytes Linux counts as taken: once allocated, and once written.

    A virtual machine may get more memory while it is used, so what is in use counts, not what is left.
    """
    free_pinned()
    in_use = [machine_memory()]
    tensor = _empty(count, pinned=pinned)
    in_use.append(machine_memory())
    tensor.fill_(1)
    before, allocated, written = (total - available for total, available in (*in_use, machine_memory()))
    return 100 * (allocated - before) / count, 100 * (written - before) / count


def _swapped_out(tensor: Tensor) -> float | None:
    """Return how many percent of a tensor Linux swaps out when asked to; None without room in swap for two of it."""
    bytes_, room, before = tensor.numel(), kib_of("SwapFree", MEMINFO), kib_of("VmSwap", STATUS)
    if room is None or before is None or room * 1024 < 2 * bytes_:
        return None
    start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(bytes_ - mmap.PAGESIZE), MADV_PAGEOUT)
    return 100 * 1024 * ((kib_of("VmSwap", STATUS) or before) - before) / bytes_


def kib_of(name: str, file: Path) -> int | None:
    """Return a line of a file in which Linux counts memory; None if there is no such line."""
    found = re.search(rf"^{name}:\s*(\d+) kB", file.read_text(), re.MULTILINE) if file.exists() else None
    return int(found[1]) if found else None


TAKEN_AT_ONCE = given(mostly(WRITTEN["pageable"]), all_of(mostly(ALLOCATED["pinned"]), barely(ALLOCATED["pageable"])))
PINNED_LIMITS = Experiment(
    "E15",
    "pinned_limits",
    "what pinned memory costs by size, what happens if too much is asked for, and what it leaves to the host",
    (
        Claim("An allocation may fail, and the error can be handled", "processes: concepts", yes(TOO_MUCH, WORKS)),
        Claim(
            "Pinning too much memory makes the machine slower",
            "processes: concepts; tutorial: memory",
            lambda _read: ClaimJudgement("unjudged", "a bench that takes the memory of all programs would harm them"),
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
            less_in_most((PINNED, AGAIN)),
            "torch keeps pinned memory that is given back, and hands it out again",
        ),
    ),
    CASES,
    lambda lab: allocations(lab, lab.sizes["most"]),
    measure_allocations,
    sizes=(
        Size("least", MIB, "bytes of the smallest allocation"),
        Size("most", GIB, "bytes of the largest one", 64 * MIB),
    ),
    changed="the text warns of it and has no program for it",
    rounds=1,
)
