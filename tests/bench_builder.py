"""Builds the bench of a machine by hand, so that what is said of it can be checked by eye."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from pinprof.bench.results import Bench, Machine, Measured, Picture, Result

H200 = Machine("NVIDIA H200", "580.1", "13.0", "2.11.0", "3.12.3", "a CPU", 16, 5, 16)


def ms(
    name: str, median: float, low: float | None = None, high: float | None = None, size: int | None = None
) -> Measured:
    """Return a time; without bounds its runs lie within 1 % of the median."""
    return measured(name, "ms", median, low, high, size)


def gbps(name: str, size: int, median: float, low: float | None = None, high: float | None = None) -> Measured:
    return measured(name, "GB/s", median, low, high, size)


def measured(
    name: str, unit: str, median: float, low: float | None = None, high: float | None = None, size: int | None = None
) -> Measured:
    low = 0.99 * median if low is None else low
    high = 1.01 * median if high is None else high
    return Measured(name, unit, float(median), float(low), float(high), 10, size)


def count(name: str, unit: str, value: float, runs: int = 1, size: int | None = None) -> Measured:
    """Return what has no spread: wrong values in some tries, waits, yes or no."""
    return Measured(name, unit, float(value), float(value), float(value), runs, size)


@dataclass
class BenchBuilder:
    """The results of some experiments."""

    machine: Machine = H200
    results: dict[str, Result] = field(default_factory=dict)

    def add(
        self,
        number: str,
        *figures: Measured,
        sizes: Mapping[str, int] | None = None,
        problem: str | None = None,
        pictures: tuple[Picture, ...] = (),
    ) -> "BenchBuilder":
        self.results[number] = Result(number, sizes or {}, figures, pictures, problem)
        return self

    def build(self) -> Bench:
        return Bench(
            machine=self.machine,
            results=list(self.results.values()),
            date="2026-09-30",
            quick=False,
            pinprof_version="0.1",
        )


def as_json(bench: Bench) -> str:
    return msgspec.json.encode(bench).decode()
