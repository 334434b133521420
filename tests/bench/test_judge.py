"""Each predicate with figures that confirm it, that just miss it, and that leave it open."""

from collections.abc import Sequence

import pytest
from bench_builder import H200, BenchBuilder, count, gbps, measured, ms
from msgspec.structs import replace

from pinprof.bench import EXPERIMENTS, experiment_of, verdicts
from pinprof.bench.bandwidth import more_predictable, reaches_the_link
from pinprof.bench.judge import (
    ClaimJudgement,
    ClaimOutcome,
    Order,
    Predicate,
    Readings,
    all_of,
    any_of,
    at_least,
    at_most,
    barely,
    each_of,
    given,
    in_order,
    judged,
    less,
    less_at_most_sizes,
    mostly,
    no,
    not_judged,
    opposite,
    order,
    ratio,
    wrong,
    yes,
)
from pinprof.bench.loader import off_the_path
from pinprof.bench.results import LEAST, MOST, Figure, Measured, figures

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
X, Y, Z = figures("E1", "ms", "x; y; z")
ELSEWHERE = Figure("E2", "x")


def says(holds: Predicate, *found: Measured, **of_bench: Sequence[Measured]) -> ClaimJudgement:
    """Return what a predicate says of figures of E1, and of other experiments."""
    bench = BenchBuilder().add("E1", *found)
    for number, others in of_bench.items():
        bench.add(number, *others)
    return judged(holds, Readings(bench.build()))


def spreads(low: float, high: float, unit: str = "ms", name: str = "x") -> Measured:
    return measured(name, unit, (low + high) / 2, low, high)


def constant(outcome: ClaimOutcome) -> Predicate:
    return lambda _read: ClaimJudgement(outcome, outcome)


CONFIRMED, REFUTED, DEPENDS, UNKNOWN = (constant(each) for each in ("confirmed", "refuted", "depends", "unknown"))


def exact(value: float) -> Measured:
    return ms("x", value, value, value)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ms("x", 1.0, 0.9, 1.1), ms("y", 1.3, 1.2, 1.4), "less"),
        (ms("x", 1.3, 1.2, 1.4), ms("y", 1.0, 0.9, 1.1), "more"),
        # They overlap, but both are off at once in few cases.
        (ms("x", 1.0, 0.9, 1.25), ms("y", 1.3, 1.2, 1.4), "less"),
        (ms("x", 1.0, 0.9, 1.3), ms("y", 1.3, 1.2, 1.4), "unsure"),
        (ms("x", 1.0, 0.98, 1.03), ms("y", 1.02, 1.0, 1.05), "same"),  # at most 7 % apart
        (ms("x", 1.0, 0.9, 1.1), ms("y", 1.0, 0.9, 1.1), "unsure"),  # 20 % apart, for all that is known
        (ms("x", 1.0, 0.96, 1.0), ms("y", 1.0, 1.0, 1.07), "same"),  # 8 % apart, unless both are off at once
        (ms("x", 1.0, 0.94, 1.0), ms("y", 1.0, 1.0, 1.1), "unsure"),
        (exact(1.0), exact(1.03), "same"),
        (exact(1.0), exact(1.05), "less"),
        (exact(0.0), exact(0.0), "same"),
        (exact(0.0), exact(1.0), "less"),
        (ms("x", 0.0, 0.0, 0.0), ms("y", 0.0, 0.0, 1.0), "unsure"),
        (measured("x", "%", 0, 0, 0.4), measured("y", "%", 1, 0.6, 1.4), "same"),  # in points
        (measured("x", "%", 0, 0, 12), measured("y", "%", 1, 0, 12), "unsure"),
        (count("x", "waits", 2), count("y", "waits", 1000), "less"),
    ],
)
def test_two_figures_are_in_order_if_they_differ_beyond_their_spreads(
    first: Measured, second: Measured, expected: Order
) -> None:
    assert order(first, second) == expected
    assert order(second, first) == {"less": "more", "more": "less"}.get(expected, expected)


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(2, 3, "confirmed"), (1.99, 3, "depends"), (1, 2, "depends"), (1, 1.99, "refuted")]
)
def test_at_least_is_judged_by_the_whole_spread(low: float, high: float, outcome: ClaimOutcome) -> None:
    assert says(at_least(X, 2), spreads(low, high)).outcome == outcome
    opposed = {"confirmed": "refuted", "refuted": "confirmed"}.get(outcome, outcome)
    assert says(opposite(at_least(X, 2)), spreads(low, high)).outcome == opposed


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(1, 2, "confirmed"), (1, 2.01, "depends"), (2, 3, "depends"), (2.01, 3, "refuted")]
)
def test_at_most_is_judged_by_the_whole_spread(low: float, high: float, outcome: ClaimOutcome) -> None:
    assert says(at_most(X, 2), spreads(low, high)).outcome == outcome


