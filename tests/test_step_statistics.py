"""What is usual among times, and how certain their mean is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.ground.step_statistics import half_width, range_of_another, returning, unlike


@pytest.mark.parametrize(
    ("times", "longer"),
    [
        ([10, 11, 10, 40, 10, 9, 10], [3]),
        ([10, 11, 10, 14, 10, 9, 10], []),  # somewhat longer
        ([10, 40, 12, 38, 25, 30, 11], []),  # all scatter
        *(([10, 90][:count], []) for count in range(3)),  # too few
    ],
)
def test_times_much_longer_than_the_usual_one_are_unlike_it(times: list[int], longer: list[int]) -> None:
    assert np.flatnonzero(unlike(np.array(times))).tolist() == longer


def test_what_is_excused_makes_no_time_unlike() -> None:
    times, waited = np.array([10, 10, 90, 10, 10, 90, 10]), np.array([0, 0, 80, 0, 0, 10, 0])
    assert np.flatnonzero(unlike(times, lambda: waited)).tolist() == [5]


def test_what_is_excused_in_all_times_excuses_none() -> None:
    assert np.flatnonzero(unlike(np.array([99, 101, 190, 99, 101]), lambda: np.full(5, 60))).tolist() == [2]


def test_a_longer_step_that_comes_back_is_found() -> None:
    times = np.full(60, 100.0) + np.arange(60) % 3  # some noise
    times[4::10] += 15
    assert returning(times, np.arange(len(times))).tolist() == [4, 14, 24, 34, 44, 54]


def test_the_count_goes_on_over_what_is_left_out() -> None:
    """Steps 17 to 23 of 60, which a profiler saw, are missing; every tenth is longer."""
    number = np.delete(np.arange(60), np.arange(17, 24))
    times = np.where(number % 10 == 4, 20.0, 10.0)
    assert number[returning(times, number)].tolist() == [4, 14, 24, 34, 44, 54]


def test_few_returns_may_be_chance_and_one_that_stays_away_ends_the_rhythm() -> None:
    times = np.full(60, 100.0)
    times[4::10] += 15
    assert len(returning(times, np.arange(60)))
    assert not len(returning(times[:39], np.arange(39)))
    times[24] = 100.0
    assert not len(returning(times, np.arange(60)))


def test_the_range_of_independent_times_is_that_of_students_distribution() -> None:
    times = np.tile([9.0, 11.0], 8)  # 16 times, standard deviation 1.0328; with 15 degrees of freedom t is 2.131
    assert half_width(times) == pytest.approx(2.131 * 1.0328 / 4, rel=0.002)


def test_the_range_of_one_more_time_holds_as_often_as_it_says() -> None:
    logs = np.random.default_rng(1).normal(3.0, 0.1, size=(4000, 5))
    for count in (3, 4):
        ranges = [range_of_another(np.exp(row[:count])) for row in logs]
        held = [low <= np.exp(row[4]) <= high for row, (low, high) in zip(logs, filter(None, ranges), strict=True)]
        assert np.mean(held) == pytest.approx(0.95, abs=0.012)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 8]))
def test_the_range_holds_as_often_as_it_says(seed: int, burst: int) -> None:
    random = np.random.default_rng(seed)
    series = np.repeat(random.exponential(size=(200, 64 // burst)), burst, axis=1) + 1
    held = [abs(times.mean() - 2) <= half_width(times) for times in series]
    assert np.mean(held) >= 0.75  # of 200 series; 95 % where the times are independent and normal
