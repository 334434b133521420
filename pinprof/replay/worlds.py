"""Worlds: choices of the few things that a trace cannot tell. Everything is computed in each of them.

A trace does not tell what the profiler cost the host, how fast the host is without it, whether other ranks would come
as late, how much of a removed wait returns elsewhere, and by what two runs of a program differ. A world is one choice
of these. The step, the cost of a limit and the saving of a change are computed in each world. Shown are the value in
the expected world and the 10th and 90th percentile over all. So they fit each other: where the step is long, a limit
costs much, and its fix saves as much.

The worlds are a lattice of rank 1 (Sloan and Joe, *Lattice Methods for Multiple Integration*, 1994) around the expected
world: the same on every machine, and each choice is spread evenly over its distribution.
"""

from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pinprof.replay.program import Floats

RangeNs: TypeAlias = tuple[float, float]
"""The 10th and the 90th percentile over the worlds."""

WORLD_COUNT: Final = 23
"""Worlds; the one in the middle is the expected one."""
_LOW, _HIGH = 0.1, 0.9


class Worlds(NamedTuple):
    """The choices of each world, one entry per world: normally distributed, 0 expected, 90th percentile 1."""

    host: Floats
    """How slow the host is without the profiler, and so how little the profiler cost."""
    ranks: Floats
    """How much of the waiting for other ranks the profiler caused; none where it is negative."""
    change: Floats
    """How much of a change is realized."""
    drift: Floats
    """By what a run after a change differs from the run before it."""


def _choices(generator: int) -> Floats:
    """Return a choice per world; all choices of a generator that shares no factor with `WORLD_COUNT` differ."""
    half = WORLD_COUNT // 2
    levels = (np.arange(-half, half + 1) * generator + half) % WORLD_COUNT
    normal = np.array([NormalDist().inv_cdf((level + 0.5) / WORLD_COUNT) for level in levels.tolist()])
    return normal / float(np.quantile(normal, _HIGH))


WORLDS: Final = Worlds(_choices(1), _choices(4), _choices(10), _choices(17))
"""Of all such generators, these have the least correlations: 0.23 at most."""


def middle(values: Floats) -> float:
    """Return the value in the expected world, in which each choice is its median."""
    return float(values[WORLD_COUNT // 2])


def range_of(values: Floats) -> RangeNs:
    """Return the 10th and the 90th percentile over the worlds, and no less than the value in the expected world."""
    low, high = np.quantile(values, (_LOW, _HIGH)).tolist()
    return min(low, middle(values)), max(high, middle(values))
