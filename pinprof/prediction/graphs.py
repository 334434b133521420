"""CUDA graphs and fused optimizers: the calls that one launch could replace, and the recorded program after that."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from msgspec import structs

from pinprof.analyses.syncs.causes import ALLOCATION_CAUSES, WAITS
from pinprof.analyses.syncs.sites import Syncs
from pinprof.ground.intervals import contains
from pinprof.replay.program import ISSUE, OWN_WAIT, Call, GpuWork, with_works
from pinprof.trace.lines import Place
from pinprof.trace.spans.phases import BACKWARD, FORWARD, OPTIMIZER, OTHER, TO_WEIGHT, optimizer_steps, phase_of_calls
from pinprof.trace.tables import KERNEL, NONE, Bools, Int64s, Trace

Region: TypeAlias = Literal["step", "model", "optimizer"]  # the whole step, forward and backward, or the optimizer's
PHASES_OF: Final[dict[str, tuple[int, ...]]] = {
    "step": (FORWARD, BACKWARD, OPTIMIZER, OTHER),
    "model": (FORWARD, BACKWARD),
}
"""Optimizers have no entry: other calls lie between their first launch and their last."""


GIVING_SIZES: Final = frozenset(name for name, cause in WAITS.items() if cause.gives_size)
OFTEN_PER_STEP: Final = 0.5  # a rarer wait occurs only in some of the steps
SEVERAL_WAITS: Final = 2
"""If a forward pass has at least this number of waits for sizes, most work after the first has an unknown size."""


@dataclass(frozen=True)
class Blocker:
    """What prevents the capture of a region as a graph."""

    what: str
    place: Place
    per_step: float  # how often it occurs; 0 for a property of the whole step


@dataclass(frozen=True, eq=False)
class Capture:
    """A region of the complete steps that may become a CUDA graph."""

    calls: Int64s  # its calls that a graph can hold: rows of `Trace.calls`
    launches: float  # how many of them launch work, per step
    blockers: tuple[Blocker, ...]  # the costliest first


def capture_of(trace: Trace, syncs: Syncs, region: Region, dropped: Collection[int] = ()) -> Capture:
    """Return the calls of a region that a graph could hold; `_region` defines its extent.

    Waits at the sites `dropped` are ignored, as if a change had removed them.
    """
    phase = phase_of_calls(trace)
    inside = _region(trace, region, phase)
    waits = np.zeros(len(trace.calls), bool)
    waits[syncs.stalls.call] = True
    launched = trace.launches_work
    event_calls = trace.calls.named(lambda name: "EventRecord" in name or "StreamWaitEvent" in name)
    capturable = inside & (launched | event_calls) & ~waits & ~_of_unknown_size(trace, syncs, phase, dropped)
    steps = max(int(trace.steps.complete.sum()), 1)
    blockers = (*_waiting(syncs, inside, steps), *_varying(trace, capturable & launched))
    return Capture(np.flatnonzero(capturable), float((capturable & launched).sum()) / steps, blockers)


def _of_unknown_size(trace: Trace, syncs: Syncs, phase: Int64s, dropped: Collection[int]) -> Bools:
    """Return the calls whose size of work depends on values on the GPU: a graph holds work of one size.

    In a forward pass with several waits for sizes these are the calls from the first wait on; a single wait may concern
    only a loss or a table. The backward pass runs the other way round: there they are the same share, at its beginning.
    For Mask R-CNN on an H200, this predicts that graphs save 47 % of the step, and without it 75 %; a graph of the
    backbone, which is all that can be captured, saved 39 %. The measured 39 % was known when this rule
    was chosen among three.
    """
    calls, step = trace.calls, trace.links.call_step
    unknown = np.zeros(len(calls), bool)
    sites = [number for number, site in enumerate(syncs.sites) if site.cause in GIVING_SIZES and number not in dropped]
    rows = [syncs.rows[number] for number in sites]
    waits = syncs.stalls.call[np.concatenate(rows)] if rows else np.zeros(0, np.int64)
    waits = waits[(phase[waits] == FORWARD) & trace.steps.holds(step[waits])]
    for number, count in zip(*np.unique(step[waits], return_counts=True), strict=True):
        if count < SEVERAL_WAITS:
            continue
        forward, backward = (
            np.flatnonzero(trace.launches_work & (step == number) & (phase == chosen)) for chosen in (FORWARD, BACKWARD)
        )
        first_ns = calls.start_ns[waits[step[waits] == number]].min()
        sized = int(np.searchsorted(calls.start_ns[forward], first_ns))
        unknown[forward[sized:]] = True
        unknown[backward[: round(len(backward) * (1 - sized / max(len(forward), 1)))]] = True
    return unknown


def _region(trace: Trace, region: Region, phase: Int64s) -> Bools:
    """Return per call whether it lies in a complete step, between the first and the last launch of the region there.

    The region `optimizer` is the calls in steps of optimizers. Steps of optimizers between the passes of several
    networks do not belong to `model`.
    """
    calls, step = trace.calls, trace.links.call_step
    stepping = contains(optimizer_steps(trace), calls.start_ns)
    if region == "optimizer":
        return stepping & (phase == OPTIMIZER) & trace.steps.holds(step)
    chosen = np.zeros(len(calls), bool)
    launch = trace.links.launch
    kernels = launch[(launch != NONE) & (trace.gpu.category == KERNEL)]
    chosen[kernels] = True
    chosen &= trace.steps.holds(step)
    chosen &= np.isin(phase, PHASES_OF[region])
    rows = np.flatnonzero(chosen)
    count = len(trace.steps)
    first, last = np.full(count + 1, np.iinfo(np.int64).max), np.full(count + 1, NONE, np.int64)
    np.minimum.at(first, step[rows], calls.start_ns[rows])
    np.maximum.at(last, step[rows], calls.start_ns[rows])
    threads = np.isin(calls.thread, np.unique(calls.thread[rows]))
    between = threads & (step != NONE) & (calls.start_ns >= first[step]) & (calls.start_ns <= last[step])
    return between & ~stepping if region == "model" else between


def _waiting(syncs: Syncs, inside: Bools, steps: int) -> Iterator[Blocker]:
    for number, site in enumerate(syncs.sites):
        per_step = int(inside[syncs.stalls.call[syncs.rows[number]]].sum()) / steps
        is_of_first_steps = site.cause in ALLOCATION_CAUSES and per_step < OFTEN_PER_STEP
        if per_step and site.is_of_the_code and not is_of_first_steps:
            yield Blocker(site.cause, site.place, per_step)


def _varying(trace: Trace, launches: Bools) -> Iterator[Blocker]:
    """Yield a blocker if the steps do not launch the same kernels in the same order."""
    launch = trace.links.launch
    rows = np.flatnonzero((launch != NONE) & (trace.gpu.category == KERNEL))
    rows = rows[launches[launch[rows]]]
    rows = rows[np.lexsort((rows, launch[rows]))]
    step = trace.links.activity_step[rows]
    sequences = {tuple(trace.gpu.name[rows[step == number]].tolist()) for number in np.unique(step).tolist()}
    if len(sequences) > 1:
        yield Blocker("the steps do not launch the same kernels", Place(), 0.0)


FUSED_TRAFFIC: Final = {"Adam": 7 / 18, "AdamW": 7 / 20}
"""The memory traffic of a fused optimizer as a share of that of the ops it replaces, counted in reads and writes of a
tensor as large as the parameters. Fused, it reads the parameters, the gradients and both averages, and writes all but
the gradients. The ops (torch/optim/adam.py, `_multi_tensor_adam`; read and written): lerp 2 and 1, mul 1 and 1, addcmul
2 and 1, sqrt 1 and 1, div 1 and 1, add 1 and 1, addcdiv 3 and 1; AdamW has one mul more. For other optimizers, the
GPU's work is assumed to stay the same."""
EMPTY_KERNEL_NS: Final = 1_000.0
"""The time of a kernel with hardly any work: half of those of small networks take 1.1 us on an H200."""

