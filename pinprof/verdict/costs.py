"""What each cause costs the step: what a replay saves without that cause, as far as the step's division shows it.

Removing a cause may also let others overlap: a read that no longer waits lets the next batch be made beside the GPU's
work. That is what its fix brings, not what it costs: no cause costs more than the parts of the step that it explains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from pinprof.analyses.syncs import ALLOCATIONS, OF_COPIES_TO_GPU
from pinprof.analyses.syncs import CAUSES as CAUSES_OF_WAITS
from pinprof.details import Details
from pinprof.measurement.division import UNTOLD, busiest, divide
from pinprof.measurement.profile import Profile
from pinprof.replay import Replay
from pinprof.replay.bound import INPUT as INPUT_BOUND
from pinprof.replay.machine import Pace, ProfilerCost, pace
from pinprof.replay.program import Program
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.tables import DTOH, HTOD
from pinprof.verdict.limits import (
    ALLOCATION,
    CAUSES,
    COMMUNICATION,
    COPY,
    GPU,
    HELD_UP,
    HOST,
    INPUT,
    IRREGULAR,
    LAUNCH,
    LIMITS,
    PYTHON,
    SYNC,
)
from pinprof.whatif.edits import Edits, edited
from pinprof.whatif.predict import NOISE, UNSURE_CHANGE
from pinprof.whatif.scenarios import Scenario, edits_of, without_waits

MOSTLY_COPIES = 0.5
"""Where copies alone take less than this share of what copies cost, the waits for them are what costs."""
CALLS = 8_000
"""Calls of a replay: a third of what a prediction takes, for so many causes."""
NOT_AGAIN = frozenset({"first", "compile"})
"""Reasons of irregular steps that a longer run has no more of."""


@dataclass(frozen=True)
class Cost:
    """What a cause costs a step, in ns."""

    cause: str
    ns: float
    range_ns: tuple[float, float]

    @property
    def is_certain(self) -> bool:
        """Whether the cause costs the step anything."""
        return self.range_ns[0] > 0


def shown_of(profile: Profile, cause: str) -> float:
    """Return how long the parts of the step are that a cause may explain, in ns; infinity where none are known."""
    mean = busiest(profile)
    if mean is None:
        return inf
    division, by = divide(profile, mean), {UNTOLD, *LIMITS[cause].idle}
    if cause == INPUT and profile.bound == INPUT_BOUND:
        by.update(HELD_UP)  # the workers' queues were full while the recording began: something else held launches up
    worked: dict[str, float] = {COPY: division.copies_ns, COMMUNICATION: division.collectives_ns}
    return worked.get(cause, 0.0) + sum(time for why, time in division.idle_ns.items() if why in by)


def costs_of(details: Details, profile: Profile, replay: Replay) -> list[Cost]:
    """Return what each cause costs the step without the profiler, the largest first; they overlap.

    `replay` is of this trace alone, and runs.
    """
    whole = _Whole(details, profile, replay)
    replayed = [whole.cost(cause, after) for cause, after in whole.without()]
    found = _of_many_launches([whole.kernels(), *replayed], profile)
    irregular = sum(
        each.per_step_ns
        for each in profile.unlike
        if each.reason not in NOT_AGAIN and (each.every is not None or each.count > 1)
    )
    found.append(Cost(IRREGULAR, irregular, (irregular, irregular)))
    return sorted(found, key=lambda cost: (-cost.ns, CAUSES.index(cost.cause)))


def _of_many_launches(costs: list[Cost], profile: Profile) -> list[Cost]:
    """Return the costs, with that of launches no larger than their number tells: the rest is of a few long ones."""
    most = profile.launches.many_ns if profile.launches else inf
    rest = max(next(cost.ns for cost in costs if cost.cause == LAUNCH) - most, 0.0)
    return [_less(cost, rest) if cost.cause in (LAUNCH, HOST) else cost for cost in costs] if rest else costs


def _less(cost: Cost, ns: float) -> Cost:
    low, high = cost.range_ns
    return Cost(cost.cause, max(cost.ns - ns, 0.0), (max(low - ns, 0.0), max(high - ns, 0.0)))


def awaited_copies(details: Details, profile: Profile, cost: Cost) -> float:
    """Return how many copies to the GPU per step the host awaits one by one; 0 where that is not most of their cost.

    `cost` is that of copies. It is mostly of waits where less than half of it is time in which copies run alone, and
    the GPU is idle for as long as the rest, as traced, behind waits for copies.
    """
    mean, syncs = busiest(profile), details.syncs
    if mean is None or not profile.steps.count:
        return 0.0
    alone = divide(profile, mean).copies_ns
    rows = np.flatnonzero(np.isin(syncs.cause, [CAUSES_OF_WAITS.index(cause) for cause in OF_COPIES_TO_GPU]))
    rows = rows[details.trace.steps.holds(syncs.stalls.call_step[rows])]
    idle = float(syncs.stalls.idle_ns[rows].sum()) / profile.steps.count
    if alone >= MOSTLY_COPIES * cost.ns or idle < cost.ns - alone:
        return 0.0
    return len(np.unique(syncs.stalls.copy[rows])) / profile.steps.count


@dataclass(frozen=True)
class _Whole:
    """A trace whose programs run without one cause after the other."""

    details: Details
    profile: Profile
    replay: Replay

    def cost(self, cause: str, after_ns: float) -> Cost:
        """Return the cost of a cause without which the step takes so long."""
        saved, shown, step = max(self.replay.step_ns - after_ns, 0.0), shown_of(self.profile, cause), self.replay.step
        ns = low = high = min(saved, shown)
        if step.source == "estimated" and step.range_ns and step.step_ns and saved and cause != COPY:
            low, high = ns - (step.step_ns - step.range_ns[0]), ns + (step.range_ns[1] - step.step_ns)
        unsure = NOISE * self.replay.step_ns
        low, high = (1 - UNSURE_CHANGE) * low - unsure, (1 + UNSURE_CHANGE) * high + unsure
        if cause == COMMUNICATION and step.source == "estimated":
            high = max(high, min(shown, self.replay.step_ns))  # a host that is faster than estimated waits for them
        return Cost(cause, ns, (max(low, 0.0), min(high, max(self.replay.step_ns, (step.range_ns or (0.0, 0.0))[1]))))

    def kernels(self) -> Cost:
        """Return what the GPU's own work costs: what nothing but less of it, or a faster GPU, shortens."""
        mean = busiest(self.profile)
        division = divide(self.profile, mean) if mean else None
        work = division.kernels_ns + division.memsets_ns if division else self.details.steps.busy_ns or 0.0
        ns = min(work, self.replay.step_ns)
        return Cost(GPU, ns, ((1 - NOISE) * ns, min((1 + NOISE) * ns, self.replay.step_ns)))

    def without(self) -> Sequence[tuple[str, float]]:
        """Return the step without each cause that can be taken out of the recorded program."""
        cost = self.replay.cost
        taken: tuple[tuple[str, Callable[[], float]], ...] = (
            (SYNC, lambda: self.edited(self._waits())),
            (COPY, lambda: self.edited(self._copies())),
            (INPUT, lambda: self.ran(replace(cost, input_speed=inf))),
            (ALLOCATION, lambda: self.edited(self._of(Scenario(drop_allocs=True)))),
            (COMMUNICATION, self._without_collectives),
            (PYTHON, lambda: self.ran(replace(cost, python_speed=inf))),
            (LAUNCH, lambda: self.ran(replace(cost, op_speed=inf))),
            (HOST, lambda: self.ran(replace(cost, op_speed=inf, python_speed=inf))),
        )
        return [(cause, run()) for cause, run in taken]

    @cached_property
    def before(self) -> Pace:
        """The pace of the unchanged programs, from as many calls as that of the others."""
        return pace(self.replay.programs, self.replay.steps, self.replay.cost, calls=CALLS)

    def edited(self, edits: Edits) -> float:
        """Return the step after edits."""
        if not edits:
            return self.replay.step_ns
        return self.ran(self.replay.cost, [edited(self.replay.programs[0], self.details, edits)])

    def ran(self, cost: ProfilerCost, programs: list[Program] | None = None) -> float:
        """Return the step of programs, by default the unchanged ones."""
        chosen = self.replay.programs if programs is None else programs
        after = pace(chosen, self.replay.steps, cost, calls=CALLS)
        return self.replay.settled(after, self.before, batch_ns=inf if cost.input_speed < inf else 0.0).step_ns

    def _of(self, scenario: Scenario) -> Edits:
        return edits_of(self.details, scenario)

    def _copies(self) -> Edits:
        """Return the change that takes out all copies between host and GPU, and the waits for those to the GPU."""
        copies = np.flatnonzero(np.isin(self.details.trace.gpu.direction, (HTOD, DTOH)))
        hidden = self._of(Scenario(pin=True, non_blocking=True, overlap_copies=True))
        return hidden | Edits(removed_works=frozenset(copies.tolist()))

    def _waits(self) -> Edits:
        """Return the change that takes out all waits of the code but those of copies to the GPU and of allocations."""
        sites = [
            number
            for number, site in enumerate(self.details.syncs.sites)
            if site.is_of_the_code and site.cause not in OF_COPIES_TO_GPU and site.cause not in ALLOCATIONS
        ]
        return without_waits(self.details.syncs, sites)

    def _without_collectives(self) -> float:
        rows = frozenset(np.flatnonzero(is_collective_kernel(self.details.trace.gpu)).tolist())
        if not rows:
            return self.replay.step_ns
        (program,) = self.replay.programs
        calls = tuple(
            replace(
                call,
                works=[replace(work, duration_ns=0.0) if work.row in rows else work for work in call.works],
            )
            for call in program.calls
        )
        return self.ran(self.replay.cost, [replace(program, calls=calls)])
