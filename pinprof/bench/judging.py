"""Judges claims by figures: only a difference beyond the spreads of both figures confirms or refutes a claim."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pinprof.bench.figures import MATTERS, SAME, Order, alike, by_size, order, shown, spread, times, usable, why_refused
from pinprof.bench.results import Bench, Figure
from pinprof.units import counted

HIDDEN, BARELY = 50.0, 10.0
"""Percent of the copy time under kernels: from the first value on copies overlap, up to the second they do not."""
MOSTLY = 0.5
"""A larger share is "most" of something."""
TWICE = 2.0
GAIN = "times as fast in turn, "
"""The beginning of a figure's name: how many times as fast one way is as another that ran in turn with it."""
FEW = 0.1
"""Waits of at most this share of the others do not count."""

ClaimOutcome = Literal["confirmed", "refuted", "depends", "unknown", "unjudged"]
"""`depends`: the claim holds in some cases, or in part; `unknown`: a figure that it needs was not measured, or has too
wide a spread; `unjudged`: no figure of one machine decides it."""


class ClaimJudgement(NamedTuple):
    """The outcome of a claim, and the reason."""

    outcome: ClaimOutcome
    text: str


def decide(why: str, *, confirmed: bool, refuted: bool) -> ClaimJudgement:
    """Return a judgement; `depends` where figures neither confirm nor refute the claim."""
    return ClaimJudgement("confirmed" if confirmed else "refuted" if refuted else "depends", why)


@dataclass(frozen=True)
class NotJudged:
    """Stands in place of a judge: why no figure of one machine decides the claim."""

    why: str


class MissingError(Exception):
    """A figure that a judgement needs was not measured."""


class RefusedError(Exception):
    """A figure that a judgement needs is not usable; the text is why."""


@dataclass(frozen=True)
class Measured:
    """The figures of a bench for one claim; it keeps those that are asked for, to show them with the verdict."""

    bench: Bench
    number: str
    """The experiment of the claim."""
    asked: list[Figure] = field(default_factory=list)
    refused: list[Figure] = field(default_factory=list)
    """Figures that were asked for and are not usable."""

    def __call__(self, name: str, size: int | None = None) -> Figure:
        """Return a figure. Raises MissingError, or RefusedError."""
        figure = self.maybe(name, size)
        if figure is None:
            raise MissingError(name)
        return figure

    def at(self, name: str, size: int | None) -> Figure:
        """Return a figure at one size without keeping it to be shown. Raises MissingError."""
        for figure in self.by_size(name):
            if figure.size == size:
                return figure
        raise MissingError(name)

    def maybe(self, name: str, size: int | None = None) -> Figure | None:
        """Return a figure, or None if it was not measured. Raises RefusedError."""
        result = self.bench.result(self.number)
        figure = result.figure(name, size) if result else None
        if figure is not None and (reason := why_refused(self.bench, figure)):
            raise RefusedError(reason)
        if figure is not None and figure not in self.asked:
            self.asked.append(figure)
        return figure

    def all(self, *names: str) -> list[Figure]:
        """Return several figures. Raises MissingError, or RefusedError."""
        return [self(name) for name in names]

    def sizes(self, *names: str) -> dict[str, int]:
        """Return sizes that the experiment ran with. Raises MissingError."""
        result = self.bench.result(self.number)
        ran_with = result.sizes if result else {}
        for name in names:
            if name not in ran_with:
                raise MissingError(f"size {name}")
        return {name: ran_with[name] for name in names}

    def by_size(self, name: str) -> Sequence[Figure]:
        """Return a figure at all its sizes, the smallest first. Raises MissingError."""
        result = self.bench.result(self.number)
        figures = by_size(result, name) if result else []
        if not figures:
            raise MissingError(name)
        return figures

    def usable(self, name: str) -> Sequence[Figure]:
        """Return a figure at all sizes at which it is usable. Raises MissingError, or RefusedError if at none."""
        figures = self.by_size(name)
        used = usable(self.bench, figures)
        if not used:
            raise RefusedError(why_refused(self.bench, figures[-1]))
        self.leave_out(figure for figure in figures if figure not in used)
        return used

    def leave_out(self, figures: Iterable[Figure]) -> None:
        """Keep figures that are not usable, so that the verdict mentions them."""
        self.refused.extend(figure for figure in figures if figure not in self.refused)

    def of(self, number: str) -> "Measured":
        """Return the figures of another experiment; those that are asked for are kept here."""
        return Measured(self.bench, number, self.asked, self.refused)


