"""The figures that experiments measured on a machine, and their JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, median, stdev, variance
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pinprof.document import Count, Ms, Seconds, Words, doc, one_of
from pinprof.errors import PinprofError
from pinprof.pci_express import Link, pcie

NAME = "bench.json"
BENCH_FILES = (Path(__file__).parent / NAME, Path(__file__).parents[2] / "traces" / NAME)
"""The places of the bench of an H100 that comes with pinprof: in an installed package, and in a checkout."""


class BenchError(PinprofError):
    """A file is not a result of `pinprof bench`."""


class Figure(Struct, frozen=True):
    """One thing that was measured: its median, and its spread from `low` to `high`.

    It is measured in rounds spread over the bench, each in a process of its own: some conditions, such as the place of
    its memory, last for the life of a process. The median is that of the rounds' medians. `low` is the 10th percentile
    of the runs of the lowest round, `high` the 90th of the highest, so that a single outlier does not widen the spread.
    Of five rounds or more, the lowest and the highest are left out, so that a disturbed round does not widen it either.

    The spread of a time or a rate holds the median of another bench in nine of ten cases, judged by how much the rounds
    of this figure and of the bench's other figures differ. The spread of a single round, as with `--quick`, holds less.
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


NINE_OF_TEN = {2: 6.314, 3: 2.920, 4: 2.353}
"""Student's t by number of rounds, with one degree of freedom less: 90 % lie between -t and t."""
OF_THE_MIDDLE = {5: 4.85, 6: 2.97, 7: 2.40, 8: 1.94}
"""By number of rounds: a multiple of the standard deviation of all rounds but the lowest and the highest. The median of
as many other rounds lies within it in 93 of 100 cases, by a million draws of normal numbers."""
LOG_DEVIATION = {
    2: (-0.634, 1.234),
    3: (-0.289, 0.412),
    4: (-0.186, 0.234),
    5: (-0.854, 0.488),
    6: (-0.666, 0.274),
    7: (-0.560, 0.187),
    8: (-0.490, 0.141),
}
"""By number of rounds: mean and variance of the logarithm of that standard deviation, where the true one is 1."""
POOLED_FROM = 10
"""Fewer figures of one unit do not show how much the rounds of a figure usually differ."""
POOLED_REACH = {2: 2.3, 3: 2.0, 4: 1.9, 5: 1.9, 6: 1.7, 7: 1.6}
"""By number of rounds: the multiple of the pooled standard deviation within which the median of another bench lies.

It does so in nine of ten simulated pairs of benches (with two rounds in 86 %): rounds differ as on an H100 (by 4 % to
27 % in two of three figures), one in ten of them is disturbed, and all those of a bench are off by a third of that.
"""
LEAST_VARIANCE = 0.5
"""The least variance of the logarithms of true standard deviations: figures always differ in how much they scatter."""
TIMES_AND_RATES = {"ms", "GB/s"}
DIGITS = 7
"""Significant digits of stored values."""


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


def usual_by_unit(figures: Iterable[Sequence[Figure]]) -> dict[str, Usual]:
    """Return how much rounds usually differ, by unit, given the rounds of all figures of a bench.

    It leaves out a unit if too few of its figures have rounds that differ.
    """
    deviations: dict[str, list[tuple[float, float]]] = {}
    for rounds in figures:
        medians = [figure.median for figure in rounds]
        if rounds[0].unit in TIMES_AND_RATES and _differ(medians):
            deviations.setdefault(rounds[0].unit, []).append(_log_deviation(medians))
    return {
        unit: _usual(*zip(*of_unit, strict=True)) for unit, of_unit in deviations.items() if len(of_unit) >= POOLED_FROM
    }


def _usual(estimates: Sequence[float], uncertainties: Sequence[float]) -> Usual:
    return Usual(median(estimates), max(LEAST_VARIANCE, variance(estimates) - mean(uncertainties)))


def of_rounds(rounds: Sequence[Figure], usual: Usual | None = None) -> Figure:
    """Return one figure from those of several rounds.

    `usual` says how much rounds differ in this bench, if enough figures show it.
    """
    if len(rounds) == 1:
        return rounds[0]
    middle = median(figure.median for figure in rounds)
    runs = sum(figure.runs for figure in rounds)
    lows, highs = sorted(figure.low for figure in rounds), sorted(figure.high for figure in rounds)
    if rounds[0].unit not in TIMES_AND_RATES:
        return replace(rounds[0], median=middle, low=lows[0], high=highs[-1], runs=runs)
    factor = _factor_of_another([figure.median for figure in rounds], usual)
    left_out = 1 if _leaves_out(len(rounds)) else 0
    return replace(
        rounds[0],
        median=middle,
        low=min(lows[left_out], middle / factor),
        high=max(highs[-1 - left_out], middle * factor),
        runs=runs,
    )


def shortened(figure: Figure) -> Figure:
    """Return a figure without the digits that no clock gives."""
    middle, low, high = (float(f"{value:.{DIGITS}g}") for value in (figure.median, figure.low, figure.high))
    return replace(figure, median=middle, low=low, high=high)


def _leaves_out(count: int) -> bool:
    """Return whether the lowest and the highest of `count` rounds are left out.

    If one round in five is disturbed, three of five are so in 6 % of benches, and two of four in 18 %: of four rounds,
    a disturbed one has to widen the spread.
    """
    return count >= min(OF_THE_MIDDLE)


def _factor_of_another(medians: Sequence[float], usual: Usual | None) -> float:
    """Return the factor within which the median of another bench lies from that of these in nine of ten cases.

    It is made of the pooled standard deviation where one is known. Otherwise, of a few rounds, it is the prediction
    interval of one more value of a normal distribution, of the logarithms: `t s sqrt(1 + 1/n)`.
    """
    if not _differ(medians):
        return 1.0
    if usual is not None:
        return exp(POOLED_REACH[min(len(medians), max(POOLED_REACH))] * usual.pooled(medians))
    count, deviation = len(medians), _deviation(medians)
    if _leaves_out(count):
        return exp(OF_THE_MIDDLE[min(count, max(OF_THE_MIDDLE))] * deviation)
    return exp(NINE_OF_TEN[count] * deviation * sqrt(1 + 1 / count))


def _differ(medians: Sequence[float]) -> bool:
    """Return whether the rounds differ at all."""
    return len(medians) > 1 and min(medians) > 0 and _deviation(medians) > 0


def _deviation(medians: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms.

    Of five rounds or more it leaves out the lowest and the highest, so that a disturbed round does not widen it.
    """
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
    figures: Annotated[Sequence[Figure], doc("what was measured")]
    seconds: Annotated[Seconds, doc("how long it took")]
    pictures: Annotated[Sequence[Picture], doc("steps of its cases")] = ()
    problem: Annotated[Words | None, doc("why figures are absent")] = None

    def figure(self, name: str, size: int | None = None) -> Figure | None:
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
