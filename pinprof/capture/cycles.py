"""Finds how many steps of one optimizer make a step of the program, by what the other optimizers do between them.

SAC with delayed updates steps its critics twice, then each of its other optimizers twice: between two steps of one of
these are now one step of others, now four. A step of the program is then two of them. No times matter, so that each run
of a program finds the same.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice, pairwise

LARGEST_CYCLE = 16
"""Steps of the least frequent optimizer in a step of the program."""
ROUNDS = 3
"""How often a cycle must have come."""
LONGEST_WATCH = (ROUNDS + 1) * LARGEST_CYCLE
"""Steps after which there is nothing to find."""

Between = frozenset[tuple[Hashable, int]]
"""How often each other optimizer steps between two steps of the one."""


def cycle_size(between: Sequence[Between]) -> int | None:
    """Return after how many of its steps the others have of late done the same again; None if they have not."""
    for size in range(1, min(LARGEST_CYCLE, len(between) // ROUNDS) + 1):
        late = between[-ROUNDS * size :]
        if late[:-size] == late[size:]:
            return size
    return None


class Cycles:
    """Tells for each step of an optimizer, in order, whether a step of the program ends with it.

    `size` is how many make one, 1 until it is known. `is_even` says that of late the others have done the same between
    any two of them.
    """

    def __init__(self, optimizer: Hashable, earlier: Sequence[Hashable]) -> None:
        """Begin with what optimizers have done: which one has made each step."""
        self.size = 1
        self.is_even = True
        self._since_end = 0
        self._watches = True
        ends = [place for place, one in enumerate(earlier) if one == optimizer]
        # a program may begin in its own way: what comes before the second step does not count
        self._between = [_others(earlier[begin + 1 : end]) for begin, end in islice(pairwise(ends), 1, None)]
        self._now: Counter[Hashable] = Counter(earlier[ends[-1] + 1 :] if ends else earlier)
        self._look()

    @property
    def at_end(self) -> bool:
        """Whether a step of the program ended with the last step of the optimizer."""
        return self._since_end == 0

    def other(self, optimizer: Hashable) -> None:
        """Note a step of another optimizer."""
        if self._watches:
            self._now[optimizer] += 1

    def ends(self) -> bool:
        """Note a step of the optimizer, and return whether the program's ends with it."""
        if self._watches:
            self._between.append(frozenset(self._now.items()))
            self._now.clear()
            self._look()
        elif self.size > 1:
            self._since_end = (self._since_end + 1) % self.size
        return self.at_end

    def _look(self) -> None:
        between = self._between
        self.is_even = len(set(between[-ROUNDS:])) <= 1
        size = cycle_size(between)
        if size is not None and size > 1:
            self.size, self._watches = size, False
            # a round ends where the others do most before the next step of this one: between two bursts
            last = range(len(between) - size, len(between))
            longest = max(last, key=lambda place: sum(count for _, count in between[place]))
            self._since_end = (len(between) - longest) % size
            between.clear()
        elif len(between) >= LONGEST_WATCH:
            self._watches = False
            between.clear()


def _others(steps: Sequence[Hashable]) -> Between:
    return frozenset(Counter(steps).items())