FUSED_OP: Final = re.compile(r"aten::_fused_\w+_$")
FUSIBLE: Final = re.compile(
    r"Optimizer\.step#(Adadelta|Adagrad|Adam|AdamW|Adamax|ASGD|NAdam|RAdam|RMSprop|Rprop|SGD)\.step"
)
"""Torch's marks of the optimizers that have `fused` or `foreach`. Those of programs and other packages have neither."""


def calls_to_fuse(trace: Trace, syncs: Syncs) -> frozenset[int]:
    """Return the calls of optimizers that are not fused yet: a fused optimizer makes one in their place."""
    return fusible(trace, capture_of(trace, syncs, "optimizer").calls)


def fusible(trace: Trace, calls: Int64s) -> frozenset[int]:
    """Return which of these calls one call of a fused optimizer replaces: those of torch that are not fused yet."""
    marks = trace.annotations
    of_torch = contains(marks.times(marks.named(FUSIBLE.fullmatch)), trace.calls.start_ns[calls])
    fused = np.append(trace.ops.named(FUSED_OP.match), False)
    return frozenset(calls[of_torch & ~fused[trace.links.op[calls]]].tolist())


def fused_ns(trace: Trace, calls: Collection[int]) -> dict[int, float]:
    """Return by activity the time in ns that its kernel takes once the optimizers of these calls are fused.

    Kernels of optimizers that are not in `FUSED_TRAFFIC` are left out.
    """
    marks, launch = trace.annotations, trace.links.launch
    launched = (launch != NONE) & np.isin(launch, np.array(list(calls), np.int64)) & (trace.gpu.category == KERNEL)
    rows = np.flatnonzero(launched)
    issued = trace.calls.start_ns[launch[rows]]
    share = np.zeros(len(rows))
    for name, traffic in FUSED_TRAFFIC.items():
        marked = marks.named(f"Optimizer.step#{name}.step".__eq__)
        share[contains(marks.times(marked), issued)] = traffic
    is_fused = share > 0
    times = share * np.maximum(trace.gpu.duration_ns[rows] - EMPTY_KERNEL_NS, 0.0)
    return dict(zip(rows[is_fused].tolist(), times[is_fused].tolist(), strict=True))


