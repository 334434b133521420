"""The phase of the step that each call is in."""

from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, contains, joined, union
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


NODE_PREFIX: Final = "autograd::engine::evaluate_function: "
"""Begins the name of an op of the autograd engine; the name of the node that it runs follows."""
TO_WEIGHT: Final = f"{NODE_PREFIX}torch::autograd::AccumulateGrad"
ADD_OPS: Final = ("aten::add_", "aten::add")
NAN_CHECK: Final = ("aten::isnan", "aten::_is_any_true", "aten::item")
"""The ops that anomaly detection calls, in this order, for each gradient of a node of the engine
(torch/csrc/autograd/engine.cpp). Programs have no name for the second op, so no hook of theirs is taken for this."""


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
