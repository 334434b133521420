"""Takes the profiler's own cost out of the host's time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import STAGED, Program

KEEP = 0.4
"""At least this share of the host's time is its own: no program is known that a profiler slowed by more than 140 %."""
USUAL_NS = 1_600.0
"""What a profiler costs per recorded op and call on an H200 machine, where the recording does not tell. 1.5 µs is the
median of the costs that fit the measured steps of 57 host-bound recordings without stacks, of 27 programs."""
HOST_SHARE = 0.5
"""What a profiler without stacks costs, as a share of the host's time per recorded op and call: the median of the same
recordings, of which nine in ten lie between 0.41 and 0.74. A slow host slows the profiler too; a host that was slow
only while it recorded adds time that the step without the profiler does not have."""
RARE = 90
"""Percentile of the calls, by host time per op and call: what they take beyond it is the program's own work."""
LEAST_LAUNCHES, MOST_LAUNCHES = 0.3, 0.55
"""The cost is kept between these shares of the median launch, which tells how fast the host is whatever else it does:
84 % of the same recordings lie between them."""
LOW, HIGH = 0.7, 1.5
"""The least and the most that a profiler may have cost, in times of what is expected: so it was in 93 % of the same
recordings."""
MOST_NS = 10_000.0
"""No profiler costs more than this per op or call."""
MOST_HURRIED = 4.0
"""A host that did other work besides while it recorded may be so many times as fast else."""
CLOSE = 0.005
"""A replay this near to the step keeps the usual cost: the cost on the host does not show in the step."""
MOST_STAGING = 1.5
"""Staging takes no longer or shorter than this, in times of what was recorded; it varied by 40 % on one machine."""
ROUNDS = 12
"""Halvings of the search: to a few ns per event."""


@dataclass(frozen=True)
class Calibration:
    """What the profiler may have cost in a recording."""

    cost: ProfilerCost
    low: ProfilerCost
    """As little as it may be."""
    high: ProfilerCost
    """As much as it may be."""


def cost_of(per_event_ns: float) -> ProfilerCost:
    """Return a cost per event for a program that is repeated."""
    return ProfilerCost(per_event_ns, KEEP, steady=True)


def expected(programs: Sequence[Program], *, stacks: bool) -> Calibration:
    """Return what the profiler may have cost the recordings of all ranks, by their own times.

    `stacks`: whether Python functions are recorded.
    """
    cost = float(np.mean([_expected_ns(program, stacks=stacks) for program in programs]))
    return Calibration(cost_of(cost), cost_of(LOW * cost), cost_of(HIGH * cost))


def _expected_ns(program: Program, *, stacks: bool) -> float:
    if not program.launch_ns:
        return USUAL_NS
    share = USUAL_NS if stacks else HOST_SHARE * _host_ns_per_event(program)
    return min(max(share, LEAST_LAUNCHES * program.launch_ns), MOST_LAUNCHES * program.launch_ns, MOST_NS)


def _host_ns_per_event(program: Program) -> float:
    """Return the host's time per recorded op and call, but for rare long ones; 0 if none is recorded."""
    calls = [call for call in program.calls if call.events > 0]
    if not calls:
        return 0.0
    events = np.array([call.events for call in calls])
    own = np.array([call.gap_ns - call.fixed_ns - call.artefact_ns for call in calls])
    per_event = np.maximum(own, 0.0) / events
    return float(np.average(np.minimum(per_event, np.percentile(per_event, RARE)), weights=events))


def fitted(programs: Sequence[Program], steps: int, step_ns: float) -> ProfilerCost:
    """Return the cost at which the programs of all ranks take this step; if none does, the nearest."""

    def lasts(cost: float) -> float:
        return pace(programs, steps, cost_of(cost)).step_ns

    def hurried(times: float) -> float:
        return pace(programs, steps, _hurried(times)).step_ns

    least = lasts(MOST_NS)
    insensitive = lasts(0.0) <= (1 + CLOSE) * least
    if insensitive or abs(lasts(USUAL_NS) / step_ns - 1) <= CLOSE:
        cost = cost_of(USUAL_NS)
    elif least > (1 + CLOSE) * step_ns:
        cost = _hurried(_crossing(hurried, step_ns, MOST_HURRIED, 1.0))
    else:
        cost = cost_of(_crossing(lasts, step_ns, MOST_NS))
    if not any(call.kind == STAGED for program in programs for call in program.calls):
        return cost

    def staged(speed: float) -> float:
        return pace(programs, steps, replace(cost, staging=1 / speed)).step_ns

    if abs(staged(1.0) / step_ns - 1) <= CLOSE:
        return cost
    return replace(cost, staging=1 / max(_crossing(staged, step_ns, MOST_STAGING, 1 / MOST_STAGING), 1 / MOST_STAGING))


def _hurried(times: float) -> ProfilerCost:
    """Return the most that a profiler costs, on a host that is so many times as fast without it."""
    return replace(cost_of(MOST_NS), host_speed=times)


def _crossing(falling: Callable[[float], float], target: float, high: float, low: float = 0.0) -> float:
    """Return where a falling function reaches the target between two places; if it does not, the nearest place.

    If it stays above the target, that is the least place at which it is as low as it gets.
    """
    if falling(low) <= target:
        return low  # slower than the trace, but not because of the profiler
    target = max(target, (1 + CLOSE) * falling(high))
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if falling(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
