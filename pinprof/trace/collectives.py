"""Collectives of torch.distributed: when host threads are in them, and which kernels of several ranks are one."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.tables import NONE, Activities, Bools, Int64s, Trace

COLLECTIVE_PREFIXES = ("c10d::", "nccl:", "gloo:", "record_param_comms")
"""Ops and annotations that torch.distributed records around a collective."""
KERNEL_PREFIXES = ("nccl", "rccl")
"""Kernels of collectives in traces that do not name the collective."""
PAIRWISE = re.compile("^(send|recv)|SendRecv")
"""Names of what is between two ranks of a group."""

Meeting = dict[int, int]
"""A collective: by position of the trace, the row of its kernel in `Trace.gpu`."""


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


def is_collective_kernel(gpu: Activities) -> Bools:
    """Return whether each activity is the kernel of a collective: by what the trace calls it, else by its name."""
    return (gpu.collective != NONE) | gpu.named(lambda name: name.lower().startswith(KERNEL_PREFIXES))


def match_collectives(traces: Sequence[Trace], steps: Sequence[Int64s]) -> list[Meeting]:
    """Return the kernels of the ranks of one job that are one collective, for the given steps of each trace.

    Ranks launch the collectives of a process group in the same order, so those of the same step, group and place are
    one. A group that some ranks use more often than others in a step has no matches in it; sends and receives have
    none. Raises ValueError if the traces have different numbers of steps.
    """
    by_place: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(dict)
    for position, (trace, chosen) in enumerate(zip(traces, steps, strict=True)):
        place_of = {int(step): place for place, step in enumerate(chosen)}
        for row in _in_order_of_launch(trace):
            place = place_of.get(int(trace.links.activity_step[row]))
            if place is not None:
                by_place[place, _group(trace, row)].setdefault(position, []).append(row)
    if len({len(chosen) for chosen in steps}) > 1:
        raise ValueError("the traces have different numbers of steps")
    return [
        dict(zip(rows, kernels, strict=True))
        for rows in by_place.values()
        if len(rows) > 1 and len({len(of_rank) for of_rank in rows.values()}) == 1
        for kernels in zip(*rows.values(), strict=True)
    ]


def _in_order_of_launch(trace: Trace) -> list[int]:
    """Return the kernels of collectives in which all ranks of a group take part alike."""
    gpu = trace.gpu
    called = np.where(gpu.collective != NONE, gpu.collective, gpu.name)
    pairwise = np.array([bool(PAIRWISE.search(name)) for name in gpu.names], dtype=bool)
    rows = np.flatnonzero(is_collective_kernel(gpu) & ~pairwise[called])
    return rows[np.argsort(trace.launched_ns[rows], kind="stable")].tolist()


def _group(trace: Trace, row: int) -> str:
    group = int(trace.gpu.group[row])
    return trace.gpu.names[group] if group != NONE else ""
