"""What several rounds say of the next one."""

import random
from statistics import median

import pytest

from pinprof.bench.results import Figure, of_rounds


def rounds(unit: str, *medians: float) -> list[Figure]:
    return [Figure("copy", unit, each, 0.99 * each, 1.01 * each, runs=10) for each in medians]


def test_one_round_is_the_figure() -> None:
    (only,) = rounds("ms", 4.0)
    assert of_rounds([only]) == only


def test_rounds_that_agree_have_the_spread_of_their_runs() -> None:
    figure = of_rounds(rounds("ms", 4.0, 4.0, 4.0))
    assert (figure.median, figure.runs) == (4.0, 30)
    assert (figure.low, figure.high) == pytest.approx((3.96, 4.04))


def test_rounds_that_differ_say_how_far_another_bench_may_lie() -> None:
    figure = of_rounds(rounds("ms", 2.0, 4.0, 8.0))  # the logarithms differ by log 2: 2.92 * sqrt(4 / 3) of it
    assert (figure.low, figure.high) == pytest.approx((4.0 / 2**3.3717, 4.0 * 2**3.3717), rel=1e-3)


@pytest.mark.parametrize("unit", ["%", "times", "waits"])
def test_shares_and_counts_have_the_spread_of_their_runs(unit: str) -> None:
    figure = of_rounds(rounds(unit, 2.0, 4.0, 8.0))
    assert (figure.low, figure.high) == pytest.approx((1.98, 8.08))


@pytest.mark.parametrize("count", range(3, 9))
def test_the_median_of_another_bench_lies_in_it_in_nine_of_ten_cases(count: int) -> None:
    chance = random.Random(7)
    inside = 0
    for _ in range(3_000):
        before, after = ([chance.lognormvariate(0.0, 0.1) for _ in range(count)] for _ in range(2))
        figure = of_rounds([Figure("copy", "ms", each, each, each, runs=1) for each in before])
        inside += figure.low <= median(after) <= figure.high
    assert 0.91 < inside / 3_000 < 0.98


ALIKE = (50.0, 50.5, 51.0, 51.5, 52.0, 52.5)


@pytest.mark.parametrize("disturbed", [3.0, 900.0])
def test_one_round_of_seven_that_was_disturbed_widens_nothing(disturbed: float) -> None:
    figure = of_rounds(rounds("GB/s", *ALIKE, disturbed))
    assert 48 < figure.low < figure.median < figure.high < 56
    assert figure.runs == 70


@pytest.mark.parametrize(("medians", "disturbed"), [(ALIKE[:5], (3.0, 3.0)), (ALIKE[:3], (3.0,))])
def test_two_of_seven_and_one_of_four_do(medians: tuple[float, ...], disturbed: tuple[float, ...]) -> None:
    figure = of_rounds(rounds("GB/s", *medians, *disturbed))
    assert figure.low < 3.0


def test_answers_of_all_rounds_are_kept() -> None:
    figure = of_rounds([Figure("pinned", "yes", value, value, value, runs=1) for value in (1, 1, 1, 1, 1, 1, 0)])
    assert (figure.low, figure.median, figure.high) == (0, 1, 1)
