"""How the experiments are timed: a warm-up, then repeated runs, each with nothing else on the device."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from pinprof.bench.results import Figure

Run = Callable[[], object]
"""One case of an experiment, run once."""
Cases = Mapping[str, Run]
Stopwatch = Callable[[Run], float]
"""Runs a case once and returns its milliseconds."""


@dataclass(frozen=True)
class Budget:
    """How often the cases of an experiment run.

    The cases take turns, so that whatever drifts meanwhile is in the spread of each. A turn is one run that is not
    counted, then at least `least` runs, and more, up to `most`, as long as they take no more than `seconds`.
    """

    turns: int
    least: int
    most: int
    seconds: float


FULL = Budget(turns=4, least=2, most=50, seconds=0.25)
QUICK = Budget(turns=1, least=3, most=20, seconds=0.1)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def by_host(device: torch.device, *, steps: int = 1, clock: Callable[[], float] = time.perf_counter) -> Stopwatch:
    """Return a stopwatch that runs a case `steps` times, synchronizes on both sides, and gives the time of one."""

    def timed(run: Run) -> float:
        synchronize(device)
        start = clock()
        for _ in range(steps):
            run()
        synchronize(device)
        return (clock() - start) * 1e3 / steps

    return timed


def by_events(run: Run) -> float:
    """Run a case between two CUDA events of the current stream and return their distance in milliseconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def time_cases(cases: Cases, stopwatch: Stopwatch, budget: Budget) -> Iterator[Figure]:
    """Yield the milliseconds of each case. If one fails, those that ran come first, then its error."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    problem: Exception | None = None
    try:
        for _ in range(budget.turns):
            for name, run in cases.items():
                times[name] += repeated(run, stopwatch, budget)
    except Exception as error:  # noqa: BLE001  whatever it is, it costs no other case its figure
        problem = error
    for name, taken in times.items():
        if taken:
            yield figure(name, "ms", taken)
    if problem is not None:
        raise problem


def repeated(run: Run, stopwatch: Stopwatch, budget: Budget) -> list[float]:
    """Return the milliseconds of one turn's runs."""
    stopwatch(run)
    taken: list[float] = []
    while len(taken) < budget.least or (len(taken) < budget.most and sum(taken) < budget.seconds * 1e3):
        taken.append(stopwatch(run))
    return taken


def figure(name: str, unit: str, values: Sequence[float], size: int | None = None) -> Figure:
    """Return the median of the values with the least and the most of them."""
    return Figure(name, unit, median(values), min(values), max(values), len(values), size)


def answer(name: str, answers: Sequence[bool]) -> Figure:
    """Return whether something holds: 1 if it always does, 0 if not, with the spread of the answers."""
    return Figure(name, "yes", float(all(answers)), float(min(answers)), float(max(answers)), len(answers))
