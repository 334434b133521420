"""Judges claims by figures: only a difference beyond the spreads of both figures confirms or refutes a claim.

A claim is a row with a predicate over quantities: a figure, or figures divided by others. `at_least` and `at_most` hold
a quantity against a limit, `in_order` and `less_at_most_sizes` two against each other; `all_of`, `each_of`, `any_of`,
`opposite` and `given` put predicates together. A figure that was not measured leaves a predicate unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from math import exp, hypot, inf, log, nextafter, prod
from typing import Annotated, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias

from msgspec import Struct

from pinprof.bench.results import LEAST, Bench, Figure, Measured, against, shown, spread
from pinprof.document import Words, doc
from pinprof.units import size

SAME_SHARE = 0.03
"""Medians that differ by less than this share are the same: two runs of a program differ by as much."""
MATTERS_SHARE = 0.1
"""A difference of this share matters: figures are the same only if their spreads exclude such a difference."""
MOST_PERCENT, BARELY_PERCENT = 50.0, 10.0
"""Percent of something: from the first value on it is most of it, up to the second hardly any."""
COUNTED = {"wrong", "yes"}
"""Units of counts and answers: a claim about them needs no limit to be understood."""
WAYS = ("HtoD", "DtoH")
PINNED_RATE = {way: Figure("E13", f"{way} pinned", "GB/s") for way in WAYS}
LARGE_BYTES = 1024**2
"""From this size on a copy shows the rate of the link; below it the time to start decides."""

ClaimOutcome = Literal["confirmed", "refuted", "depends", "unknown", "unjudged"]
"""`depends`: the claim holds in some cases, or in part; `unknown`: a figure that it needs was not measured, or has too
wide a spread; `unjudged`: no figure of one machine decides it."""
Order = Literal["less", "more", "same", "unsure"]


class ClaimJudgement(NamedTuple):
    """The outcome of a claim, and the reason."""

    outcome: ClaimOutcome
    text: str


class MissingError(Exception):
    """A figure that a judgement needs was not measured; the text says which."""


@dataclass(frozen=True)
class Ratio:
    """Some figures multiplied, divided by others."""

    over: tuple[Figure, ...]
    under: tuple[Figure, ...] = ()

    def __truediv__(self, other: "Ratio") -> "Ratio":
        return Ratio((*self.over, *other.under), (*self.under, *other.over))


def ratio(first: Figure, second: Figure) -> Ratio:
    """Return how many times as large the first figure is as the second."""
    return Ratio((first,), (second,))


@dataclass(frozen=True)
class Readings:
    """The figures of a bench for one claim; it keeps those that are asked for, to show them with the verdict."""

    bench: Bench
    asked: list[Measured] = field(default_factory=list)

    def __call__(self, quantity: Figure | Ratio) -> Measured:
        """Return what was measured. Raises MissingError."""
        if isinstance(quantity, Ratio):
            return self._divided([*map(self, quantity.over)], [*map(self, quantity.under)])
        result, wanted = self.bench.result(quantity.number), quantity.size
        if isinstance(wanted, str):
            wanted = self.by_size(quantity)[0 if wanted == LEAST else -1].size
        measured = result.figure(quantity.name, wanted) if result else None
        if measured is None:
            raise MissingError(f"not measured: {quantity.name}")
        self.keep(measured)
        return measured

    def _divided(self, over: Sequence[Measured], under: Sequence[Measured]) -> Measured:
        names = [" and ".join(map(told, side)) for side in (over, under)]
        if (divisor := prod(measured.median for measured in under)) <= 0:
            raise MissingError(f"nothing to divide by: {names[1]}")
        middle, runs = prod(each.median for each in over) / divisor, min(each.runs for each in (*over, *under))
        return Measured(" against ".join(names), "times", middle, *_quotient(over, under), runs)

    def keep(self, *figures: Measured) -> None:
        """Show these figures with the verdict."""
        self.asked.extend(measured for measured in figures if measured not in self.asked)

    def by_size(self, figure: Figure) -> Sequence[Measured]:
        """Return what was measured at each size, the smallest first. Raises MissingError."""
        if not (found := by_size(self.bench, figure)):
            raise MissingError(f"not measured: {figure.name}")
        return found

    def pairs(self, first: Figure, second: Figure, least_bytes: int = 0) -> list[tuple[Measured, Measured]]:
        """Return two figures at each size from the least on at which both were measured. Raises MissingError."""
        seconds = {measured.size: measured for measured in self.by_size(second)}
        sized = [measured for measured in self.by_size(first) if (measured.size or 0) >= least_bytes]
        found = [(measured, seconds[measured.size]) for measured in sized if measured.size in seconds]
        if not found:
            raise MissingError(f"not measured: {first.name} and {second.name} at one size")
        return found


def by_size(bench: Bench, figure: Figure) -> list[Measured]:
    """Return what was measured of a figure at several sizes, the smallest first."""
    result = bench.result(figure.number)
    named = [measured for measured in (result.figures if result else ()) if measured.name == figure.name]
    return sorted((each for each in named if each.size is not None), key=lambda each: each.size or 0)


Predicate: TypeAlias = Callable[[Readings], ClaimJudgement]
"""Says whether something holds of figures. Raises MissingError."""
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
    """Which texts say it and where: "tutorial: opening; article: pinned memory", with the names of `SOURCES`."""
    holds: Predicate
    differs: str = ""
    """Why the outcome may differ from that of the text."""
    shows: str = ""
    """The text's own evidence, besides published figures."""


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


