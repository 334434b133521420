"""GPU work that a trace does not show: queued before the recording, of lost launches, or of other programs."""

import numpy as np

from pinprof.ground.intervals import contains, covered, distinct, gaps, union
from pinprof.ground.units import counted, duration, listed, percent, shortened
from pinprof.measurement.trust.doubt import MATTERING_SHARE, Doubt, TrustFacts, figure_kinds, only_if
from pinprof.measurement.trust.launches import launches_of, launching, may_await_host
from pinprof.measurement.trust.losses import AT_END, LOST_COPIES, RECORD_AGAIN, at_start, gpu_span_ns, lost_launches
from pinprof.replay.bound import GPU_BOUND_SHARE, is_gpu_bound
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.links import step_at
from pinprof.trace.spans.idle_times import LATE_START_NS
from pinprof.trace.spans.one_time_work import compile_times
from pinprof.trace.tables import KERNEL, NONE, WHOLE_TRACE, Bools, Int64s, Trace

UNSEEN_SHARE_OF_LAUNCHING = 0.5
"""If the GPU shows no work for this share of the time in which the host launches several steps, most of its work
belongs to launches outside of the recording."""

RECORD_FROM_START = "record several steps in a row, with their GPU work from the start"

MIN_LAUNCHING_OPS = 3
"""At least this number of ops of a name must launch kernels before others of the name are suspected."""
MIN_SILENT_NAMES = 2
"""At least this number of names must launch nothing between two launches. Single ops compute on tensors of the host at
times, but not several in a row that otherwise launch: of 200 whole recordings, of this project and others, none has
two."""
MAX_NAMED_OPS = 3
"""Names of ops in a sentence."""
LONGEST_OP_NAME_CHARS = 40
"""Characters of the name of an op that are kept."""

MIN_LATE_KERNELS = 3
"""Fewer kernels that are held up show nothing about the steps."""


# Work that was queued before the recording


def queued_before(facts: TrustFacts) -> Doubt | None:
    """Report that, while the host launched, the GPU did work that was queued before and is of no step of the trace.

    For several steps, the ends of their work show whether the GPU sets the pace; for a single step, nothing does.
    """
    stepped = facts.trace.steps.holds(facts.trace.links.activity_step) & (facts.trace.links.launch != NONE)
    if not stepped.any():
        return None
    times, alone, length = facts.times, facts.times.count == 1, facts.times.traced_ns or 0.0
    if not alone and is_gpu_bound(times.busy_ns or 0.0, length):
        return None
    unseen, launching = _unseen_ns(facts, stepped)
    if unseen > LATE_START_NS and unseen >= (
        (1 - GPU_BOUND_SHARE) * length if alone else UNSEEN_SHARE_OF_LAUNCHING * launching
    ):
        return _queued(
            f"no GPU work for {duration(unseen)} after the first launch",
            "the GPU ran work that was queued before the recording began, or the clocks of host and GPU differ",
        )
    earlier = _earlier_ns(facts) if alone else 0
    if earlier and earlier >= (1 - GPU_BOUND_SHARE) * length:
        return _queued(
            f"no launch of {duration(earlier)} of GPU work in the only step",
            "the GPU ran work that was queued before the recording began",
        )
    return None


def lost_start(facts: TrustFacts) -> Doubt | None:
    """Report that the GPU seems to stand still at the start although work was queued: its records are lost.

    Work that was queued before the recording began has no launch in the trace, so nothing else shows the loss. Of 190
    whole recordings, of this project and others, none has such a time of 2 ms or of 2 % of the trace; all recordings
    with one are cut or sampled.
    """
    trace, times = facts.trace, facts.times
    if not len(trace.gpu) or not len(trace.calls) or may_await_host(trace.calls):
        return None
    unseen = _queued_and_idle_ns(trace)
    if unseen <= LATE_START_NS or unseen < MATTERING_SHARE * gpu_span_ns(trace):
        return None
    launches = lost_launches(facts)
    if launches is not None and "busy" in launches.withholds:  # that check reports the same loss
        return None
    of_step = unseen >= (1 - GPU_BOUND_SHARE if times.count == 1 else UNSEEN_SHARE_OF_LAUNCHING * times.divisor) * (
        times.traced_ns or 0.0
    )
    return Doubt(
        f"no GPU work for {duration(unseen)} at the start, though some was queued",
        "the GPU ran work that was queued before the recording began, or whose records are lost: that time is not idle",
        at_start(trace),
        figure_kinds("busy", "overlap", "causes", "drain", "estimate") | only_if(of_step, "step"),
    )


