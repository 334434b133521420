"""The signed-rank test and its interval: exact for whatever noise, as long as each difference is as likely up as down.

Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945); the estimate and the interval by the
means of all pairs (Walsh averages) as in Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.1 to 3.3.
"""

from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@cache
def tail(count: int) -> Floats:
    """Return for each rank sum the chance that the positive ones of so many differences have it, or a smaller one.

    The chances are exact: each of the ranks 1, 2, ... is positive or not like a fair coin.
    """
    chances = np.zeros(count * (count + 1) // 2 + 1)
    chances[0] = 1.0
    for rank in range(1, count + 1):
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    return np.cumsum(chances)


def rejected_sums(count: int, level: float) -> int:
    """Return how many of the smallest rank sums together are no more probable than half of this level."""
    return int(np.searchsorted(tail(count), level / 2, side="right")) if count else 0


def level_of(count: int, sums: int) -> float:
    """Return the chance, on both sides together, of so many of the smallest and of the largest rank sums."""
    return float(2 * tail(count)[sums - 1]) if sums else 0.0


def walsh_averages(differences: Floats) -> Floats:
    """Return the means of all pairs of differences, each with itself too, in order."""
    rows, columns = np.triu_indices(len(differences))
    return np.sort((differences[rows] + differences[columns]) / 2)


def estimate(differences: Floats) -> float:
    """Return the centre of the differences: the median of their Walsh averages (Hodges and Lehmann, 1963)."""
    return float(np.median(walsh_averages(differences)))


def interval(differences: Floats, sums: int) -> tuple[float, float]:
    """Return the centres that the test does not reject if it rejects so many rank sums on each side."""
    if not sums:
        return -inf, inf
    averages = walsh_averages(differences)
    return float(averages[sums - 1]), float(averages[-sums])
