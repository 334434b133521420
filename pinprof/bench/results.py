"""What the experiments measured on a machine, and its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from statistics import median, stdev
from typing import Literal

import msgspec

from pinprof.errors import PinprofError
from pinprof.links import Link, pcie

SCHEMA: Literal["pinprof.bench/1"] = "pinprof.bench/1"


class BenchError(PinprofError):
    """A file is not a result of `pinprof bench`."""


@dataclass(frozen=True)
class Figure:
    """One thing that was measured: its median, and its spread from `low` to `high`.

    It is measured in rounds spread over the bench, each a process of its own: some of what it depends on, as the place
    of its memory, stays for the life of a process. The median is that of the rounds' medians. `low` is the 10th
    percentile of the runs of the lowest round, `high` the 90th of the highest: one run that is far out widens nothing.
    For a time or a rate both reach at least to where, judged by how much the rounds differ, the median of another bench
    would lie in nine of ten cases; of five rounds or more, the lowest and the highest are left out of the spread: one
    that was disturbed widens nothing. With `--quick` there is one round, whose spread shows less.
    """

    name: str
    """What was measured; the same on every machine."""
    unit: str
    """`ms`, `GB/s`, `%`, `times`, `wrong` (values, in `runs` tries), `waits` and `calls` (in a step), `yes` (0, 1)."""
    median: float
    low: float
    high: float
    runs: int
    """Of all rounds; for `wrong` the tries."""
    size: int | None = None
    """Where one thing was measured at several sizes: bytes of a copy, or number of workers."""


NINE_OF_TEN = {2: 6.314, 3: 2.920, 4: 2.353}
"""Student's t by number of rounds, with one degree of freedom less: 90 % lie between -t and t."""
OF_THE_MIDDLE = {5: 4.85, 6: 2.97, 7: 2.40, 8: 1.94}
"""By number of rounds: within how many standard deviations of all but the lowest and the highest the median of as many
others lies in 93 of 100 cases, as a million draws of normal numbers say. It does so within the t of three rounds."""
TIMES_AND_RATES = {"ms", "GB/s"}


def of_rounds(rounds: Sequence[Figure]) -> Figure:
    """Return one figure of those that several rounds gave for the same thing."""
    if len(rounds) == 1:
        return rounds[0]
    middle = median(each.median for each in rounds)
    runs = sum(each.runs for each in rounds)
    lows, highs = sorted(each.low for each in rounds), sorted(each.high for each in rounds)
    if rounds[0].unit not in TIMES_AND_RATES:
        return replace(rounds[0], median=middle, low=lows[0], high=highs[-1], runs=runs)
    apart = _apart([each.median for each in rounds])
    left_out = 1 if _leaves_out(len(rounds)) else 0
    return replace(
        rounds[0],
        median=middle,
        low=min(lows[left_out], middle / apart),
        high=max(highs[-1 - left_out], middle * apart),
        runs=runs,
    )


def _leaves_out(count: int) -> bool:
    """Return whether so many rounds have a middle without the lowest and the highest.

    Where one round in five is disturbed, three of five are in 6 % of benches: another bench's median is not. Of fewer
    rounds, two in four are in 18 %: there the disturbed one belongs to what may come.
    """
    return count >= min(OF_THE_MIDDLE)


def _apart(medians: Sequence[float]) -> float:
    """Return the factor within which the median of another bench lies from that of these in nine of ten cases.

    Of a few rounds it is the prediction interval of one more value of a normal distribution, of the logarithms:
    `t s sqrt(1 + 1/n)`. Of more, it is made of their middle, so that one round that was disturbed does not widen it.
    """
    count = len(medians)
    if min(medians) <= 0:
        return 1.0
    logarithms = sorted(map(log, medians))
    if not _leaves_out(count):
        return exp(NINE_OF_TEN[count] * stdev(logarithms) * sqrt(1 + 1 / count))
    return exp(OF_THE_MIDDLE.get(count, OF_THE_MIDDLE[max(OF_THE_MIDDLE)]) * stdev(logarithms[1:-1]))


@dataclass(frozen=True)
class Bar:
    """Something that ran, for a picture; times in ms from the beginning of the step."""

    row: str
    """`host` (its calls), `stalls` (its waits), or the stream."""
    name: str
    """`copy`, `launch` or `wait` of the host, the cause of a stall; of a stream `kernel`, `exposed copy` or `overlapped
    copy`, in older results a whole `copy`."""
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class Picture:
    """One step of a case as its trace shows it."""

    case: str
    bars: Sequence[Bar]
    why: str = ""
    """What the report on the trace says about its copies."""
    step_ms: float | None = None
    """How long the step is, if it has so many bars that they are of its beginning alone."""


@dataclass(frozen=True)
class Result:
    """What one experiment gave."""

    number: str
    """`E1` to `E15`."""
    sizes: Mapping[str, int]
    """The options it ran with."""
    figures: Sequence[Figure]
    seconds: float
    """How long it took in all."""
    pictures: Sequence[Picture] = ()
    problem: str | None = None
    """Why it has no figures, or not all of them."""

    def figure(self, name: str, size: int | None = None) -> Figure | None:
        """Return the figure of this name, None if it was not measured."""
        return next((each for each in self.figures if each.name == name and each.size == size), None)


@dataclass(frozen=True)
class Machine:
    """Where it was measured; None is unknown."""

    gpu: str
    driver: str | None
    cuda: str | None
    torch: str
    python: str
    cpu: str | None
    cores: int
    pcie_generation: int | None
    pcie_width: int | None

    @property
    def link(self) -> Link | None:
        """The link that the driver reports; None if it does not, or reports one that is not known."""
        return pcie(self.pcie_generation, self.pcie_width)


@dataclass(frozen=True)
class Bench:
    """The results of one machine."""

    machine: Machine
    results: Sequence[Result]
    date: str
    quick: bool
    pinprof_version: str
    schema: Literal["pinprof.bench/1"] = field(default=SCHEMA)

    def result(self, number: str) -> Result | None:
        """Return the result of an experiment, None if it did not run."""
        return next((each for each in self.results if each.number == number), None)


def to_json(bench: Bench) -> str:
    """Return the results as JSON."""
    return msgspec.json.format(msgspec.json.encode(bench), indent=1).decode()


def from_json(text: bytes, name: str) -> Bench:
    """Return the results in a file's text; `name` is the file, for the error. Raises BenchError."""
    try:
        return msgspec.json.decode(text, type=Bench)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BenchError(f"{name}: is not a result of pinprof bench ({error})") from error