Judge = Callable[[Measured], ClaimJudgement]


def judged(measured: Measured, judge: Judge | NotJudged) -> ClaimJudgement:
    """Return the judgement of a claim; `unknown` if a figure that it needs was not measured, or is not usable."""
    if isinstance(judge, NotJudged):
        return ClaimJudgement("unjudged", judge.why)
    result = measured.bench.result(measured.number)
    if result is None:
        return ClaimJudgement("unknown", "the experiment did not run")
    try:
        outcome, why = judge(measured)
    except MissingError as error:
        reason = f" ({result.problem})" if result.problem else ""
        return ClaimJudgement("unknown", f"not measured: {error}{reason}")
    except RefusedError as error:
        return ClaimJudgement("unknown", str(error))
    return ClaimJudgement(outcome, why + _left_out(measured.refused))


def _left_out(figures: Sequence[Figure]) -> str:
    """Return a clause on figures that were left out because their rounds differ too much; empty without any."""
    rates = counted(len(figures), "rate")
    return f"; {rates} of other sizes left out, as their rounds differ too much" if figures else ""


# Judges that several claims share


def less(first: str, second: str) -> Judge:
    """Judge the claim that the first takes less than the second."""
    return lambda measured: ordered(measured(first), measured(second), "less")


def faster(first: str, second: str) -> Judge:
    """Judge the claim that the first way is faster than the second: by runs in turn if they were measured.

    A slow phase of the machine affects both runs in turn. The claim is confirmed if the first is faster in every round,
    by more than two runs of a program differ, and refuted if it is so in none.
    """

    def judge(measured: Measured) -> ClaimJudgement:
        gain, alone = measured.maybe(f"{GAIN}{first}"), less(first, second)(measured)
        if gain is None:
            return alone
        why = f"{shown(gain)} as fast where both run in turn ({spread(gain) or 'one run'}); each alone {alone.text}"
        return above(gain, 1 + SAME, why)

    return judge


def above(figure: Figure, limit: float, why: str) -> ClaimJudgement:
    """Judge the claim that a figure is above a limit; unknown if the limit lies within its spread."""
    if figure.low <= limit < figure.high:
        return ClaimJudgement("unknown", why)
    return decide(why, confirmed=figure.low > limit, refuted=figure.high <= limit)


def not_less(first: str, second: str) -> Judge:
    """Judge the claim that the first does not take less than the second by a difference that matters."""
    return lambda measured: _not_less(measured(first), measured(second))


def _not_less(first: Figure, second: Figure) -> ClaimJudgement:
    relation = order(first, second)
    at_least = first.low >= (1 - MATTERS) * second.high
    confirmed = relation in {"more", "same"} or (relation == "unsure" and at_least)
    return decide(against(first, second), confirmed=confirmed, refuted=relation == "less")


def more(first: str, second: str) -> Judge:
    """Judge the claim that the first is more than the second."""
    return lambda measured: ordered(measured(first), measured(second), "more")


def ordered(first: Figure, second: Figure, *expected: Order) -> ClaimJudgement:
    """Judge the claim that the first figure stands in one of these orders to the second."""
    relation = order(first, second)
    if relation == "unsure":
        return ClaimJudgement("unknown", against(first, second))
    return decide(against(first, second), confirmed=relation in expected, refuted=relation not in expected)


