"""Parts of experiments that go wrong in every way, for the runner's tests; importable from another process."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

from pinprof.bench.results import Bar, Figure, Picture


def part(number: str, sizes: dict[str, int], quick: bool) -> Iterator[Figure | Picture]:
    """Yield one figure, then fail as the experiment's number says; E1 and E5 do not."""
    yield Figure("process", "ms", os.getpid(), sizes.get("floats", 0), quick, 1)
    if number == "E2":
        raise RuntimeError("CUDA error: out of memory\nand more lines")
    if number == "E3":
        os._exit(7)
    if number == "E4":
        time.sleep(600)


def pictures(number: str, _sizes: dict[str, int], _quick: bool) -> Iterator[Figure | Picture]:
    """Yield a figure and a picture."""
    yield Figure("late", "%", os.getpid(), 0, 0, 1)
    yield Picture(number, (Bar("host", "copy", 0.0, 1.0),), "because")


def six_times(_number: str, _sizes: dict[str, int], _quick: bool) -> Iterator[Figure]:
    """Yield six times, each as many milliseconds as the number of the process."""
    for number in range(6):
        yield Figure(f"time {number}", "ms", os.getpid(), os.getpid(), os.getpid(), 1)


def fails(rank: int, _answers: object) -> None:
    """Fail as a spawned process may."""
    raise ValueError(f"process {rank} has no GPU")


def says_when(_rank: int, answers: Any, name: str) -> None:
    """Put into the queue when it begins and when it ends."""
    begin = time.monotonic()
    time.sleep(0.2)
    answers.put((name, begin, time.monotonic()))


def echo(*values: object) -> Iterator[object]:
    """Yield the values."""
    yield from values


def kill_itself() -> Iterator[object]:
    """Die as a crash in native code does."""
    os.kill(os.getpid(), 11)
    yield None


def start_method() -> Iterator[str]:
    """Yield how processes are started here if nothing else is said."""
    yield multiprocessing.get_start_method()


def batches_of_workers() -> Iterator[str]:
    """Yield the kind of each batch of a loader with workers, started here."""
    from pinprof.workloads.custom_batch import PlainBatch, loader_of  # noqa: PLC0415  the others need no torch

    yield from (type(batch).__name__ for batch in loader_of(PlainBatch, 2, workers=2))


def print_and_echo(value: object) -> Iterator[object]:
    """Print as libraries do, then yield the value."""
    print("noise", flush=True)  # noqa: T201  the point
    yield value
