"""The one cause that costs a step most."""

from dataclasses import dataclass
from typing import Final

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.replay import Replay
from pinprof.verdict.costs import CAUSES, COMMUNICATION, GPU, HOST, LAUNCH, PYTHON, Cost, costs_of

WORTH: Final = 0.1
"""A cause that costs less than this share of the step is not why it is long, where the GPU works for most of it."""
ALIKE: Final = 0.9
"""Of causes that cost at least this share of the largest, the one that a line of the program makes comes first."""
MOSTLY: Final = 0.5
"""Where the GPU works for this share of the step, and nothing else costs much, it is what the step waits for."""


@dataclass(frozen=True)
class Verdict:
    """Why a step is as long as it is; times in ns."""

    cause: str | None
    """One of `CAUSES`; None where that cannot be told."""
    step_ns: float | None
    """The step without the profiler, of which the costs are."""
    costs: tuple[Cost, ...] = ()
    """What each cause costs, the largest first; they overlap and do not add up."""

    @property
    def cost(self) -> Cost | None:
        """What the cause costs; None where there is none."""
        return next((cost for cost in self.costs if cost.cause == self.cause), None)


UNTOLD = Verdict(None, None)


def judge(details: Details, profile: Profile, replay: Replay) -> Verdict:
    """Return the verdict on a trace; `replay` is of it alone."""
    step = replay.step.step_ns
    if profile.withheld.estimate or profile.withheld.step or not step or not replay.runs or not replay.before.step_ns:
        return UNTOLD
    costs = tuple(costs_of(details, profile, replay))
    cause = _cause(costs, step, (details.steps.busy_ns or 0.0) / step)
    if cause == GPU and profile.bound == COMMUNICATION:  # kernels that wait for other ranks are no work of the GPU
        cause = COMMUNICATION
    return Verdict(cause, step, costs)


def _cause(costs: tuple[Cost, ...], step_ns: float, busy: float) -> str | None:
    by_cause = {cost.cause: cost.ns for cost in costs}
    host = by_cause.pop(HOST)
    by_cause.pop(GPU)
    most = max(by_cause.values())
    if most < WORTH * step_ns:
        if host >= WORTH * step_ns:
            return max((PYTHON, LAUNCH), key=lambda cause: by_cause[cause])
        return GPU if busy >= MOSTLY else None
    return min((cause for cause, ns in by_cause.items() if ns >= ALIKE * most), key=CAUSES.index)
