"""What pairs say: exact for small numbers by hand, and by simulation for noise of many kinds."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import exp, inf, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs_of_noise import NOISES, simulated

from pinprof.ab.sequential_test import Bounds, PairsProgress, SequentialTest, differences, is_uneven, run_test
from pinprof.ab.statistics import (
    CANNOT_TELL,
    FALSE_ALARMS,
    FASTER,
    FEWEST_PAIRS,
    NO_DIFFERENCE,
    SLOWER,
    Judgement,
    Look,
    SequentialLooks,
    estimate,
    interval,
    judge,
    level_of,
    pairs_for,
    rank_sum_chances,
    rejected_sums,
    walsh_averages,
)
from pinprof.ab.times import Difference, Pair
from pinprof.cli.ab import so_far
from pinprof.report.ab.text import sentence

# ---------------------------------------------------------------- signed ranks


def test_the_rank_sums_of_three_differences_have_their_chances() -> None:
    """Of the eight signs of the ranks 1, 2, 3 the sums are 0 1 2 3 3 4 5 6."""
    assert (rank_sum_chances(3) * 8).tolist() == [1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("count", range(1, 9))
def test_the_chances_are_those_of_all_signs(count: int) -> None:
    sums = Counter(sum(rank for rank, up in enumerate(signs, 1) if up) for signs in product([0, 1], repeat=count))
    every = np.cumsum([sums[total] for total in range(count * (count + 1) // 2 + 1)]) / 2**count
    assert rank_sum_chances(count) == pytest.approx(every)


def test_differences_on_one_side_are_certain_from_nine_on() -> None:
    assert FEWEST_PAIRS == 9
    assert rejected_sums(8, FALSE_ALARMS) == 0
    assert rejected_sums(9, FALSE_ALARMS) == 1
    assert level_of(9, 1) == 2 / 512


def test_the_interval_of_nine_differences_is_from_the_smallest_to_the_largest() -> None:
    differences = np.array([3.0, 1, 2, 5, 4, 9, 6, 8, 7])
    assert interval(differences, 1) == (1, 9)
    assert estimate(differences) == 5
    assert interval(differences, 0) == (-inf, inf)


def test_walsh_averages_are_the_means_of_all_pairs() -> None:
    assert walsh_averages(np.array([4.0, 1, 2])).tolist() == [1, 1.5, 2, 2.5, 3, 4]


@given(st.lists(st.floats(-5, 5), min_size=9, max_size=14), st.floats(-3, 3))
def test_what_is_outside_of_the_interval_is_what_the_test_rejects(values: list[float], centre: float) -> None:
    """The test's own definition: the rank sum of the positive differences from the centre."""
    differences = np.unique(np.array(values).round(3)) + np.arange(len(np.unique(np.array(values).round(3)))) * 1e-7
    count, centre = len(differences), round(centre, 3) + 3e-5
    sums = rejected_sums(count, 0.1)
    low, high = interval(differences, sums)
    away = walsh_averages(differences - centre)
    positive, negative = int((away > 0).sum()), int((away < 0).sum())
    assert (low <= centre <= high) == (min(positive, negative) >= sums)


# ---------------------------------------------------------------- looks


def test_no_look_spends_more_than_there_is() -> None:
    looks, differences = SequentialLooks(0.01), np.linspace(-1, 1, 40)
    for count in range(1, 41):
        if looks.is_due(count, count / 40):
            looks.look(differences[:count], count / 40)
            assert looks.spent <= 0.01 * log(1 + (exp(1) - 1) * count / 40)
    assert looks.spent > 0.004


def test_a_look_is_due_only_where_it_can_reject_and_some_pairs_later() -> None:
    looks = SequentialLooks()
    assert not looks.is_due(8, 1.0)
    assert looks.is_due(9, 1.0)
    looks.look(np.ones(9), 0.9)
    assert not looks.is_due(11, 0.99)
    assert looks.is_due(40, 1.0)
    looks = SequentialLooks(0.02)
    looks.look(np.ones(8), 0.9)
    assert looks.is_due(9, 1.0), "the last one, however few have come since"


# ---------------------------------------------------------------- verdict


def judgement(low: float, ratio: float, high: float) -> Judgement:
    return Judgement(20, ratio, low, high, limit=0.02)


@pytest.mark.parametrize(
    ("low", "ratio", "high", "verdict", "is_enough", "is_too_slow"),
    [
        (1.03, 1.05, 1.07, SLOWER, True, True),
        (1.005, 1.03, 1.06, SLOWER, False, True),
        (1.005, 1.03, 1.044, SLOWER, True, True),
        (1.001, 1.015, 1.03, SLOWER, True, False),
        (0.99, 1.0, 1.01, NO_DIFFERENCE, True, False),
        (1.001, 1.005, 1.01, NO_DIFFERENCE, True, False),
        (0.99, 1.01, 1.03, CANNOT_TELL, False, False),
        (0.9, 0.92, 0.95, FASTER, True, False),
        (0.9, 0.97, 0.999, FASTER, False, False),
        (0.0, 1.5, inf, CANNOT_TELL, False, False),
    ],
)
def test_verdicts(low: float, ratio: float, high: float, verdict: str, is_enough: bool, is_too_slow: bool) -> None:
    made = judgement(low, ratio, high)
    assert (made.verdict, made.is_enough, made.is_too_slow) == (verdict, is_enough, is_too_slow)


