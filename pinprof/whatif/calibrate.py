"""Takes the profiler's own cost out of the host's time."""

from collections.abc import Callable
from dataclasses import dataclass

from pinprof.whatif.program import Program
from pinprof.whatif.replay import Cost, pace

KEEP = 0.4
"""At least this share of the host's time is its own: no program is known that a profiler slowed by more than 140 %."""
LOW_NS, USUAL_NS, HIGH_NS = 1_000.0, 1_600.0, 3_600.0
"""What a profiler without stacks costs per recorded op and call: least, usual and most, on H200 machines."""
MOST_NS = 10_000.0
"""No profiler costs more than this per op or call."""
CLOSE = 0.005
"""A replay this near to the step needs no other cost than the usual: what the host pays does not show in the step."""
ROUNDS = 12
"""Halvings of the search: to a few ns per event."""


@dataclass(frozen=True)
class Calibration:
    """What the profiler may have cost in a recording."""

    cost: Cost
    low: Cost
    """As little as it may be."""
    high: Cost
    """As much as it may be."""


def cost_of(per_event_ns: float) -> Cost:
    """Return a cost per event, in a program that runs on and on."""
    return Cost(per_event_ns, KEEP, steady=True)


def usual() -> Calibration:
    """Return what a profiler costs where nothing tells."""
    return Calibration(cost_of(USUAL_NS), cost_of(LOW_NS), cost_of(HIGH_NS))


def fitted(program: Program, steps: int, step_ns: float) -> Cost:
    """Return the cost with which the program runs at this step; where none does, the nearest."""

    def lasts(cost: float) -> float:
        return pace(program, steps, cost_of(cost)).step_ns

    insensitive = lasts(0.0) <= (1 + CLOSE) * lasts(MOST_NS)
    if insensitive or abs(lasts(USUAL_NS) / step_ns - 1) <= CLOSE:
        return cost_of(USUAL_NS)
    return cost_of(_crossing(lasts, step_ns))


def _crossing(falling: Callable[[float], float], target: float) -> float:
    """Return where a function that falls reaches the target, between 0 and MOST_NS; where it does not, where it ends.

    The least cost is taken at which it is as low as it gets.
    """
    low, high = 0.0, MOST_NS
    if falling(low) <= target:
        return low  # slower than the trace: not by the profiler
    target = max(target, (1 + CLOSE) * falling(high))
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if falling(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
