"""Figures, what was measured of them on a machine in several rounds, and the JSON of a bench."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import median, quantiles, stdev
from typing import Annotated

import msgspec
from msgspec import Struct, structs

from pinprof.document import Count, Ms, Words, doc, one_of
from pinprof.ground.errors import PinprofError
from pinprof.ground.units import NS_PER_MS, between, duration, rate
from pinprof.pci_express import Link, pcie

BENCH_NAME = "bench.json"
BENCH_FILES = (Path(__file__).parent / BENCH_NAME, Path(__file__).parents[2] / "traces" / BENCH_NAME)
"""The places of the bench of an H100 that comes with pinprof: in an installed package, and in a checkout."""


class BenchError(PinprofError):
    """A file is not a result of `pinprof bench`."""


class Measured(Struct, frozen=True):
    """What was measured of a figure: its median, and its spread from `low` to `high`.

    It is measured in rounds spread over the bench, each in a process of its own, as some conditions last for the life
    of one. The median is that of the rounds' medians. The spread goes from the 10th percentile of the lowest round to
    the 90th of the highest, as `of_rounds` says; that of a time or a rate holds the median of another bench in nine of
    ten cases. The spread of a single round, as with `--quick`, holds less.
    """

    name: Annotated[str, doc("what; the same on every machine")]
    unit: Annotated[
        str,
        one_of(("ms", "GB/s", "%", "times", "wrong", "waits", "calls", "yes")),
        doc("its unit: `wrong` values in `runs` tries, `waits` and `calls` in a step, `yes` 1 or 0"),
    ]
    median: Annotated[float, doc("the median of the rounds' medians, in this unit")]
    low: Annotated[float, doc("the low end of its spread")]
    high: Annotated[float, doc("the high end of its spread")]
    runs: Annotated[Count, doc("runs of all rounds")]
    size: Annotated[Count | None, doc("bytes of a copy, or number of workers, if it was measured at several sizes")] = (
        None
    )


AT_SMALLEST, AT_LARGEST = "least", "most"


@dataclass(frozen=True)
class Figure:
    """What an experiment measures: experiments yield it with values, claims name it."""

    number: str
    name: str
    unit: str = "ms"
    size: int | str | None = None
    """At which size a claim asks for it: AT_SMALLEST, AT_LARGEST or a number; None where it has no size."""

    def at(self, size: int | str) -> "Figure":
        """Return the figure at one of its sizes."""
        return replace(self, size=size)

    def of(self, values: Sequence[float], size: int | None = None) -> Measured:
        """Return the median of the values, with the 10th and 90th percentile; an answer is 1 if all values are true."""
        if self.unit == "yes":
            middle, tenths = float(all(values)), [float(min(values)), float(max(values))]
        else:
            middle = median(values)
            tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else list(values)
        return Measured(self.name, self.unit, middle, tenths[0], tenths[-1], len(values), size)


def figures(number: str, unit: str, names: str) -> tuple[Figure, ...]:
    """Return several figures of an experiment with one unit; semicolons part their names."""
    return tuple(Figure(number, name, unit) for name in names.split("; "))


REACH_BY_ROUNDS = {2: (3.1, 0.45), 3: (2.45, 0.71), 4: (2.2, 0.81), 5: (3.4, 0.67), 6: (2.9, 0.78), 7: (2.6, 0.84)}
"""By number of rounds: how many deviations off another bench's median lies, and what a figure's own rounds say.

It lies within in nine of ten simulated pairs of benches (with two rounds in 86 %): rounds differ as on an H100 (by 4 %
to 27 % in two of three figures), one in ten of them is disturbed, and all those of a bench are off by a third of that.
"""
USUAL_DEVIATION = 0.1
"""The standard deviation of the logarithms of a figure's rounds on an H100, in the middle of all figures."""
ROUNDS_WITHOUT_EXTREMES = 5
"""From this number of rounds on the lowest and the highest are left out: a disturbed one does not widen the spread."""
DIGITS_STORED = 7
"""Significant digits of stored values: no clock gives more."""


def of_rounds(rounds: Sequence[Measured]) -> Measured:
    """Return what several rounds measured of a figure; few draw their own deviation towards the usual one."""
    medians = sorted(measured.median for measured in rounds)
    lows, highs = sorted(measured.low for measured in rounds), sorted(measured.high for measured in rounds)
    middle, low, high = median(medians), lows[0], highs[-1]
    if rounds[0].unit in {"ms", "GB/s"} and len(rounds) > 1:
        kept = slice(1, -1) if len(rounds) >= ROUNDS_WITHOUT_EXTREMES else slice(None)
        reach, weight = REACH_BY_ROUNDS[min(len(rounds), max(REACH_BY_ROUNDS))]
        own = stdev(map(log, medians[kept])) if medians[0] > 0 else 0.0
        factor = exp(reach * own**weight * USUAL_DEVIATION ** (1 - weight))  # of rounds that agree: 1
        low, high = min(lows[kept][0], middle / factor), max(highs[kept][-1], middle * factor)
    middle, low, high = (float(f"{value:.{DIGITS_STORED}g}") for value in (middle, low, high))
    return structs.replace(rounds[0], median=middle, low=low, high=high, runs=sum(each.runs for each in rounds))


