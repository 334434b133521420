"""E2: many small tensors, each waited for, or all together."""

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from pinprof.bench.experiment import QUEUED_EARLY, WAITED, CaseRuns, Experiment, InTrace, Lab, Size, of_turns
from pinprof.bench.judge import SAME_SHARE, Claim, Predicate, Ratio, all_of, at_least, at_most, in_order
from pinprof.bench.results import Figure, Measured, figures
from pinprof.details import Details
from pinprof.trace.calls import ASYNC_COPY, call_kinds
from pinprof.trace.tables import Trace

BLOCKING, TOGETHER = CASES = figures("E2", "ms", "blocking; non_blocking, one synchronize")


def gain(fast: Figure) -> Figure:
    """Return how many times as fast a case is as another that ran in turn with it."""
    return Figure(fast.number, f"times as fast in turn, {fast.name}", "times")


def faster(fast: Figure) -> Predicate:
    """Return that a case is faster than another one: by runs in turn, which meet the same noise."""
    return at_least(gain(fast), 1 + SAME_SHARE, otherwise="unknown")


def gains_in_turn(lab: Lab, cases: Sequence[Figure], runs: CaseRuns, *pairs: Sequence[Figure]) -> Iterator[Measured]:
    """Yield what cases take in turn, and how many times as fast the first of each pair is as the second."""
    turns = lab.turns(runs)
    yield from of_turns(cases, turns)
    for fast, slow in pairs:
        yield gain(fast).of([median(turn[cases.index(slow)] / turn[cases.index(fast)] for turn in turns)])


def _copying_steps(lab: Lab) -> CaseRuns:
    tensors, device = lab.tensors(), lab.device

    def together() -> object:
        copies = [tensor.to(device, non_blocking=True) for tensor in tensors]
        lab.wait()
        return copies

    return lambda: [tensor.to(device) for tensor in tensors], together


def asynchronous_calls(trace: Trace, _details: Details) -> Iterator[float]:
    """Yield how many asynchronous copies the host asks for in each step."""
    copies = call_kinds(trace.calls) == ASYNC_COPY
    for step in np.flatnonzero(trace.steps.complete):
        yield float(copies[trace.links.call_step == step].sum())


COPY_CALLS = InTrace("asynchronous copies", "calls", asynchronous_calls)
SMALL_TENSORS = Experiment(
    "E2",
    "small_tensors",
    "1000 tensors of 4 kB, each waited for, or all and one synchronize",
    (
        Claim("Many small tensors are copied faster with one synchronize", "tutorial: non_blocking", faster(TOGETHER)),
        Claim(
            "A blocking copy is the same asynchronous copy with a wait after it; of many others the host waits once",
            "tutorial: asynchronous; tutorial: non_blocking",
            all_of(
                at_most(Ratio(WAITED(TOGETHER), WAITED(BLOCKING)), 0.1),
                in_order(COPY_CALLS(BLOCKING), COPY_CALLS(TOGETHER), "same"),
                at_least(Ratio(WAITED(BLOCKING), COPY_CALLS(BLOCKING)), 1),
            ),
            shows="profiles: cudaMemcpyAsync in both, cudaStreamSynchronize in the blocking one",
        ),
    ),
    CASES,
    _copying_steps,
    lambda lab: gains_in_turn(lab, CASES, _copying_steps(lab), (TOGETHER, BLOCKING)),
    sizes=(Size("tensors", 1000, "how many tensors"), Size("floats", 1000, "numbers of 4 bytes in each tensor")),
    published={BLOCKING: 16.35, TOGETHER: 12.05, WAITED(BLOCKING): 1000, WAITED(TOGETHER): 1},
    traced=dict.fromkeys(CASES, (WAITED, COPY_CALLS, QUEUED_EARLY)),
)
