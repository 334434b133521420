"""Finds how many optimizer steps make a step of the program, from the steps of other optimizers or rollout pauses."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple, TypeAlias

from pinprof.trace.spans.steps import MIN_STEP_REPEATS

MAX_ROUND_STEPS = 16  # the most steps of the least frequent optimizer in a round of all optimizers
MAX_GROUP_STEPS = 64
"""The most optimizer steps per iteration; PPO has 4 to 40 by its usual settings. After this number of steps of the
marking optimizer the search ends, unless a rollout may have begun."""
MAX_SEARCH_STEPS = (MIN_STEP_REPEATS + 1) * MAX_GROUP_STEPS  # the search ends after this number of steps even then
PAUSE_FACTOR = 3.0  # a pause takes at least PAUSE_FACTOR times the usual time between optimizer steps
MIN_SHARE_OF_SECOND_PAUSE = 0.25
"""A pause takes at least this share of the second longest one: a hiccup of the host does not count."""
MIN_PAUSE_SHARE_OF_TIME = 0.1
"""The share of all time that the pauses must take; if they take less, the optimizer step is the better step."""
MIN_ROLLOUT_CALLS = 4
"""The fewest calls of modules in a rollout. In a pause with fewer calls the program prints, saves, or waits for a
queue."""
MAX_OTHER_PAUSES = 3
"""After this number of pauses without a rollout none is expected; a busy machine makes one now and then."""


OtherSteps: TypeAlias = frozenset[tuple[Hashable, int]]  # how often each other optimizer steps between two steps of one


class Gap(NamedTuple):
    """The time between two steps of one optimizer, and what the program did in it."""

    ns: int
    calls: int | None = None  # calls of outermost modules; None if they were not watched all the time
    evaluated: bool = False  # whether a model was switched to evaluation
    draws: int = 0  # batches drawn from a DataLoader; with some, its calls of modules evaluate
    others: OtherSteps = frozenset()

    @property
    def other_steps(self) -> int:
        """How many steps of other optimizers it has."""
        return sum(count for _, count in self.others)


class Groups:
    """Decides for each step of the marking optimizer whether a step of the program ends with it.

    `size` is how many of its steps make one step of the program: more than 1 if the other optimizers repeat a round
    over them, or if they are the updates of one iteration of reinforcement learning. It is 1 until that is known, and
    unless groups are `wanted`. `wants_calls` says that calls of modules have to be counted.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.size = 1
        self.wants_calls = False
        self._searches = self._wanted = wanted
        self._is_chosen = False
        self._optimizer: Hashable = None
        """The one that marks the steps; the one that stepped last as long as that is not chosen."""
        self._gaps: list[Gap] = []
        self._last_ns: int | None = None
        self._others: Counter[Hashable] = Counter()  # the steps of other optimizers since its last one
        self._calls: int | None = None
        self._evaluated, self._draws = False, 0
        self._since_end = 0
        self._pause_ns = inf  # after a pause of this length the count begins anew; infinite for rounds of optimizers
        self._first = 0  # the first gap that counts for rollouts: the one after the latest pause without a rollout
        self._other_pauses = 0

    def begin(self, optimizer: Hashable, earlier: Sequence[Hashable]) -> bool:
        """Begin with the marking optimizer and those of all `earlier` steps; return whether a step ends here."""
        self._is_chosen = True
        if {*earlier, optimizer} != {self._optimizer}:
            now_ns = self._last_ns or 0
            self._start(optimizer)
            for other in earlier:
                self._note(other, now_ns)
            self._first = len(self._gaps) + 1  # the times of these, and of the next one, are not known
        if optimizer not in earlier:
            self._give_up()
        return self._search()

    def drew(self) -> None:
        """Note a batch drawn from a DataLoader."""
        self._draws += 1

    def called(self) -> None:
        """Note a call of an outermost module."""
        if self._calls is not None:
            self._calls += 1

    def evaluated(self) -> None:
        """Note that the program switches a model to evaluation."""
        self._evaluated = True

    def stepped(self, optimizer: Hashable, at_ns: int) -> bool:
        """Return whether the program's step ends with this one."""
        if not self._is_chosen and optimizer != self._optimizer:
            self._start(optimizer)
        after_ns = at_ns - (self._last_ns or at_ns)
        if self._searches:
            self._note(optimizer, at_ns)
        if optimizer != self._optimizer:
            return True
        self._last_ns = at_ns
        if self.size == 1:
            return self._search()
        self._since_end = 1 if after_ns >= self._pause_ns else self._since_end + 1
        if self._since_end < self.size:
            return False
        self._since_end = 0
        return True

    def named(self, text: str) -> str:
        """Return what a marker with this text is called, once the size of a group is known."""
        if self.size == 1:
            return text
        what = ": one iteration of rollout and updates" if self._pause_ns < inf else ""
        return f"every {ordinal(self.size)} {text}{what}"

    def _start(self, optimizer: Hashable) -> None:
        self.size, self._searches, self._optimizer, self._last_ns = 1, self._wanted, optimizer, None
        self._gaps, self._others, self._first = [], Counter(), 0

    def _note(self, optimizer: Hashable, at_ns: int) -> None:
        if optimizer != self._optimizer:
            self._others[optimizer] += 1
            return
        if self._last_ns is not None:
            others = frozenset(self._others.items())
            self._gaps.append(Gap(at_ns - self._last_ns, self._calls, self._evaluated, self._draws, others))
        self._last_ns, self._calls = at_ns, 0 if self.wants_calls else None
        self._evaluated, self._draws = False, 0
        self._others.clear()

    def _search(self) -> bool:
        """Search the gaps so far for groups; return whether a step of the program ends with the last step."""
        if not self._searches:
            return True
        gaps = self._gaps
        others = [gap.others for gap in gaps[1:]]  # the start of a program may differ
        size = max(round_size(others), steps_per_batch(gaps[1:]))
        if size > 1:
            # a round ends where the other optimizers make most steps before the next step of this one, or at the draw
            longest = max(range(size), key=lambda index: gaps[index - size].other_steps + gaps[index - size].draws)
            self._find(size, since_end=(size - longest) % size)
            return self._since_end == 0
        if len(gaps) - self._first > (MAX_SEARCH_STEPS if self.wants_calls else MAX_GROUP_STEPS):
            self._give_up()
        elif self._other_pauses < MAX_OTHER_PAUSES and len(set(others[-MIN_STEP_REPEATS:])) <= 1:
            late = gaps[self._first :]
            if not any(gap.draws for gap in late):
                return self._search_rollouts(late)
        self.wants_calls = False
        return True

    def _search_rollouts(self, gaps: Sequence[Gap]) -> bool:
        """Search for updates after rollouts; return False in the third of equal groups, whose end is awaited."""
        if not self.wants_calls:
            self.wants_calls = _begins_like_rollouts(gaps)
            self._calls = 0 if self.wants_calls else None
            return True
        positions = pauses(gaps)
        if positions and positions[-1] == len(gaps) - 1 and not _may_be_rollout(positions[-1], gaps):
            self._first += len(gaps)
            self._other_pauses += 1
        elif (size := group_size(gaps)) is not None:
            self._find(size, pause_ns=PAUSE_FACTOR * median(gap.ns for gap in gaps))
        else:
            return not _is_nearly_sure(positions, gaps)
        return True

    def _find(self, size: int, since_end: int = 0, pause_ns: float = inf) -> None:
        self._give_up()
        self.size, self._since_end, self._pause_ns = size, since_end, pause_ns

    def _give_up(self) -> None:
        """End the search: from now on each step ends one, or each group."""
        self.wants_calls = self._searches = False
        self._gaps.clear()


