"""Finds how many optimizer steps make a step of the program, from the steps of other optimizers or rollout pauses."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice, pairwise
from statistics import median
from typing import NamedTuple

from pinprof.trace.steps import MIN_REPEATS


class Groups:
    """Decides for each step of the marking optimizer whether a step of the program ends with it.

    Several steps of that optimizer are one step of the program if the other optimizers repeat a cycle over them, or if
    they make one iteration of reinforcement learning. Unless groups are `wanted`, each step is one of the program.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.iterations = Iterations()
        self._wanted = wanted
        self._cycles: Cycles | None = None
        self._optimizer: Hashable = None
        """The one whose steps make the iterations."""

    def begin(self, optimizer: Hashable, earlier: Sequence[Hashable]) -> bool:
        """Begin with the marking optimizer and those of all `earlier` steps; return whether a step ends here."""
        self._cycles = Cycles(optimizer, earlier) if self._wanted and optimizer in earlier else None
        return self._cycles is None or self._cycles.at_end

    def stepped(self, optimizer: Hashable, at_ns: int, *, draws: bool) -> bool:
        """Return whether the program's step ends with this one; a program that `draws` batches has no rollouts."""
        cycles = self._cycles
        if cycles is not None and optimizer != cycles.optimizer:
            cycles.other(optimizer)
            return True
        if cycles is not None:
            ends = cycles.ends()
            if cycles.size > 1 or not cycles.is_even:
                self._optimizer = None
                return ends
        if draws or not self._wanted:
            self.iterations.give_up()
            return True
        if optimizer != self._optimizer:
            self.iterations, self._optimizer = Iterations(), optimizer
        return self.iterations.stepped(at_ns)

    def named(self, text: str) -> str:
        """Return what a marker with this text is called, once the size of a group is known."""
        if self._cycles is None:
            return text
        if self._cycles.size > 1:
            return f"every {ordinal(self._cycles.size)} {text}"
        size = self.iterations.size
        return f"every {ordinal(size)} {text}: one iteration of rollout and updates" if size is not None else text


