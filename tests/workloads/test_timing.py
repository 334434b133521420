"""Timing by a clock that the test sets, so that every figure can be checked by eye."""

from collections.abc import Callable

import pytest
import torch

from pinprof.bench.results import Figure
from pinprof.workloads.timing import Budget, by_host, figure, in_turn, repeated, time_cases

CPU = torch.device("cpu")


class Clock:
    """Stands still until a case moves it on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def taking(self, *seconds: float) -> Callable[[], None]:
        """Return a case whose runs take so long, the last time for ever."""
        left = list(seconds)

        def run() -> None:
            self.seconds += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_the_first_run_is_the_warm_up() -> None:
    clock = Clock()
    budget = Budget(least=3, most=3, seconds=0)
    (timed,) = time_cases({"copy": clock.taking(9, 1, 4, 2)}, by_host(CPU, clock=clock), budget)
    assert (timed.name, timed.unit, timed.runs) == ("copy", "ms", 3)
    assert (timed.low, timed.median, timed.high) == (1200, 2000, 3600)  # a tenth of the way from each end


@pytest.mark.parametrize(("seconds", "runs"), [(0.0, 2), (3.5, 4), (99.0, 5)])
def test_runs_fill_the_time_between_least_and_most(seconds: float, runs: int) -> None:
    clock = Clock()
    budget = Budget(least=2, most=5, seconds=seconds)
    assert len(repeated(clock.taking(1), by_host(CPU, clock=clock), budget, clock)) == runs


def test_a_budget_counts_the_time_of_all_steps_of_a_run() -> None:
    clock = Clock()
    budget = Budget(least=1, most=50, seconds=20)
    assert repeated(clock.taking(1), by_host(CPU, steps=10, clock=clock), budget, clock) == [1000, 1000]


def test_cases_run_in_turn_after_a_warm_up_of_each() -> None:
    clock = Clock()
    budget = Budget(least=1, most=9, seconds=4.5)  # of each, nine in all
    turns = in_turn([clock.taking(9, 1, 2, 1), clock.taking(9, 3)], by_host(CPU, clock=clock), budget, clock)
    assert turns == [(1000, 3000), (2000, 3000)]


def test_one_run_of_ten_that_is_far_out_widens_nothing() -> None:
    timed = figure("copy", "ms", [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7, 10.8, 10.9, 99.0])
    assert (timed.low, timed.median, timed.high) == (10.1, 10.5, 10.9)
    assert figure("copy", "ms", [3.0]) == Figure("copy", "ms", 3.0, 3.0, 3.0, 1)


def test_steps_are_timed_together_and_told_each_without_what_is_done_before() -> None:
    clock = Clock()
    assert by_host(CPU, steps=4, before=clock.taking(5), clock=clock)(clock.taking(0.5)) == 500


def test_a_case_that_fails_leaves_the_figures_of_those_before_it() -> None:
    clock = Clock()

    def fails() -> None:
        raise RuntimeError("out of memory")

    cases = {"good": clock.taking(1), "bad": fails, "late": clock.taking(1)}
    figures = time_cases(cases, by_host(CPU, clock=clock), Budget(least=1, most=1, seconds=0))
    assert next(figures).name == "good"
    with pytest.raises(RuntimeError, match="out of memory"):
        next(figures)
