"""Collectives of torch.distributed: the times of host threads in them, and the kernels of several ranks that are one.

A collective ends on all its ranks at once, so it also shows how the clocks of the ranks differ.
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinprof.ground.intervals import Intervals, joined
from pinprof.trace.links import enclosing, follow
from pinprof.trace.tables import KERNEL, NONE, Activities, Bools, HostEvents, Int32s, Int64s, Trace, computed_once
from pinprof.trace.vendors import COLLECTIVE_KERNEL, COLLECTIVE_PREFIXES, NAMED_COLLECTIVE, SEARCHED_CHARACTERS

PAIRWISE_CALL: Final = re.compile("^(send|recv)")  # names of transfers between two ranks of a group
COLLECTIVE_OF_ALL_RANKS: Final = re.compile("all_?to_?all|gather|scatter|broadcast|reduce", re.IGNORECASE)
"""In the names of collectives. A kernel of sends and receives, or of anything (`ncclDevKernel_Generic`), is that of an
all-to-all or of two ranks only: without another name it is not known which."""
MESSAGE: Final = re.compile(r"(\w+) (\d{1,15}) (\d{1,15}) (\d{1,9})", re.ASCII)
"""A message as a trace describes it: type, elements in, elements out, ranks. Larger numbers are absurd."""
ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Bool", "Byte", "Char", "Float8_e4m3fn", "Float8_e5m2"), 1),
}
"""Bytes of an element, by what torch.distributed calls its type."""
BUS_FACTORS: Final = ((re.compile("^all_?reduce"), 2), (re.compile("gather|scatter|all_?to_?all"), 1))
"""How often each rank sends and receives the share of every other rank, by the names of collectives.

From https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md: the rate is then that of the slowest link.
"""
Meeting = dict[int, int]  # one collective on several ranks: by position of the rank, its position in the rank's table


@dataclass(frozen=True)
class Collectives:
    """The kernels of collectives in the complete steps of a trace, in order of launch; without sends and receives."""

    row: Int64s  # row in `Trace.gpu`
    place: Int64s  # which of the chosen steps each is in
    name: tuple[str, ...]  # its name in torch.distributed, otherwise the kernel's name
    group: tuple[str, ...]  # the ranks of its process group as recorded; empty where not recorded
    start_ns: Int64s
    end_ns: Int64s
    exposed_ns: Int64s  # the time of each in which no other kernel runs on its device
    bytes: Int64s  # the larger part of the message that each rank has before or after; -1 where not recorded
    bus_bytes: Int64s  # the bytes that it sends over the link of a rank, at least; -1 where unknown

    def __len__(self) -> int:
        return len(self.row)


def is_collective(name: str) -> bool:
    """Return whether an op or annotation of this name is a collective."""
    return name.startswith(COLLECTIVE_PREFIXES)


def collective_times(trace: Trace) -> Intervals:
    """Return the times in which a host thread was in a collective."""
    return joined(*(events.times(events.named(is_collective)) for events in (trace.ops, trace.annotations)))


@computed_once
def is_collective_kernel(gpu: Activities) -> Bools:
    """Return whether each activity is the kernel of a collective, by its arguments or its name."""
    return (gpu.collective != NONE) | gpu.named(lambda name: COLLECTIVE_KERNEL.search(name, 0, SEARCHED_CHARACTERS))


def collectives_of(trace: Trace, steps: Sequence[int]) -> Collectives:
    """Return the collectives in the given steps of a trace, except for steps that are unlike the others."""
    gpu = trace.gpu
    number_of = np.full(len(trace.steps) + 1, NONE, np.int64)  # the last one is of work outside of steps
    number_of[np.asarray(steps, np.int64)] = np.arange(len(steps))
    number_of[:-1][~trace.steps.complete] = NONE
    number = number_of[trace.links.activity_step]
    rows = np.flatnonzero(is_collective_kernel(gpu) & (number != NONE))
    rows = rows[np.argsort(trace.links.launched_ns[rows], kind="stable")]
    called = np.array(_called(trace, rows), dtype=object)
    kernels = [gpu.name_of(row) for row in rows.tolist()]
    of_all = np.array(list(map(_is_of_all, called, kernels)), dtype=bool)
    rows, names = rows[of_all], tuple(called[of_all].tolist())
    groups = gpu.group[rows].tolist()
    messages = [gpu.names[code] if code != NONE else "" for code in gpu.message[rows].tolist()]
    sizes = np.array(list(map(message_sizes, names, messages)), np.int64).reshape(-1, 2)
    return Collectives(
        rows,
        number[rows],
        names,
        tuple(gpu.names[code] if code != NONE else "" for code in groups),
        gpu.start_ns[rows],
        gpu.end_ns[rows],
        exposed_ns(gpu, rows),
        *sizes.T,
    )


def exposed_ns(gpu: Activities, rows: Int64s) -> Int64s:
    """Return the time of each of these kernels in which no kernel but those of collectives runs on its device."""
    others = (gpu.category == KERNEL) & ~is_collective_kernel(gpu)
    return gpu.duration_ns[rows] - gpu.overlap_with_ns(rows, others)


def _called(trace: Trace, rows: Int64s) -> list[str]:
    """Return the names of these collectives: as recorded, else of the range around the launch, else of the kernel."""
    gpu, launch = trace.gpu, trace.links.launch[rows]
    code = gpu.collective[rows]
    for events in (trace.annotations, trace.ops):
        open_rows = np.flatnonzero((code == NONE) & (launch != NONE))
        around = _of_rows(events, np.flatnonzero(events.named(NAMED_COLLECTIVE.match)))
        if len(open_rows) and len(around):
            found = enclosing(around, _of_rows(trace.calls, launch[open_rows]))
            code[open_rows] = follow(around.name, found)
    code = np.where(code == NONE, gpu.name[rows], code)
    return [NAMED_COLLECTIVE.sub("", name) for name in map(gpu.names.__getitem__, code.tolist())]


def _of_rows(events: HostEvents, rows: Int64s | Int32s) -> HostEvents:
    return HostEvents(events.names, events.start_ns[rows], events.end_ns[rows], events.name[rows], events.thread[rows])


def _is_of_all(called: str, kernel: str) -> bool:
    return not PAIRWISE_CALL.match(called) and any(map(COLLECTIVE_OF_ALL_RANKS.search, (called, kernel)))


def message_sizes(name: str, message: str) -> tuple[int, int]:
    """Return the bytes of a message, and those it sends over a link; -1 where the trace does not show them."""
    match = MESSAGE.fullmatch(message)
    if match is None or match[1] not in ELEMENT_BYTES:
        return NONE, NONE
    elements_in, elements_out, ranks = map(int, match.groups()[1:])
    size = ELEMENT_BYTES[match[1]] * max(elements_in, elements_out)
    times = next((times for names, times in BUS_FACTORS if names.search(name)), None)
    load = size if times is None else times * size * max(ranks - 1, 0) // max(ranks, 1)
    return (size, load) if size else (NONE, NONE)


def match_collectives(ranks: Sequence[Collectives]) -> list[Meeting]:
    """Return the collectives that ranks of one job share, by their positions in the tables.

    Ranks launch the collectives of a process group in the same order, so those of the same step, group and number are
    one. If ranks use a group a different number of times in a step, it has no matches in that step; nor has a group
    that is not recorded, if they use it for other collectives.
    """
    by_place: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(dict)

    def names_of(group: str, rank: int, indices: Sequence[int]) -> tuple[str, ...]:
        return () if group else tuple(ranks[rank].name[index] for index in indices)

    for rank, table in enumerate(ranks):
        for index, key in enumerate(zip(table.place.tolist(), table.group, strict=True)):
            by_place[key].setdefault(rank, []).append(index)
    return [
        dict(zip(of_ranks, indices, strict=True))
        for (_, group), of_ranks in by_place.items()
        if len(of_ranks) > 1
        and len({(len(indices), names_of(group, rank, indices)) for rank, indices in of_ranks.items()}) == 1
        for indices in zip(*of_ranks.values(), strict=True)
    ]


ONE_SIDED = re.compile("^(broadcast|_?reduce(?!_scatter)|gather|scatter)")
"""Names of collectives that a rank may leave before all others have entered them."""
AGREEING_PERCENTILE = 90
"""Percentile of the collectives whose ends show how well clocks agree: some end late on a rank for other reasons."""


@dataclass(frozen=True)
class RankClocks:
    """How the clock of each rank differs from the clock of the first rank."""

    add_ns: tuple[int, ...]
    """Per rank: what to add to the times in its trace to get times of the first rank's clock."""
    ahead_ns: tuple[int, ...]
    """Per rank: how far its machine's clock is ahead of the first rank's; 0 where they share no collective."""
    within_ns: float | None
    """The ends of nine in ten collectives agree within this afterwards; None without collectives."""