def ordinal(number: int) -> str:
    """Return the number as an ordinal: 16th."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else endings.get(number % 10, 'th')}"


LARGEST_CYCLE = 16
"""The most steps of the least frequent optimizer in a step of the program."""

LONGEST_WATCH = (MIN_REPEATS + 1) * LARGEST_CYCLE
"""The steps after which the search for a cycle ends."""

Between = frozenset[tuple[Hashable, int]]
"""How often each other optimizer steps between two steps of the marking one."""


def cycle_size(between: Sequence[Between]) -> int | None:
    """Return the length of the cycle that the other optimizers have recently repeated, in steps; None without one."""
    for size in range(1, min(LARGEST_CYCLE, len(between) // MIN_REPEATS) + 1):
        late = between[-MIN_REPEATS * size :]
        if late[:-size] == late[size:]:
            return size
    return None


class Cycles:
    """Decides for each step of an optimizer, in order, whether a step of the program ends with it.

    `size` is how many of its steps make one step of the program, 1 until that is known. `is_even` says that the other
    optimizers have recently made the same steps between any two of its steps.
    """

    def __init__(self, optimizer: Hashable, earlier: Sequence[Hashable]) -> None:
        """Begin with the optimizer of each `earlier` step."""
        self.optimizer = optimizer
        self.size = 1
        self.is_even = True
        self._since_end = 0
        self._watches = True
        ends = [place for place, stepping in enumerate(earlier) if stepping == optimizer]
        # the start of a program may differ, so steps before the optimizer's second one do not count
        others = [Counter(earlier[begin + 1 : end]) for begin, end in islice(pairwise(ends), 1, None)]
        self._between: list[Between] = [frozenset(steps.items()) for steps in others]
        self._now: Counter[Hashable] = Counter(earlier[ends[-1] + 1 :])
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
        self.is_even = len(set(between[-MIN_REPEATS:])) <= 1
        size = cycle_size(between)
        if size is not None and size > 1:
            self.size, self._watches = size, False
            # a cycle ends where the other optimizers make most steps before the next step of this one
            last = range(len(between) - size, len(between))
            longest = max(last, key=lambda place: sum(count for _, count in between[place]))
            self._since_end = (len(between) - longest) % size
            between.clear()
        elif len(between) >= LONGEST_WATCH:
            self._watches = False
            between.clear()


LARGEST_GROUP = 64
"""The most optimizer steps per iteration; PPO has 4 to 40 by its usual settings."""

PAUSE = 3.0
"""A pause takes at least PAUSE times the usual time between optimizer steps."""

LIKE_OTHER_PAUSES = 0.25
"""A pause takes at least this share of the second longest one: a hiccup of the host does not count."""

MIN_SHARE = 0.1
"""The share of all time that the pauses must take; if they take less, the optimizer step is the better step."""

MIN_ROLLOUT_CALLS = 8
"""The fewest calls of modules in a rollout. In a pause with fewer calls the program prints, saves, or waits for a
queue."""

MOST_OTHER_PAUSES = 3
"""The search ends after this number of pauses without a rollout; a busy machine makes one now and then."""

LONGEST_SEARCH = (MIN_REPEATS + 1) * LARGEST_GROUP
"""The search ends after this number of optimizer steps."""


class Gap(NamedTuple):
    """The time between two optimizer steps."""

    ns: int
    calls: int | None = None
    """Calls of outermost modules; None if they were not watched all the time."""
    evaluated: bool = False
    """Whether a model was switched to evaluation."""


def pauses(gaps: Sequence[Gap]) -> list[int]:
    """Return which of the gaps are much longer than the usual one."""
    if len(gaps) < 2:  # noqa: PLR2004  one gap is as usual as itself
        return []
    times = sorted(gap.ns for gap in gaps)
    bound = max(PAUSE * median(times), LIKE_OTHER_PAUSES * times[-2])
    return [place for place, gap in enumerate(gaps) if gap.ns >= bound]


def group_size(gaps: Sequence[Gap]) -> int | None:
    """Return how many optimizer steps make an iteration, if the last steps came in MIN_REPEATS groups of that size.

    The last group has to be complete: it ends with the step after the last gap. Only the first steps of the program,
    which take long, may differ: at most as many as two groups have.
    """
    at = pauses(gaps)
    sizes = [later - earlier for earlier, later in pairwise([-1, *at, len(gaps)])]
    size = sizes[-1]
    alike = next((number for number, other in enumerate(reversed(sizes)) if other != size), len(sizes))
    if not 1 < size <= LARGEST_GROUP or alike < MIN_REPEATS or sum(sizes[:-alike]) > 2 * size:
        return None
    return size if _are_rollouts(at[1 - alike :], gaps) else None


def _are_rollouts(at: Sequence[int], gaps: Sequence[Gap]) -> bool:
    """Return whether these pauses take enough time, and those in which calls were counted are rollouts."""
    paused = [gaps[place] for place in at]
    if sum(gap.ns for gap in paused) < MIN_SHARE * sum(gap.ns for gap in gaps):
        return False
    watched = any(gap.calls is not None for gap in paused)
    return watched and all(_may_be_rollout(place, gaps) for place in at)


def _may_be_rollout(place: int, gaps: Sequence[Gap]) -> bool:
    """Return whether far more modules are called in this gap than in the usual one, or their calls are not known."""
    gap = gaps[place]
    if gap.evaluated or gap.calls is None:
        return not gap.evaluated
    usual = median([other.calls for other in gaps if other.calls is not None])
    return gap.calls >= max(MIN_ROLLOUT_CALLS, PAUSE * usual)


class Iterations:
    """Decides for each optimizer step of a program, in order, whether an iteration ends with it.

    `size` is the number of steps of an iteration, None until it is known. Until then every step ends one, except while
    the third of three equal groups is awaited. `wants_calls` says that calls of modules have to be counted.
    """

    def __init__(self) -> None:
        self.size: int | None = None
        self.wants_calls = False
        self._given_up = False
        self._last_ns: int | None = None
        self._gaps: list[Gap] = []
        self._calls: int | None = None
        self._evaluated = False
        self._since_end = 0
        self._pause_ns = 0.0
        self._other_pauses = 0

    def called(self) -> None:
        """Note a call of an outermost module."""
        if self._calls is not None:
            self._calls += 1

    def evaluated(self) -> None:
        """Note that the program switches a model to evaluation."""
        self._evaluated = True

    def stepped(self, at_ns: int) -> bool:
        """Return whether an iteration ends with this optimizer step."""
        if self._given_up:
            return True
        last_ns, self._last_ns = self._last_ns, at_ns
        gap = Gap(at_ns - last_ns, self._calls, self._evaluated) if last_ns is not None else None
        self._evaluated, self._calls = False, 0 if self.wants_calls else None
        if self.size is not None:
            return self._count(self.size, gap)
        if gap is not None:
            self._gaps.append(gap)
        return self._look()

    def give_up(self) -> None:
        """Let every optimizer step end an iteration from now on."""
        self.size, self.wants_calls, self._given_up = None, False, True
        self._gaps.clear()

    def _begin_anew(self) -> None:
        """Forget the steps so far, because a pause had no rollout."""
        self._gaps.clear()
        self._other_pauses += 1
        if self._other_pauses >= MOST_OTHER_PAUSES:
            self.give_up()

    def _count(self, size: int, gap: Gap | None) -> bool:
        """Count a step of an iteration, and return whether it is the last; a pause begins the count anew."""
        if gap is not None and gap.ns >= self._pause_ns:
            self._since_end = 0
        self._since_end += 1
        if self._since_end < size:
            return False
        self._since_end = 0
        return True

    def _look(self) -> bool:
        """Search the gaps so far for groups; return whether an iteration ends with this step."""
        gaps = self._gaps
        if not self.wants_calls:
            if _begins_like_rollouts(gaps):
                self.wants_calls, self._calls = True, 0
            elif len(gaps) > LARGEST_GROUP:
                self.give_up()
            return True
        at = pauses(gaps)
        if len(gaps) > LONGEST_SEARCH:
            self.give_up()
        elif at and at[-1] == len(gaps) - 1 and not _may_be_rollout(at[-1], gaps):
            self._begin_anew()
        elif (size := group_size(gaps)) is not None:
            self.size, self.wants_calls = size, False
            self._pause_ns = PAUSE * median(gap.ns for gap in gaps)
        else:
            return not _is_nearly_sure(at, gaps)
        return True


def _is_nearly_sure(at: Sequence[int], gaps: Sequence[Gap]) -> bool:
    """Return whether only one more group of the same size is needed, and the pauses so far are rollouts."""
    sizes = {later - earlier for earlier, later in pairwise([-1, *at])}
    return len(at) >= MIN_REPEATS - 1 and len(sizes) == 1 and _are_rollouts(at, gaps)


def _begins_like_rollouts(gaps: Sequence[Gap]) -> bool:
    """Return whether the last gap is long enough for a rollout."""
    if len(gaps) < 2 or gaps[-1].evaluated:  # noqa: PLR2004  the usual gap, and this one
        return False
    usual = median(gap.ns for gap in gaps[:-1])
    return gaps[-1].ns >= PAUSE * usual and gaps[-1].ns >= MIN_SHARE * sum(gap.ns for gap in gaps)
