"""Parts of experiments that go wrong in every way, for the runner's tests; importable from another process."""

import os
import time
from collections.abc import Iterator

from pinprof.bench import EXPERIMENTS
from pinprof.bench.results import Bar, Measured, Picture

NUMBERS = {experiment.name: experiment.number for experiment in EXPERIMENTS}


def part(name: str, sizes: dict[str, int], quick: bool) -> Iterator[Measured | Picture]:
    """Yield one figure, then fail as the experiment's number says; E1 and E5 do not."""
    number = NUMBERS[name]
    yield Measured("process", "ms", os.getpid(), sizes.get("floats", 0), quick, 1)
    if number == "E2":
        raise RuntimeError("CUDA error: out of memory\nand more lines")
    if number == "E3":
        os._exit(7)
    if number == "E4":
        time.sleep(600)


def pictures(name: str, _sizes: dict[str, int], _quick: bool) -> Iterator[Measured | Picture]:
    """Yield a figure and a picture."""
    yield Measured("late", "%", os.getpid(), 0, 0, 1)
    yield Picture(NUMBERS[name], (Bar("host", "copy", 0.0, 1.0),), "because")


def fails(rank: int, _queue: object, _lab: object) -> None:
    """Fail as a spawned process may."""
    raise ValueError(f"process {rank} has no GPU")
