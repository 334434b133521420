"""Decide from pairs of runs whether the second version is slower: a test, an interval, and looks while pairs come in.

A pair gives one difference: the logarithm of the second version's step divided by the first's. In a comparison of a
program with itself, each difference is as likely positive as negative, for any kind of noise. From that follow:

1. The signed-rank test (Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1, 1945). Order the
   differences by size, and add up the ranks 1, 2, 3, ... of the positive ones. By chance the sum is rarely near its
   smallest value 0 or near its largest one. How rarely is counted exactly.
2. The interval: all values that the true difference may have without being rejected by this test. Its ends are means
   of two differences (Walsh averages; Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.1 to 3.3).
3. Looks. Who tests again after each pair raises a false alarm sooner or later. So there is one chance of a false alarm
   for the whole comparison, and each look spends a part of it.
4. The judgement, by where the interval lies: above 0 is slower, below 0 faster, within the limit no difference.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, e, exp, inf, log, log1p, log2
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@cache
def rank_sum_chances(count: int) -> Floats:
    """Return at index s the chance that the positive ranks of `count` differences add up to s or less.

    >>> rank_sum_chances(2).tolist()  # the positive ranks are none, 1, 2 or both
    [0.25, 0.5, 0.75, 1.0]
    """
    chances = np.zeros(count * (count + 1) // 2 + 1)
    chances[0] = 1.0
    for rank in range(1, count + 1):  # with each rank, half of the cases add it
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    return np.cumsum(chances)


def rejected_sums(count: int, level: float) -> int:
    """Return how many of the smallest rank sums the test rejects: together they have at most half of the level.

    The other half is for as many of the largest sums.
    """
    return int(np.searchsorted(rank_sum_chances(count), level / 2, side="right")) if count else 0


def level_of(count: int, sums: int) -> float:
    """Return the chance of a false alarm if the test rejects `sums` of the smallest and of the largest rank sums."""
    return float(2 * rank_sum_chances(count)[sums - 1]) if sums else 0.0


def walsh_averages(differences: Floats) -> Floats:
    """Return the means of all pairs of differences, each one paired with itself too, in ascending order."""
    rows, columns = np.triu_indices(len(differences))
    return np.sort((differences[rows] + differences[columns]) / 2)


def estimate(differences: Floats) -> float:
    """Return the most plausible true difference: the median of the Walsh averages (Hodges and Lehmann, 1963)."""
    return float(np.median(walsh_averages(differences)))


def interval(differences: Floats, sums: int) -> tuple[float, float]:
    """Return the smallest and the largest true difference that the test does not reject; `sums` is as for `level_of`.

    The interval is unlimited where the test can reject nothing.
    """
    if not sums:
        return -inf, inf
    averages = walsh_averages(differences)
    return float(averages[sums - 1]), float(averages[-sums])


FALSE_ALARMS = 0.005
"""The chance that a comparison of a program with itself ever says faster or slower: one in two hundred."""
PAIRS_TO_NEXT_LOOK = 1.25
"""The next look comes when there are this many times as many pairs."""


def fewest_pairs(level: float) -> int:
    """Return how many pairs are needed before the test can reject anything: all differences have the same sign."""
    return max(ceil(1 - log2(level)), 1)


FEWEST_PAIRS = fewest_pairs(FALSE_ALARMS)


@dataclass(frozen=True)
class Look:
    """What is known after some pairs, as logarithms: the estimate, and an interval that holds at all looks together."""

    pairs: int
    centre: float
    low: float
    high: float


class SequentialLooks:
    """Spends the chance of a false alarm over the looks of one comparison.

    When a share t of the time is over, `ln(1 + (e - 1) t)` of the chance may be spent: a spending function like
    Pocock's bounds (Lan and DeMets, Biometrika 70, 1983). It holds whenever one looks, as long as that does not depend
    on the differences. Each look spends the exact level of its test. The levels are added up as if no two looks raised
    the same false alarm, which is never too little (Bonferroni). What a test cannot use, because there are few rank
    sums, is left for later looks. So the intervals of all looks hold together (Jennison and Turnbull, J. R. Statist.
    Soc. B 51, 1989).
    """

    def __init__(self, level: float = FALSE_ALARMS) -> None:
        self.level = level
        self.spent = 0.0
        self._next = 1

    def is_due(self, pairs: int, share: float) -> bool:
        """Return whether to look now, after this share of the time: there are enough new pairs to reject something."""
        return (pairs >= self._next or share >= 1) and rejected_sums(pairs, self._may_spend(share)) > 0

    def look(self, differences: Floats, share: float) -> Look:
        """Test all differences so far, with what may be spent by now."""
        pairs = len(differences)
        sums = rejected_sums(pairs, self._may_spend(share))
        self.spent += level_of(pairs, sums)
        self._next = max(pairs + 1, ceil(PAIRS_TO_NEXT_LOOK * pairs))
        return Look(pairs, estimate(differences), *interval(differences, sums))

    def _may_spend(self, share: float) -> float:
        """Return how much of the chance may be spent now."""
        return max(self.level * log(1 + (e - 1) * min(share, 1.0)) - self.spent, 0.0)


PairsVerdict = Literal["faster", "slower", "no_difference", "cannot_tell"]
FASTER: PairsVerdict = "faster"
SLOWER: PairsVerdict = "slower"
NO_DIFFERENCE: PairsVerdict = "no_difference"
CANNOT_TELL: PairsVerdict = "cannot_tell"


@dataclass(frozen=True)
class Judgement:
    """The ratio of the second version's step to the first's; `limit` is the share of the step that matters."""

    pairs: int
    ratio: float
    low: float
    """The interval from `low` to `high` holds the ratio; it is 0 to infinity after too few pairs."""
    high: float
    limit: float
    fewest: int = FEWEST_PAIRS
    """The fewest pairs that a bounded interval needs."""
    uneven: bool = False
    """Whether processes of one version differ so much that other programs must set the pace: then a small difference
    does not show that the versions are alike."""

    @property
    def verdict(self) -> PairsVerdict:
        """Whether the second version is faster or slower, or the same within the limit.

        "No difference" above the limit means that the whole interval is within it. These are two one-sided tests, each
        at half of the level (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987, needs the whole level for each).
        """
        if self.high < self.over and self.low > 1 / self.over:
            return CANNOT_TELL if self.uneven else NO_DIFFERENCE
        if self.low > 1:
            return SLOWER
        return FASTER if self.high < 1 else CANNOT_TELL

    @property
    def over(self) -> float:
        """The ratio above which the second version is slower by more than the limit."""
        return 1 + self.limit

    @property
    def is_enough(self) -> bool:
        """Whether to stop: the difference is certainly beyond the limit, or its interval is as narrow as the limit."""
        if self.verdict == CANNOT_TELL:
            return False
        if self.verdict == NO_DIFFERENCE or self.low > self.over or self.high < 1 / self.over:
            return True
        return self.high / self.low <= self.over**2

    @property
    def is_too_slow(self) -> bool:
        """Whether it is certainly slower, and the estimate is beyond the limit."""
        return self.verdict == SLOWER and self.ratio > self.over


def judge(look: Look, limit: float, fewest: int = FEWEST_PAIRS, *, uneven: bool = False) -> Judgement:
    """Return the judgement that a look gives; `limit` is a share of the step."""
    high = exp(look.high) if look.high < inf else inf
    return Judgement(look.pairs, exp(look.centre), exp(look.low), high, limit, fewest, uneven)


def pairs_for(judgement: Judgement) -> int | None:
    """Return about how many pairs would make the interval as narrow as the limit; None without a bounded interval.

    Its width falls with the root of the number of pairs.
    """
    if not 0 < judgement.low <= judgement.high < inf:
        return None
    width = log1p(judgement.high / judgement.low - 1) / 2
    return max(judgement.pairs + 1, round(judgement.pairs * (width / log1p(judgement.limit)) ** 2))