@pytest.mark.parametrize(
    ("low", "high", "most", "least"),
    [
        (50, 60, "confirmed", "refuted"),
        (49, 60, "depends", "depends"),
        (11, 49, "depends", "depends"),
        (5, 10.1, "depends", "depends"),
        (5, 10, "refuted", "confirmed"),
    ],
)
def test_between_most_and_hardly_any_it_depends(
    low: float, high: float, most: ClaimOutcome, least: ClaimOutcome
) -> None:
    assert says(mostly(X), spreads(low, high, "%")).outcome == most
    assert says(barely(X), spreads(low, high, "%")).outcome == least


def test_errors_of_a_ratio_add_by_their_squares() -> None:
    """Each may be 10 % off: both together by 14 %, not by 21 %."""
    figures = spreads(3.6, 4.4), spreads(1.8, 2.2, name="y")
    assert says(at_least(ratio(X, Y), 1.73), *figures).outcome == "confirmed"
    assert says(at_least(ratio(X, Y), 1.74), *figures).outcome == "depends"
    assert says(at_least(ratio(X, Y) / ratio(Z, Y), 1.3), *figures, spreads(2.6, 3.1, name="z")).text.startswith(
        "1.4 times as much: 4.00 ms (x) and 2.00 ms (y) against 2.00 ms (y) and 2.85 ms (z)"
    )


def test_a_ratio_to_nothing_is_unknown_and_one_to_what_may_be_nothing_has_no_end() -> None:
    assert says(at_least(ratio(X, Y), 2), exact(1), ms("y", 0)).outcome == "unknown"
    assert says(at_most(ratio(X, Y), 2), exact(1), ms("y", 1, 0, 2)).outcome == "depends"
    assert says(at_most(ratio(X, Y), 2), exact(0), ms("y", 1, 0.5, 2)).outcome == "confirmed"


@pytest.mark.parametrize(("third", "outcome"), [(1.5, "confirmed"), (1.02, "refuted"), (1.2, "unknown")])
def test_two_ratios_differ_beyond_their_spreads(third: float, outcome: ClaimOutcome) -> None:
    wide = ms("z", third, 0.8 * third, 1.2 * third) if outcome == "unknown" else ms("z", third, third, third)
    first, second = ms("x", 1, 1, 1), ms("y", 1, 1, 1)
    for pair in ((ratio(X, Y), ratio(Z, Y)), (ratio(Z, Y), ratio(X, Y))):
        assert says(in_order(*pair, "less", "more"), first, second, wide).outcome == outcome


@pytest.mark.parametrize(
    ("first", "expected", "outcome"),
    [
        (0.9, ("less",), "confirmed"),
        (0.98, ("less",), "refuted"),  # the same
        (1.1, ("less",), "refuted"),
        (0.98, ("same",), "confirmed"),
        (0.9, ("same", "more"), "refuted"),
        (1.1, ("same", "more"), "confirmed"),
    ],
)
def test_an_order_is_one_of_those_expected(first: float, expected: Sequence[Order], outcome: ClaimOutcome) -> None:
    assert says(in_order(X, Y, *expected), exact(first), ms("y", 1, 1, 1)).outcome == outcome


def test_a_difference_is_told_with_its_figures_and_where_it_is_unsure_with_the_spreads() -> None:
    assert says(less(X, Y), ms("x", 0.1), ms("y", 0.4)).text == (
        "100 µs (x) against 400 µs (y), 4 times as fast, beyond the spread"
    )
    unsure = says(less(X, Y), ms("x", 0.315, 0.2, 0.5), ms("y", 0.4, 0.3, 0.6))
    assert unsure.outcome == "unknown"
    assert unsure.text.endswith("a difference within the spread (200 to 500 µs; 300 to 600 µs)")


