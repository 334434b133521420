"""Launches that take so long that the host does other work in them."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.tables import NONE, Int64s, Trace

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
