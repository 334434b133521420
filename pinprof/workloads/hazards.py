"""E5, E6: what goes wrong when the host reads or writes memory before its copy has ended, and what is safe."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count

import torch

from pinprof.bench.results import Figure
from pinprof.workloads.timing import synchronize
from pinprof.workloads.transfers import Sizes

LONG_KERNEL_CYCLES = 10_000_000
"""About 5 ms on an H200: the copy behind it has not begun when the host goes on."""

Try = Callable[[], bool]
"""One try; returns whether a value was wrong."""


def early_read(device: torch.device, sizes: Sizes) -> Mapping[str, Try]:
    """E5: read on the host what was copied there with non_blocking=True, at once or after a synchronize.

    Each try has another number in the tensor, so that the memory of the copy before cannot hold the right one.
    """
    tensor = torch.empty(sizes["rows"], sizes["columns"], dtype=torch.double, device=device)
    numbers = count(1)

    def is_wrong(*, wait: bool) -> bool:
        number = next(numbers)
        tensor.fill_(number)
        synchronize(device)
        copied = tensor.to("cpu", non_blocking=True)
        if wait:
            synchronize(device)
        wrong = copied.mean().item() != number
        synchronize(device)
        return wrong

    return {"read at once": lambda: is_wrong(wait=False), "read after synchronize": lambda: is_wrong(wait=True)}


def early_write(device: torch.device, sizes: Sizes) -> Mapping[str, Try]:
    """E6: overwrite on the host what was just queued to be copied to the GPU, at once or after a synchronize."""
    pageable = torch.ones(sizes["side"], sizes["side"])
    pinned = pageable.pin_memory()

    def is_wrong(source: torch.Tensor, *, wait: bool = False) -> bool:
        source.fill_(1)
        long_kernel()
        copied = source.to(device, non_blocking=True)
        if wait:
            synchronize(device)
        source.zero_()
        return not bool((copied == 1).all())

    return {
        "pinned source": lambda: is_wrong(pinned),
        "pageable source": lambda: is_wrong(pageable),
        "pinned source, written after synchronize": lambda: is_wrong(pinned, wait=True),
    }


def long_kernel(cycles: int = LONG_KERNEL_CYCLES) -> None:
    """Queue a kernel that does nothing for so many cycles of the GPU's clock."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001  no public name


def count_wrong(cases: Mapping[str, Try], tries: int) -> Iterator[Figure]:
    """Yield for each case in how many of the tries a value was wrong."""
    for name, run in cases.items():
        wrong = float(sum(run() for _ in range(tries)))
        yield Figure(name, "wrong", wrong, wrong, wrong, tries)