def _queued_and_idle_ns(trace: Trace) -> int:
    """Return for how long no GPU works although a stream that has not begun has work queued, in ns.

    A stream has begun when it runs work that was launched in the trace.
    """
    gpu, launch, first_call = trace.gpu, trace.links.launch, int(trace.calls.start_ns[0])
    idle = gaps(gpu.times())
    following = np.searchsorted(gpu.start_ns, idle.end)
    begun = np.zeros(len(gpu), bool)
    for rows in gpu.of_stream:
        linked = np.flatnonzero(launch[rows] != NONE)
        begun[rows[linked[0] + 1 :] if len(linked) else rows] = True
    begun &= ~trace.links.in_flight
    queued = np.where(launch == NONE, first_call, trace.calls.end_ns[launch])[following]
    held_ns = idle.end - np.maximum(idle.start, queued)
    return int(held_ns[~begun[following] & (held_ns > LATE_START_NS)].sum())


def _queued(what: str, why: str) -> Doubt:
    return Doubt(
        what,
        f"{why}: that time is not idle, and it is unknown whether host or GPU sets the pace",
        RECORD_FROM_START,
        figure_kinds("step", "estimate", "causes", "drain"),
    )


def _unseen_ns(facts: TrustFacts, stepped: Bools) -> tuple[int, int]:
    """Return how long after the first of these launches the GPU begins to work, and how long the launches go on."""
    trace = facts.trace
    launched = trace.calls.end_ns[trace.links.launch[stepped]]
    first = int(launched.min())
    return int(trace.gpu.start_ns.min()) - first, int(launched.max()) - first


def _earlier_ns(facts: TrustFacts) -> int:
    """Return for how long work in flight runs in the only step, in ns; 0 if the host does not set the step's length.

    If the whole trace is the step, all work is its own. A length taken from the GPU contains no work in flight.
    """
    trace, times = facts.trace, facts.times
    if times.source == WHOLE_TRACE or times.host_ns is None or times.host_ns <= (times.device_ns or 0.0):
        return 0
    queued = trace.links.in_flight
    step = np.flatnonzero(trace.steps.complete)
    running = trace.gpu.times(queued)
    return int(covered(running, trace.steps.start_ns[step], trace.steps.end_ns[step]).sum())


# Ops that launch nothing although all others of their names do


def lost_calls(facts: TrustFacts) -> Doubt | None:
    """Report ops in a row that seem to have lost their launches and kernels: elsewhere, ops of their names launch."""
    trace = facts.trace
    launched = _launching_calls(trace)
    if not len(launched):
        return None
    silent = _silent(trace, launched)
    share = len(silent) / (len(silent) + len(launched))
    return (
        _lost_ops(trace, silent, np.sort(trace.calls.start_ns[launched]), share) if share >= MATTERING_SHARE else None
    )


def _lost_ops(trace: Trace, silent: Int64s, launches_ns: Int64s, share: float) -> Doubt:
    ops = trace.ops
    names, count = np.unique(ops.name[silent], return_counts=True)
    named = [shortened(ops.names[names[index]], LONGEST_OP_NAME_CHARS) for index in np.argsort(-count, kind="stable")]
    where, remedy = "", RECORD_AGAIN
    if ops.start_ns[silent].max() < launches_ns[0]:
        where, remedy = " at the start of the recording", at_start(trace)
    elif ops.start_ns[silent].min() > launches_ns[-1]:
        where, remedy = " at the end of the recording", AT_END
    inside = trace.steps.holds(step_at(trace.steps, ops.start_ns[silent])).any()
    return Doubt(
        f"neither launch nor GPU work of {counted(len(silent), 'op')}{where} ({percent(share)}; "
        f"{listed(named, MAX_NAMED_OPS)})",
        "the GPU worked where it seems idle",
        remedy,
        figure_kinds(*LOST_COPIES) | only_if(inside, "step"),
    )


def _launching_calls(trace: Trace) -> Int64s:
    """Return the calls within ops that launched kernels."""
    launch = trace.links.launch
    calls = distinct(launch[(trace.gpu.category == KERNEL) & (launch != NONE)]).astype(np.int64)
    return calls[trace.links.op[calls] != NONE]


