"""How long collectives take on the GPU, and how much of that no other kernel hides."""

from dataclasses import dataclass

import numpy as np

from pinprof.intervals import covered, length, union
from pinprof.trace.collectives import Collectives, collectives_of, is_collective_kernel
from pinprof.trace.tables import KERNEL, Trace


@dataclass(frozen=True)
class Communication:
    """Collectives of one rank in its complete steps; times in ns."""

    collectives: Collectives
    time_ns: int
    """In which a kernel of a collective runs, waiting for other ranks included."""
    exposed_ns: int
    """The part of it beside which no other kernel runs on the device."""


def measure_communication(trace: Trace) -> Communication:
    """Return the collectives of a trace and their time; sends and receives count for the time only."""
    gpu = trace.gpu
    inside = (gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step)
    of_collectives = is_collective_kernel(gpu)
    time = exposed = 0
    kinds = inside & of_collectives, ~of_collectives & (gpu.category == KERNEL)
    for mine in gpu.of_device.values():
        rows, others = (mine[kind[mine]] for kind in kinds)
        communicating = union(gpu.start_ns[rows], gpu.end_ns[rows])
        computing = union(gpu.start_ns[others], gpu.end_ns[others])
        time += length(communicating)
        exposed += length(communicating) - int(covered(computing, communicating.start, communicating.end).sum())
    return Communication(collectives_of(trace, np.flatnonzero(trace.steps.whole).tolist()), time, exposed)
