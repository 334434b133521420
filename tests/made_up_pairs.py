"""A measurement of two versions whose pairs are made up: each takes a minute."""

from collections.abc import Callable
from math import log

import numpy as np

from pinprof.ab import Bounds, Measurement, ProgramVersion
from pinprof.ab.plan import Plan
from pinprof.ab.sequential_test import run_test
from pinprof.ab.times import Difference, Pair, TimedProcess


def made_up_measurement(
    versions: tuple[ProgramVersion, ProgramVersion],
    steps: list[float],
    bounds: Bounds,
    noise: Callable[[int], float],
    longer: Callable[[int], float] = lambda _: 1.0,
) -> Measurement:
    """Return the measurement of versions with these steps in ns.

    The noise of pair N, from 1, adds to the logarithm of its ratio; in some pairs all steps are `longer`.
    """
    number = 0

    def measure(first: int) -> Pair:
        nonlocal number
        number += 1
        difference = Difference(log(steps[1] / steps[0]) + noise(number))
        usual = longer(number) * steps[0], longer(number) * steps[1]
        return Pair(first, usual, usual, difference, difference)

    test = run_test(measure, bounds, clock=lambda: 60.0 * number)
    first = [TimedProcess((np.array([step] * 50),), 10, "optimizer", None, (), 1, 0, None) for step in steps]
    return Measurement(versions, (first[0], first[1]), Plan.of(first, 1.0, 1.0), test)
