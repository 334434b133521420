"""The phase of the step that each call is in, and the weights and activations that autocast casts in each pass."""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, contains, joined, union
from pinprof.trace.links import follow, step_at
from pinprof.trace.tables import NONE, Bools, Int64s, Trace, computed_once
from pinprof.trace.threads import BACKWARD_OP, optimizer_marks

CALL_PHASES: Final = ("forward", "backward", "optimizer", "other")
FORWARD, BACKWARD, OPTIMIZER, OTHER = range(len(CALL_PHASES))


@computed_once
def phase_of_calls(trace: Trace) -> Int64s:
    """Return per call its phase, as an index into `CALL_PHASES`.

    Calls of the main thread before the last backward pass of its step are forward, except for the optimizer's. In a
    step without backward, as in inference, all calls of the main thread are forward.
    """
    calls, step = trace.calls, trace.links.call_step
    phase = np.full(len(calls), OTHER, np.int64)
    backward = _in_backward(trace)
    optimizer = ~backward & contains(_in_optimizers(trace, backward), calls.start_ns)
    last = np.full(len(trace.steps), NONE, np.int64)
    inside = np.flatnonzero(backward & (step != NONE))
    np.maximum.at(last, step[inside], calls.start_ns[inside])
    last_of_step = np.append(last, NONE)[step]
    of_main = trace.has_role("main")[calls.thread]
    before = (step != NONE) & ((calls.start_ns < last_of_step) | (last_of_step == NONE))
    phase[of_main & before] = FORWARD if trace.shows_host else OTHER
    phase[optimizer] = OPTIMIZER
    phase[backward] = BACKWARD
    return phase


class TorchTimes(NamedTuple):
    """The times of torch's own code, in which no line of the program runs, except for hooks."""

    backward: Intervals
    """Within backward passes, each from its first call to the last before one of another phase: the host may make no
    call for long."""
    optimizers: Intervals
    """In optimizers, as torch marks them, without their closures."""

    @property
    def both(self) -> Intervals:
        """The times of either."""
        return joined(self.backward, self.optimizers)


def torch_times(trace: Trace) -> TorchTimes:
    """Return the times of the launching threads in torch's own code."""
    calls, backward = trace.calls, _in_backward(trace)
    rows = np.flatnonzero(np.isin(calls.thread, trace.launching_threads))
    rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
    bounds = np.flatnonzero(np.diff(np.concatenate(([False], backward[rows], [False]))))
    first, last = rows[bounds[::2]], rows[bounds[1::2] - 1]
    return TorchTimes(union(calls.start_ns[first], calls.end_ns[last]), _in_optimizers(trace, backward))


@computed_once
def _in_backward(trace: Trace) -> Bools:
    calls = trace.calls
    backward = trace.has_role("autograd")[calls.thread] if len(calls) else np.zeros(0, bool)
    engine = trace.ops.named(BACKWARD_OP.match)
    for thread in np.unique(trace.ops.thread[engine]).tolist():
        of_engine = engine & (trace.ops.thread == thread)
        times = trace.ops.times(of_engine)
        backward |= (calls.thread == thread) & contains(times, calls.start_ns)
    return backward


@computed_once
def optimizer_steps(trace: Trace) -> Intervals:
    """Return when optimizers change the weights; of a step with a closure, the time after its backward pass."""
    return _after_backward(trace, _in_backward(trace), "step")


def _in_optimizers(trace: Trace, backward: Bools) -> Intervals:
    return joined(*(_after_backward(trace, backward, method) for method in ("step", "zero_grad")))


def _after_backward(trace: Trace, backward: Bools, method: str) -> Intervals:
    """Return the times in a method of optimizers, each from the last call of a backward pass within it on."""
    marks = trace.annotations
    chosen = np.flatnonzero(optimizer_marks(marks, method))
    starts, ends = marks.start_ns[chosen], marks.end_ns[chosen]
    calls = np.sort(trace.calls.end_ns[backward])
    last = np.append(calls, np.iinfo(np.int64).min)[np.searchsorted(calls, ends) - 1]
    return union(np.maximum(starts, last), ends)


