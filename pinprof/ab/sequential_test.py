"""Measures pairs until the difference can be told from noise, or the time is over."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log1p
from random import Random
from statistics import median
from typing import Literal, Protocol, TypeAlias

import numpy as np

from pinprof.ab.statistics import (
    FALSE_ALARMS,
    Floats,
    Judgement,
    Look,
    SequentialLooks,
    estimate,
    fewest_pairs,
    interval,
    judge,
    rejected_sums,
)
from pinprof.ab.times import Pair

UNLIKE, MOST_UNLIKE = 2.0, 0.05
"""A process is unlike the others of its version if its usual step is at least this many times as long or as short as
theirs; and the largest share of such processes with which versions can be compared."""

ComparedBy: TypeAlias = Literal["usual", "quickest", "mean"]


@dataclass(frozen=True)
class Bounds:
    """When to end: `limit` is the share of the step that matters."""

    limit: float = 0.02
    seconds: float = 600.0
    false_alarms: float = FALSE_ALARMS
    overtime: float = 0.0
    """The share of `seconds` by which it goes on where all pairs agree and only their number is too small."""

    def judge(self, look: Look, pairs: Sequence[Pair]) -> Judgement:
        """Return the judgement that a look at these pairs gives."""
        return judge(look, self.limit, fewest_pairs(self.false_alarms), uneven=is_uneven(pairs))


@dataclass(frozen=True)
class PairsProgress:
    """What is known so far; `judgement` is None before the first pair."""

    pairs: int
    judgement: Judgement | None
    left_s: float
    certain_in_s: float = 0.0
    """In overtime: how long the missing pairs take, if all agree."""


@dataclass(frozen=True)
class SequentialTest:
    """The result of all pairs."""

    pairs: tuple[Pair, ...]
    judgement: Judgement
    mean: Judgement
    """The same for the means, which include work that is in only some of the steps; judged once, at the end."""
    seconds: float
    interrupted: bool


class Chance(Protocol):
    """Draws which version is first."""

    def random(self) -> float:
        """Return a number from 0 to 1."""


def run_test(
    measure: Callable[[int], Pair],
    bounds: Bounds,
    *,
    is_ready: Callable[[], bool] = lambda: False,
    tell: Callable[[PairsProgress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    rng: Chance | None = None,
) -> SequentialTest:
    """Measure pairs, and return the result; `measure` gets the version that is first, 0 or 1.

    `is_ready` says whether the processes of the next pair have started, which then takes much less time.

    `rng` draws which version is first in each pair. So in a comparison of a program with itself each difference is as
    likely positive as negative, for any noise and any drift, and the signed-rank test is exact (Fisher, The Design of
    Experiments, 1935). An interruption ends the test with the pairs so far.

    In overtime only one look follows, at the fewest pairs with which the test can reject anything, and with the whole
    chance of a false alarm: no look before has spent any. So overtime may depend on the differences.
    """
    # random for each pair rather than strict turns: noise with a period of four runs would fool A B B A A B B A
    draw, looks = rng or Random(), SequentialLooks(bounds.false_alarms)  # noqa: S311  no secret
    pairs: list[Pair] = []
    start, latest, interrupted, missing_s = clock(), None, False, 0.0
    longest = {True: 0.0, False: 0.0}
    try:
        while True:
            left_s = bounds.seconds - (clock() - start)
            tell(PairsProgress(len(pairs), so_far(pairs, bounds), left_s, missing_s))
            began, ready = clock(), is_ready()
            pairs.append(measure(int(draw.random() < 1 / 2)))
            longest[ready] = max(longest[ready], clock() - began)
            is_over = clock() - start + longest[is_ready()] > bounds.seconds
            missing_s = _missing_s(pairs, bounds, clock() - start, longest[is_ready()]) if is_over else 0.0
            if missing_s:
                continue
            share = 1.0 if is_over else (clock() - start) / bounds.seconds
            # a look spends some of the chance of a false alarm: pairs that have started come first
            is_due = looks.is_due(len(pairs), share) and (is_over or not is_ready())
            if is_due or (is_over and latest is None):
                latest = looks.look(differences(pairs), share)
            if is_over or (latest is not None and bounds.judge(latest, pairs).is_enough):
                break
    except KeyboardInterrupt:
        if not pairs:
            raise
        interrupted = True
        if latest is None or latest.pairs < len(pairs):
            latest = looks.look(differences(pairs), (clock() - start) / bounds.seconds)
    assert latest is not None, "it has looked"
    return SequentialTest(
        tuple(pairs), bounds.judge(latest, pairs), _of_means(pairs, bounds), clock() - start, interrupted
    )


def so_far(pairs: list[Pair], bounds: Bounds) -> Judgement | None:
    """Return the judgement of the pairs without regard to earlier looks: it is shown, and does not end the test."""
    return _judged(differences(pairs), pairs, bounds) if pairs else None


def _judged(values: Floats, pairs: Sequence[Pair], bounds: Bounds) -> Judgement:
    sums = rejected_sums(len(pairs), bounds.false_alarms)
    return bounds.judge(Look(len(pairs), estimate(values), *interval(values, sums)), pairs)


def _missing_s(pairs: Sequence[Pair], bounds: Bounds, spent_s: float, pair_s: float) -> float:
    """Return how long the missing pairs take in overtime; 0 without overtime.

    There is overtime if in all pairs the same version is slower, and the estimate is beyond the limit.
    """
    values = differences(pairs)
    agree = abs(np.sign(values).sum()) == len(values) and abs(estimate(values)) > log1p(bounds.limit)
    seconds = max(fewest_pairs(bounds.false_alarms) - len(pairs), 0) * pair_s
    return seconds if agree and spent_s + seconds <= (1 + bounds.overtime) * bounds.seconds else 0.0


def is_by_quickest(pairs: Sequence[Pair]) -> bool:
    """Return whether to compare the quickest step of each turn: it scatters less than the usual one.

    Other programs make steps longer, never shorter. Where they do not disturb some steps, the quickest ones scatter far
    less; where steps are so long that all are disturbed, the quickest ones scatter more. The choice depends on how
    turns scatter within pairs, which is the same if the versions change places: so the signed-rank test stays exact.
    """
    quickest = [pair.quickest.error for pair in pairs if pair.quickest is not None]
    return 0 < len(quickest) == len(pairs) and median(quickest) < median(pair.usual.error for pair in pairs)


def is_uneven(pairs: Sequence[Pair]) -> bool:
    """Return whether the processes of a version are unlike each other.

    Where other programs use the cores, threads that wait for each other make any step ten times as long: two versions
    seemed alike within 2 % although one had 30 % more to do.
    """
    usual = np.log([pair.usual_ns for pair in pairs])
    unlike = np.abs(usual - np.median(usual, axis=0)) > log(UNLIKE)
    return bool(unlike.mean() > MOST_UNLIKE)


def compared_by(pairs: Sequence[Pair]) -> ComparedBy:
    """Return which steps are judged: the means where workers set the pace, else the quickest or the usual ones."""
    if any(pair.by_mean for pair in pairs):
        return "mean"
    return "quickest" if is_by_quickest(pairs) else "usual"


def differences(pairs: Sequence[Pair]) -> Floats:
    """Return the differences that are judged."""
    if is_by_quickest(pairs):
        return np.array([pair.quickest.value for pair in pairs if pair.quickest is not None])
    return np.array([pair.usual.value for pair in pairs])


def _of_means(pairs: list[Pair], bounds: Bounds) -> Judgement:
    return _judged(np.array([pair.mean.value for pair in pairs]), pairs, bounds)
