"""The statistics of pairs: the signed-rank test and its interval, the looks of a sequential test, and the judgement.

The test is exact for whatever noise, as long as each difference is as likely up as down: Wilcoxon, Individual
comparisons by ranking methods, Biometrics Bulletin 1 (1945). Estimate and interval are by the means of all pairs (Walsh
averages) as in Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.1 to 3.3.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, e, exp, inf, log, log1p, log2
from typing import Literal

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


FALSE_ALARMS = 0.005
"""The chance that any look at a program against itself says faster or slower: one comparison of two hundred."""
FURTHER = 1.25
"""The next look comes after so many times the pairs."""


def fewest_pairs(level: float) -> int:
    """Return with how many pairs all differences on one side are no more probable by chance than `level`."""
    return max(ceil(1 - log2(level)), 1)


FEWEST_PAIRS = fewest_pairs(FALSE_ALARMS)


@dataclass(frozen=True)
class Look:
    """What is known after some pairs: the centre of the differences, and where it lies, at all looks together."""

    pairs: int
    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval; infinite after too few pairs."""
        return (self.high - self.low) / 2 if self.high < inf else inf


class Looks:
    """Spends the chance of a false alarm over the looks.

    After a share t of the time, the looks so far may have spent `ln(1 + (e - 1) t)` of it, the spending function of
    Lan and DeMets (Biometrika 70, 1983) that is like Pocock's bounds. It holds for any times of looking that do not
    depend on the differences. The levels of the looks are added up as if they excluded each other, which is safe
    whatever the dependence (Bonferroni). Each is the exact level of its signed-rank test; what its coarse steps leave
    over goes to later looks. So the intervals of all looks together are right (Jennison and Turnbull, J. R. Statist.
    Soc. B 51, 1989).
    """

    def __init__(self, level: float = FALSE_ALARMS) -> None:
        self.level = level
        self.spent = 0.0
        self._next = 1

    def is_due(self, pairs: int, share: float) -> bool:
        """Return whether a look after so many pairs and this share of the time can tell more than the last one."""
        return (pairs >= self._next or share >= 1) and rejected_sums(pairs, self._left(share)) > 0

    def look(self, differences: Floats, share: float) -> Look:
        """Look at all differences so far."""
        pairs = len(differences)
        sums = rejected_sums(pairs, self._left(share))
        self.spent += level_of(pairs, sums)
        self._next = max(pairs + 1, ceil(FURTHER * pairs))
        return Look(pairs, estimate(differences), *interval(differences, sums))

    def _left(self, share: float) -> float:
        return max(self.level * log(1 + (e - 1) * min(share, 1.0)) - self.spent, 0.0)


Verdict = Literal["faster", "slower", "no_difference", "cannot_tell"]
FASTER: Verdict = "faster"
SLOWER: Verdict = "slower"
NO_DIFFERENCE: Verdict = "no_difference"
CANNOT_TELL: Verdict = "cannot_tell"


@dataclass(frozen=True)
class Judgement:
    """The step of the second version against that of the first, as ratios; `limit` is the share that matters."""

    pairs: int
    ratio: float
    low: float
    """With `high`, where the ratio lies; 0 and infinite after too few pairs."""
    high: float
    limit: float
    fewest: int = FEWEST_PAIRS
    """How many pairs an interval needs at least."""
    uneven: bool = False
    """Whether something else than the versions made the steps as long as they were, so that a small difference between
    them tells nothing."""

    @property
    def verdict(self) -> Verdict:
        """Whether the second version is faster or slower, or the same within the limit.

        No difference above the limit: the whole interval is within it, so that two one-sided tests both say so
        (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987), each at half of the level, where his need the whole.
        """
        if self.high < self.over and self.low > 1 / self.over:
            return CANNOT_TELL if self.uneven else NO_DIFFERENCE
        if self.low > 1:
            return SLOWER
        return FASTER if self.high < 1 else CANNOT_TELL

    @property
    def over(self) -> float:
        """The ratio from which on a version is slower by more than the limit."""
        return 1 + self.limit

    @property
    def is_enough(self) -> bool:
        """Whether more pairs could change nothing that matters: the difference is beyond the limit, or well known."""
        if self.verdict == CANNOT_TELL:
            return False
        if self.verdict == NO_DIFFERENCE or self.low > self.over or self.high < 1 / self.over:
            return True
        return self.high / self.low <= self.over**2

    @property
    def is_too_slow(self) -> bool:
        """Whether it is certainly slower, and by more than the limit as far as is known."""
        return self.verdict == SLOWER and self.ratio > self.over


def judge(look: Look, limit: float, fewest: int = FEWEST_PAIRS, *, uneven: bool = False) -> Judgement:
    """Return what a look at the logarithms of the ratios says."""
    high = exp(look.high) if look.high < inf else inf
    return Judgement(look.pairs, exp(look.centre), exp(look.low), high, limit, fewest, uneven)


def pairs_for(judgement: Judgement) -> int | None:
    """Return about how many pairs would tell a difference of the limit; None where nobody knows yet.

    An interval becomes narrower by the root of the number of pairs.
    """
    if not 0 < judgement.low <= judgement.high < inf:
        return None
    width = log1p(judgement.high / judgement.low - 1) / 2
    return max(judgement.pairs + 1, round(judgement.pairs * (width / log1p(judgement.limit)) ** 2))
