"""Whether the GPU's own time in some kernels is worth a finding."""

import numpy as np

from pinprof.measurement.profile import Profile
from pinprof.trace.tables import KERNEL, Bools, Int64s, Trace

OF_BOUND, OF_ANY = 0.02, 0.1
"""Shares of the step from which kernels count where the GPU limits it, and where it does not: a GPU that is idle for
some of the step gains little from shorter kernels."""


def kernels_in_steps(trace: Trace) -> Int64s:
    """Return the kernels of the complete steps: rows of `Trace.gpu`."""
    return np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))


def matters(profile: Profile, time_ns: float) -> bool:
    """Return whether kernels that take so long per step are worth a finding."""
    step = profile.step_ns
    return bool(step) and time_ns >= (OF_BOUND if profile.bound == "gpu" else OF_ANY) * (step or 0.0)


def per_step(trace: Trace, profile: Profile, rows: Int64s) -> float:
    """Return how long kernels run per step, in ns."""
    return float(trace.gpu.duration_ns[rows].sum()) / profile.steps.divisor


def named(trace: Trace, rows: Int64s, flagged: Bools) -> list[str]:
    """Return the names of the flagged ones of these kernels, the one of most time first."""
    names, which = np.unique(trace.gpu.name[rows[flagged]], return_inverse=True)
    time = np.bincount(which, trace.gpu.duration_ns[rows[flagged]], minlength=len(names))
    return [trace.gpu.names[name] for name in names[np.argsort(-time, kind="stable")].tolist()]
