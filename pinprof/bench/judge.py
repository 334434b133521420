"""Judges claims by figures: only a difference beyond what rounds differ by confirms or refutes a claim.

A claim is a row with a predicate over figures and ratios of them. `at_least` and `at_most` hold one against a limit,
`in_order` and `less_in_most` hold figures against each other; `all_of`, `each_of`, `any_of` and `given` put predicates
together. A figure that was not measured leaves a predicate unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from math import exp, hypot, inf, log
from typing import Annotated, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias

from msgspec import Struct

from pinprof.bench.results import AT_SMALLEST, Bench, Figure, Measured, against, shown, spread
from pinprof.document import Words, doc
from pinprof.ground.units import size

SPREAD_SHARE = 0.5
"""How much of its spread a median is uncertain by. The spread holds the median of another bench in nine of ten cases,
with the errors of both. Half of it holds what this bench would find in the long run in three of
four: a limit outside it lies on the other side in one of eight."""
SAME_SHARE = 0.03
"""Medians that differ by less than this share are the same: two runs of a program differ by as much."""
MATTERS_SHARE = 0.1
"""A difference of this share matters: figures are the same only if one so large can be excluded."""
MIN_PERCENT_OF_MOST, MAX_PERCENT_OF_HARDLY = 50.0, 10.0
"""In percent: from the first value on a part is most of the whole, up to the second hardly any."""
EXACT_UNITS = {"wrong", "yes", "waits", "calls"}
"""Units of counts and answers: nothing of them is uncertain."""
WAYS = ("HtoD", "DtoH")
PINNED_RATE = {way: Figure("E13", f"{way} pinned", "GB/s") for way in WAYS}
LARGE_BYTES = 1024**2
"""From this size on a copy shows the rate of the link; below it the time to start decides."""

ClaimOutcome = Literal["confirmed", "refuted", "depends", "unknown", "unjudged"]
"""`depends`: the claim holds in some cases, or in part; `unknown`: a figure that it needs was not measured, or differs
too much from round to round; `unjudged`: no figure of one machine decides it."""
Order = Literal["less", "more", "same", "unsure"]


class ClaimJudgement(NamedTuple):
    """The outcome of a claim, and the reason."""

    outcome: ClaimOutcome
    text: str


class MissingError(Exception):
    """A figure that a judgement needs was not measured; the text says which."""


class Ratio(NamedTuple):
    """How many times as large the first figure is as the second."""

    first: Figure
    second: Figure


FigureOrRatio: TypeAlias = Figure | Ratio


@dataclass(frozen=True)
class Readings:
    """The figures of a bench for one claim; it keeps those that are asked for, to show them with the verdict."""

    bench: Bench
    cited: list[Measured] = field(default_factory=list)

    def __call__(self, quantity: FigureOrRatio) -> Measured:
        """Return what was measured. Raises MissingError."""
        if isinstance(quantity, Ratio):
            first, second = map(self, quantity)
            if second.median <= 0:
                raise MissingError(f"nothing to divide by: {told(second)}")
            name, runs = f"{told(first)} against {told(second)}", min(first.runs, second.runs)
            return Measured(name, "times", first.median / second.median, *_quotient(first, second), runs)
        wanted = quantity.size
        if isinstance(wanted, str):
            wanted = self.by_size(quantity)[0 if wanted == AT_SMALLEST else -1].size
        if (measured := self.bench.figure(quantity, wanted)) is None:
            raise MissingError(f"not measured: {quantity.name}")
        self.cite(measured)
        return measured

    def cite(self, *figures: Measured) -> None:
        """Show these figures with the verdict."""
        self.cited.extend(measured for measured in figures if measured not in self.cited)

    def by_size(self, figure: Figure) -> Sequence[Measured]:
        """Return what was measured at each size, the smallest first. Raises MissingError."""
        if not (found := by_size(self.bench, figure)):
            raise MissingError(f"not measured: {figure.name}")
        return found

    def pairs(self, first: Figure, second: Figure, least_bytes: int = 0) -> list[tuple[Measured, Measured]]:
        """Return two figures, at each size from the least on at which both were measured. Raises MissingError."""
        if not by_size(self.bench, first):
            return [(self(first), self(second))]
        seconds = {measured.size: measured for measured in self.by_size(second)}
        sized = [measured for measured in self.by_size(first) if (measured.size or 0) >= least_bytes]
        if not (found := [(measured, seconds[measured.size]) for measured in sized if measured.size in seconds]):
            raise MissingError(f"not measured: {first.name} and {second.name} at one size")
        return found


def by_size(bench: Bench, figure: Figure) -> list[Measured]:
    """Return what was measured of a figure at several sizes, the smallest first."""
    result = bench.result(figure.number)
    named = [measured for measured in (result.figures if result else ()) if measured.name == figure.name]
    return sorted((each for each in named if each.size is not None), key=lambda each: each.size or 0)


Predicate: TypeAlias = Callable[[Readings], ClaimJudgement]
Claimed = ParamSpec("Claimed")


def predicate(judge: Callable[Concatenate[Readings, Claimed], ClaimJudgement]) -> Callable[Claimed, Predicate]:
    """Let a function of readings and more be called without the readings: it then returns a predicate."""

    @wraps(judge)
    def of(*arguments: Claimed.args, **options: Claimed.kwargs) -> Predicate:
        return lambda read: judge(read, *arguments, **options)

    return of


def judged(claimed: Predicate, read: Readings) -> ClaimJudgement:
    """Return whether a predicate holds; unknown where a figure is missing."""
    try:
        return claimed(read)
    except MissingError as error:
        return ClaimJudgement("unknown", str(error))


def decided(why: str, *, confirmed: bool, refuted: bool, otherwise: ClaimOutcome = "depends") -> ClaimJudgement:
    """Return a judgement; `otherwise` where figures neither confirm nor refute the claim."""
    return ClaimJudgement("confirmed" if confirmed else "refuted" if refuted else otherwise, why)


@dataclass(frozen=True)
class Claim:
    """One statement of a text, in other words."""

    text: str
    sources: str
    """Which of `TEXTS_WITH_CLAIMS` say it and where: "tutorial: opening; article: pinned memory"."""
    holds: Predicate
    differs: str = ""
    """Why the outcome may differ from that of the text."""
    shows: str = ""


class ClaimVerdict(Struct, frozen=True):
    """What the figures of a machine say of a claim."""

    number: Annotated[str, doc("the experiment, `E1` to `E15`")]
    claim: Annotated[Words, doc("what a text says")]
    outcome: Annotated[ClaimOutcome, doc("whether it holds here; `unjudged`: no figure of one machine decides")]
    text: Annotated[Words, doc("why, with figures")]
    sources: Annotated[tuple[str, ...], doc("who says it and where: `tutorial: opening`")]
    published: Annotated[Words, doc("what was published, figures first; empty where nothing was")]
    measured: Annotated[Words, doc("the figures that decide, with their spreads; empty where none was measured")]
    differs: Annotated[Words, doc("what the outcome turns on; empty where it is confirmed")]


# A quantity against a limit


def told(measured: Measured) -> str:
    """Return a figure with its name, or what its division gives."""
    if measured.unit == "times" and " against " in measured.name:
        return f"{shown(measured)} as much: {measured.name}"
    if measured.unit == "yes":
        return f"{measured.name}: {shown(measured)}{'' if measured.low == measured.high else ', not in all runs'}"
    return f"{shown(measured)} ({measured.name}{f' at {size(measured.size)}' if measured.size else ''})"


def bounds(measured: Measured, share: float = SPREAD_SHARE) -> tuple[float, float]:
    """Return between which values a median may lie: within half of its spread, by factors if that is above zero."""
    middle, share = measured.median, 1.0 if measured.unit in EXACT_UNITS else share
    if measured.low > 0:
        return middle * (measured.low / middle) ** share, middle * (measured.high / middle) ** share
    return middle - share * (middle - measured.low), middle + share * (measured.high - middle)


def _quotient(over: Measured, under: Measured) -> tuple[float, float]:
    """Return the spread of a ratio, infinite if its divisor may be zero. Independent errors add by their squares."""
    if min(over.low, under.low) <= 0:
        return over.low / under.high, over.high / under.low if under.low > 0 else inf
    middle = over.median / under.median
    fall = hypot(log(over.median / over.low), log(under.high / under.median))
    return middle * exp(-fall), middle * exp(hypot(log(over.high / over.median), log(under.median / under.low)))


@predicate
def at_least(
    read: Readings,
    quantity: FigureOrRatio,
    limit: float,
    below: float | None = None,
    otherwise: ClaimOutcome = "depends",
) -> ClaimJudgement:
    """Say that it is at least the limit: refuted below it, or only up to `below`; `otherwise` if it may be either."""
    low, high = bounds(measured := read(quantity))
    refuted = high < limit if below is None else high <= below
    return decided(_held(measured, below, limit), confirmed=low >= limit, refuted=refuted, otherwise=otherwise)


@predicate
def at_most(read: Readings, quantity: FigureOrRatio, limit: float, above: float | None = None) -> ClaimJudgement:
    """Say that it is at most the limit: refuted above it, or only from `above` on."""
    low, high = bounds(measured := read(quantity))
    refuted = low > limit if above is None else low >= above
    return decided(_held(measured, limit, above), confirmed=high <= limit, refuted=refuted)


def _held(measured: Measured, *limits: float | None) -> str:
    held = " to ".join(f"{limit:g}" for limit in limits if limit is not None)
    within = f" [{spread(measured)}]" if spread(measured) else ""
    return told(measured) + within + ("" if measured.unit in {"wrong", "yes"} else f"; limit {held}")


def mostly(share: Figure) -> Predicate:
    """Say that this is most of the whole; refuted if it is hardly any of it."""
    return at_least(share, MIN_PERCENT_OF_MOST, MAX_PERCENT_OF_HARDLY)


def barely(share: Figure) -> Predicate:
    """Say that this is hardly any of the whole; refuted if it is most of it."""
    return at_most(share, MAX_PERCENT_OF_HARDLY, MIN_PERCENT_OF_MOST)


def yes(*counts: Figure) -> Predicate:
    """Say that each answer is yes, or that something happens in every step."""
    return all_of(*(at_least(count, 1) for count in counts))


def no(*counts: Figure) -> Predicate:
    """Say that each answer is no, or that nothing is wrong."""
    return all_of(*(at_most(count, 0) for count in counts))


def wrong(count: Figure) -> Predicate:
    """Say that values are wrong; without a wrong value here it depends, as some may be wrong elsewhere."""
    return any_of(at_least(count, 1), otherwise="depends")


# Two figures in order


def order(first: Measured, second: Measured, share: float = SPREAD_SHARE) -> Order:
    """Return whether the first figure is less or more than the second: by more than is uncertain.

    They are the `same` if their medians hardly differ and a difference that matters can be excluded; everything else is
    `unsure`. Percents are compared in points: that 1 % is ten times 0.1 % does not matter.
    """
    (low, high), (other_low, other_high) = bounds(first, share), bounds(second, share)
    whole = 100.0 if first.unit == "%" else max(abs(first.median), abs(second.median))
    middle = first.median - second.median
    least = middle - hypot(first.median - low, other_high - second.median)
    most = middle + hypot(high - first.median, second.median - other_low)
    if abs(middle) > SAME_SHARE * whole:
        return "less" if most < 0 else "more" if least > 0 else "unsure"
    return "same" if max(most, -least) <= MATTERS_SHARE * whole else "unsure"


def _compared(first: Measured, second: Measured) -> str:
    spreads = "; ".join(spread(measured) or "one run" for measured in (first, second))
    unsure = f"a difference within what rounds differ by ({spreads})"
    words = {"same": "no difference that matters", "unsure": unsure}
    return f"{against(first, second)}, {words.get(order(first, second), 'beyond what rounds differ by')}"


@predicate
def in_order(read: Readings, first: Figure, second: Figure, *expected: Order) -> ClaimJudgement:
    """Say that the first figure stands in one of these orders to the second; unknown if that is unsure."""
    pair = read(first), read(second)
    confirmed, known = order(*pair) in expected, order(*pair) != "unsure"
    return decided(_compared(*pair), confirmed=confirmed, refuted=known and not confirmed, otherwise="unknown")


def less(first: Figure, second: Figure) -> Predicate:
    """Say that the first figure is less than the second."""
    return in_order(first, second, "less")


@predicate
def less_in_most(read: Readings, *pairs: tuple[Figure, Figure], least_bytes: int = 0) -> ClaimJudgement:
    """Say that of each pair the first figure is less, in most pairs and sizes, and more in none: one refutes it.

    Where it may be either, nothing is contradicted: between two of the best, two benches differ.
    """
    relations, why = [], []
    for first, second in pairs:
        sized = read.pairs(first, second, least_bytes)
        found = [order(*pair) for pair in sized]
        read.cite(*sized[-1])
        last = sized[-1][0].size
        at = f" at {size(last)}; less at {found.count('less')} of {len(found)} sizes" if last else ""
        why.append(_compared(*sized[-1]) + at)
        relations += found
    confirmed = "more" not in relations and 2 * relations.count("less") > len(relations)
    return decided("; ".join(why), confirmed=confirmed, refuted="more" in relations)


# Predicates of predicates


@predicate
def all_of(read: Readings, *parts: Predicate) -> ClaimJudgement:
    """Say that all of these hold: a claim on every case, which one case refutes."""
    outcomes, why = _judged_each(parts, read)
    otherwise: ClaimOutcome = "unknown" if "unknown" in outcomes else "depends"
    return decided(why, confirmed=outcomes == {"confirmed"}, refuted="refuted" in outcomes, otherwise=otherwise)


@predicate
def each_of(read: Readings, *parts: Predicate) -> ClaimJudgement:
    """Say that each of these holds: it depends if some do, and others do not or may not. Raises MissingError."""
    outcomes, texts = zip(*(part(read) for part in parts), strict=True)
    confirmed, refuted, unknown = ({*outcomes} == {outcome} for outcome in ("confirmed", "refuted", "unknown"))
    otherwise: ClaimOutcome = "unknown" if unknown else "depends"
    return decided("; ".join(texts), confirmed=confirmed, refuted=refuted, otherwise=otherwise)


@predicate
def any_of(read: Readings, *parts: Predicate, otherwise: ClaimOutcome = "refuted") -> ClaimJudgement:
    """Say that some of these hold; `otherwise` if none does: what "can be" may hold in a case that was not tried."""
    outcomes, why = _judged_each(parts, read)
    none = otherwise if outcomes == {"refuted"} else "unknown" if "unknown" in outcomes else "depends"
    return decided(why, confirmed="confirmed" in outcomes, refuted=False, otherwise=none)


def _judged_each(parts: Iterable[Predicate], read: Readings) -> tuple[set[ClaimOutcome], str]:
    judgements = [judged(part, read) for part in parts]
    return {outcome for outcome, _ in judgements}, "; ".join(dict.fromkeys(text for _, text in judgements))


@predicate
def given(read: Readings, condition: Predicate, part: Predicate) -> ClaimJudgement:
    """Say something only if a condition holds; unknown otherwise."""
    holds = condition(read)
    return part(read) if holds.outcome == "confirmed" else ClaimJudgement("unknown", holds.text)
