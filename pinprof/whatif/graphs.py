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
LONG_NS = 500_000.0
"""No op takes so long to launch one kernel: the host does other work in it, such as an op on the CPU."""


def in_graphs(calls: Iterable[Call], graphed: Collection[int]) -> Iterable[Call]:
    """Yield the calls as they are where these, by row, become nodes of graphs.

    A run of such calls, with none of another kind between them, is one graph. Its first call launches it. The host's
    time before the others is gone: ops and launches of the region run once, when it is captured. What no graph holds
    stays where it is: long pauses, waits for input, and work of the host's own.
    """
    within = False
    for call in calls:
        node = call.row in graphed
        if not node:
            yield call
        elif within:
            yield _without_launching(_node(call))
        else:
            yield _node(call)
        within = node


def _without_launching(call: Call) -> Call:
    """Return a call before which the host does only what no graph holds."""
    own = call.gap_ns - call.fixed_ns - call.artefact_ns - call.python_ns
    if own >= LONG_NS:
        return call
    return replace(call, gap_ns=call.fixed_ns + call.python_ns, artefact_ns=0.0, events=0.0)


def _node(call: Call) -> Call:
    works = [_work(work) for work in call.works]
    kind = ISSUE if call.kind == OWN_WAIT else call.kind
    return replace(call, kind=kind, own_ns=0.0, works=works, in_graph=True)


def _work(work: Work) -> Work:
    return replace(work, latency_ns=LATENCY_NS, gap_ns=min(work.gap_ns, GAP_NS))
