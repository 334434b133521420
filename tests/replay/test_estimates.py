"""What is said of a profiler's cost, held to recordings with their measured steps: see scripts/fit_calibration.py."""

import statistics
from collections.abc import Callable

import numpy as np
import pytest

from pinprof.replay.calibration import HOST_SHARE
from scripts.fit_calibration import Row, estimate, left_out, stored

ROWS = [row for row in stored() if row.shows_cost]


def test_the_shares_are_those_of_the_recordings() -> None:
    for way, share in HOST_SHARE.items():
        assert share == pytest.approx(statistics.median(row.share for row in ROWS if row.way == way), rel=0.02)


@pytest.mark.parametrize("key", [lambda row: row.program, lambda row: row.machine], ids=["program", "machine"])
def test_a_program_or_a_machine_that_nothing_was_learned_from_is_told(key: Callable[[Row], str]) -> None:
    estimates = [(row.step, *estimate(row, share)) for row, share in left_out(ROWS, key)]
    errors = [abs(middle / step - 1) for step, middle, _, _ in estimates]
    assert len(estimates) > 250
    assert statistics.median(errors) < 0.1
    assert np.percentile(errors, 90) < 0.27
    assert np.mean([low <= step <= high for step, _, low, high in estimates]) >= 0.88
    assert statistics.median((high - low) / middle for _, middle, low, high in estimates) < 0.48