SIZES = (KIB, MIB, GIB)


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        ((1, 1, 1), "confirmed"),
        ((1, 1, 2), "depends"),  # one is the same
        ((2, 2, 3), "refuted"),
        ((1, 1, (2, 0.5, 4)), "confirmed"),  # a wide spread contradicts nothing
        ((1, (2, 0.5, 4), (2, 0.5, 4)), "depends"),
    ],
)
def test_sizes_agree_if_most_do_and_none_contradicts(first: tuple[object, ...], outcome: ClaimOutcome) -> None:
    values = [value if isinstance(value, tuple) else (value,) for value in first]
    found = [ms("x", *value, size=size) for value, size in zip(values, SIZES, strict=True)]  # type: ignore[misc]
    others = [ms("y", 2, size=size) for size in SIZES]
    assert says(less_at_most_sizes((X, Y)), *found, *others).outcome == outcome
    assert says(less_at_most_sizes((X, Y), least_bytes=2 * GIB), *found, *others).outcome == "unknown"


def test_a_figure_is_asked_for_at_its_least_and_its_most_size() -> None:
    found = [ms("x", value, size=size) for value, size in ((2, GIB), (1, 0), (3, KIB))]
    for size, value in ((LEAST, 1), (MOST, 2), (KIB, 3)):
        assert says(at_most(X.at(size), 1.01 * value), *found).outcome == "confirmed"
        assert says(at_most(X.at(size), 0.98 * value), *found).outcome == "refuted"
    assert says(at_most(X.at(MIB), 9), *found).text == "not measured: x"


@pytest.mark.parametrize(("tries", "is_wrong", "is_right"), [(0, "depends", "confirmed"), (1, "confirmed", "refuted")])
def test_one_wrong_value_is_enough(tries: int, is_wrong: ClaimOutcome, is_right: ClaimOutcome) -> None:
    found = count("x", "wrong", tries, 100), count("y", "wrong", 0, 100)
    assert says(wrong(X), *found).outcome == is_wrong
    assert says(no(X, Y), *found).outcome == is_right


@pytest.mark.parametrize(
    ("x", "y", "outcome"),
    [(1, 0, "confirmed"), (1, 1, "refuted"), (0, 0, "refuted"), (None, 0, "depends"), (None, 1, "refuted")],
)
def test_answers_of_all_runs_are_those_expected(x: float | None, y: float, outcome: ClaimOutcome) -> None:
    first = measured("x", "yes", 0, 0, 1) if x is None else count("x", "yes", x)
    assert says(all_of(yes(X), no(Y)), first, count("y", "yes", y)).outcome == outcome


@pytest.mark.parametrize(
    ("parts", "every", "each", "some"),
    [
        ((CONFIRMED, CONFIRMED), "confirmed", "confirmed", "confirmed"),
        ((CONFIRMED, REFUTED), "refuted", "depends", "confirmed"),
        ((REFUTED, REFUTED), "refuted", "refuted", "refuted"),
        ((CONFIRMED, DEPENDS), "depends", "depends", "confirmed"),
        ((CONFIRMED, UNKNOWN), "unknown", "unknown", "confirmed"),
        ((REFUTED, UNKNOWN), "refuted", "unknown", "unknown"),
        ((REFUTED, DEPENDS), "refuted", "depends", "depends"),
        ((CONFIRMED, REFUTED, UNKNOWN), "refuted", "depends", "confirmed"),
    ],
)
def test_predicates_together(
    parts: Sequence[Predicate], every: ClaimOutcome, each: ClaimOutcome, some: ClaimOutcome
) -> None:
    assert [says(holds(*parts)).outcome for holds in (all_of, each_of, any_of)] == [every, each, some]


def test_what_can_be_is_refuted_by_nothing_that_was_tried() -> None:
    assert says(any_of(REFUTED, otherwise="depends")).outcome == "depends"
    assert says(any_of(REFUTED, UNKNOWN, otherwise="depends")).outcome == "unknown"


def test_what_says_something_only_under_a_condition_is_unknown_without_it() -> None:
    assert says(given(CONFIRMED, REFUTED)).outcome == "refuted"
    for condition in (REFUTED, DEPENDS, UNKNOWN):
        assert says(given(condition, CONFIRMED)).outcome == "unknown"
    assert says(not_judged("one machine")) == ("unjudged", "one machine")


def test_a_missing_figure_leaves_a_part_unknown_and_a_claim_may_ask_other_experiments() -> None:
    assert says(less(X, Y), exact(1)) == ("unknown", "not measured: y")
    assert says(any_of(less(X, Y), at_most(ELSEWHERE, 2)), exact(1), E2=[exact(1)]).outcome == "confirmed"


# ---------------------------------------------------------------- predicates of one experiment


def judged_rates(holds: Predicate, *found: Measured, **machine: int | None) -> ClaimJudgement:
    bench = BenchBuilder(replace(H200, **machine)).add("E13", *found).build()
    return judged(holds, Readings(bench))