class Bar(Struct, frozen=True):
    """Something that ran."""

    row: Annotated[str, doc("`host` for its calls, `stalls` for its waits, or the stream")]
    name: Annotated[str, doc("`copy`, `launch`, `wait`, why it stalls, `kernel`, `exposed copy` or `overlapped copy`")]
    start_ms: Annotated[Ms, doc("its begin, from that of the step")]
    end_ms: Annotated[Ms, doc("its end")]


class Picture(Struct, frozen=True):
    """One step of a case as its trace shows it."""

    case: Annotated[str, doc("which case")]
    bars: Annotated[Sequence[Bar], doc("what ran")]
    why: Annotated[Words, doc("what the report says of its copies")] = ""
    step_ms: Annotated[Ms | None, doc("how long the step is, where the bars are of its beginning alone")] = None


class Result(Struct, frozen=True):
    """The results of an experiment."""

    number: Annotated[str, doc("`E1` to `E15`")]
    sizes: Annotated[Mapping[str, Count], doc("the options it ran with")]
    figures: Annotated[Sequence[Measured], doc("what was measured")]
    pictures: Annotated[Sequence[Picture], doc("steps of its cases")] = ()
    problem: Annotated[Words | None, doc("why figures are absent")] = None

    def figure(self, name: str, size: int | None = None) -> Measured | None:
        """Return the figure of this name, None if it was not measured."""
        return next((figure for figure in self.figures if figure.name == name and figure.size == size), None)


class Machine(Struct, frozen=True):
    """The machine of a bench; unknown values are null."""

    gpu: Annotated[str, doc("the GPU")]
    driver: Annotated[str | None, doc("its driver")]
    cuda: Annotated[str | None, doc("CUDA's version")]
    torch: Annotated[str, doc("torch's version")]
    python: Annotated[str, doc("Python's version")]
    cpu: Annotated[str | None, doc("the CPU")]
    cores: Annotated[Count, doc("its cores")]
    pcie_generation: Annotated[Count | None, doc("PCIe generation of the link")]
    pcie_width: Annotated[Count | None, doc("lanes of the link")]

    @property
    def link(self) -> Link | None:
        """The link that the driver reports; None if it reports none, or an unknown one."""
        return pcie(self.pcie_generation, self.pcie_width)


class Bench(Struct, frozen=True, kw_only=True, tag_field="schema", tag="pinprof.bench/1"):
    """The results of one machine."""

    pinprof_version: Annotated[str, doc("what measured it")]
    machine: Annotated[Machine, doc("where it was measured")]
    results: Annotated[Sequence[Result], doc("by experiment")]
    date: Annotated[str, doc("when")]
    quick: Annotated[bool, doc("whether with `--quick`")]

    def result(self, number: str) -> Result | None:
        """Return the result of an experiment, None if it did not run."""
        return next((result for result in self.results if result.number == number), None)

    def figure(self, figure: Figure, size: int | None = None) -> Measured | None:
        """Return what was measured of a figure, None if it was not."""
        result = self.result(figure.number)
        return result.figure(figure.name, size) if result else None


def times(more: float, less: float) -> str:
    """Return how many times one number is another: "1.17 times", "6,820 times"."""
    return f"{float(f'{more / less:.3g}'):,g} times" if less > 0 else "many times"


def amount(unit: str, value: float, runs: int = 0) -> str:
    """Return a value with the unit of a figure; `runs` is the number of tries, where wrong values are counted."""
    if unit == "ms":
        return duration(value * NS_PER_MS)
    if unit == "GB/s":
        return rate(value)
    if unit == "wrong":
        return f"{value:g} of {runs} wrong"
    if unit == "yes":
        return "yes" if value else "no"
    if unit == "times":
        return times(value, 1)
    return f"{value:.0f} %" if unit == "%" else f"{value:.4g}"


def shown(measured: Measured) -> str:
    """Return the median with its unit."""
    return amount(measured.unit, measured.median, measured.runs)


def spread(measured: Measured) -> str:
    """Return the range; empty if it is not a median of several runs."""
    low, high = measured.low, measured.high
    if measured.runs < 2 or measured.unit in {"wrong", "yes"} or low == high:  # noqa: PLR2004
        return ""
    if measured.unit == "ms":
        return between(low * NS_PER_MS, high * NS_PER_MS)
    return f"{amount(measured.unit, low)} to {amount(measured.unit, high)}"


def against(first: Measured, second: Measured) -> str:
    """Return two figures, and how the first compares with the second."""
    pair = f"{shown(first)} ({first.name}) against {shown(second)} ({second.name})"
    smaller, larger = sorted((first.median, second.median))
    less, more = ("as fast", "the time") if first.unit == "ms" else ("less", "as much")
    return f"{pair}, {times(larger, smaller)} {less if first.median < second.median else more}" if smaller > 0 else pair


def from_json(text: bytes, name: str) -> Bench:
    """Return the results in a file's text; `name` is the file, for the error. Raises BenchError."""
    try:
        return msgspec.json.decode(text, type=Bench)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BenchError(f"{name}: is not a result of pinprof bench ({error})") from error


def recorded() -> Bench:
    """Return the recorded bench of an H100. Raises BenchError if this installation lacks the file."""
    file = next((file for file in BENCH_FILES if file.is_file()), None)
    if file is None:
        raise BenchError(f"{BENCH_FILES[0]}: the recorded bench of an H100 is missing; install pinprof again")
    return from_json(file.read_bytes(), str(file))
