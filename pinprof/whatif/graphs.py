"""CUDA graphs and fused optimizers: what one launch in place of many would leave of a recorded program."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from pinprof.replay.program import ISSUE, OWN_WAIT, Call, Work

LAUNCH_NS = 10_000.0
"""What the launch of a graph takes the host."""
LATENCY_NS = 10_000.0
"""From there to the start of its first kernel on an idle GPU."""
GAP_NS = 250.0
"""Between two nodes of a graph of which one needs the other: 170 in a recorded graph of a whole step of ResNet-18 on an
H200, 430 and 550 in those of its forward and backward pass."""


def in_graphs(calls: Iterable[Call], graphed: Collection[int], longer: Mapping[int, float]) -> Iterable[Call]:
    """Yield the calls as they are where these, by row, become nodes of graphs; work, by row, is `longer` by so many ns.

    A run of such calls of one step, with none of another kind between them, is one graph. Its first call launches it.
    The host's time before the others is gone: ops and launches of the region run once, when it is captured, and so does
    torch's Python in optimizers and backward passes. What no graph holds stays where it is: waits for input, long
    pauses, and ops that the host computes.
    """
    for call in _in_one(calls, graphed, lambda call: call.input_ns + call.own_work_ns):
        yield _prolonged(call, longer) if any(work.row in longer for work in call.works) else call


def fused(calls: Iterable[Call], optimizers: Collection[int], left: Mapping[int, float]) -> Iterable[Call]:
    """Yield the calls as they are where one launch makes all of an optimizer's; its Python stays.

    Of its work on the GPU, by row, so many ns are `left`, with nothing between.
    """
    for call in _in_one(calls, optimizers, lambda call: call.input_ns + call.python_ns):
        yield _shortened(call, left) if any(work.row in left for work in call.works) else call


def _in_one(calls: Iterable[Call], rows: Collection[int], kept: Callable[[Call], float]) -> Iterable[Call]:
    """Yield the calls where one launch makes those of each run of these rows, and the host keeps some of its time."""
    run_of: int | None = None
    """The step whose run the call before is in."""
    for call in calls:
        if call.row not in rows:
            run_of = None
            yield call
        elif call.step == run_of:
            yield _with_host_time(_node(call), kept(call))
        else:
            run_of = call.step
            yield replace(_node(call), own_ns=LAUNCH_NS)


def _with_host_time(call: Call, time: float) -> Call:
    python = min(call.python_ns, max(time - call.input_ns, 0.0))
    return replace(call, gap_ns=time, python_ns=python, artefact_ns=0.0, events=0.0, cost_ns=0.0)


def _prolonged(call: Call, longer: Mapping[int, float]) -> Call:
    works = [replace(work, duration_ns=work.duration_ns + longer.get(work.row, 0.0)) for work in call.works]
    return replace(call, works=works)


def _shortened(call: Call, left: Mapping[int, float]) -> Call:
    works = [replace(work, duration_ns=left[work.row], gap_ns=0.0) if work.row in left else work for work in call.works]
    return replace(call, works=works)


def _node(call: Call) -> Call:
    works = [_work(work) for work in call.works]
    kind = ISSUE if call.kind == OWN_WAIT else call.kind
    return replace(call, kind=kind, own_ns=0.0, works=works, in_graph=True)


def _work(work: Work) -> Work:
    return replace(work, latency_ns=LATENCY_NS, gap_ns=min(work.gap_ns, GAP_NS))
