"""Separates the casts that autocast makes of weights from those of activations, by the ops and the backward pass."""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from pinprof.trace.links import follow, step_at
from pinprof.trace.phases import OPTIMIZER_MARK
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

WEIGHTED: Final = ("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d")
"""Ops that take a weight and perhaps a bias, in this order, behind their input."""
CAST: Final = "aten::to"
NODE: Final = "autograd::engine::evaluate_function: "
"""Before the name of what the autograd engine runs."""
CAST_BACK: Final = (f"{NODE}ToCopyBackward0", f"{NODE}ToBackward0")
TO_WEIGHT: Final = f"{NODE}torch::autograd::AccumulateGrad"
ADDS: Final = ("aten::add_", "aten::add")


class Pass(NamedTuple):
    """A forward pass and the backward pass behind it, of one micro-batch."""

    step: int
    begin_ns: int
    """When its first cast begins, or else its first gradient."""
    casts: Int64s
    """Rows of ops: casts of what autocast gives to linear layers and convolutions, weights and activations."""
    weights: int
    """How many gradients of casts the backward pass hands to weights: one for each weight that was cast."""
    adds: int
    """How many of them it adds to gradients that were there."""


def passes_of(trace: Trace) -> list[Pass]:
    """Return the passes of the complete steps in which weights or activations are cast, in order."""
    casts, (weights, added) = _casts(trace), _to_weights(trace)
    time = np.concatenate((trace.ops.start_ns[casts], trace.ops.start_ns[weights]))
    rows, is_back = np.concatenate((casts, weights)), np.arange(len(time)) >= len(casts)
    order = np.argsort(time, kind="stable")
    time, rows, is_back = time[order], rows[order], is_back[order]
    adds = np.concatenate((np.zeros(len(casts), bool), added))[order]
    step = step_at(trace.steps, time) if trace.steps.on_host else np.full(len(time), NONE, np.int32)
    kept = trace.steps.holds(step)
    time, rows, is_back, adds, step = time[kept], rows[kept], is_back[kept], adds[kept], step[kept]
    if not len(rows):
        return []
    begins = np.append(True, (step[1:] != step[:-1]) | (is_back[:-1] & ~is_back[1:]))
    edges = [*np.flatnonzero(begins).tolist(), len(rows)]
    return [
        Pass(
            int(step[start]),
            int(time[start]),
            rows[start:end][~is_back[start:end]],
            int(is_back[start:end].sum()),
            int(adds[start:end].sum()),
        )
        for start, end in pairwise(edges)
    ]


def optimizer_within(trace: Trace, begin_ns: int, end_ns: int) -> bool:
    """Return whether an optimizer steps within this time."""
    marks = trace.annotations
    chosen = marks.named(lambda name: OPTIMIZER_MARK.match(name) is not None and ".step#" in name)
    inside = (marks.start_ns >= begin_ns) & (marks.start_ns < end_ns)
    return bool((chosen & inside).any())


def casts_of_weights(trace: Trace, one_pass: Pass) -> Int64s | None:
    """Return the casts of weights and biases in a pass; None where the trace does not separate them from activations.

    The casts of an op come in the order of its arguments: the input, the weight, the bias, each only if it is cast.
    """
    parent = trace.links.op_parent[one_pass.casts]
    _, which, count = np.unique(parent, return_inverse=True, return_counts=True)
    order = np.lexsort((trace.ops.start_ns[one_pass.casts], which))
    first = np.cumsum(count) - count
    from_end = np.empty(len(order), np.int64)
    from_end[order] = count[which[order]] - 1 - (np.arange(len(order)) - first[which[order]])
    for arguments in (2, 1):  # with bias, without
        chosen = one_pass.casts[from_end < arguments]
        if len(chosen) == one_pass.weights:
            return chosen
    return None


def _casts(trace: Trace) -> Int64s:
    """Return the casts that autocast makes in such ops: it then calls the op of the same name within."""
    ops, parent = trace.ops, trace.links.op_parent
    weighted = ops.named(lambda name: name in WEIGHTED)
    outer = follow(ops.name, parent)
    again = np.flatnonzero(weighted & (ops.name == outer))
    by_autocast = np.zeros(len(ops), bool)
    by_autocast[parent[again]] = True
    casts = np.flatnonzero(ops.named(lambda name: name == CAST) & (parent != NONE))
    return casts[by_autocast[parent[casts]]]


def _to_weights(trace: Trace) -> tuple[Int64s, Bools]:
    """Return the nodes that hand the gradient of a cast to a weight, and whether each adds it to what was there."""
    ops = trace.ops
    nodes = np.flatnonzero(ops.named(lambda name: name.startswith(NODE)))
    nodes = nodes[np.lexsort((ops.start_ns[nodes], ops.thread[nodes]))]
    back, to_weight = ops.named(lambda name: name in CAST_BACK), ops.named(lambda name: name == TO_WEIGHT)
    after = np.append(False, back[nodes[:-1]] & (ops.thread[nodes[1:]] == ops.thread[nodes[:-1]]))
    to_weights = np.sort(nodes[after & to_weight[nodes]])
    adds = np.flatnonzero(ops.named(lambda name: name in ADDS))
    within = np.zeros(len(to_weights), bool)
    for thread in np.unique(ops.thread[to_weights]).tolist():
        of_thread = np.flatnonzero(ops.thread[to_weights] == thread)
        times = ops.start_ns[adds[ops.thread[adds] == thread]]
        row = to_weights[of_thread]
        within[of_thread] = np.searchsorted(times, ops.end_ns[row]) > np.searchsorted(times, ops.start_ns[row])
    return to_weights, within