ADAM_STEP = re.compile(r"Optimizer\.step#AdamW?\.step")
DIVISION_OP, PER_STEP_COUNT, CAPTURABLE_OP = "aten::_foreach_div_", "aten::item", "aten::_foreach_pow"
"""Ops of torch's foreach Adam: it divides by the bias corrections, for which it reads each parameter's step count; if
`capturable`, it computes them on the GPU."""
READS_PER_PARAMETER: Final = 2
SMALL_KERNEL_NS: Final = 1_750.0
"""The time of a small elementwise kernel in a graph (1.0 to 1.5 us), with the gap before it (0.25 us)."""
DIVISIONS_PER_PARAMETER, SMALL_OPS = 2, 10
"""With `capturable` the divisors are tensors, so each of two divisions runs one kernel for each parameter. Without it
there is one division, which runs a few kernels for all parameters. Ten foreach ops compute the divisors
(torch/optim/adam.py, `_multi_tensor_adam`)."""


def capturable_ns(trace: Trace, graphed: Collection[int]) -> dict[int, float]:
    """Return by activity how much longer in ns the work of Adam takes in a graph.

    The times stand for all work that `capturable=True` adds. A fused optimizer, or one that is capturable already, adds
    none.
    """
    ops, launch = trace.ops, trace.links.launch
    marks = trace.annotations
    steps = marks.named(ADAM_STEP.match)
    in_graph = np.isin(launch, np.array(list(graphed), np.int64)) & (launch != NONE)
    op_of = np.where(in_graph, trace.links.op[launch], NONE)
    divides = np.append(ops.named(DIVISION_OP.__eq__), False)
    rows = np.flatnonzero(in_graph & divides[op_of])
    issued = trace.calls.start_ns[launch[rows]]
    reads = ops.start_ns[ops.named(PER_STEP_COUNT.__eq__)]
    powers = ops.start_ns[ops.named(CAPTURABLE_OP.__eq__)]
    longer: dict[int, float] = {}
    for start, end in zip(marks.start_ns[steps].tolist(), marks.end_ns[steps].tolist(), strict=True):
        divisions = rows[(issued >= start) & (issued < end)].tolist()
        parameters = int(((reads >= start) & (reads < end)).sum()) // READS_PER_PARAMETER
        if not divisions or not parameters or ((powers >= start) & (powers < end)).any():
            continue
        small = (DIVISIONS_PER_PARAMETER * parameters + SMALL_OPS) * SMALL_KERNEL_NS
        for row in divisions:
            longer[row] = (DIVISIONS_PER_PARAMETER - 1) * float(trace.gpu.duration_ns[row]) + small / len(divisions)
    return longer


GRAPH_LAUNCH_NS = 10_000.0
GRAPH_LATENCY_NS = 10_000.0  # the time from the launch of a graph to the start of its first kernel on an idle GPU
GRAPH_GAP_NS = 250.0
"""The time between two dependent nodes of a graph: 170 in a recorded graph of a whole step of ResNet-18 on an H200, 430
and 550 in those of its forward and backward pass."""
HANDED_ON_NS = 9_000.0
"""The host's time for handing on a gradient that a graph of the backward pass has made, as
`torch.cuda.make_graphed_callables` does. torch 2.11 records an event for each, and lets a stream wait for it: 13 to
15 us for 20 and 100 parameters on the host of one H100, about 8 us on that of another."""


