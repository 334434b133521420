"""How the host launches kernels, by phase; and launches that take so long that the host does other work in them."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.phases import PHASES, phase_of_calls
from pinprof.trace.tables import KERNEL, NONE, Int64s, Trace

SLOW_NS = 1_000_000
"""A launch takes some microseconds, that of a large graph some hundred; one that takes this long also did something
else."""


@dataclass(frozen=True)
class SlowLaunches:
    """The slow launches of the complete steps, per step."""

    count: float
    time_ns: float


def measure_slow_launches(trace: Trace, stalls: Int64s, divisor: int) -> SlowLaunches:
    """Return the slow launches of kernels and graphs, without `stalls`, whose reason is known.

    `stalls` are rows of `Trace.calls`, `divisor` is the number of steps.
    """
    calls, slow = trace.calls, np.zeros(len(trace.calls), bool)
    slow[trace.links.launch[trace.links.launch != NONE]] = True
    slow[stalls] = False
    slow &= calls.duration_ns >= SLOW_NS
    slow &= trace.steps.holds(trace.links.call_step)
    return SlowLaunches(int(slow.sum()) / divisor, int(calls.duration_ns[slow].sum()) / divisor)


@dataclass(frozen=True)
class PhaseLaunches:
    """The launches of one phase of a step; times in ns, as traced."""

    phase: str
    launches: float
    """Calls that launch kernels, per step."""
    host_ns: float
    """The host's time from one launch to the next, per step: until each launch of this phase."""
    kernel_ns: float
    """How long the kernels run, per step."""


@dataclass(frozen=True)
class Launches:
    """How the host launches the kernels of the complete steps; times in ns, as traced."""

    per_step: float
    median_kernel_ns: float
    host_ns: float
    """The host's time per launch, without waits and long pauses: the median from one launch to the next."""
    phases: tuple[PhaseLaunches, ...]


def measure_launches(trace: Trace, divisor: int) -> Launches | None:
    """Return how kernels are launched in the complete steps; None where none is. `divisor` is the number of steps."""
    gpu, launch = trace.gpu, trace.links.launch
    rows = np.flatnonzero((gpu.category == KERNEL) & (launch != NONE) & trace.steps.holds(trace.links.activity_step))
    calls = np.unique(launch[rows]).astype(np.int64)
    if not len(calls) or not trace.steps.on_host:
        return None
    since = np.diff(trace.calls.start_ns[calls], prepend=trace.calls.start_ns[calls[0]])
    step = trace.links.call_step[calls]
    first = np.flatnonzero(np.diff(step, prepend=NONE))
    since[first] = trace.calls.start_ns[calls[first]] - trace.steps.start_ns[step[first]]
    phase = phase_of_calls(trace)
    of_call, of_kernel = phase[calls], phase[launch[rows]]
    phases = tuple(
        PhaseLaunches(
            name,
            int((of_call == number).sum()) / divisor,
            int(since[of_call == number].sum()) / divisor,
            int(gpu.duration_ns[rows[of_kernel == number]].sum()) / divisor,
        )
        for number, name in enumerate(PHASES)
        if (of_call == number).any()
    )
    inner = np.delete(since, first)
    return Launches(
        len(calls) / divisor,
        float(np.median(gpu.duration_ns[rows])),
        float(np.median(inner)) if len(inner) else float(since[0]),
        phases,
    )
