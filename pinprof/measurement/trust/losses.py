"""GPU work that was launched and is not in the trace, and GPU work whose launch is not."""

from typing import NamedTuple

import numpy as np

from pinprof.ground.intervals import covered, union
from pinprof.ground.units import counted, percent
from pinprof.measurement.trust.doubt import FIGURE_KINDS, MATTERING_SHARE, Doubt, FigureKind, TrustFacts, only_if
from pinprof.measurement.trust.launches import LaunchCalls, launches_of
from pinprof.measurement.trust.sessions import step_numbers
from pinprof.trace.links import follow
from pinprof.trace.spans.steps import is_serving
from pinprof.trace.tables import KERNEL, NONE, Bools, Int64s, Trace
from pinprof.trace.vendors import is_of_rocm

LOST_KERNELS: tuple[FigureKind, ...] = ("busy", "overlap", "causes", "drain", "estimate")
"""Figures that lost kernels make wrong: the GPU seems idle while it works, and copies seem exposed."""
LOST_COPIES: tuple[FigureKind, ...] = ("copies", *LOST_KERNELS)
"""Figures that lost copies make wrong: the GPU seems idle while it copies, too."""

LOST_SHARE_OF_STEP = 0.5
"""A step that has lost more than this share of its launched work is a lost step. CUPTI drops far fewer single records;
a buffer that overflows loses all later ones."""
USUAL_GRAPH_WORK = 0.8
"""A launch of a graph with less than this share of its usual activities has lost some: a graph always runs the same
nodes, except for conditional ones. An edge step with less than this share of the usual launches counts as cut off,
too."""
SAME_LAUNCHES = 3
"""Fewer launches of a graph than this do not show what is usual."""
NAMED_STEPS = 4
"""Lost steps that a sentence names; the others are counted."""

RECORD_AGAIN = "record again, fewer steps or without stacks: buffers of the profiler overflow"
FIRST_LOST = (
    "record again, in a process that records only once: CUPTI before CUDA 13.1 loses the first kernels of each further "
    "recording (pytorch#192021)"
)
AT_END = "record again, and call torch.cuda.synchronize() before the profiler stops"


def lost_launches(facts: TrustFacts) -> Doubt | None:
    """Report kernels and copies that were launched and are not in the trace.

    Lost steps and the work of graphs are reported by other checks. Lost work of a cut-off step at the edge counts, too:
    it makes the GPU seem idle in the trace.
    """
    trace = facts.trace
    if not len(trace.gpu):
        return None
    launches = launches_of(trace)
    is_counted = launches.expected & ~np.isin(trace.links.call_step, _lost_steps(trace, launches))
    kernels, copies = (_lost_of(trace, kind & is_counted, launches.linked) for kind in (launches.kernel, launches.copy))
    lost = kernels.lost + copies.lost
    if not lost:
        return None
    of_kernels, of_copies = (kind & is_counted & launches.lost for kind in (launches.kernel, launches.copy))
    unseen = _unseen_ns(trace, of_kernels), _unseen_ns(trace, of_copies)
    length = MATTERING_SHARE * gpu_span_ns(trace)
    invalid = only_if(kernels.matters or unseen[0] >= length, *LOST_KERNELS)
    invalid |= only_if(copies.matters or unseen[1] >= length, *LOST_COPIES)
    if _cuts_step(trace, launches):
        between = max(facts.times.count - 1, 1) * (facts.times.traced_ns or 0.0)
        invalid |= only_if(invalid or sum(unseen) >= MATTERING_SHARE * between, "step", "estimate")
    where, remedy = _where_lost(trace, launches, of_kernels | of_copies)
    return Doubt(
        f"no GPU work of {counted(lost, 'launch', 'launches')} ({percent(lost / (kernels.all + copies.all))}){where}",
        "the GPU worked where it seems idle" if invalid else "too few to change the figures",
        remedy,
        invalid,
    )


def at_start(trace: Trace) -> str:
    """Return the remedy for lost GPU work at the start of the recording."""
    of_rocm = trace.calls.named(is_of_rocm).any()
    return "record again, several steps in a row" if of_rocm else FIRST_LOST


