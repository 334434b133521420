"""When host threads are in collectives of torch.distributed."""

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.tables import Trace

COLLECTIVE_PREFIXES = ("c10d::", "nccl:", "gloo:", "record_param_comms")
"""Ops and annotations that torch.distributed records around a collective."""


def is_collective(name: str) -> bool:
    """Return whether an op or annotation of this name is a collective."""
    return name.startswith(COLLECTIVE_PREFIXES)


def collective_times(trace: Trace) -> Intervals:
    """Return the times in which a host thread was in a collective."""
    ranges = [
        (events.start_ns[chosen], events.end_ns[chosen])
        for events in (trace.ops, trace.annotations)
        for chosen in [events.named(is_collective)]
    ]
    start, end = (np.concatenate(parts) for parts in zip(*ranges, strict=True))
    return union(start, end)
