"""How the step divides on the GPU that works most: the parts of the bar of a report, and the basis of a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass

from pinprof.analyses.step_parts import MeanStep
from pinprof.measurement.known import given
from pinprof.measurement.profile import GpuSums, Profile

OUTSIDE = "outside"
"""Idle time of the only step before and after all work of a GPU: no launch shows its cause."""
UNTOLD = ""
"""Idle time whose cause is not in the trace."""


@dataclass(frozen=True)
class Division:
    """The parts of a mean step, which add up to it; times in ns."""

    kernels_ns: float
    """Kernels run, with or without copies, and not only those of collectives."""
    collectives_ns: float
    """No kernels run but those of collectives."""
    copies_ns: float
    """Copies run, and no kernel."""
    memsets_ns: float
    idle_ns: Mapping[str, float]
    """Idle time by cause: the idle time of the step without the profiler, divided as the causes divide it in the
    trace."""


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
        else {UNTOLD: mean.idle_ns},
    )


def busiest(profile: Profile) -> MeanStep | None:
    """Return the mean step of the GPU that works most; None where it is not to be shown."""
    return max(profile.parts, key=lambda mean: mean.work_ns, default=None)


def busiest_idle_times(profile: Profile) -> dict[str, float]:
    """Return the idle time of the GPU that works most by cause, as `idle_times`."""
    times = ((gpu, given(gpu.time)) for gpu in profile.gpus)
    return idle_times(profile, max(times, key=lambda of_gpu: of_gpu[1].busy_ns if of_gpu[1] else 0)[0])


def idle_times_of(profile: Profile, mean: MeanStep) -> dict[str, float]:
    """Return how long the GPU of a mean step is idle by cause, as `idle_times`."""
    return idle_times(profile, _gpu_of(profile, mean))


def idle_times(profile: Profile, gpu: GpuSums) -> dict[str, float]:
    """Return the idle time of a GPU by cause, in ns; in an only step with the time before and after all work."""
    return dict(given(gpu.idle_by_cause) or ()) | {OUTSIDE: idle_outside(profile, gpu)}


def idle_outside(profile: Profile, gpu: GpuSums) -> float:
    """Return how long the only step lasts before the first work of a GPU and after its last, as traced, in ns.

    Of several steps the ends of one are the beginning of the next.
    """
    time = given(gpu.time)
    return max((profile.steps.traced_ns or 0.0) - time.span_ns, 0.0) if time and profile.steps.count == 1 else 0.0


def _gpu_of(profile: Profile, mean: MeanStep) -> GpuSums:
    return next(gpu for gpu in profile.gpus if gpu.device == mean.device)
