"""E4: a copy to the GPU beside kernels, on their stream or another, from pageable or pinned memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pinprof.bench.catalogue import experiment
from pinprof.workloads.model import Step
from pinprof.workloads.timing import Cases
from pinprof.workloads.transfers import Sizes

SIDE = 2048
"""Of the matrices: two products of them take an H200 0.7 ms, twice as long as the copy from pinned memory."""


def copy_overlap(device: torch.device, sizes: Sizes) -> Cases:
    """E4: queue a copy, then two kernels that do not need it, then wait for both."""
    on_gpu = device.type == "cuda"
    pageable = torch.ones(sizes["floats"])
    pinned = pageable.pin_memory() if on_gpu else pageable
    matrix = torch.randn(SIDE, SIDE, device=device)
    own = torch.cuda.current_stream(device) if on_gpu else None
    side = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]

    def step(source: Tensor, stream: torch.cuda.Stream | None) -> tuple[Tensor, Tensor]:
        with torch.cuda.stream(stream):
            copied = source.to(device, non_blocking=True)
        product = matrix @ matrix @ matrix
        if stream is not None:
            stream.synchronize()
        if own is not None:
            own.synchronize()
        return copied, product

    return {
        "default stream, pageable": lambda: step(pageable, own),
        "default stream, pinned": lambda: step(pinned, own),
        "side stream, pageable": lambda: step(pageable, side),
        "side stream, pinned": lambda: step(pinned, side),
    }


@contextmanager
def overlap_case(device: torch.device, scale: float = 1.0, *, case: str) -> Iterator[Step]:
    """Give one of the four cases as a workload."""
    floats = experiment("E4").defaults()["floats"]
    run = copy_overlap(device, {"floats": max(1, round(floats * scale))})[case]

    def step() -> None:
        run()

    yield step
