"""E4: a copy to the GPU along with kernels (same stream or another, pageable or pinned memory) or with another copy.

The text's kernels multiply a tensor of 20 MiB by itself, twice. A fast GPU needs a tenth of the copy's time for them,
so that they can hide no more than a tenth of the copy; the other cases have kernels longer than the copy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pinprof.bench.catalogue import experiment_of
from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import CASES, KERNELS_FIRST, PORTED, TEXTS_KERNELS, TWO_COPIES
from pinprof.workloads.model import Step
from pinprof.workloads.timing import Budget, Cases, by_host, figure, in_turn
from pinprof.workloads.transfers import Sizes

BESIDE_KERNELS = (*CASES, KERNELS_FIRST, *(f"{case}{TEXTS_KERNELS}" for case in CASES))
SIDE = 2048
"""The side of the matrices: two products take an H200 0.7 ms, twice as long as the copy from pinned memory."""


def copy_overlap(device: torch.device, sizes: Sizes) -> Cases:
    """E4: queue a copy, then two kernels that do not need it (or kernels first), wait for both; or two copies."""
    on_gpu = device.type == "cuda"
    pageable = torch.ones(sizes["floats"])
    pinned, back = (pageable.clone().pin_memory() if on_gpu else pageable.clone() for _ in range(2))
    matrix = torch.randn(SIDE, SIDE, device=device)
    factor = torch.randn(sizes["floats"], device=device)
    own = torch.cuda.current_stream(device) if on_gpu else None
    side, other = (torch.cuda.Stream(device) if on_gpu else None for _ in range(2))  # type: ignore[no-untyped-call]

    def beside_kernels(
        source: Tensor, stream: torch.cuda.Stream | None, kernels: Callable[[], Tensor], *, kernels_first: bool = False
    ) -> Callable[[], tuple[Tensor, Tensor]]:
        def copy() -> Tensor:
            with torch.cuda.stream(stream):
                return source.to(device, non_blocking=True)

        def step() -> tuple[Tensor, Tensor]:
            first, second = (kernels, copy) if kernels_first else (copy, kernels)
            queued = first(), second()
            _wait_for(own, stream)
            return queued

        return step

    def to_gpu() -> Tensor:
        with torch.cuda.stream(side):
            return pinned.to(device, non_blocking=True)

    def alone() -> None:
        to_gpu()
        _wait_for(side)

    def same_way() -> None:
        to_gpu()
        with torch.cuda.stream(other):
            back.to(device, non_blocking=True)
        _wait_for(side, other)

    def both_ways() -> None:
        to_gpu()
        with torch.cuda.stream(other):
            back.copy_(factor, non_blocking=True)
        _wait_for(side, other)

    sources = [
        (f"{name}, {memory}", source, stream)
        for name, stream in (("default stream", own), ("side stream", side))
        for memory, source in (("pageable", pageable), ("pinned", pinned))
    ]

    def products() -> Tensor:
        return matrix @ matrix @ matrix

    return {
        **{name: beside_kernels(source, stream, products) for name, source, stream in sources},
        KERNELS_FIRST: beside_kernels(pageable, side, products, kernels_first=True),
        **{
            f"{name}{TEXTS_KERNELS}": beside_kernels(source, stream, lambda: factor * factor * factor)
            for name, source, stream in sources
        },
        **dict(zip(TWO_COPIES, (alone, same_way, both_ways), strict=True)),
    }


def one_kernel_ported(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E4: yield the share of the time for copies there and back if one short kernel of a program runs on the GPU.

    As in a program that was just ported, the tensor is pageable, and the program waits for each part.
    """
    numbers = torch.ones(sizes["floats"])
    on_device = numbers.to(device)
    parts = (lambda: numbers.to(device), lambda: on_device * on_device, on_device.cpu)
    turns = in_turn(parts, by_host(device), budget)
    yield figure(PORTED, "%", [100 * (there + back) / (there + kernel + back) for there, kernel, back in turns])


def _wait_for(*streams: torch.cuda.Stream | None) -> None:
    """Wait for all work now on each stream, by an event as in the text."""
    for event in [stream.record_event() for stream in streams if stream is not None]:
        event.synchronize()


@contextmanager
def overlap_case(device: torch.device, scale: float = 1.0, *, case: str) -> Iterator[Step]:
    """Make one of the cases a workload."""
    floats = experiment_of("E4").defaults()["floats"]
    run = copy_overlap(device, {"floats": max(1, round(floats * scale))})[case]

    def step() -> None:
        run()

    yield step
