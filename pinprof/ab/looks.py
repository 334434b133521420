"""When to look at the pairs measured so far, and how probable a false alarm may be at each look."""

from dataclasses import dataclass
from math import ceil, e, inf, log, log2

from pinprof.ab.signed_ranks import Floats, estimate, interval, level_of, rejected_sums

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
