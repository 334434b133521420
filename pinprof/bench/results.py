"""Figures, what was measured of them on a machine in several rounds, and the JSON of a bench."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import mean, median, quantiles, stdev, variance
from typing import Annotated

import msgspec
from msgspec import Struct, structs

from pinprof.document import Count, Ms, Seconds, Words, doc, one_of
from pinprof.errors import PinprofError
from pinprof.pci_express import Link, pcie
from pinprof.units import NS_PER_MS, between, duration, rate

NAME = "bench.json"
BENCH_FILES = (Path(__file__).parent / NAME, Path(__file__).parents[2] / "traces" / NAME)
"""The places of the bench of an H100 that comes with pinprof: in an installed package, and in a checkout."""


class BenchError(PinprofError):
    """A file is not a result of `pinprof bench`."""


class Measured(Struct, frozen=True):
    """What was measured of a figure: its median, and its spread from `low` to `high`.

    It is measured in rounds spread over the bench, each in a process of its own: some conditions, such as the place of
    its memory, last for the life of a process. The median is that of the rounds' medians. `low` is the 10th percentile
    of the runs of the lowest round, `high` the 90th of the highest; of five rounds or more, the lowest and the highest
    are left out, so that a disturbed round does not widen the spread. The spread of a time or a rate holds the median
    of another bench in nine of ten cases, judged by how much the rounds of this figure and of the others differ. The
    spread of a single round, as with `--quick`, holds less.
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
    size: Annotated[
        Count | None, doc("bytes of a copy, or number of workers, where it was measured at several sizes")
    ] = None


LEAST, MOST = "least", "most"
"""The smallest and the largest of the sizes at which a figure was measured."""


@dataclass(frozen=True)
class Figure:
    """What an experiment measures: experiments yield it with values, claims name it."""

    number: str
    """The experiment, `E1` to `E15`."""
    name: str
    unit: str = "ms"
    size: int | str | None = None
    """At which size a claim asks for it: LEAST, MOST or a number; None where it has no size."""

    def at(self, size: int | str) -> "Figure":
        """Return the figure at one of its sizes."""
        return replace(self, size=size)

    def of(self, values: Sequence[float], size: int | None = None) -> Measured:
        """Return the median of the values, with the 10th and 90th percentile: a single outlier does not widen them.

        An answer is 1 if all values are true.
        """
        if self.unit == "yes":
            middle, tenths = float(all(values)), [float(min(values)), float(max(values))]
        else:
            middle = median(values)
            tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else list(values)
        return Measured(self.name, self.unit, middle, tenths[0], tenths[-1], len(values), size)


def figures(number: str, unit: str, names: str) -> tuple[Figure, ...]:
    """Return several figures of an experiment with one unit; semicolons part their names."""
    return tuple(Figure(number, name, unit) for name in names.split("; "))


LOG_DEVIATION = {
    2: (-0.634, 1.234),
    3: (-0.289, 0.412),
    4: (-0.186, 0.234),
    5: (-0.854, 0.488),
    6: (-0.666, 0.274),
    7: (-0.560, 0.187),
    8: (-0.490, 0.141),
}
"""By number of rounds: mean and variance of the logarithm of `_deviation`, where the true one is 1."""
POOLED_FROM_FIGURES = 10
"""Fewer figures of one unit do not show how much the rounds of a figure usually differ."""
POOLED_REACH = {2: 2.3, 3: 2.0, 4: 1.9, 5: 1.9, 6: 1.7, 7: 1.6}
"""By number of rounds: the multiple of the pooled standard deviation within which the median of another bench lies.

It does so in nine of ten simulated pairs of benches (with two rounds in 86 %): rounds differ as on an H100 (by 4 % to
27 % in two of three figures), one in ten of them is disturbed, and all those of a bench are off by a third of that.
"""
LEAST_VARIANCE = 0.5
"""The least variance of the logarithms of true standard deviations: figures always differ in how much they scatter."""
ROUNDS_WITHOUT_EXTREMES = 5
TIMES_AND_RATES = {"ms", "GB/s"}
DIGITS = 7
"""Significant digits of stored values: no clock gives more."""


@dataclass(frozen=True)
class Usual:
    """How much the rounds of a bench's figures of one unit differ: the distribution of their standard deviations.

    The logarithms of the true ones are taken to be normal, with this mean and variance.
    """

    mean: float
    variance: float

    def pooled(self, medians: Sequence[float]) -> float:
        """Return the standard deviation of the rounds of one figure, drawn towards the usual one.

        Of three rounds it is itself uncertain by a factor of two. The logarithm is weighted by what it says against
        what the other figures say (empirical Bayes): of more rounds it says more.
        """
        estimate, uncertainty = _log_deviation(medians)
        own = self.variance / (self.variance + uncertainty)
        return exp(self.mean + own * (estimate - self.mean))


ON_AN_H100 = Usual(log(0.1), 1.0)
"""What is usual where too few figures of a bench show it."""


