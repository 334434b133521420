"""E5, E6: read or write memory on the host before its copy has ended, and count the wrong values."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, cycle

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import ENDED, SENT, THREADS
from pinprof.workloads.timing import Budget, answer, figure, repeated, synchronize
from pinprof.workloads.transfers import Sizes

LONG_KERNEL_CYCLES = 10_000_000
"""About 5 ms on an H200: the copy behind the kernel has not begun when the host goes on."""
SENT_SHARE = 10
"""The tensor that is sent to the GPU has one row for this many of the one that is read back."""

HazardTry = Callable[[], bool]
"""One try; returns whether a value was wrong."""


def early_read(device: torch.device, sizes: Sizes) -> Mapping[str, HazardTry]:
    """E5: copy with non_blocking=True and read: on the host at once or after a synchronize, or on the GPU at once.

    Each try has a new number in the tensor, so that the memory of an earlier copy cannot hold the right one.
    """
    tensor = torch.empty(sizes["rows"], sizes["columns"], dtype=torch.double, device=device)
    numbers = count(1)

    def read_back(*, wait: bool) -> bool:
        number = next(numbers)
        tensor.fill_(number)
        synchronize(device)
        copied = tensor.to("cpu", non_blocking=True)
        if wait:
            synchronize(device)
        wrong = copied.mean().item() != number
        synchronize(device)
        return wrong

    def sent(sources: list[Tensor]) -> HazardTry:
        turns = cycle(enumerate(sources, start=1))

        def is_wrong() -> bool:
            number, source = next(turns)
            return source.to(device, non_blocking=True).mean().item() != number

        return is_wrong

    return {
        "read at once": lambda: read_back(wait=False),
        "read after synchronize": lambda: read_back(wait=True),
        **dict(zip(SENT, map(sent, _sources(device, sizes).values()), strict=True)),
    }


def _sources(device: torch.device, sizes: Sizes) -> dict[str, list[Tensor]]:
    """Return two tensors to send to the GPU, one of ones and one of twos, in pageable and in pinned memory."""
    rows = max(1, sizes["rows"] // SENT_SHARE)
    pageable = [torch.full((rows, sizes["columns"]), float(number), dtype=torch.double) for number in (1, 2)]
    pinned = [source.pin_memory() for source in pageable] if device.type == "cuda" else pageable
    return {"pageable": pageable, "pinned": pinned}


def reading_early(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E5: yield how often values are wrong, whether a copy to the GPU has ended when its call returns, and who copies.

    If other threads of this process copy, they take CPU time: it is given in percent of the time until the copy has
    ended.
    """
    yield from count_wrong(early_read(device, sizes), sizes["tries"])
    for memory, (source, _) in _sources(device, sizes).items():
        yield answer(f"{ENDED}{memory}", [_ends_at_once(source, device) for _ in range(sizes["tries"])])
        copy = partial(source.to, device, non_blocking=True)
        shares = repeated(copy, by_other_threads(device), budget)
        yield figure(f"{THREADS}{memory}", "%", shares)


def _ends_at_once(source: Tensor, device: torch.device) -> bool:
    """Return whether a copy to an idle GPU has ended when its call returns."""
    synchronize(device)
    return has_ended(source.to(device, non_blocking=True))


def has_ended(copied: Tensor) -> bool:
    """Return whether the current stream has done all its work, which ends with a copy."""
    return not copied.is_cuda or torch.cuda.current_stream(copied.device).query()


def by_other_threads(device: torch.device) -> Callable[[Callable[[], object]], float]:
    """Return a function that runs a case and returns the CPU time of other threads, in percent of the GPU's time."""

    def busy(run: Callable[[], object]) -> float:
        synchronize(device)
        start, process, own = time.perf_counter(), time.process_time(), time.thread_time()
        run()
        synchronize(device)
        process, own, elapsed = (
            time.process_time() - process,
            time.thread_time() - own,
            time.perf_counter() - start,
        )
        return 100 * max(0.0, process - own) / elapsed

    return busy


def early_write(device: torch.device, sizes: Sizes) -> Mapping[str, HazardTry]:
    """E6: overwrite the source of a copy to the GPU that was just queued, at once or after a synchronize.

    In the text's order a long kernel comes after the copy, and the host's write must outrun the copy. In ours the
    kernel comes first, so that the write surely comes before the copy.
    """
    pageable = torch.ones(sizes["side"], sizes["side"])
    pinned = pageable.pin_memory()

    def copy_then_kernel(source: Tensor) -> bool:
        source.fill_(1)
        synchronize(device)
        copied = source.to(device, non_blocking=True)
        long_kernel()
        source.zero_()
        return not bool((copied == 1).all())

    def kernel_then_copy(source: Tensor, *, wait: bool = False) -> bool:
        source.fill_(1)
        long_kernel()
        copied = source.to(device, non_blocking=True)
        if wait:
            synchronize(device)
        source.zero_()
        return not bool((copied == 1).all())

    return {
        "pinned source, copy then kernel": lambda: copy_then_kernel(pinned),
        "pageable source, copy then kernel": lambda: copy_then_kernel(pageable),
        "pinned source": lambda: kernel_then_copy(pinned),
        "pageable source": lambda: kernel_then_copy(pageable),
        "pinned source, written after synchronize": lambda: kernel_then_copy(pinned, wait=True),
    }


def writing_early(device: torch.device, sizes: Sizes, _budget: Budget) -> Iterator[Figure]:
    """E6: yield how often the GPU gets values that were written too early."""
    return count_wrong(early_write(device, sizes), sizes["tries"])


def long_kernel(cycles: int = LONG_KERNEL_CYCLES) -> None:
    """Queue a kernel that does nothing for this many cycles of the GPU's clock."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001  no public name


def count_wrong(cases: Mapping[str, HazardTry], tries: int) -> Iterator[Figure]:
    """Yield for each case the number of tries with a wrong value."""
    for name, run in cases.items():
        wrong = float(sum(run() for _ in range(tries)))
        yield Figure(name, "wrong", wrong, wrong, wrong, tries)
