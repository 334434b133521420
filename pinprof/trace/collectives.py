"""Collectives of torch.distributed: when host threads are in them, and which kernels of several ranks are one."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.tables import NONE, Activities, Bools, Int64s, Trace

COLLECTIVE_PREFIXES = ("c10d::", "nccl:", "gloo:", "record_param_comms")
"""Ops and annotations that torch.distributed records around a collective."""
KERNEL_PREFIXES = ("nccl", "rccl")
"""Kernels of collectives in traces that do not name the collective."""
PAIRWISE = re.compile("^(send|recv)|SendRecv")
"""Names of transfers between two ranks of a group."""

Meeting = dict[int, int]
"""One collective on several ranks: by position of the rank, its position in the rank's table."""


@dataclass(frozen=True)
class Collectives:
    """The kernels of collectives in the complete steps of a trace, in order of launch; without sends and receives."""

    row: Int64s
    """Row in `Trace.gpu`."""
    place: Int64s
    """Which of the chosen steps each is in."""
    name: tuple[str, ...]
    """What torch.distributed calls it, else the kernel's name."""
    group: tuple[str, ...]
    """The ranks of its process group as recorded; empty where not recorded."""
    start_ns: Int64s
    end_ns: Int64s

    def __len__(self) -> int:
        return len(self.row)


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


def collectives_of(trace: Trace, steps: Sequence[int]) -> Collectives:
    """Return the collectives in the given steps of a trace, without those that are unlike the others."""
    gpu = trace.gpu
    called = np.where(gpu.collective != NONE, gpu.collective, gpu.name)
    pairwise = np.array([bool(PAIRWISE.search(name)) for name in gpu.names], dtype=bool)
    place_of = np.full(len(trace.steps) + 1, NONE, np.int64)  # the last place is for work outside of steps
    place_of[np.asarray(steps, np.int64)] = np.arange(len(steps))
    place_of[:-1][~trace.steps.complete] = NONE
    place = place_of[trace.links.activity_step]
    rows = np.flatnonzero(is_collective_kernel(gpu) & ~pairwise[called] & (place != NONE))
    rows = rows[np.argsort(trace.launched_ns[rows], kind="stable")]
    groups = gpu.group[rows].tolist()
    return Collectives(
        rows,
        place[rows],
        tuple(gpu.names[code] for code in called[rows].tolist()),
        tuple(gpu.names[code] if code != NONE else "" for code in groups),
        gpu.start_ns[rows],
        gpu.end_ns[rows],
    )


def match_collectives(ranks: Sequence[Collectives]) -> list[Meeting]:
    """Return the collectives that ranks of one job share, by their positions in the tables.

    Ranks launch the collectives of a process group in the same order, so those of the same step, group and place are
    one. If ranks use a group a different number of times in a step, it has no matches in that step.
    """
    by_place: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(dict)
    for rank, table in enumerate(ranks):
        for index, key in enumerate(zip(table.place.tolist(), table.group, strict=True)):
            by_place[key].setdefault(rank, []).append(index)
    return [
        dict(zip(of_ranks, indices, strict=True))
        for of_ranks in by_place.values()
        if len(of_ranks) > 1 and len({len(of_rank) for of_rank in of_ranks.values()}) == 1
        for indices in zip(*of_ranks.values(), strict=True)
    ]