def ordinal(number: int) -> str:
    """Return the number as an ordinal: 16th."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else endings.get(number % 10, 'th')}"


def steps_per_batch(gaps: Sequence[Gap]) -> int:
    """Return how many optimizer steps the program has recently made for each batch drawn, such as one user's."""
    size = round_size([gap.draws for gap in gaps])
    late = gaps[-size:]
    return size if sum(gap.draws for gap in late) == 1 and not any(gap.evaluated for gap in late) else 1


def round_size(others: Sequence[Hashable]) -> int:
    """Return over how many gaps the other optimizers have recently repeated a round; 1 without a longer one."""
    for size in range(1, min(MAX_ROUND_STEPS, len(others) // MIN_STEP_REPEATS) + 1):
        late = others[-MIN_STEP_REPEATS * size :]
        if late[:-size] == late[size:]:
            return size
    return 1


def pauses(gaps: Sequence[Gap]) -> list[int]:
    """Return which of the gaps are much longer than the usual one."""
    if len(gaps) < 2:  # noqa: PLR2004  one gap is as usual as itself
        return []
    times = sorted(gap.ns for gap in gaps)
    bound = max(PAUSE_FACTOR * median(times), MIN_SHARE_OF_SECOND_PAUSE * times[-2])
    return [index for index, gap in enumerate(gaps) if gap.ns >= bound]


def group_size(gaps: Sequence[Gap]) -> int | None:
    """Return the optimizer steps of an iteration, by MIN_STEP_REPEATS whole groups; those of the start may differ."""
    positions = pauses(gaps)
    sizes = [later - earlier for earlier, later in pairwise([-1, *positions, len(gaps)])]
    size = sizes[-1]
    repeats = next((number for number, other in enumerate(reversed(sizes)) if other != size), len(sizes))
    if not 1 < size <= MAX_GROUP_STEPS or repeats < MIN_STEP_REPEATS or sum(sizes[:-repeats]) > 2 * size:
        return None
    return size if _are_rollouts(positions[1 - repeats :], gaps) else None


def _are_rollouts(positions: Sequence[int], gaps: Sequence[Gap]) -> bool:
    """Return whether these pauses take enough time, and those in which calls were counted are rollouts."""
    paused = [gaps[index] for index in positions]
    if sum(gap.ns for gap in paused) < MIN_PAUSE_SHARE_OF_TIME * sum(gap.ns for gap in gaps):
        return False
    watched = any(gap.calls is not None for gap in paused)
    return watched and all(_may_be_rollout(index, gaps) for index in positions)


def _may_be_rollout(index: int, gaps: Sequence[Gap]) -> bool:
    """Return whether far more modules are called in this gap than in the usual one, or their calls are not known."""
    gap = gaps[index]
    if gap.evaluated or gap.calls is None:
        return not gap.evaluated
    usual = median([other.calls for other in gaps if other.calls is not None])
    return gap.calls >= max(MIN_ROLLOUT_CALLS, PAUSE_FACTOR * usual)


def _is_nearly_sure(positions: Sequence[int], gaps: Sequence[Gap]) -> bool:
    """Return whether only one more group of the same size is needed, and the pauses so far are rollouts."""
    sizes = {later - earlier for earlier, later in pairwise([-1, *positions])}
    return len(positions) >= MIN_STEP_REPEATS - 1 and len(sizes) == 1 and _are_rollouts(positions, gaps)


def _begins_like_rollouts(gaps: Sequence[Gap]) -> bool:
    """Return whether the last gap is long enough for a rollout."""
    if len(gaps) < 2 or gaps[-1].evaluated:  # noqa: PLR2004  the usual gap, and this one
        return False
    usual = median(gap.ns for gap in gaps[:-1])
    return gaps[-1].ns >= PAUSE_FACTOR * usual and gaps[-1].ns >= MIN_PAUSE_SHARE_OF_TIME * sum(gap.ns for gap in gaps)
