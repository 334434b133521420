import numpy as np
import pytest

from pinprof.comparison import ComparedFigure, Value
from pinprof.comparison.figures import over_steps


def figure(before: Value, after: Value) -> ComparedFigure:
    return ComparedFigure("step_ms", "ns", before, after)


@pytest.mark.parametrize(
    ("after", "noise", "within"),
    [
        (Value(80, (75, 84)), 9, False),  # 84 lies below the 95 that the figure before is at least: 5 + 4
        (Value(90, (85, 95)), 10, True),  # they meet at 95
        (Value(120, (108, 130)), 20, True),  # 8 up, 12 down
        (Value(121, (111, 130)), 18, False),
        (Value(100, (100, 100)), 8, True),
    ],
)
def test_a_difference_is_noise_if_the_ranges_meet(after: Value, noise: float, *, within: bool) -> None:
    made = figure(Value(100, (95, 108)), after)
    assert made.noise == noise
    assert made.is_within_noise is within
    assert made.has_changed is not within


def test_a_figure_that_one_trace_does_not_tell_is_not_compared() -> None:
    made = figure(Value(None, reason="no steps"), Value(3, (3, 3)))
    assert (made.difference, made.fraction, made.noise, made.is_within_noise) == (None, None, None, None)
    assert not made.has_changed
    assert made.reason == "before: no steps"


def test_of_few_steps_the_spread_is_that_of_all_and_of_many_it_leaves_out_a_tenth_at_each_end() -> None:
    assert over_steps(np.array([3.0, 1.0, 8.0])) == Value(4, (1, 8))
    many = over_steps(np.arange(101, dtype=float))
    assert many == Value(50, (10, 90))


def test_a_single_step_has_no_spread_and_none_no_figure() -> None:
    assert over_steps(np.array([7.0])) == Value(7)
    assert over_steps(np.array([])).value is None
    assert over_steps(np.array([])).reason == "no complete step"


@pytest.mark.parametrize(
    ("before", "after", "unit", "more_is_better", "outcome"),
    [
        *((10.0, 10.19, "ns", False, None), (10.0, 10.21, "ns", False, "worse")),
        *((10.0, 9.7, "ns", False, "better"), (10.0, 9.7, "gbps", True, "worse")),
        *((0.5, 0.515, "share", True, None), (0.5, 0.53, "share", True, "better")),
        *((0.0, 3.0, "count", False, "worse"), (3.0, 3.0, "count", False, None)),
    ],
)
def test_nothing_is_better_or_worse_below_two_percent(
    before: float, after: float, unit: str, more_is_better: bool, outcome: str | None
) -> None:
    figure = ComparedFigure(
        "x", unit, Value(before, (before, before)), Value(after, (after, after)), more_is_better=more_is_better
    )
    assert figure.has_changed == (before != after)
    assert figure.outcome == outcome
