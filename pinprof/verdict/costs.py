"""What each cause costs the step: the step, less what a replay without that cause takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Final

import numpy as np

from pinprof.analyses.syncs import ALLOCATIONS
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.replay import Replay
from pinprof.replay.machine import Pace, ProfilerCost, pace
from pinprof.replay.program import Program
from pinprof.trace.collectives import is_collective_kernel
from pinprof.whatif.edits import Edits, edited
from pinprof.whatif.predict import NOISE, UNSURE_CHANGE
from pinprof.whatif.scenarios import Scenario, edits_of, without_waits

SYNC, COPY, INPUT, ALLOCATION, COMMUNICATION = "sync", "copy", "input", "allocation", "communication"
PYTHON, LAUNCH, HOST, IRREGULAR, GPU = "python", "launch", "host", "irregular", "gpu"
CAUSES: Final = (SYNC, COPY, INPUT, ALLOCATION, COMMUNICATION, PYTHON, LAUNCH, HOST, IRREGULAR, GPU)
"""`host` is `python` and `launch` together, each of which alone may leave the host as slow as the other makes it. Those
that a line of the program makes come before those that all of it does: of two that cost alike, the first is
the one to look at."""

COPYING = frozenset({"blocking_copy_htod", "pageable_copy"})
"""Causes of waits that are of copies to the GPU, and go with these."""
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


def costs_of(details: Details, profile: Profile, replay: Replay) -> list[Cost]:
    """Return what each cause costs the step without the profiler, the largest first; they overlap.

    `replay` is of this trace alone, and runs.
    """
    whole = _Whole(details, profile, replay)
    found = _of_many_launches([whole.cost(cause, after) for cause, after in whole.without()], profile)
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


@dataclass(frozen=True)
class _Whole:
    """A trace whose programs run without one cause after the other."""

    details: Details
    profile: Profile
    replay: Replay

    def cost(self, cause: str, after_ns: float) -> Cost:
        """Return the cost of a cause without which the step takes so long."""
        ns = max(self.replay.step_ns - after_ns, 0.0)
        unsure, step = UNSURE_CHANGE * ns + NOISE * self.replay.step_ns, self.replay.step
        less = more = 0.0
        if step.source == "estimated" and step.range_ns and step.step_ns and cause not in (GPU, COPY):
            less, more = step.step_ns - step.range_ns[0], step.range_ns[1] - step.step_ns
        return Cost(cause, ns, (max(ns - unsure - less, 0.0), ns + unsure + (more if ns else 0.0)))

    def without(self) -> Sequence[tuple[str, float]]:
        """Return the step without each cause that can be taken out of the recorded program."""
        cost = self.replay.cost
        taken: tuple[tuple[str, Callable[[], float]], ...] = (
            (SYNC, lambda: self.edited(self._waits())),
            (COPY, lambda: self.edited(self._of(Scenario(pin=True, non_blocking=True, overlap_copies=True)))),
            (INPUT, lambda: self.ran(replace(cost, input_speed=inf))),
            (ALLOCATION, lambda: self.edited(self._of(Scenario(drop_allocs=True)))),
            (COMMUNICATION, self._without_collectives),
            (PYTHON, lambda: self.ran(replace(cost, python_speed=inf))),
            (LAUNCH, lambda: self.ran(replace(cost, op_speed=inf))),
            (GPU, lambda: self.ran(cost, gpu_speed=inf)),
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

    def ran(self, cost: ProfilerCost, programs: list[Program] | None = None, gpu_speed: float = 1.0) -> float:
        """Return the step of programs, by default the unchanged ones."""
        chosen = self.replay.programs if programs is None else programs
        after = pace(chosen, self.replay.steps, cost, gpu_speed=gpu_speed, calls=CALLS)
        return self.replay.settled(after, self.before, batch_ns=inf if cost.input_speed < inf else 0.0).step_ns

    def _of(self, scenario: Scenario) -> Edits:
        return edits_of(self.details, scenario)

    def _waits(self) -> Edits:
        """Return the change that takes out all waits of the code but those of copies to the GPU and of allocations."""
        sites = [
            number
            for number, site in enumerate(self.details.syncs.sites)
            if site.is_of_the_code and site.cause not in COPYING and site.cause not in ALLOCATIONS
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