OPS_WITH_WEIGHTS: Final = ("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d")
"""Ops whose arguments are an input, a weight and perhaps a bias, in this order."""
CAST_OP: Final = "aten::to"
NODE_PREFIX: Final = "autograd::engine::evaluate_function: "
"""Begins the name of an op of the autograd engine; the name of the node that it runs follows."""
CAST_BACK: Final = (f"{NODE_PREFIX}ToCopyBackward0", f"{NODE_PREFIX}ToBackward0")
TO_WEIGHT: Final = f"{NODE_PREFIX}torch::autograd::AccumulateGrad"
ADD_OPS: Final = ("aten::add_", "aten::add")
NAN_CHECK: Final = ("aten::isnan", "aten::_is_any_true", "aten::item")
"""The ops that anomaly detection calls, in this order, for each gradient of a node of the engine
(torch/csrc/autograd/engine.cpp). Programs have no name for the second op, so no hook of theirs is taken for this."""


class Pass(NamedTuple):
    """A forward pass and the backward pass after it, of one micro-batch."""

    step: int
    begin_ns: int  # when its first cast begins; without casts, its first gradient
    casts: Int64s  # rows of ops: autocast's casts of the weights and activations of linear layers and convolutions
    weights: int  # how many weights were cast: the backward pass gives each of them the gradient of its cast
    adds: int  # how many of these gradients were added to earlier ones


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
    begins = trace.annotations.start_ns[optimizer_marks(trace.annotations, "step")]
    return bool(((begins >= begin_ns) & (begins < end_ns)).any())


def casts_of_weights(trace: Trace, one_pass: Pass) -> Int64s | None:
    """Return the casts of weights and biases, which come after the input's; None if these cannot be told apart."""
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


def nan_checks(trace: Trace) -> Int64s:
    """Return the ops by which anomaly detection looks for NaN in the gradients of backward passes: rows of ops."""
    ops, parent = trace.ops, trace.links.op_parent
    named = np.flatnonzero(ops.named(NAN_CHECK.__contains__) & (parent != NONE))
    rows = named[ops.named(lambda name: name.startswith(NODE_PREFIX))[parent[named]]]
    rows = rows[np.lexsort((ops.start_ns[rows], parent[rows]))]
    first, second, third = (ops.named(name.__eq__)[rows] for name in NAN_CHECK)
    same = (parent[rows[:-2]] == parent[rows[1:-1]]) & (parent[rows[1:-1]] == parent[rows[2:]])
    at = np.flatnonzero(first[:-2] & second[1:-1] & third[2:] & same)
    return np.sort(np.concatenate([rows[at + position] for position in range(len(NAN_CHECK))]))


def _casts(trace: Trace) -> Int64s:
    """Return the casts that autocast makes in `OPS_WITH_WEIGHTS`: such an op then calls the op of its own name."""
    ops, parent = trace.ops, trace.links.op_parent
    weighted = ops.named(lambda name: name in OPS_WITH_WEIGHTS)
    outer = follow(ops.name, parent)
    inner = np.flatnonzero(weighted & (ops.name == outer))
    by_autocast = np.zeros(len(ops), bool)
    by_autocast[parent[inner]] = True
    casts = np.flatnonzero(ops.named(lambda name: name == CAST_OP) & (parent != NONE))
    return casts[by_autocast[parent[casts]]]


def _to_weights(trace: Trace) -> tuple[Int64s, Bools]:
    """Return the nodes that give the gradient of a cast to a weight, and whether each adds it to an earlier one."""
    ops = trace.ops
    nodes = np.flatnonzero(ops.named(lambda name: name.startswith(NODE_PREFIX)))
    nodes = nodes[np.lexsort((ops.start_ns[nodes], ops.thread[nodes]))]
    back, to_weight = ops.named(lambda name: name in CAST_BACK), ops.named(lambda name: name == TO_WEIGHT)
    after = np.append(False, back[nodes[:-1]] & (ops.thread[nodes[1:]] == ops.thread[nodes[:-1]]))
    to_weights = np.sort(nodes[after & to_weight[nodes]])
    adds = np.flatnonzero(ops.named(lambda name: name in ADD_OPS))
    within = np.zeros(len(to_weights), bool)
    for thread in np.unique(ops.thread[to_weights]).tolist():
        of_thread = np.flatnonzero(ops.thread[to_weights] == thread)
        times = ops.start_ns[adds[ops.thread[adds] == thread]]
        row = to_weights[of_thread]
        within[of_thread] = np.searchsorted(times, ops.end_ns[row]) > np.searchsorted(times, ops.start_ns[row])
    return to_weights, within
