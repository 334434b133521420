"""Each predicate with figures that confirm it, that just miss it, and that leave it open."""

from collections.abc import Sequence

import pytest
from bench_builder import BenchBuilder, count, measured, ms

from pinprof.bench import EXPERIMENTS, judge, verdicts
from pinprof.bench.results import Figure, Measured, figures

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
X, Y, Z = figures("E1", "ms", "x; y; z")


def says(holds: judge.Predicate, *found: Measured, **of_bench: Sequence[Measured]) -> judge.ClaimJudgement:
    """Return what a predicate says of figures of E1, and of other experiments."""
    bench = BenchBuilder().add("E1", *found)
    for number, others in of_bench.items():
        bench.add(number, *others)
    return judge.judged(holds, judge.Readings(bench.build()))


def about(low: float, high: float, unit: str = "ms", name: str = "x") -> Measured:
    """Return a figure that is uncertain from the low to the high value: its spread goes twice as far, by factors."""
    middle = (low * high) ** 0.5
    return measured(name, unit, middle, low * low / middle, high * high / middle)


def exact(value: float, name: str = "x", size: int | None = None) -> Measured:
    return ms(name, value, value, value, size)


def constant(outcome: judge.ClaimOutcome) -> judge.Predicate:
    return lambda _read: judge.ClaimJudgement(outcome, outcome)


CONFIRMED, REFUTED, DEPENDS, UNKNOWN = (constant(each) for each in ("confirmed", "refuted", "depends", "unknown"))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ms("x", 1.0, 0.8, 1.2), ms("y", 1.3, 1.1, 1.5), "less"),
        # The spreads reach 1.4 and 0.9, but by half of each, and both at once, it is less; by a little more it is not.
        (ms("x", 1.0, 0.8, 1.4), ms("y", 1.3, 0.9, 1.5), "less"),
        (ms("x", 1.0, 0.8, 1.5), ms("y", 1.3, 0.8, 1.5), "unsure"),
        (ms("x", 1.0, 0.96, 1.06), ms("y", 1.02, 0.98, 1.08), "same"),  # at most 7 % apart
        (ms("x", 1.0, 0.8, 1.2), ms("y", 1.0, 0.8, 1.2), "unsure"),  # 14 % apart, for all that is known
        (exact(1.0), exact(1.03), "same"),
        (exact(1.0), exact(1.05), "less"),
        (exact(0.0), exact(0.0), "same"),
        (exact(0.0), exact(1.0), "less"),
        (exact(-2.0), exact(-1.0), "less"),
        (exact(0.0), ms("y", 1.0, -1.5, 3.5), "unsure"),
        (measured("x", "%", 0, 0, 0.4), measured("y", "%", 1, 0.6, 1.4), "same"),  # in points
        (count("x", "waits", 2), count("y", "waits", 1000), "less"),
    ],
)
def test_two_figures_are_in_order_if_they_differ_by_more_than_is_uncertain(
    first: Measured, second: Measured, expected: judge.Order
) -> None:
    assert judge.order(first, second) == expected
    assert judge.order(second, first) == {"less": "more", "more": "less"}.get(expected, expected)


def test_errors_of_a_ratio_add_by_their_squares() -> None:
    """Each may be 10 % off: both together by 14 %, not by 21 %."""
    pair = about(4 / 1.1, 4.4), about(2 / 1.1, 2.2, name="y")
    assert says(judge.at_least(judge.Ratio(X, Y), 1.74), *pair).outcome == "confirmed"
    assert says(judge.at_least(judge.Ratio(X, Y), 1.76), *pair).outcome == "depends"
    text = says(judge.at_most(judge.Ratio(X, Y), 2), exact(4), exact(2, "y")).text
    assert text == "2 times as much: 4.00 ms (x) against 2.00 ms (y); limit 2"


@pytest.mark.parametrize(
    ("first", "expected", "outcome"),
    [
        (0.9, "less", "confirmed"),
        (0.98, "less", "refuted"),
        (1.1, "less", "refuted"),
        (0.98, "same", "confirmed"),
    ],
)
def test_an_order_is_the_expected_one(first: float, expected: judge.Order, outcome: judge.ClaimOutcome) -> None:
    assert says(judge.in_order(X, Y, expected), exact(first), exact(1, "y")).outcome == outcome


