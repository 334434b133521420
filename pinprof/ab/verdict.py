"""What the pairs say: faster, slower, no difference above the limit, or nothing certain."""

from dataclasses import dataclass
from math import exp, inf, log1p
from typing import Literal

from pinprof.ab.looks import FEWEST_PAIRS, Look

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