def lost_ops(facts: TrustFacts) -> Doubt | None:
    """Report a trace that has only some of the ops: torch numbers all events of the host one after the other."""
    trace = facts.trace
    recorded = len(trace.ops) + len(trace.annotations) + len(trace.functions)
    if recorded >= LOST_SHARE_OF_STEP * trace.numbered_ops:
        return None
    return Doubt(
        f"no record of {percent(1 - recorded / trace.numbered_ops)} of the ops",
        "the file has a sample of the events: host and GPU worked where they seem idle",
        "record it, or export it, without leaving out events",
        frozenset(FIGURE_KINDS) - {"step"},
    )


def skipped_steps(facts: TrustFacts) -> Doubt | None:
    """Report steps that were not recorded between others that were."""
    numbers = step_numbers(facts.trace)
    jumps = np.diff(numbers)
    skipped = int((jumps[jumps > 1] - 1).sum())
    if not skipped:
        return None
    share = skipped / (len(numbers) + skipped)
    return Doubt(
        f"no record of {counted(skipped, 'step')} between others ({percent(share)})",
        "step times and idle time contain time that was not recorded",
        "record steps in a row, in a file for each cycle of the profiler",
        only_if(share >= MATTERING_SHARE, "step", "estimate", "busy", "causes"),
    )


def lost_steps(facts: TrustFacts) -> Doubt | None:
    """Report steps that lost most of their GPU work."""
    trace = facts.trace
    lost = _lost_steps(trace, launches_of(trace))
    if not len(trace.gpu) or not len(lost):
        return None
    numbers = step_numbers(trace)
    numbers = numbers if len(numbers) == len(trace.steps) else np.arange(1, len(trace.steps) + 1)
    names = ", ".join(f"#{numbers[step]}" for step in lost[:NAMED_STEPS])
    more = f" and {len(lost) - NAMED_STEPS} more" if len(lost) > NAMED_STEPS else ""
    return Doubt(
        f"little GPU work of step{'s' * (len(lost) != 1)} {names}{more}",
        "the GPU worked where it seems idle",
        RECORD_AGAIN,
        only_if(len(lost) >= MATTERING_SHARE * trace.steps.complete.sum(), *LOST_KERNELS, *LOST_COPIES),
    )


def lost_graph_work(facts: TrustFacts) -> Doubt | None:
    """Report launches of graphs without any GPU work, or with far less than the same graph usually has."""
    trace = facts.trace
    if not len(trace.gpu):
        return None
    launches = launches_of(trace)
    graphs = np.flatnonzero(launches.graph & launches.expected)
    if not len(graphs):
        return None
    work = np.bincount(trace.links.launch[trace.links.launch != NONE], minlength=len(trace.calls))[graphs]
    short = (work == 0) | (work < USUAL_GRAPH_WORK * _usual_work(trace, graphs, work))
    lost = int(short.sum())
    if not lost:
        return None
    invalid = only_if(lost >= MATTERING_SHARE * len(graphs), *LOST_KERNELS)
    return Doubt(
        f"not all GPU work of {lost:,} of {counted(len(graphs), 'graph launch', 'graph launches')}",
        "the GPU worked where it seems idle" if invalid else "too few to change the figures",
        "record with a newer CUDA and torch, or without graphs",
        invalid,
    )


def unlinked_activities(facts: TrustFacts) -> Doubt | None:
    """Report GPU work whose launch is not recorded."""
    trace = facts.trace
    # those queued before the recording began do not count
    unlinked, total = int(((trace.links.launch == NONE) & ~trace.links.in_flight).sum()), len(trace.gpu)
    if not unlinked or not len(trace.calls):
        return None
    return Doubt(
        f"no launch of {unlinked:,} of {total:,} GPU activities",
        "they belong to no step, and idle time before them has no cause",
        "record with ProfilerActivity.CPU; buffers of the profiler that overflow lose launches too",
        only_if(unlinked >= MATTERING_SHARE * total, "per_step", "estimate", "causes", "drain"),
    )


class _Lost(NamedTuple):
    """Launches of one kind."""

    lost: int
    all: int
    in_steps: float
    """The lost share of the launches in complete steps."""

    @property
    def matters(self) -> bool:
        return max(self.in_steps, self.lost / max(self.all, 1)) >= MATTERING_SHARE


def _lost_of(trace: Trace, chosen: Bools, linked: Bools) -> _Lost:
    """Return how many of the chosen launches have lost their work, and how many there are."""
    inside = chosen & trace.steps.holds(trace.links.call_step)
    return _Lost(
        int((chosen & ~linked).sum()), int(chosen.sum()), int((inside & ~linked).sum()) / max(int(inside.sum()), 1)
    )


