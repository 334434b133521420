"""What several rounds say of the next one."""

import random

import pytest

from pinprof.bench.results import Figure, of_rounds


def rounds(unit: str, *medians: float) -> list[Figure]:
    return [Figure("copy", unit, median, 0.99 * median, 1.01 * median, runs=10) for median in medians]


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


def test_nine_of_ten_further_rounds_lie_in_it() -> None:
    chance = random.Random(7)
    inside = 0
    for _ in range(2_000):
        *before, following = (chance.lognormvariate(0.0, 0.1) for _ in range(6))
        figure = of_rounds([Figure("copy", "ms", median, median, median, runs=1) for median in before])
        inside += figure.low <= following <= figure.high
    assert 0.87 < inside / 2_000 < 0.95
