"""CUDA graphs: what one launch of a whole region would leave of a recorded program, and what forbids to capture it."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from pinprof.replay.program import ISSUE, OWN_WAIT, Call, Work

LAUNCH_NS = 10_000.0
"""What the launch of a graph takes the host."""
LATENCY_NS = 10_000.0
"""From there to the start of its first kernel on an idle GPU."""
GAP_NS = 1_000.0
"""Between two nodes of a graph of which one needs the other."""


def in_graphs(calls: Iterable[Call], graphed: Collection[int]) -> Iterable[Call]:
    """Yield the calls as they are where these, by row, become nodes of graphs.

    A run of such calls, with none of another kind between them, is one graph. Its first call launches it. The host's
    time before the others is gone: Python, ops and launches of the region run once, when it is captured.
    """
    within = False
    for call in calls:
        node = call.row in graphed
        if not node:
            yield call
        elif within:
            yield replace(_node(call), gap_ns=0.0, fixed_ns=0.0, artefact_ns=0.0, python_ns=0.0, events=0.0)
        else:
            yield _node(call)
        within = node


def _node(call: Call) -> Call:
    works = [_work(work) for work in call.works]
    kind = ISSUE if call.kind == OWN_WAIT else call.kind
    return replace(call, kind=kind, own_ns=0.0, works=works, in_graph=True)


def _work(work: Work) -> Work:
    return replace(work, latency_ns=LATENCY_NS, gap_ns=min(work.gap_ns, GAP_NS))