def all_less(*pairs: tuple[str, str]) -> Judge:
    """Judge the claim that in each pair the first takes less than the second."""
    return lambda measured: each_less([(measured(first), measured(second)) for first, second in pairs])


def each_less(pairs: Sequence[tuple[Figure, Figure]]) -> ClaimJudgement:
    """Judge the claim that in each pair the first takes less: it depends if only some do; unknown if one may."""
    relations = {order(*pair) for pair in pairs}
    why = "; ".join(against(*pair) for pair in pairs)
    if "unsure" in relations and not ("less" in relations and relations & {"more", "same"}):
        return ClaimJudgement("unknown", why)
    return decide(why, confirmed=relations <= {"less"}, refuted=relations <= {"more", "same"})


def extreme(name: str, others: Sequence[str], expected: Order) -> Judge:
    """Judge the claim that a strategy takes less, or more, than all others."""
    return lambda measured: _extreme(
        measured(name), measured.all(*(other for other in others if other != name)), expected
    )


def _extreme(chosen: Figure, others: Sequence[Figure], expected: Order) -> ClaimJudgement:
    relations = [order(chosen, other) for other in others]
    top = (min if expected == "less" else max)(others, key=lambda figure: figure.median)
    why = f"{shown(chosen)}; of the others the {'best' if expected == 'less' else 'worst'} is {top.name}, {shown(top)}"
    if all(relation == expected for relation in relations):
        return ClaimJudgement("confirmed", why)
    if any(relation in {"less", "more"} and relation != expected for relation in relations):
        return ClaimJudgement("refuted", why)
    alike = [other.name for other, relation in zip(others, relations, strict=True) if relation != expected]
    outcome: ClaimOutcome = "depends" if "same" in relations else "unknown"
    return ClaimJudgement(outcome, f"{why}; no clear difference from {' and '.join(alike)}")


def hidden(name: str) -> Judge:
    """Judge the claim that copies are hidden behind kernels."""
    return lambda measured: _hidden(measured(name))


def exposed(name: str) -> Judge:
    """Judge the claim that copies are not hidden behind kernels."""
    return lambda measured: reverse(_hidden(measured(name)))


def _hidden(figure: Figure) -> ClaimJudgement:
    why = f"{shown(figure)} of the copy time is under kernels"
    return decide(why, confirmed=figure.low >= HIDDEN, refuted=figure.high <= BARELY)


def wrong(name: str) -> Judge:
    """Judge the claim that values are wrong; without a wrong value here it depends, as some may be wrong elsewhere."""

    def judge(measured: Measured) -> ClaimJudgement:
        figure = measured(name)
        if figure.median > 0:
            return ClaimJudgement("confirmed", _wrong(figure))
        return ClaimJudgement("depends", f"did not show in {figure.runs} tries on this machine; it may still happen")

    return judge


def right(*names: str) -> Judge:
    """Judge the claim that values are never wrong."""

    def judge(measured: Measured) -> ClaimJudgement:
        figures = measured.all(*names)
        bad = [figure for figure in figures if figure.median > 0]
        if bad:
            return ClaimJudgement("refuted", "; ".join(_wrong(figure) for figure in bad))
        return ClaimJudgement("confirmed", f"no wrong value in {sum(figure.runs for figure in figures)} tries")

    return judge


def _wrong(figure: Figure) -> str:
    return f"{figure.median:g} of {figure.runs} tries gave wrong values ({figure.name})"


def reverse(judgement: ClaimJudgement) -> ClaimJudgement:
    """Return the judgement of the opposite claim by the same figures."""
    opposite: dict[ClaimOutcome, ClaimOutcome] = {"confirmed": "refuted", "refuted": "confirmed"}
    return ClaimJudgement(opposite.get(judgement.outcome, judgement.outcome), judgement.text)


