"""Predictions against programs that were measured before and after a fix, on an H200: see traces/pairs."""

import statistics

import pytest
from recordings import TRACES

from scripts.score_pairs import Score, scores

pytestmark = pytest.mark.slow  # forty recorded programs are run again

PAIRS = TRACES / "pairs"


@pytest.fixture(scope="module")
def found() -> list[Score]:
    return scores(PAIRS)


def percentile_90(values: list[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[8]


def test_the_predicted_step_is_that_of_the_fixed_program(found: list[Score]) -> None:
    for chosen in (found, [each for each in found if not each.looked_at]):
        errors = [abs(each.error) for each in chosen]
        assert statistics.median(errors) <= 0.02
        assert percentile_90(errors) <= 0.09


def test_the_step_that_the_host_bounds_is_told_from_the_trace_alone(found: list[Score]) -> None:
    chosen = [each for each in found if each.host_bound]
    errors = [abs(each.estimate_error) for each in chosen]
    assert len(chosen) >= 25
    assert statistics.median(errors) <= 0.08
    assert percentile_90(errors) <= 0.22
    assert sum(each.low <= each.before <= each.high for each in chosen) >= 0.85 * len(chosen)
    assert statistics.median((each.high - each.low) / each.estimated for each in chosen) <= 0.35


def test_the_step_that_the_gpu_bounds_is_told_from_the_trace_alone(found: list[Score]) -> None:
    errors = [abs(each.estimate_error) for each in found if not each.host_bound]
    assert statistics.median(errors) <= 0.015


def test_estimates_are_far_better_than_what_the_traces_show(found: list[Score]) -> None:
    chosen = [each for each in found if each.host_bound]
    traced = statistics.median(each.traced / each.before - 1 for each in chosen)
    assert statistics.median(abs(each.estimate_error) for each in chosen) < traced / 5


def test_graphs_are_told_from_nothing() -> None:
    """Few pairs are measured: errors of a fifth where the step becomes a fourth or a sixth of what it was."""
    graphs = [each for each in scores(TRACES / "launches") if "--cuda-graph" in each.options]
    assert len(graphs) == 4
    for each in graphs:
        assert abs(each.error) < 0.2
        assert each.before > 4 * each.after
