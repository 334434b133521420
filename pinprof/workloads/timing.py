"""Time the experiments: a warm-up, then repeated runs, each with nothing else on the device."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch

from pinprof.bench.judging import GAIN
from pinprof.bench.results import Figure

TimedRun = Callable[[], object]
"""One case of an experiment, run once."""
Cases = Mapping[str, TimedRun]
Timer = Callable[[], float]
"""Returns seconds."""
TurnMs = Sequence[tuple[float, ...]]
"""Milliseconds of cases that ran in turn; each tuple has one run of each case."""
Stopwatch = Callable[[TimedRun], float]
"""Runs a case once and returns its milliseconds."""


@dataclass(frozen=True)
class Budget:
    """How often the cases of an experiment run.

    One run does not count. Then come at least `least` runs, and up to `most` until they have taken `seconds` together.
    A full bench has many rounds (`experiments.ROUNDS`): a few runs in each say more than many in one.
    """

    least: int
    most: int
    seconds: float


FULL = Budget(least=1, most=40, seconds=0.1)
QUICK = Budget(least=3, most=20, seconds=0.1)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def by_host(
    device: torch.device,
    *,
    steps: int = 1,
    before: Callable[[], object] = lambda: None,
    clock: Timer = time.perf_counter,
) -> Stopwatch:
    """Return a stopwatch that runs a case `steps` times, synchronizes before and after, and returns the time of one.

    It does not time `before`.
    """

    def timed(run: TimedRun) -> float:
        before()
        synchronize(device)
        start = clock()
        for _ in range(steps):
            run()
        synchronize(device)
        return (clock() - start) * 1e3 / steps

    return timed


def by_events(run: TimedRun) -> float:
    """Run a case between two CUDA events of the current stream and return their distance in milliseconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def by_call(
    device: torch.device, *, before: Callable[[], object] = lambda: None, clock: Timer = time.perf_counter
) -> Stopwatch:
    """Return a stopwatch for the call alone, on an idle device: how long it holds the host, not until its work is done.

    It times neither `before` nor the freeing of what the call returns.
    """

    def timed(run: TimedRun) -> float:
        before()
        synchronize(device)
        start = clock()
        result = run()
        held_ms = (clock() - start) * 1e3
        synchronize(device)
        del result
        return held_ms

    return timed


def time_cases(cases: Cases, stopwatch: Stopwatch, budget: Budget) -> Iterator[Figure]:
    """Yield the milliseconds of each case. If one fails, yield those that ran before, then raise its error."""
    times: dict[str, list[float]] = {}
    problem: Exception | None = None
    try:
        for name, run in cases.items():
            times[name] = repeated(run, stopwatch, budget)
    except Exception as error:  # noqa: BLE001  no error of a case may cost another its figure
        problem = error
    for name, values in times.items():
        yield figure(name, "ms", values)
    if problem is not None:
        raise problem


def repeated(run: TimedRun, stopwatch: Stopwatch, budget: Budget, clock: Timer = time.perf_counter) -> list[float]:
    """Return the milliseconds of each run that counts; `clock` says when the budget is spent."""
    stopwatch(run)
    times: list[float] = []
    end = clock() + budget.seconds
    while len(times) < budget.least or (len(times) < budget.most and clock() < end):
        times.append(stopwatch(run))
    return times


def in_turn(runs: Sequence[TimedRun], stopwatch: Stopwatch, budget: Budget, clock: Timer = time.perf_counter) -> TurnMs:
    """Return the milliseconds of several cases that run in turn, so that what slows the machine slows all alike."""
    for run in runs:
        stopwatch(run)
    taken: list[tuple[float, ...]] = []
    end = clock() + len(runs) * budget.seconds
    while len(taken) < budget.least or (len(taken) < budget.most and clock() < end):
        taken.append(tuple(stopwatch(run) for run in runs))
    return taken


def times_in_turn(
    cases: Cases, gains: Sequence[tuple[str, str]], stopwatch: Stopwatch, budget: Budget
) -> Iterator[Figure]:
    """Run the cases in turn; yield the milliseconds of each, and how many times as fast the first of each pair is."""
    names = list(cases)
    turns = in_turn(list(cases.values()), stopwatch, budget)
    yield from of_turns(names, turns)
    for fast, slow in gains:
        ratios = [turn[names.index(slow)] / turn[names.index(fast)] for turn in turns]
        yield figure(f"{GAIN}{fast}", "times", [median(ratios)])


def of_turns(names: Iterable[str], turns: TurnMs) -> Iterator[Figure]:
    """Yield the milliseconds of each of the cases that ran in turn."""
    for name, times in zip(names, zip(*turns, strict=True), strict=True):
        yield figure(name, "ms", times)


def figure(name: str, unit: str, values: Sequence[float], size: int | None = None) -> Figure:
    """Return the median of the values, with their 10th and 90th percentile: a single outlier does not widen them."""
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values
    return Figure(name, unit, median(values), tenths[0], tenths[-1], len(values), size)


def answer(name: str, answers: Sequence[bool]) -> Figure:
    """Return whether something holds: 1 if it always does, 0 if not, with the spread of the answers."""
    return Figure(name, "yes", float(all(answers)), float(min(answers)), float(max(answers)), len(answers))