WIDE = -1.0


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        ((1, 1, 1), "confirmed"),
        ((1, 1, 2), "confirmed"),  # one is the same
        ((1, 2, 2), "depends"),
        ((1, 1, 3), "refuted"),
        ((1, 1, WIDE), "confirmed"),  # a wide spread contradicts nothing
        ((1, WIDE, WIDE), "depends"),
    ],
)
def test_most_agree_and_none_contradicts(first: Sequence[float], outcome: judge.ClaimOutcome) -> None:
    values = [(3.0, 0.5, 9.0) if value == WIDE else (value, value, value) for value in first]
    found = [ms("x", *value, size) for value, size in zip(values, (KIB, MIB, GIB), strict=True)]
    others = [exact(2, "y", size) for size in (KIB, MIB, GIB)]
    assert says(judge.less_in_most((X, Y)), *found, *others).outcome == outcome
    assert says(judge.less_in_most((X, Y), least_bytes=2 * GIB), *found, *others).outcome == "unknown"
    names = [Figure("E1", f"x{number}") for number in range(3)]
    unsized = [ms(figure.name, *value) for figure, value in zip(names, values, strict=True)]
    assert says(judge.less_in_most(*((figure, Y) for figure in names)), *unsized, exact(2, "y")).outcome == outcome


@pytest.mark.parametrize(
    ("x", "y", "outcome"),
    [(1, 0, "confirmed"), (1, 1, "refuted"), (0, 0, "refuted"), (None, 0, "depends"), (None, 1, "refuted")],
)
def test_answers_of_all_runs_are_those_expected(x: float | None, y: float, outcome: judge.ClaimOutcome) -> None:
    first = measured("x", "yes", 0, 0, 1) if x is None else count("x", "yes", x)
    assert says(judge.all_of(judge.yes(X), judge.no(Y)), first, count("y", "yes", y)).outcome == outcome


@pytest.mark.parametrize(
    ("parts", "every", "each", "some"),
    [
        ((CONFIRMED, CONFIRMED), "confirmed", "confirmed", "confirmed"),
        ((CONFIRMED, REFUTED), "refuted", "depends", "confirmed"),
        ((REFUTED, REFUTED), "refuted", "refuted", "refuted"),
        ((CONFIRMED, DEPENDS), "depends", "depends", "confirmed"),
        ((CONFIRMED, UNKNOWN), "unknown", "depends", "confirmed"),
        ((REFUTED, UNKNOWN), "refuted", "depends", "unknown"),
        ((UNKNOWN, UNKNOWN), "unknown", "unknown", "unknown"),
        ((REFUTED, DEPENDS), "refuted", "depends", "depends"),
    ],
)
def test_predicates_together(
    parts: Sequence[judge.Predicate], every: judge.ClaimOutcome, each: judge.ClaimOutcome, some: judge.ClaimOutcome
) -> None:
    assert [says(holds(*parts)).outcome for holds in (judge.all_of, judge.each_of, judge.any_of)] == [every, each, some]


def test_a_missing_figure_leaves_a_part_unknown_and_a_claim_may_ask_other_experiments() -> None:
    assert says(judge.less(X, Y), exact(1)) == ("unknown", "not measured: y")
    assert says(judge.each_of(judge.less(X, Y), CONFIRMED), exact(1)) == ("unknown", "not measured: y")
    elsewhere = judge.at_most(Figure("E2", "x"), 2)
    assert says(judge.any_of(judge.less(X, Y), elsewhere), exact(1), E2=[exact(1)]).outcome == "confirmed"


def test_without_figures_every_claim_says_what_is_missing_or_why_nothing_decides_it() -> None:
    for verdict in verdicts(BenchBuilder().build()):
        told = {"unknown": "the experiment did not run", "unjudged": verdict.text}
        assert verdict.text == told[verdict.outcome]
    failed, of_nothing = BenchBuilder(), BenchBuilder()
    for known in EXPERIMENTS:
        traced = [figure(case) for case, shown in (known.traced or {}).items() for figure in shown]
        failed.add(known.number, problem="out of memory")
        of_nothing.add(known.number, *(measured(each.name, each.unit, 0, 0, 0) for each in (*known.cases, *traced)))
    for verdict in verdicts(failed.build()):
        assert verdict.outcome == "unjudged" or verdict.text.endswith(" (out of memory)")
    assert {verdict.outcome for verdict in verdicts(of_nothing.build())} > {"unknown", "unjudged"}