def _quotient(over: Sequence[Measured], under: Sequence[Measured]) -> tuple[float, float]:
    """Return the product of some figures divided by that of others, at least and at most, within their spreads.

    A spread holds the median of another bench in nine of ten cases. Independent errors add by their squares: if both
    bounds have the same sign, another bench agrees in 19 of 20 cases. The most is infinite if a divisor may be zero.
    """
    if min(measured.low for measured in (*over, *under)) <= 0:
        most_under, least_under = prod(each.high for each in under), prod(each.low for each in under)
        least = prod(each.low for each in over) / most_under if most_under > 0 else inf
        return least, prod(each.high for each in over) / least_under if least_under > 0 else inf
    middle = prod(each.median for each in over) / prod(each.median for each in under)
    falls = [*(log(each.median / each.low) for each in over), *(log(each.high / each.median) for each in under)]
    rises = [*(log(each.high / each.median) for each in over), *(log(each.median / each.low) for each in under)]
    return middle * exp(-hypot(*falls)), middle * exp(hypot(*rises))


@predicate
def at_least(
    read: Readings,
    quantity: Figure | Ratio,
    limit: float,
    refuted_to: float | None = None,
    otherwise: ClaimOutcome = "depends",
) -> ClaimJudgement:
    """Say that it is at least the limit: refuted below it, or only up to `refuted_to` where something lies between.

    The whole spread decides; `otherwise` if the limit lies within it.
    """
    measured = read(quantity)
    refuted = measured.high < limit if refuted_to is None else measured.high <= refuted_to
    limits = " to ".join(dict.fromkeys(f"{each:g}" for each in (refuted_to, limit) if each is not None))
    held = "" if measured.unit in COUNTED else f"; limit {limits}"
    why = told(measured) + (f" [{spread(measured)}]" if spread(measured) else "") + held
    return decided(why, confirmed=measured.low >= limit, refuted=refuted, otherwise=otherwise)


def at_most(quantity: Figure | Ratio, limit: float, refuted_from: float | None = None) -> Predicate:
    """Say that it is at most the limit: refuted above it, or only from `refuted_from` on."""
    return opposite(at_least(quantity, refuted_from or nextafter(limit, inf), limit))


def mostly(share: Figure | Ratio, whole: float = 100.0) -> Predicate:
    """Say that this is most of the whole; refuted if it is hardly any of it."""
    return at_least(share, MOST_PERCENT * whole / 100, BARELY_PERCENT * whole / 100)


def barely(share: Figure | Ratio, whole: float = 100.0) -> Predicate:
    """Say that this is hardly any of the whole; refuted if it is most of it."""
    return at_most(share, BARELY_PERCENT * whole / 100, MOST_PERCENT * whole / 100)


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


def order(first: Measured, second: Measured) -> Order:
    """Return whether the first figure is less or more than the second.

    It is if their medians differ by more than the spreads explain. They are the `same` if their medians hardly differ
    and the spreads exclude a difference that matters. Everything else is `unsure`.
    """
    of_percent = first.unit == "%"  # in points: that 1 % is ten times 0.1 % does not matter
    whole = 100.0 if of_percent else max(abs(first.median), abs(second.median))
    middle = first.median - second.median
    if not of_percent and min(first.low, second.low) > 0:
        least, most = (bound - 1 for bound in _quotient((first,), (second,)))
    else:
        least = (middle - hypot(first.median - first.low, second.high - second.median)) / (whole or 1.0)
        most = (middle + hypot(first.high - first.median, second.median - second.low)) / (whole or 1.0)
    if abs(middle) > SAME_SHARE * whole:
        return "less" if most < 0 else "more" if least > 0 else "unsure"
    return "same" if max(most, -least) <= MATTERS_SHARE else "unsure"


