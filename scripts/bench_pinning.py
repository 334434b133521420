"""Measure what pinning brings, by size of a batch, workers, tensors in it, work of the GPU, and way of copying.

Run from the repository root:  PYTHONPATH=. python scripts/bench_pinning.py OUT.jsonl [--seconds 0.35] [--budget 540]

Each configuration is a line: for each way the step, its wait for a batch, and the time in which one is pinned, in ms.
Configurations come in a random order, so a shorter run is a sample of all.
"""

import gc
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import click
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import pin_memory as pinning

SIZES_MIB, WORKERS, TENSORS, WORK_MS = (0.25, 1, 4, 16, 48, 128), (0, 4, 8), (1, 16), (2, 10, 30)
ROWS, KEPT_ROWS, BUFFERS, MIN_STEPS = 16, 32, 3, 8
PAGEABLE, PAGEABLE_ASYNC, PINNED, PINNED_ASYNC, AHEAD, BUFFERED = WAYS = (
    *("pageable", "pageable, non_blocking", "pinned", "pinned, non_blocking", "a step ahead", "buffers"),
)
THREAD: Final = {"seconds": 0.0, "batches": 0.0}
"""What the DataLoader has spent in pinning."""


class Rows(Dataset[tuple[Tensor, ...]]):
    """Rows whose batch has this size and this number of tensors; to make one costs nothing."""

    def __init__(self, mib: float, tensors: int) -> None:
        count = int(mib * 2**20 / 4 / ROWS / tensors)
        self.rows = [tuple(torch.randn(count) for _ in range(tensors)) for _ in range(KEPT_ROWS)]

    def __len__(self) -> int:
        """Return more than is drawn."""
        return 10**7

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """Return a row that is at hand."""
        return self.rows[index % KEPT_ROWS]


class Work:
    """Matrix products of some ms, after a read of the batch."""

    def __init__(self, ms: float) -> None:
        self.left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty_like(self.left)
        self.count = 100
        self(self.left[:1])
        torch.cuda.synchronize()
        began = time.perf_counter()
        self(self.left[:1])
        torch.cuda.synchronize()
        self.count = max(round(ms * self.count / 1e3 / (time.perf_counter() - began)), 1)

    def __call__(self, batch: Tensor) -> None:
        """Launch it all."""
        batch.view(-1)[:64].sum()
        for _ in range(self.count):
            torch.mm(self.left, self.left, out=self.out)


def copied(way: str, drawn: Iterator[Sequence[Tensor]]) -> Callable[[], Sequence[Tensor]]:
    """Return what draws a batch and copies it to the GPU in this way."""
    side, ahead = torch.cuda.Stream(), list[list[Tensor]]()  # type: ignore[no-untyped-call]
    buffers = list[tuple[list[Tensor], Any]]()

    def to_gpu(batch: Sequence[Tensor], *, non_blocking: bool = True) -> list[Tensor]:
        return [each.to("cuda", non_blocking=non_blocking) for each in batch]

    def a_step_ahead() -> Sequence[Tensor]:
        torch.cuda.current_stream().wait_stream(side)
        now = ahead.pop() if ahead else to_gpu(next(drawn))
        for each in now:
            each.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ahead.append(to_gpu(next(drawn)))
        return now

    def through_buffers() -> Sequence[Tensor]:
        batch = next(drawn)
        if len(buffers) < BUFFERS:
            buffers.append(([torch.empty_like(each, pin_memory=True) for each in batch], torch.cuda.Event()))  # type: ignore[no-untyped-call]
        buffer, done = buffers[0]
        buffers.append(buffers.pop(0))
        done.synchronize()
        for target, each in zip(buffer, batch, strict=True):
            target.copy_(each)
        now = to_gpu(buffer)
        done.record()
        return now

    ways = {AHEAD: a_step_ahead, BUFFERED: through_buffers}
    is_async = way in (PAGEABLE_ASYNC, PINNED_ASYNC)
    return ways.get(way, lambda: to_gpu(next(drawn), non_blocking=is_async))


def measured(way: str, mib: float, workers: int, tensors: int, work: Work, seconds: float) -> dict[str, float]:
    """Return the step, its wait for a batch, and the time in which one is pinned, in ms."""
    pins = way in (PINNED, PINNED_ASYNC, AHEAD)
    loader = DataLoader(Rows(mib, tensors), batch_size=ROWS, num_workers=workers, pin_memory=pins)
    batches, waited = iter(loader), [0.0]

    def drawn() -> Iterator[Sequence[Tensor]]:
        while True:
            began = time.perf_counter()
            batch = next(batches)
            waited[0] += time.perf_counter() - began
            yield batch

    on_gpu, steps = copied(way, drawn()), 0
    for _ in range(3 * max(workers, 2)):
        work(on_gpu()[0])
    torch.cuda.synchronize()
    waited[0] = THREAD["seconds"] = THREAD["batches"] = 0.0
    began = time.perf_counter()
    while time.perf_counter() < began + seconds or steps < MIN_STEPS:
        work(on_gpu()[0])
        steps += 1
    torch.cuda.synchronize()
    took = {"step_ms": (time.perf_counter() - began) / steps, "wait_ms": waited[0] / steps}
    pinned = {"pin_ms": THREAD["seconds"] / THREAD["batches"]} if THREAD["batches"] else {}
    return {name: round(1e3 * value, 3) for name, value in (took | pinned).items()}


def watch_pinning() -> None:
    """Add up the time in which whole batches are pinned: pin_memory() calls itself for their parts."""
    pin, depth = pinning.pin_memory, [0]

    def timed(data: Any, device: Any = None) -> Any:
        began, depth[0] = time.perf_counter(), depth[0] + 1
        try:
            return pin(data, device)  # type: ignore[no-untyped-call]
        finally:
            depth[0] -= 1
            if not depth[0]:
                THREAD["seconds"] += time.perf_counter() - began
                THREAD["batches"] += 1

    pinning.pin_memory = timed


@click.command(help=__doc__)
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--seconds", default=0.35, show_default=True, help="Time each way for so long.")
@click.option("--budget", default=540.0, show_default=True, help="Start no configuration after these seconds.")
@click.option("--seed", default=1, show_default=True, help="Of the order of configurations.")
def main(out: Path, seconds: float, budget: float, seed: int) -> None:
    """Measure configurations in a random order."""
    began, all_work = time.perf_counter(), {ms: Work(ms) for ms in WORK_MS}
    configurations = list(product(SIZES_MIB, WORKERS, TENSORS, WORK_MS))
    random.Random(seed).shuffle(configurations)  # noqa: S311  an order, no secret
    watch_pinning()
    with out.open("a") as file:
        for mib, workers, tensors, ms in configurations:
            if time.perf_counter() > began + budget:
                break
            ways = {way: measured(way, mib, workers, tensors, all_work[ms], seconds) for way in WAYS}
            gc.collect()
            line = {"mib": mib, "workers": workers, "tensors": tensors, "work_ms": ms, "ways": ways}
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