def _unseen_ns(trace: Trace, lost: Bools) -> int:
    """Return for how long the lost work of these launches may have run while the GPU seems idle, in ns.

    It may have run from its launch until the first kernel that was launched later begins or, without such a kernel,
    until the last call or work ends.
    """
    gpu, launch, calls = trace.gpu, trace.links.launch, trace.calls
    kernels = np.flatnonzero((launch != NONE) & (gpu.category == KERNEL))
    kernels = kernels[np.argsort(calls.start_ns[launch[kernels]], kind="stable")]
    later = np.minimum.accumulate(gpu.start_ns[kernels][::-1])[::-1]
    begin = calls.start_ns[lost]
    next_kernel = np.searchsorted(calls.start_ns[launch[kernels]], begin, side="right")
    end = np.append(later, max(int(gpu.end_ns.max()), int(calls.end_ns.max())))[next_kernel]
    possible = union(begin[end > begin], end[end > begin])
    busy = gpu.times()
    return int((possible.end - possible.start).sum() - covered(busy, possible.start, possible.end).sum())


def gpu_span_ns(trace: Trace) -> int:
    """Return the time from the beginning of the first GPU work to the end of the last, in ns."""
    return int(trace.gpu.end_ns.max() - trace.gpu.start_ns.min())


def _cuts_step(trace: Trace, launches: LaunchCalls) -> bool:
    """Return whether work is lost that begins or ends the GPU's part of a step."""
    complete = np.flatnonzero(trace.steps.complete)
    if not len(complete):
        return False
    start, step = trace.calls.start_ns, trace.links.call_step
    for edge in {int(complete[0]), int(complete[-1])}:
        lost, present = (start[(step == edge) & launches.direct & rows] for rows in (launches.lost, launches.linked))
        if len(lost) and (not len(present) or lost.max() > present.max()):
            return True
        if len(lost) and len(complete) == 1 and lost.min() < present.min():
            return True
    return False


def _where_lost(trace: Trace, launches: LaunchCalls, lost: Bools) -> tuple[str, str]:
    """Return where in the recording the lost work was launched, to follow the number of launches, and the remedy."""
    start, kinds = trace.calls.start_ns, (launches.kernel, launches.copy)
    present = [start[kind & launches.linked] for kind in kinds if (kind & lost).any()]
    if any(not len(times) for times in present):
        return "", RECORD_AGAIN
    if all(start[lost].max() < times.min() for times in present):
        return ", all at the start of the recording", at_start(trace)
    if all(start[lost].min() > times.max() for times in present):
        return ", all at the end of the recording", AT_END
    return "", RECORD_AGAIN


def _lost_steps(trace: Trace, launches: LaunchCalls) -> Int64s:
    """Return the complete steps that lost most of the kernels and copies they launched; none in a trace of one step."""
    if len(trace.steps) == 1:
        return np.empty(0, np.int64)
    chosen = launches.direct & launches.expected & trace.steps.holds(trace.links.call_step)
    launched, lost = (
        np.bincount(trace.links.call_step[rows], minlength=len(trace.steps))
        for rows in (chosen, chosen & launches.lost)
    )
    return np.flatnonzero(lost > LOST_SHARE_OF_STEP * launched)


def _usual_work(trace: Trace, graphs: Int64s, work: Int64s) -> Int64s:
    """Return per launch of a graph how many activities launches of this graph usually have; 0 where that is unknown.

    Traces do not name graphs: the n-th launches in one op of each step are taken to be of one graph. A number is usual
    if more than half of them have it. A server has a graph for each size of its batches, so no number is usual there.
    """
    usual = np.zeros(len(graphs), np.int64)
    if len(trace.steps) < SAME_LAUNCHES or is_serving(trace.steps):
        return usual
    op = follow(trace.ops.name, trace.links.op[graphs])
    step = trace.links.call_step[graphs]
    count_of: dict[tuple[int, int], int] = {}
    same_launches: dict[tuple[int, int], list[int]] = {}
    for index, key in enumerate(zip(op.tolist(), step.tolist(), strict=True)):
        if key[1] == NONE:  # outside of steps the order is unknown
            continue
        count_of[key] = nth = count_of.get(key, -1) + 1
        same_launches.setdefault((key[0], nth), []).append(index)
    for same in same_launches.values():
        counts, uses = np.unique(work[same], return_counts=True)
        if len(same) >= SAME_LAUNCHES and uses.max() > len(same) / 2:
            usual[same] = counts[uses.argmax()]
    return usual