@pytest.mark.parametrize(
    ("low", "ratio", "high", "verdict"), [(0.99, 1.0, 1.01, CANNOT_TELL), (1.03, 1.05, 1.07, SLOWER)]
)
def test_processes_that_are_unlike_tell_a_difference_but_not_that_there_is_none(
    low: float, ratio: float, high: float, verdict: str
) -> None:
    assert Judgement(20, ratio, low, high, limit=0.02, uneven=True).verdict == verdict


@pytest.mark.parametrize(
    ("unlike", "uneven"), [([], False), ([2.5], True), ([0.4], True), ([1.9, 0.6], False), ([10.0, 12.0, 9.0], True)]
)
def test_processes_are_unlike_where_one_of_nine_pairs_has_another_step(unlike: list[float], uneven: bool) -> None:
    usual = [*unlike, *[1.0] * (9 - len(unlike))]
    pairs = [Pair(0, (ns, 3.0), (ns, 3.0), Difference(0.0), Difference(0.0)) for ns in usual]
    assert is_uneven(pairs) == uneven
    many = pairs * 2 + [Pair(0, (1.0, 3.0), (1.0, 3.0), Difference(0.0), Difference(0.0))] * 22
    assert not is_uneven(many) or len(unlike) == 3, "one process of forty may be"


def test_logarithms_become_ratios() -> None:
    made = judge(Look(9, log(1.1), log(1.05), log(1.2)), 0.02)
    assert (made.ratio, made.low, made.high) == pytest.approx((1.1, 1.05, 1.2))
    assert judge(Look(3, 0.0, -inf, inf), 0.02).low == 0.0


def test_four_times_the_pairs_halve_the_interval() -> None:
    assert pairs_for(Judgement(10, 1.0, exp(-0.04), exp(0.04), exp(0.02) - 1)) == 40
    assert pairs_for(Judgement(3, 1.0, 0.0, inf, 0.02)) is None


# ---------------------------------------------------------------- the whole


class Turned:
    """Measures pairs whose differences are given; each takes a minute of its clock."""

    def __init__(self, differences: list[float]) -> None:
        self.differences = iter(differences)
        self.now = 0.0
        self.first: list[int] = []

    def pair(self, first: int) -> Pair:
        self.now += 60
        self.first.append(first)
        difference = next(self.differences, None)
        if difference is None:
            raise KeyboardInterrupt
        return Pair(
            first, (1.0, exp(difference)), (1.0, exp(difference)), Difference(difference), Difference(difference)
        )

    def run_test(self, bounds: Bounds, tell: Callable[[PairsProgress], None] = lambda _: None) -> SequentialTest:
        return run_test(self.pair, bounds, tell=tell, clock=lambda: self.now, rng=Random(3))


def test_a_clear_difference_ends_it_early() -> None:
    turned = Turned([0.1 + number / 1000 for number in range(30)])
    test = turned.run_test(Bounds(seconds=20 * 60))
    assert test.judgement.verdict == SLOWER
    assert len(test.pairs) == 10  # nine, after less than half of the time, are more probable by chance than allowed
    assert set(turned.first) == {0, 1}


def test_it_ends_before_the_time_is_over() -> None:
    test = Turned([(-1) ** number * (0.2 + number / 100) for number in range(99)]).run_test(Bounds(seconds=600))
    assert test.judgement.verdict == CANNOT_TELL
    assert test.seconds == 600
    assert not test.interrupted


def test_pairs_that_have_started_are_measured_although_no_others_could_start_in_time() -> None:
    now, done = 0.0, 0

    def pair(first: int) -> Pair:
        nonlocal now, done
        now += 2 if done % 8 else 40
        done += 1
        return Pair(first, (1.0, 1.2), (1.0, 1.2), Difference(0.18), Difference(0.18))

    test = run_test(pair, Bounds(seconds=65, false_alarms=0.02), is_ready=lambda: done % 8 != 0, clock=lambda: now)
    assert len(test.pairs) == test.judgement.pairs == 8, "all that have started, though seven are enough at this level"
    assert test.judgement.verdict == SLOWER
    assert test.seconds < 65


def test_an_interval_that_is_known_stays_where_the_last_look_could_tell_nothing() -> None:
    turned = Turned([0.01 * (number % 3) for number in range(8)])
    test = turned.run_test(Bounds(seconds=8 * 60, false_alarms=0.02))
    assert (len(test.pairs), test.judgement.pairs) == (8, 7), "the look at seven leaves too little for one at eight"
    assert test.judgement.high < inf