def handed_on(trace: Trace, graphed: Collection[int]) -> Counter[int]:
    """Return how many gradients graphs hand on to parameters, by the row of the last launch before that.

    If the optimizer is in a graph too, none are handed on; a gradient whose work is in no graph does not count.
    Autograd runs a node for each gradient that it hands on (torch/csrc/autograd/functions/accumulate_grad.cpp).
    """
    starts, rows = trace.calls.start_ns, np.array(list(graphed), np.int64)
    if contains(optimizer_steps(trace), starts[rows]).any():
        return Counter()
    launching = np.flatnonzero(trace.launches_work)
    nodes = trace.ops.start_ns[trace.ops.named(TO_WEIGHT.__eq__)]
    before = np.searchsorted(starts[launching], nodes, side="right") - 1
    last = launching[before[before >= 0]]
    return Counter(last[np.isin(last, rows)].tolist())


def in_graphs(
    calls: Iterable[Call], graphed: Collection[int], longer: Mapping[int, float], handed_on: Mapping[int, int]
) -> Iterable[Call]:
    """Yield the calls after those of the rows `graphed` became nodes of graphs.

    `longer` has the ns by which work becomes longer, by the row of the work. `handed_on` has the number of gradients
    that the host hands on after a call, by the row of the call; it does so after the whole graph.

    Successive such calls of one step, without another call between them, are one graph, which the first call launches.
    The host's time before the others disappears: ops and launches of the region run once, when it is captured, and so
    does torch's Python in optimizers and backward passes. What no graph can hold stays: waits for input, long pauses,
    and ops that the host computes.
    """

    def prolonged(work: GpuWork) -> GpuWork:
        return structs.replace(work, duration_ns=work.duration_ns + longer.get(work.row, 0.0))

    owed = 0
    for call in _with_one_launch(calls, graphed, lambda call: call.input_ns + call.own_work_ns):
        if call.row in graphed:
            owed += handed_on.get(call.row, 0)
            yield with_works(call, prolonged) if any(work.row in longer for work in call.works) else call
        else:
            yield structs.replace(call, gap_ns=call.gap_ns + owed * HANDED_ON_NS) if owed else call
            owed = 0


def fused(calls: Iterable[Call], optimizers: Collection[int], remaining_ns: Mapping[int, float]) -> Iterable[Call]:
    """Yield the calls after one launch replaced those of each optimizer step; its Python time stays.

    `remaining_ns` says how many ns of its GPU work remain, by row; the gaps between that work disappear.
    """

    def shortened(work: GpuWork) -> GpuWork:
        left_ns = remaining_ns.get(work.row)
        return work if left_ns is None else structs.replace(work, duration_ns=left_ns, gap_ns=0.0)

    for call in _with_one_launch(calls, optimizers, lambda call: call.input_ns + call.python_ns):
        yield with_works(call, shortened) if any(work.row in remaining_ns for work in call.works) else call


def _with_one_launch(calls: Iterable[Call], rows: Collection[int], kept: Callable[[Call], float]) -> Iterable[Call]:
    """Yield the calls after one launch replaced each run of calls of these rows.

    `kept` returns how much of the host's time before a call stays, for calls within a run.
    """
    step_of_run: int | None = None  # of the run that the previous call is in
    for call in calls:
        if call.row not in rows:
            step_of_run = None
            yield call
        elif call.step == step_of_run:
            time = kept(call)
            python = min(call.python_ns, max(time - call.input_ns, 0.0))
            yield structs.replace(_node(call), gap_ns=time, python_ns=python, artefact_ns=0.0, events=0.0, cost_ns=0.0)
        else:
            step_of_run = call.step
            yield structs.replace(_node(call), own_ns=GRAPH_LAUNCH_NS)


def _node(call: Call) -> Call:
    works = [
        structs.replace(work, latency_ns=GRAPH_LATENCY_NS, gap_ns=min(work.gap_ns, GRAPH_GAP_NS)) for work in call.works
    ]
    kind = ISSUE if call.kind == OWN_WAIT else call.kind
    return structs.replace(call, kind=kind, own_ns=0.0, works=works, in_graph=True)