def usual_by_unit(rounds_of_figures: Iterable[Sequence[Measured]]) -> dict[str, Usual]:
    """Return how much rounds usually differ, by unit; it leaves out a unit of which too few figures show it."""
    deviations: dict[str, list[tuple[float, float]]] = {}
    for rounds in rounds_of_figures:
        medians = [measured.median for measured in rounds]
        if rounds[0].unit in TIMES_AND_RATES and _differ(medians):
            deviations.setdefault(rounds[0].unit, []).append(_log_deviation(medians))
    return {
        unit: _usual(*zip(*of_unit, strict=True))
        for unit, of_unit in deviations.items()
        if len(of_unit) >= POOLED_FROM_FIGURES
    }


def _usual(estimates: Sequence[float], uncertainties: Sequence[float]) -> Usual:
    return Usual(median(estimates), max(LEAST_VARIANCE, variance(estimates) - mean(uncertainties)))


def of_rounds(rounds: Sequence[Measured], usual: Mapping[str, Usual]) -> Measured:
    """Return what several rounds measured of a figure; `usual` is how much the rounds of this bench differ, by unit."""
    middle = median(measured.median for measured in rounds)
    lows, highs = sorted(measured.low for measured in rounds), sorted(measured.high for measured in rounds)
    if rounds[0].unit in TIMES_AND_RATES and len(rounds) > 1:
        medians = [measured.median for measured in rounds]
        reach = POOLED_REACH[min(len(rounds), max(POOLED_REACH))]
        pooled = usual.get(rounds[0].unit, ON_AN_H100).pooled
        factor = exp(reach * pooled(medians)) if _differ(medians) else 1.0
        left_out = int(_leaves_out(len(rounds)))
        lows = [min(lows[left_out], middle / factor)]
        highs = [max(highs[-1 - left_out], middle * factor)]
    middle, low, high = (float(f"{value:.{DIGITS}g}") for value in (middle, lows[0], highs[-1]))
    runs = sum(measured.runs for measured in rounds)
    return structs.replace(rounds[0], median=middle, low=low, high=high, runs=runs)


def _leaves_out(rounds: int) -> bool:
    """Return whether the lowest and the highest of several rounds are left out.

    If one round in five is disturbed, three of five are so in 6 % of benches, and two of four in 18 %: of four rounds,
    a disturbed one has to widen the spread.
    """
    return rounds >= ROUNDS_WITHOUT_EXTREMES


def _differ(medians: Sequence[float]) -> bool:
    """Return whether the rounds differ at all."""
    return len(medians) > 1 and min(medians) > 0 and _deviation(medians) > 0


def _deviation(medians: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms, without the lowest and the highest of five rounds or more."""
    logarithms = sorted(map(log, medians))
    return stdev(logarithms[1:-1] if _leaves_out(len(medians)) else logarithms)


def _log_deviation(medians: Sequence[float]) -> tuple[float, float]:
    """Return the logarithm of the standard deviation of the medians, without bias, and its variance."""
    bias, uncertainty = LOG_DEVIATION[min(len(medians), max(LOG_DEVIATION))]
    return log(_deviation(medians)) - bias, uncertainty


class Bar(Struct, frozen=True):
    """Something that ran."""

    row: Annotated[str, doc("`host` for its calls, `stalls` for its waits, or the stream")]
    name: Annotated[
        str,
        doc(
            "what it is: `copy`, `launch` or `wait` of the host, the cause of a stall, `kernel`, `exposed copy` or "
            "`overlapped copy`; in older results a whole `copy`"
        ),
    ]
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
    seconds: Annotated[Seconds, doc("how long it took")]
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
        """The link that the driver reports; None if it does not, or reports one that is not known."""
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
    return {"%": "{:.0f} %", "times": "{:.3g} times"}.get(unit, "{:.4g}").format(value)


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


STRING_OR_OBJECT = re.compile(r'"(?:[^"\\]|\\.)*"|\{')


def by_line(document: object) -> str:
    """Return compact JSON in which each object, as a figure or a bar, begins a line."""
    compact = msgspec.json.encode(document).decode()
    return STRING_OR_OBJECT.sub(lambda match: "\n{" if match[0] == "{" else match[0], compact).removeprefix("\n")


def from_json(text: bytes, name: str) -> Bench:
    """Return the results in a file's text; `name` is the file, for the error. Raises BenchError."""
    try:
        return msgspec.json.decode(text, type=Bench)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BenchError(f"{name}: is not a result of pinprof bench ({error})") from error


def recorded() -> Bench:
    """Return the recorded bench of an H100. Raises BenchError if this installation lacks the file."""
    file = next((file for file in BENCH_FILES if file.is_file()), None)
    if file is None:
        raise BenchError(f"{BENCH_FILES[0]}: the recorded bench of an H100 is missing; install pinprof again")
    return from_json(file.read_bytes(), str(file))
