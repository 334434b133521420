"""Copy batches from host memory in every way, from the slowest to the prefetched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from pinprof.workloads.model import Step, forever, host_batches, sizes, trainer
from pinprof.workloads.prefetcher import Prefetcher


@contextmanager
def copied(
    device: torch.device, scale: float = 1.0, *, pinned: bool = False, non_blocking: bool = False
) -> Iterator[Step]:
    """Copy the batch on the default stream, from pageable or pinned memory, blocking or not."""
    size = sizes(scale)
    training = trainer(device, size)
    batches = forever(host_batches(size, pinned=pinned and device.type == "cuda"))

    def step() -> None:
        batch = next(batches).to(device, non_blocking=non_blocking)
        training.train(batch)

    yield step


@contextmanager
def pin_then_copy(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Pin every batch in the main thread just before its copy."""
    size = sizes(scale)
    training = trainer(device, size)
    batches = forever(host_batches(size))

    def step() -> None:
        batch = next(batches)
        if device.type == "cuda":
            batch = batch.pin_memory()
        training.train(batch.to(device, non_blocking=True))

    yield step


@contextmanager
def prefetch(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Copy the next batch on a side stream while this one is trained on."""
    size = sizes(scale)
    training = trainer(device, size)
    batches: Iterator[torch.Tensor] = iter(
        Prefetcher(forever(host_batches(size, count=3, pinned=device.type == "cuda")), device)
    )

    def step() -> None:
        training.train(next(batches))

    yield step


MATRIX_SIDE = 2048
"""The side of the matrices: two products take an H200 0.7 ms, twice as long as a copy of 20 MiB from pinned memory."""


def copies_at_once(device: torch.device, floats: int) -> dict[str, Step]:
    """E4: queue a copy and two kernels that do not need it, on one stream or two, and wait for both; or two copies."""
    on_gpu = device.type == "cuda"
    pageable = torch.ones(floats)
    pinned, other = (pageable.clone().pin_memory() if on_gpu else pageable.clone() for _ in range(2))
    matrix = torch.randn(MATRIX_SIDE, MATRIX_SIDE, device=device)
    own = torch.cuda.current_stream(device) if on_gpu else None
    side, third = (torch.cuda.Stream(device) if on_gpu else None for _ in range(2))  # type: ignore[no-untyped-call]

    def products(stream: torch.cuda.Stream | None) -> torch.Tensor:
        with torch.cuda.stream(stream):
            return matrix @ matrix @ matrix

    def copy(source: torch.Tensor, stream: torch.cuda.Stream | None) -> torch.Tensor:
        with torch.cuda.stream(stream):
            return source.to(device, non_blocking=True)

    def both(
        first: Callable[[], torch.Tensor], second: Callable[[], torch.Tensor], *streams: torch.cuda.Stream | None
    ) -> Step:
        def step() -> None:
            queued = first(), second()
            for event in [stream.record_event() for stream in streams if stream is not None]:
                event.synchronize()  # an event of each stream, as in the text
            del queued

        return step

    kernels = partial(products, own)
    steps = {
        f"{name}, {memory}": both(partial(copy, source, stream), kernels, own, stream)
        for name, stream in (("default stream", own), ("side stream", side))
        for memory, source in (("pageable", pageable), ("pinned", pinned))
    }
    return steps | {
        "side stream, pageable, kernels first": both(kernels, partial(copy, pageable, side), own, side),
        "two copies, the same way": both(partial(copy, pinned, side), partial(copy, other, third), side, third),
    }


@contextmanager
def overlap_case(device: torch.device, scale: float = 1.0, *, case: str) -> Iterator[Step]:
    """Copy 20 MiB along with kernels, as in one of these cases."""
    yield copies_at_once(device, max(1, round((5 << 20) * scale)))[case]