def answers(expected: dict[str, bool]) -> Judge:
    """Judge the claim that each question has the expected answer; if runs differ, it depends."""

    def judge(measured: Measured) -> ClaimJudgement:
        figures = {name: measured(name) for name in expected}
        why = "; ".join(f"{name}: {shown(figure)}" for name, figure in figures.items())
        if all(figure.low == figure.high == float(expected[name]) for name, figure in figures.items()):
            return ClaimJudgement("confirmed", why)
        if any(figure.low == figure.high != float(expected[name]) for name, figure in figures.items()):
            return ClaimJudgement("refuted", why)
        return ClaimJudgement("depends", f"{why}; not in all runs")

    return judge


def never_waits(*names: str) -> Judge:
    """Judge the claim that the host does not wait."""
    return lambda measured: reverse(_waits(measured.all(*names)))


def waits(*names: str) -> Judge:
    """Judge the claim that the host waits in every step."""
    return lambda measured: _waits(measured.all(*names))


def _waits(figures: Sequence[Figure]) -> ClaimJudgement:
    why = "; ".join(f"{_waits_of(figure)} ({figure.name.removeprefix('waits, ')})" for figure in figures)
    always, never = (all(figure.low >= 1 for figure in figures), all(figure.high < 1 for figure in figures))
    return decide(why, confirmed=always, refuted=never)


def _waits_of(figure: Figure) -> str:
    """Return how often the host waits: per step, or in all steps where it does not wait in each."""
    if 0 < figure.median < 1:
        return f"{counted(round(figure.median * figure.runs), 'wait')} in {figure.runs} steps"
    return f"{counted(figure.median, 'wait')} per step"


def beyond(name: str, limit: float) -> Judge:
    """Judge the claim that a figure is at least the limit."""

    def judge(measured: Measured) -> ClaimJudgement:
        figure = measured(name)
        why = f"{shown(figure)} ({spread(figure) or 'one run'})"
        return decide(why, confirmed=figure.low >= limit, refuted=figure.high < limit)

    return judge


# Figures against each other


def against(first: Figure, second: Figure) -> str:
    """Return two figures, and how the first compares with the second."""
    relation = order(first, second)
    pair = f"{shown(first)} ({first.name}) against {shown(second)} ({second.name})"
    return f"{pair}, {_relation(first, second, relation)}"


def _relation(first: Figure, second: Figure, relation: Order) -> str:
    if relation == "unsure":
        what = "the same in the middle, but not" if alike(first, second) else "a difference"
        return f"{what} within the spread ({spread(first) or 'one run'}; {spread(second) or 'one run'})"
    if relation == "same":
        return "no difference that matters"
    smaller, larger = sorted((first.median, second.median))
    words = {"less": "as fast", "more": "the time"} if first.unit == "ms" else {"less": "less", "more": "as much"}
    return f"{times(larger, smaller)} {words[relation]}"


def pairs_by_size(measured: Measured, first: str, second: str, least: int = 0) -> list[tuple[Figure, Figure]]:
    """Return two figures at each size from `least` on at which both were measured and are usable.

    Raises MissingError, or RefusedError if fewer than half of the sizes are left.
    """
    pairs = all_pairs_by_size(measured, first, second, least)
    used = [pair for pair in pairs if len(usable(measured.bench, pair)) == len(pair)]
    refused = [figure for pair in pairs if pair not in used for figure in pair if why_refused(measured.bench, figure)]
    if 2 * len(used) < len(pairs):
        raise RefusedError(why_refused(measured.bench, refused[-1]))
    measured.leave_out(refused)
    return used


def all_pairs_by_size(measured: Measured, first: str, second: str, least: int = 0) -> list[tuple[Figure, Figure]]:
    """Return two figures at each size from `least` on at which both were measured. Raises MissingError."""
    seconds = {figure.size: figure for figure in measured.by_size(second)}
    pairs = [
        (figure, seconds[figure.size])
        for figure in measured.by_size(first)
        if figure.size in seconds and (figure.size or 0) >= least
    ]
    if not pairs:
        raise MissingError(f"{first} and {second} at one size")
    return pairs