@predicate
def in_order(read: Readings, first: Figure | Ratio, second: Figure | Ratio, *expected: Order) -> ClaimJudgement:
    """Say that the first figure stands in one of these orders to the second; unknown if that is unsure."""
    pair = read(first), read(second)
    relation = order(*pair)
    spreads = "; ".join(spread(measured) or "one run" for measured in pair)
    words = {"same": "no difference that matters", "unsure": f"a difference within the spread ({spreads})"}
    why = f"{against(*pair)}, {words.get(relation, 'beyond the spread')}"
    confirmed, known = relation in expected, relation != "unsure"
    return decided(why, confirmed=confirmed, refuted=known and not confirmed, otherwise="unknown")


def less(first: Figure, second: Figure) -> Predicate:
    """Say that the first figure is less than the second."""
    return in_order(first, second, "less")


@predicate
def less_at_most_sizes(read: Readings, *pairs: tuple[Figure, Figure], least_bytes: int = 0) -> ClaimJudgement:
    """Say that in each pair the first figure is less than the second, at most of the sizes, and never more.

    Sizes whose spread is too wide contradict nothing.
    """
    relations, why = [], []
    for first, second in pairs:
        sized = read.pairs(first, second, least_bytes)
        found = [order(*pair) for pair in sized]
        read.keep(*sized[-1])
        at = f"{against(*sized[-1])} at {size(sized[-1][0].size or 0)}"
        why.append(f"{at}, less beyond the spread at {found.count('less')} of {len(found)} sizes")
        relations.append(found)
    contradicted = any(relation not in {"less", "unsure"} for found in relations for relation in found)
    mostly_less = all(2 * found.count("less") > len(found) for found in relations)
    never = not any("less" in found for found in relations)
    return decided("; ".join(why), confirmed=mostly_less and not contradicted, refuted=never and contradicted)


def not_judged(why: str) -> Predicate:
    """Stand in place of a predicate: no figure of one machine decides the claim."""
    return lambda _read: ClaimJudgement("unjudged", why)


# Predicates of predicates


@predicate
def all_of(read: Readings, *parts: Predicate) -> ClaimJudgement:
    """Say that all of these hold: a claim on every case, which one case refutes."""
    outcomes, why = _judged_each(parts, read)
    otherwise: ClaimOutcome = "unknown" if "unknown" in outcomes else "depends"
    return decided(why, confirmed=outcomes == {"confirmed"}, refuted="refuted" in outcomes, otherwise=otherwise)


@predicate
def each_of(read: Readings, *parts: Predicate) -> ClaimJudgement:
    """Say that each of these holds: it depends if some do and some do not."""
    outcomes, why = _judged_each(parts, read)
    unsure = "unknown" in outcomes and not outcomes >= {"confirmed", "refuted"}
    confirmed, refuted = (outcomes == {outcome} for outcome in ("confirmed", "refuted"))
    return decided(why, confirmed=confirmed, refuted=refuted, otherwise="unknown" if unsure else "depends")


@predicate
def any_of(read: Readings, *parts: Predicate, otherwise: ClaimOutcome = "refuted") -> ClaimJudgement:
    """Say that some of these hold; `otherwise` if none does: what "can be" may be so where nobody looked."""
    outcomes, why = _judged_each(parts, read)
    none = otherwise if outcomes == {"refuted"} else "unknown" if "unknown" in outcomes else "depends"
    return decided(why, confirmed="confirmed" in outcomes, refuted=False, otherwise=none)


def _judged_each(parts: Iterable[Predicate], read: Readings) -> tuple[set[ClaimOutcome], str]:
    judgements = [judged(part, read) for part in parts]
    return {outcome for outcome, _ in judgements}, "; ".join(dict.fromkeys(text for _, text in judgements))


@predicate
def opposite(read: Readings, part: Predicate) -> ClaimJudgement:
    """Say the opposite of a predicate."""
    outcome, text = part(read)
    return decided(text, confirmed=outcome == "refuted", refuted=outcome == "confirmed", otherwise=outcome)


@predicate
def given(read: Readings, condition: Predicate, part: Predicate) -> ClaimJudgement:
    """Say something only if a condition holds; unknown otherwise."""
    holds = condition(read)
    return part(read) if holds.outcome == "confirmed" else ClaimJudgement("unknown", holds.text)