def align_clocks(tables: Sequence[Collectives], bases_ns: Sequence[int], meetings: Sequence[Meeting]) -> RankClocks:
    """Return how the clocks of the ranks differ; there is at least one.

    `bases_ns` is the origin of each trace's times. A collective ends on all its ranks at once, so the clocks of two
    ranks differ by the median difference between the ends of the collectives that they share. A rank that shares none
    with the first rank is compared through ranks that share some with both. Collectives that ranks may leave at
    different times are not used.
    """
    meetings = [meeting for meeting in meetings if not ONE_SIDED.search(_name(tables, meeting))]
    ends = [table.end_ns + (base - bases_ns[0]) for table, base in zip(tables, bases_ns, strict=True)]
    ahead = _ahead(ends, meetings)
    add = [base - bases_ns[0] - off for base, off in zip(bases_ns, ahead, strict=True)]
    return RankClocks(tuple(add), tuple(ahead), _spread(ends, ahead, meetings))


def _name(tables: Sequence[Collectives], meeting: Meeting) -> str:
    rank, index = next(iter(meeting.items()))
    return tables[rank].name[index]


def _ahead(ends: Sequence[Int64s], meetings: Sequence[Meeting]) -> list[int]:
    of_ranks: dict[tuple[int, ...], list[Meeting]] = defaultdict(list)
    for meeting in meetings:
        of_ranks[tuple(meeting)].append(meeting)
    groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for group in of_ranks:
        for rank in group:
            groups[rank].append(group)
    ahead = {0: 0}
    waiting = deque([0])
    while waiting:
        known = waiting.popleft()
        for group in groups[known]:
            for rank in group:
                if rank not in ahead:
                    apart = [
                        int(ends[rank][meeting[rank]] - ends[known][meeting[known]]) for meeting in of_ranks[group]
                    ]
                    ahead[rank] = ahead[known] + int(np.median(apart))
                    waiting.append(rank)
    return [ahead.get(rank, 0) for rank in range(len(ends))]


def _spread(ends: Sequence[Int64s], ahead: Sequence[int], meetings: Sequence[Meeting]) -> float | None:
    if not meetings:
        return None
    spreads = []
    for meeting in meetings:
        own = [int(ends[rank][index]) - ahead[rank] for rank, index in meeting.items()]
        spreads.append(max(own) - min(own))
    return float(np.percentile(spreads, AGREEING_PERCENTILE))
