"""Measures two versions of a program in turns: each run has a fresh process, and the order changes with each turn."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import comb

BEFORE, AFTER = "before", "after"
CONFIDENCE = 0.95

Run = Callable[[str], float | None]
"""Runs a version in a process of its own; returns its step in ms, or None where it failed."""


@dataclass(frozen=True)
class Turns:
    """The steps of both versions in ms, a pair for each turn."""

    pairs_ms: tuple[tuple[float, float], ...]

    @property
    def ratio(self) -> float:
        """Return the median over the turns of the step after, as a share of that before."""
        return statistics.median(self._ratios)

    @property
    def range(self) -> tuple[float, float] | None:
        """Return the narrowest pair of ranks that holds the median with `CONFIDENCE`; None of five turns or fewer.

        The number of turns below the true median has a binomial distribution, whatever that of the ratios is.
        """
        count, outside, rank = len(self._ratios), 0, 0
        while rank < count // 2:
            outside += 2 * comb(count, rank)
            if outside > (1 - CONFIDENCE) * 2**count:
                break
            rank += 1
        return (self._ratios[rank - 1], self._ratios[-rank]) if rank else None

    @property
    def drift(self) -> float:
        """Return by what share a version differs from itself one turn later, at the most."""
        versions = zip(*self.pairs_ms, strict=True)
        return max((abs(later / earlier - 1) for steps in versions for earlier, later in pairwise(steps)), default=0.0)

    @property
    def _ratios(self) -> list[float]:
        return sorted(after / before for before, after in self.pairs_ms)

    def __str__(self) -> str:
        """Return the medians of both versions, what is saved, and the drift."""
        before, after = (statistics.median(steps) for steps in zip(*self.pairs_ms, strict=True))
        low, high = (f"{100 * (1 - bound):.1f}" for bound in (self.range or (self.ratio, self.ratio))[::-1])
        saved = f"{100 * (1 - self.ratio):.1f} % saved ({f'{low} to {high}' if self.range else 'too few turns'})"
        return f"{before:.2f} -> {after:.2f} ms, {saved}; {len(self.pairs_ms)} turns, drift {100 * self.drift:.1f} %"


def in_turns(run: Run, turns: int) -> Turns:
    """Run both versions this number of times; a turn in which one fails does not count."""
    return Turns(tuple(_pairs(run, turns)))


def _pairs(run: Run, turns: int) -> Iterator[tuple[float, float]]:
    for turn in range(turns):
        order = (BEFORE, AFTER) if turn % 2 == 0 else (AFTER, BEFORE)  # what drifts evenly cancels
        steps = {version: run(version) for version in order}
        before, after = steps[BEFORE], steps[AFTER]
        if before is not None and after is not None:
            yield before, after
