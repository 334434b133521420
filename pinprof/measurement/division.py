"""How the step divides on the GPU that works most: the parts of a report's bar, and the basis of the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass

from pinprof.analyses.step_parts import MeanStep
from pinprof.measurement.known import given
from pinprof.measurement.profile import GpuSums, Profile

OUTSIDE = "outside"
"""The cause of idle time before and after all GPU work of an only step: no launch shows more."""
UNKNOWN_CAUSE = ""
"""The cause of idle time that is not in the trace."""


@dataclass(frozen=True)
class Division:
    """The parts of a mean step, which add up to it; times in ns."""

    kernels_ns: float
    """Kernels run, with or without copies, and not only those of collectives."""
    collectives_ns: float
    """Only kernels of collectives run."""
    copies_ns: float
    """Copies run, and no kernel."""
    memsets_ns: float
    idle_ns: Mapping[str, float]
    """Idle time of the step without the profiler, by cause, in the proportions of the trace."""


def divide(profile: Profile, mean: MeanStep) -> Division:
    """Return how a mean step divides."""
    times = {} if profile.withheld.causes else idle_times(profile, _gpu_of(profile, mean))
    whole = sum(times.values())
    return Division(
        kernels_ns=mean.compute_ns - mean.collective_ns + mean.both_ns,
        collectives_ns=mean.collective_ns,
        copies_ns=mean.copy_ns,
        memsets_ns=mean.memset_ns,
        idle_ns={cause: mean.idle_ns * time / whole for cause, time in times.items() if time}
        if whole
        else {UNKNOWN_CAUSE: mean.idle_ns},
    )


def busiest(profile: Profile) -> MeanStep | None:
    """Return the mean step of the GPU that works most; None if the parts of the step are withheld or unknown."""
    return max(profile.parts, key=lambda mean: mean.work_ns, default=None)


def busiest_idle_times(profile: Profile) -> dict[str, float]:
    """Return the idle time of the GPU that works most by cause, as `idle_times`."""
    times = ((gpu, given(gpu.time)) for gpu in profile.gpus)
    return idle_times(profile, max(times, key=lambda of_gpu: of_gpu[1].busy_ns if of_gpu[1] else 0)[0])


def idle_times_of(profile: Profile, mean: MeanStep) -> dict[str, float]:
    """Return how long the GPU of a mean step is idle by cause, as `idle_times`."""
    return idle_times(profile, _gpu_of(profile, mean))


def idle_times(profile: Profile, gpu: GpuSums) -> dict[str, float]:
    """Return the idle time of a GPU by cause, in ns; for an only step with the time before and after all work."""
    return dict(given(gpu.idle_by_cause) or ()) | {OUTSIDE: idle_outside(profile, gpu)}


def idle_outside(profile: Profile, gpu: GpuSums) -> float:
    """Return how long the only step lasts before the first work of a GPU and after its last, as traced, in ns.

    It is 0 for several steps: one begins where the other ends.
    """
    time = given(gpu.time)
    return max((profile.steps.traced_ns or 0.0) - time.span_ns, 0.0) if time and profile.steps.count == 1 else 0.0


def _gpu_of(profile: Profile, mean: MeanStep) -> GpuSums:
    return next(gpu for gpu in profile.gpus if gpu.device == mean.device)