def test_the_pairs_that_an_interval_needs_are_those_of_the_level() -> None:
    few = Turned([0.1] * 3).run_test(Bounds(seconds=180, false_alarms=0.02))
    assert "(3 of at least 7 pairs)" in sentence(few.judgement)
    early = Turned([0.1] * 3).run_test(Bounds(seconds=180)).judgement
    assert sentence(early) == "Slower so far by about 10.5 %, not yet certain (3 of at least 9 pairs)"


def test_pairs_that_agree_go_on_to_the_fewest_that_can_tell() -> None:
    bounds = Bounds(seconds=6 * 60, overtime=1.0)
    reports: list[PairsProgress] = []
    test = Turned([0.9] * 20).run_test(bounds, tell=reports.append)
    assert (len(test.pairs), test.judgement.verdict) == (9, SLOWER)
    assert [progress.certain_in_s for progress in reports][5:] == [0, 180, 120, 60]
    assert so_far(reports[6]) == "pair 7: slower so far by about 146 %, certain after 9 pairs (3.0 min)"


@pytest.mark.parametrize(
    ("differences", "seconds", "pairs"),
    [
        ([0.9] * 7 + [-0.1] * 9, 6 * 60, 8),  # one says the opposite
        ([0.01] * 20, 6 * 60, 6),  # less than the limit
        ([0.9] * 20, 4 * 60, 4),  # it would take more than twice the time
    ],
)
def test_other_pairs_end_in_time(differences: list[float], seconds: float, pairs: int) -> None:
    test = Turned(differences).run_test(Bounds(seconds=seconds, overtime=1.0))
    assert (len(test.pairs), test.judgement.verdict) == (pairs, CANNOT_TELL)


def test_no_difference_is_told_where_the_interval_is_within_the_limit() -> None:
    test = Turned([(-1) ** number * 0.001 * (number + 1) for number in range(12)]).run_test(Bounds(seconds=600))
    assert test.judgement.verdict == NO_DIFFERENCE


def test_no_difference_is_not_told_of_processes_that_are_unlike() -> None:
    turned = Turned([(-1) ** number * 0.001 * (number + 1) for number in range(12)])

    def pair(first: int) -> Pair:
        alike = turned.pair(first)
        return alike if len(turned.first) % 3 else replace(alike, usual_ns=(10.0, 10.0))

    test = run_test(pair, Bounds(seconds=600), clock=lambda: turned.now, rng=Random(3))
    assert test.judgement.verdict == CANNOT_TELL
    assert len(test.pairs) == 10, "to the end"


def test_an_interruption_gives_what_is_known() -> None:
    test = Turned([0.01] * 4).run_test(Bounds(seconds=6000))
    assert test.interrupted
    assert test.judgement.ratio == pytest.approx(exp(0.01))
    with pytest.raises(KeyboardInterrupt):
        Turned([]).run_test(Bounds())


def of_errors(usual: float, quickest: float | None) -> Pair:
    quickest_difference = None if quickest is None else Difference(2.0, quickest)
    return Pair(0, (1.0, 1.0), (1.0, 1.0), Difference(1.0, usual), Difference(1.0), quickest_difference)


def test_the_steps_whose_turns_scatter_less_are_compared() -> None:
    disturbed, quiet = of_errors(0.05, 0.01), of_errors(0.01, 0.02)
    assert differences([disturbed, disturbed, quiet]).tolist() == [2.0] * 3
    assert differences([disturbed, quiet, quiet]).tolist() == [1.0] * 3
    assert differences([disturbed, of_errors(0.05, None)]).tolist() == [1.0] * 2  # a GPU, or no turns
    assert differences([]).tolist() == []


# ---------------------------------------------------------------- by simulation

COMPARISONS = 300


@pytest.mark.parametrize(
    "noise", [pytest.param(noise, marks=[] if noise == "heavy" else [pytest.mark.slow]) for noise in NOISES]
)
def test_a_program_against_itself_is_rarely_called_faster_or_slower(noise: str) -> None:
    """Were the chance one of a hundred, more than 8 of 300 would come in fewer than 1 of 100 such tests."""
    verdicts = Counter(simulated(noise, 0.0, Random(f"{noise} {seed}"), pairs=40) for seed in range(COMPARISONS))
    assert verdicts[SLOWER] + verdicts[FASTER] <= 0.01 * COMPARISONS


@pytest.mark.parametrize(("slower", "share_found"), [(0.02, 0.9), (0.05, 1.0)])
def test_slow_downs_are_found_where_processes_differ_by_two_percent(slower: float, share_found: float) -> None:
    verdicts = Counter(simulated("quiet", slower, Random(seed), pairs=40) for seed in range(60))
    assert verdicts[SLOWER] >= share_found * 60


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([-0.1, 0.05]))
def test_the_other_way_round_the_verdict_is_the_opposite(seed: int, effect: float) -> None:
    random = np.random.default_rng(seed)
    differences = effect + 0.05 * random.standard_normal(20)
    there, back = (SequentialLooks().look(sign * differences, 1.0) for sign in (1, -1))
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
