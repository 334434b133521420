"""The host's time in optimizers as it was sampled without the profiler, put into a program.

Per op, a profiler costs more or less in an optimizer than elsewhere. Elsewhere, samples are no better a judge: a short
call in C is seen at the Python that runs next, and a long one that waits is not the host's own time.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pinprof.intervals import covered
from pinprof.replay.calibration import KEEP, MOST_NS, crossing
from pinprof.replay.program import Call, Floats, Program
from pinprof.trace.host import HostFrame, HostProfile
from pinprof.trace.phases import optimizer_steps
from pinprof.trace.tables import Trace
from pinprof.units import NS_PER_MS

FEWEST: Final = 20
"""Of so many samples in optimizers, the share is known to a fifth. Without them the replay is off by a third: so far
scatter its shares from those of the samples, in 26 recordings of programs of others."""
WRAPPER, WRAPPED_IN = "wrapper", "torch/optim/optimizer.py"
"""The function around each step of an optimizer, which also marks it in the trace (`Optimizer.profile_hook_step`)."""
DECORATED_IN: Final = "torch/utils/_contextlib.py"
"""Where `torch.no_grad` calls what it decorates, as the step of an optimizer."""


def as_sampled(program: Program, trace: Trace) -> Program:
    """Return the program with the profiler's cost in optimizers as the samples of the recorded run tell it.

    Without enough samples, or without marks of optimizers, it is the program itself.
    """
    per_step = sampled_ns(trace.info.host)
    inside = _shares_inside(trace, program.calls) if per_step else np.zeros(0)
    if per_step is None or not inside.any():
        return program
    steps = len({call.step for call in program.calls})
    costs = inside * _per_event(program, inside, per_step * steps) * program.host.events
    calls = (
        replace(call, events=call.events * (1.0 - share), cost_ns=cost) if share > 0 else call
        for call, share, cost in zip(program.calls, inside.tolist(), costs.tolist(), strict=True)
    )
    return replace(program, calls=tuple(calls))


def sampled_ns(profile: HostProfile | None) -> float | None:
    """Return how long a step is in its optimizers without the profiler, in ns; None where too few samples tell."""
    if profile is None or not profile.samples or not profile.steps:
        return None
    met = sum(
        stack.count for stack in profile.stacks if _is_of_optimizer([profile.frames[each] for each in stack.frames])
    )
    return met / profile.samples * profile.window_ms / profile.steps * NS_PER_MS if met >= FEWEST else None


def _is_of_optimizer(frames: Sequence[HostFrame]) -> bool:
    """Return whether a stack is in an optimizer's step, and not in a closure that the step was given.

    What is not of torch is in the file of the step itself, where that is another package's or the program's.
    """
    files = [frame.file.replace("\\", "/") for frame in frames]
    wrappers = [place for place, file in enumerate(files) if file.endswith(WRAPPED_IN) and _wraps(frames[place])]
    if not wrappers:
        return False
    within = slice(wrappers[-1] + 1, None)
    step = next((file for file in files[within] if not file.endswith((WRAPPED_IN, DECORATED_IN))), None)
    return all(
        frame.origin == "torch" or file == step for frame, file in zip(frames[within], files[within], strict=True)
    )


def _wraps(frame: HostFrame) -> bool:
    return frame.function.rsplit(".", 1)[-1] == WRAPPER


def _shares_inside(trace: Trace, calls: Sequence[Call]) -> Floats:
    """Return which part of the host's time before each call lies in steps of optimizers."""
    rows = np.array([call.row for call in calls], np.int64)
    start = trace.calls.start_ns[rows]
    since = start - np.array([call.gap_ns for call in calls], np.int64)
    inside = covered(optimizer_steps(trace), since, start)
    return np.divide(inside, start - since, out=np.zeros(len(rows)), where=start > since)


def _per_event(program: Program, inside: Floats, target_ns: float) -> float:
    """Return the cost per op and call with which the host is in its optimizers for so long; the nearest if none is."""
    host = program.host
    own = np.maximum(host.gap - host.input - host.artefact, 0.0)
    calls_ns = float(host.own[inside > 0].sum())

    def lasts(per_event_ns: float) -> float:
        return float((inside * np.maximum(own - per_event_ns * host.events, KEEP * own)).sum()) + calls_ns

    return crossing(lasts, target_ns, MOST_NS)