def _silent(trace: Trace, launched: Int64s) -> Int64s:
    """Return the ops that launch nothing, several in a row between two launches, while all others of their names do.

    Ops that come equally often in each complete step are left out: they compute on tensors of the host, such as the
    pieces of a batch or an optimizer's step count. Losses are never that even. So are ops while torch compiles: they
    find out shapes, on tensors without data.
    """
    ops, size = trace.ops, len(trace.ops.names)
    has = np.zeros(len(ops), bool)
    has[trace.links.op[launched]] = True
    calling = np.zeros(len(ops), bool)  # with GPU work in the trace or without
    op = trace.links.op[launching(trace.calls)]
    calling[op[op != NONE]] = True
    counts, with_launch = (np.bincount(ops.name[rows], minlength=size) for rows in (slice(None), has))
    usually = (with_launch >= MIN_LAUNCHING_OPS) & (2 * with_launch > counts)
    compiled = compile_times(trace)
    compiling = contains(union(compiled.start_ns, compiled.end_ns), ops.start_ns)
    silent = np.flatnonzero(usually[ops.name] & ~calling & ~compiling)
    between = np.searchsorted(np.sort(trace.calls.start_ns[launched]), ops.start_ns[silent])
    pairs = distinct(between * size + ops.name[silent])
    names_there = np.bincount(pairs // size, minlength=len(launched) + 1)
    in_a_row = names_there[between] >= MIN_SILENT_NAMES
    alone = np.zeros(size, bool)
    alone[ops.name[silent[~in_a_row]]] = True
    lost = silent[in_a_row & ~alone[ops.name[silent]]]
    return lost[~_even(trace, lost)[ops.name[lost]]]


def _even(trace: Trace, rows: Int64s) -> Bools:
    """Return for each name whether ops of these rows come equally often in each of several complete steps."""
    ops, steps = trace.ops, np.flatnonzero(trace.steps.complete)
    if len(steps) < MIN_SILENT_NAMES:
        return np.zeros(len(ops.names), bool)
    step = step_at(trace.steps, ops.start_ns[rows])
    within, base = trace.steps.holds(step), len(rows) + len(trace.steps) + 1
    # A table of all names and steps may be larger than the trace, so only the pairs that it has are numbered.
    pairs, count = np.unique(ops.name[rows[within]].astype(np.int64) * base + step[within], return_counts=True)
    alike, steps_with = np.unique(pairs // base * base + count, return_counts=True)
    even = np.zeros(len(ops.names), bool)
    even[alike[steps_with == len(steps)] // base] = True
    return even


# Work of other programs on the same GPU


def shared_gpu(facts: TrustFacts) -> Doubt | None:
    """Report kernels that started late although the GPU had nothing to do for this program.

    Programs that share a GPU take turns of a ms or two, in which nothing of the others runs (NVIDIA's documentation of
    MPS, `Time-Sliced Scheduling`). In 150 recordings of programs alone on an H100 or H200 no kernel started later than
    11 us after it could; in 38 of 56 next to three other programs, kernels did by up to 7 ms.

    Nothing is reported if they may have waited for something else: for other ranks or GPUs, for host functions in a
    stream, or for kernels that the trace has lost.
    """
    trace = facts.trace
    held_up = _held_up_ns(trace)
    late = held_up[held_up > LATE_START_NS]
    span = gpu_span_ns(trace) if len(late) else 0
    if len(late) < MIN_LATE_KERNELS or late.sum() < MATTERING_SHARE * span:
        return None
    return Doubt(
        f"{counted(len(late), 'kernel', 'kernels')} started {duration(int(late.sum()) // len(late))} late on average, "
        f"{percent(int(late.sum()) / span)} of the time, while the GPU ran nothing else of this program",
        "another program seems to have used the GPU: waits for the GPU, its idle time, and what a change saves are "
        "those of a shared GPU",
        "record again while nothing else uses the GPU (nvidia-smi shows what does)",
    )


def _held_up_ns(trace: Trace) -> Int64s:
    """Return for how long each kernel was held up after its launch and after all work that began before it, in ns."""
    gpu, launch, launches = trace.gpu, trace.links.launch, launches_of(trace)
    has_others = len(gpu.of_device) > 1 or is_collective_kernel(gpu).any()
    has_lost = (launches.kernel & launches.lost).any()
    if has_others or has_lost or may_await_host(trace.calls):
        return np.zeros(0, np.int64)
    kernels = np.flatnonzero(launch != NONE)[1:]
    kernels = kernels[launches.kernel[launch[kernels]]]
    before = np.maximum.accumulate(gpu.end_ns)[kernels - 1]
    return np.maximum(gpu.start_ns[kernels] - np.maximum(before, trace.calls.end_ns[launch[kernels]]), 0)
