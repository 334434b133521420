"""What each limit costs the step, and the one that costs most."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from pinprof.analyses.syncs.causes import OF_COPIES_TO_GPU
from pinprof.details import Details
from pinprof.measurement.profile import Profile, busiest, divide
from pinprof.replay import Replay
from pinprof.replay.bound import is_gpu_bound
from pinprof.verdict.rerun import Rerun
from pinprof.verdict.step_limits import CAUSES, COPY, GPU, HOST, LAUNCH, LIMITS, PYTHON, LimitCost, LimitName

WORTH: Final = 0.1
"""A cause that costs less than this share of the step is not why it is long, where the GPU works for most of it."""
ALIKE: Final = 0.9
"""Of causes that cost at least this share of the largest, the one that a line of the program makes comes first."""
MOSTLY: Final = 0.5
"""Where the GPU works for this share of the step, and nothing else costs much, it is what the step waits for."""
NEARLY: Final = 0.8
"""Where the GPU works for this share of the step, another cause is named only if all of its range is worth naming: a
cost near `WORTH` is above it in one recording of a program, and below it in the next."""
MOSTLY_COPIES: Final = 0.5
"""Where copies alone take less than this share of what copies cost, the waits for them are what costs."""
MOST_NAMED: Final = 3
"""Causes between which a trace cannot distinguish; all are named."""


@dataclass(frozen=True)
class Verdict:
    """Why a step is as long as it is; times in ns."""

    cause: LimitName | None
    """The limit whose cost is certainly not 0; None where that cannot be told."""
    step_ns: float | None
    """The step without the profiler, whose costs these are."""
    costs: tuple[LimitCost, ...] = ()
    """What each cause costs, the largest first; they overlap and do not add up."""
    awaited: float = 0.0
    """Copies to the GPU per step that the host awaits one by one, where most of what copies cost is the GPU's idle time
    behind these waits; else 0."""

    @property
    def cost(self) -> LimitCost | None:
        """What the cause costs; None where there is none."""
        return next((cost for cost in self.costs if cost.cause == self.cause), None)

    @property
    def between(self) -> tuple[LimitCost, ...]:
        """What may cost the step most where no cause is named, the largest first."""
        if self.cause is not None:
            return ()
        may = [cost for cost in self.costs if cost.cause not in (GPU, HOST)]
        may = [cost for cost in may if cost.range_ns[1] >= WORTH * (self.step_ns or 0.0)]
        return tuple(sorted(may, key=lambda cost: -cost.range_ns[1])[:MOST_NAMED])


UNKNOWN_CAUSE = Verdict(None, None)


def judge(details: Details, profile: Profile, replay: Replay) -> Verdict:
    """Return the verdict on a trace; `replay` is of it alone."""
    step = replay.step.step_ns
    if profile.withheld.estimate or profile.withheld.step or not step or not replay.runs or not replay.before.step_ns:
        return UNKNOWN_CAUSE
    costs = costs_of(details, profile, replay)
    by_cause = {cost.cause: cost for cost in costs}
    return Verdict(_cause(by_cause, step), step, costs, awaited_copies(details, profile, by_cause[COPY]))


def _cause(costs: Mapping[LimitName, LimitCost], step_ns: float) -> LimitName | None:
    """Return the cause that costs most; None where its range holds 0, and no other of the same size is certain."""
    host, gpu = costs[HOST], costs[GPU]
    others = [costs[cause] for cause in CAUSES if cause not in (HOST, GPU)]
    most = max(cost.ns for cost in others)
    if gpu.ns >= NEARLY * step_ns and all(cost.range_ns[0] < WORTH * step_ns for cost in (host, *others)):
        likely = [gpu]
    elif most < WORTH * step_ns <= host.ns:
        likely = [host]
    elif most < WORTH * step_ns:
        likely = [gpu] if gpu.ns >= MOSTLY * step_ns else []
    else:
        likely = [cost for cost in others if cost.ns >= ALIKE * most]
        likely += [host] if likely[0].cause in (PYTHON, LAUNCH) else []
    likely += [gpu] if is_gpu_bound(gpu.ns, step_ns) else []
    return next((cost.cause for cost in likely if cost.is_certain), None)


def costs_of(details: Details, profile: Profile, replay: Replay) -> tuple[LimitCost, ...]:
    """Return what each limit costs the step without the profiler, the largest first; they overlap.

    `replay` is of this trace alone, and runs.
    """
    rerun = Rerun(details, profile, replay)
    costs = _of_many_launches([limit.cost(name, rerun) for name, limit in LIMITS.items()], profile)
    return tuple(sorted(costs, key=lambda cost: -cost.ns))


def _of_many_launches(costs: list[LimitCost], profile: Profile) -> list[LimitCost]:
    """Return the costs, with that of launches no larger than their number explains: the rest is of a few long ones."""
    most = profile.launches.many_ns if profile.launches else inf
    rest = max(next(cost.ns for cost in costs if cost.cause == LAUNCH) - most, 0.0)
    return [_less(cost, rest) if cost.cause in (LAUNCH, HOST) else cost for cost in costs] if rest else costs


def _less(cost: LimitCost, ns: float) -> LimitCost:
    low, high = cost.range_ns
    return LimitCost(cost.cause, max(cost.ns - ns, 0.0), (max(low - ns, 0.0), max(high - ns, 0.0)))


def awaited_copies(details: Details, profile: Profile, cost: LimitCost) -> float:
    """Return how many copies to the GPU per step the host awaits one by one; 0 where that is not most of their cost.

    `cost` is that of copies. It is mostly of waits where less than half of it is time in which copies run alone, and
    the GPU is idle for as long as the rest, as traced, behind waits for copies.
    """
    mean, syncs = busiest(profile), details.syncs
    if mean is None or not profile.steps.count:
        return 0.0
    alone = divide(profile, mean).copies_ns
    rows = np.flatnonzero(syncs.has_cause(*OF_COPIES_TO_GPU))
    rows = rows[details.trace.steps.holds(syncs.stalls.call_step[rows])]
    idle = float(syncs.stalls.idle_ns[rows].sum()) / profile.steps.count
    if alone >= MOSTLY_COPIES * cost.ns or idle < cost.ns - alone:
        return 0.0
    return len(np.unique(syncs.stalls.copy[rows])) / profile.steps.count
