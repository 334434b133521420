"""Takes the profiler's own cost out of the host's time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pinprof.whatif.program import STAGED, Program
from pinprof.whatif.replay import Cost, pace

KEEP = 0.4
"""At least this share of the host's time is its own: no program is known that a profiler slowed by more than 140 %."""
LOW_NS, USUAL_NS, HIGH_NS = 1_000.0, 1_600.0, 2_500.0
"""What a profiler without stacks costs per recorded op and call on H200 machines: least, usual and most. Fitted to the
measured steps of 21 programs that the host bounds, it was 1.0 to 2.5 µs in all but one."""
MOST_NS = 10_000.0
"""No profiler costs more than this per op or call."""
CLOSE = 0.005
"""A replay this near to the step needs no other cost than the usual: what the host pays does not show in the step."""
MOST_STAGING = 1.5
"""Staging takes no longer or shorter than this, in times of what was recorded; it varied by 40 % on one machine."""
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


def fitted(programs: Sequence[Program], steps: int, step_ns: float) -> Cost:
    """Return the cost with which the programs of all ranks run at this step; where none does, the nearest."""

    def lasts(cost: float) -> float:
        return pace(programs, steps, cost_of(cost)).step_ns

    insensitive = lasts(0.0) <= (1 + CLOSE) * lasts(MOST_NS)
    if insensitive or abs(lasts(USUAL_NS) / step_ns - 1) <= CLOSE:
        cost = cost_of(USUAL_NS)
    else:
        cost = cost_of(_crossing(lasts, step_ns, MOST_NS))
    if not any(call.kind == STAGED for program in programs for call in program.calls):
        return cost

    def staged(speed: float) -> float:
        return pace(programs, steps, replace(cost, staging=1 / speed)).step_ns

    if abs(staged(1.0) / step_ns - 1) <= CLOSE:
        return cost
    return replace(cost, staging=1 / max(_crossing(staged, step_ns, MOST_STAGING, 1 / MOST_STAGING), 1 / MOST_STAGING))


def _crossing(falling: Callable[[float], float], target: float, high: float, low: float = 0.0) -> float:
    """Return where between two places a function that falls reaches the target; where it does not, the nearest.

    The least is taken at which it is as low as it gets.
    """
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
