"""In which phase of its step each call is: forward, backward, the optimizer, or none of these."""

import re
from typing import Final

import numpy as np

from pinprof.intervals import Intervals, contains, union
from pinprof.trace.tables import NONE, Bools, Int32s, Int64s, Trace

PHASES: Final = ("forward", "backward", "optimizer", "other")
FORWARD, BACKWARD, OPTIMIZER, OTHER = range(len(PHASES))

OPTIMIZER_MARK = re.compile(r"Optimizer\.(step|zero_grad)#")
"""torch.optim marks its steps by annotations like `Optimizer.step#Adam.step`."""
BACKWARD_OPS = ("autograd::engine::", "CompiledFunctionBackward")
"""The engine's own ops, on whatever thread it runs."""


def phase_of_calls(trace: Trace) -> Int64s:
    """Return per call its phase, as an index into `PHASES`.

    What the main thread does in a step before the last backward pass of it is forward, but for the optimizer's time;
    so are, in a step without backward, all ops of inference.
    """
    calls, step = trace.calls, trace.links.call_step
    phase = np.full(len(calls), OTHER, np.int64)
    backward = _in_backward(trace)
    optimizer = ~backward & contains(_in_optimizers(trace, backward), calls.start_ns)
    last = np.full(len(trace.steps), NONE, np.int64)
    inside = np.flatnonzero(backward & (step != NONE))
    np.maximum.at(last, step[inside], calls.start_ns[inside])
    known = np.append(last, NONE)[step]
    of_main = np.array([thread.role == "main" for thread in trace.threads], dtype=bool)[calls.thread]
    before = (step != NONE) & ((calls.start_ns < known) | (known == NONE))
    phase[of_main & before] = FORWARD
    phase[optimizer] = OPTIMIZER
    phase[backward] = BACKWARD
    return phase


def torch_times(trace: Trace, threads: Int32s) -> Intervals:
    """Return the times of these threads that are torch's own: in optimizers, and within backward passes.

    A pass reaches from its first call to the last before a call of another phase. No line of the program that is not a
    hook of the pass or of the optimizer runs meanwhile, however long the host makes no call.
    """
    calls, all_backward = trace.calls, _in_backward(trace)
    marks = _in_optimizers(trace, all_backward)
    rows = np.flatnonzero(np.isin(calls.thread, threads))
    rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
    bounds = np.flatnonzero(np.diff(np.concatenate(([False], all_backward[rows], [False]))))
    first, last = rows[bounds[::2]], rows[bounds[1::2] - 1]
    starts, ends = (calls.start_ns[first], marks.start), (calls.end_ns[last], marks.end)
    return union(np.concatenate(starts), np.concatenate(ends))


def _in_backward(trace: Trace) -> Bools:
    calls = trace.calls
    roles = np.array([thread.role == "autograd" for thread in trace.threads], dtype=bool)
    backward = roles[calls.thread] if len(calls) else np.zeros(0, bool)
    engine = trace.ops.named(lambda name: name.startswith(BACKWARD_OPS))
    for thread in np.unique(trace.ops.thread[engine]).tolist():
        of_engine = engine & (trace.ops.thread == thread)
        times = union(trace.ops.start_ns[of_engine], trace.ops.end_ns[of_engine])
        backward |= (calls.thread == thread) & contains(times, calls.start_ns)
    return backward


def optimizer_steps(trace: Trace) -> Intervals:
    """Return the times in which optimizers change the weights, as torch marks their steps.

    A step that is given a closure, as by Lightning, calls forward and backward itself: then it is what comes after.
    """
    return _after_backward(trace, _in_backward(trace), "step")


def _in_optimizers(trace: Trace, backward: Bools) -> Intervals:
    """Return the times in optimizers, as torch marks them, without what a closure does."""
    steps, zeroing = _after_backward(trace, backward, "step"), _after_backward(trace, backward, "zero_grad")
    return union(np.concatenate((steps.start, zeroing.start)), np.concatenate((steps.end, zeroing.end)))


def _after_backward(trace: Trace, backward: Bools, method: str) -> Intervals:
    """Return the times in a method of optimizers, from the last call of a backward pass in each on."""
    marks = trace.annotations
    chosen = np.flatnonzero(marks.named(lambda name: _marked(name) == method))
    starts, ends = marks.start_ns[chosen], marks.end_ns[chosen]
    calls = np.sort(trace.calls.end_ns[backward])
    last = np.append(calls, np.iinfo(np.int64).min)[np.searchsorted(calls, ends) - 1]
    return union(np.maximum(starts, last), ends)


def _marked(name: str) -> str | None:
    """Return the method of an optimizer that an annotation marks."""
    match = OPTIMIZER_MARK.match(name)
    return match[1] if match else None