@pytest.mark.parametrize(
    ("htod", "dtoh", "outcome"), [(50.5, 50.5, "confirmed"), (50.5, 40, "depends"), (40, 40, "refuted")]
)
def test_the_link_is_reached_at_nine_tenths_of_its_usual_rate_both_ways(
    htod: float, dtoh: float, outcome: ClaimOutcome
) -> None:
    found = [
        gbps(f"{way} pinned", size, value)
        for way, best in (("HtoD", htod), ("DtoH", dtoh))
        for size, value in ((4 * KIB, 1.0), (GIB, best))
    ]
    assert judged_rates(reaches_the_link(), *found).outcome == outcome
    assert judged_rates(reaches_the_link(), *found, pcie_generation=None).outcome == "unknown"
    assert judged_rates(reaches_the_link(), *found, pcie_generation=1).outcome == "unknown"  # faster than reported


@pytest.mark.parametrize(("steadier", "outcome"), [(6, "confirmed"), (5, "depends"), (1, "depends"), (0, "refuted")])
def test_more_sizes_are_steadier_than_by_chance(steadier: int, outcome: ClaimOutcome) -> None:
    pairs = [(way, size) for way in ("HtoD", "DtoH") for size in (MIB, 16 * MIB, GIB)]
    found = [
        gbps(f"{way} {memory}", size, 30, 30 - wide, 30 + wide)
        for number, (way, size) in enumerate(pairs)
        for memory, wide in (("pinned", 2), ("pageable", 3 if number < steadier else 1))
    ]
    assert judged_rates(more_predictable(), *found).outcome == outcome


@pytest.mark.parametrize(
    ("longer", "outcome"), [(2.4, "confirmed"), (2.5, "depends"), (2.7, "refuted"), (-1, "confirmed")]
)
def test_how_much_longer_a_step_is_is_held_against_the_copy_itself(longer: float, outcome: ClaimOutcome) -> None:
    """A pinned batch of 25.2 MB takes 5.03 ms at 5 GB/s."""
    found = (
        measured("cost of a pinned copy", "ms", longer, longer - 0.05, longer + 0.05),
        measured("rate, pinned, non_blocking", "GB/s", 5),
    )
    for sizes, expected in (({"rows": 2048, "features": 3072}, outcome), ({"rows": 2048}, "unknown")):
        bench = BenchBuilder().add("E8", *found, sizes=sizes).build()
        assert judged(off_the_path, Readings(bench)).outcome == expected


# ---------------------------------------------------------------- verdicts


def test_a_row_has_who_claims_it_what_was_published_and_what_was_measured() -> None:
    names = ("pageable.to", "pageable.pin_memory().to", "pageable.pin_memory().to, fresh memory")
    bench = BenchBuilder().add("E1", *map(ms, names, (0.4, 0.2, 0.3)), sizes={"floats": 1_000_000}).build()
    verdict = verdicts(bench)[1]
    assert verdict.sources == ("tutorial: pinned memory",)
    assert verdict.published == "pageable.to: 369 µs; pageable.pin_memory().to: 433 µs"
    assert verdict.measured.startswith("pageable.to: 400 µs (396 to 404 µs); pageable.pin_memory().to: 200 µs (198")
    assert (verdict.outcome, verdict.differs[:10]) == ("refuted", "torch keep")
    other = BenchBuilder().add("E1", *map(ms, names, (0.1, 0.2, 0.3)), sizes={"floats": 7}).build()
    assert verdicts(other)[1].published == ""
    assert verdicts(other)[1].differs == ""


def test_without_figures_every_claim_says_what_is_missing_or_why_nothing_decides_it() -> None:
    for verdict in verdicts(BenchBuilder().build()):
        told = {"unknown": "the experiment did not run", "unjudged": verdict.text}
        assert verdict.text == told[verdict.outcome]
    bench = BenchBuilder()
    for known in EXPERIMENTS:
        bench.add(known.number, problem="out of memory")
    for verdict in verdicts(bench.build()):
        assert verdict.outcome == "unjudged" or verdict.text.endswith(" (out of memory)")


def test_figures_of_nothing_are_judged_all_the_same() -> None:
    bench = BenchBuilder()
    for known in EXPERIMENTS:
        traced = [figure(case) for case, shown in (known.traced or {}).items() for figure in shown]
        bench.add(known.number, *(measured(each.name, each.unit, 0, 0, 0) for each in (*known.cases, *traced)))
    assert {verdict.outcome for verdict in verdicts(bench.build())} > {"unknown", "unjudged"}
    assert experiment_of("e4") is EXPERIMENTS[3]
