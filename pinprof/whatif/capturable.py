"""What Adam computes in addition when a CUDA graph holds it: only the GPU knows then how often it has stepped."""

import re
from collections.abc import Collection
from typing import Final

import numpy as np

from pinprof.trace.tables import NONE, Trace

ADAM = re.compile(r"Optimizer\.step#AdamW?\.step")
DIVISION, PER_STEP_COUNT, OF_CAPTURABLE = "aten::_foreach_div_", "aten::item", "aten::_foreach_pow"
"""Of torch's foreach Adam: it divides by the bias corrections, for which it reads the count of each parameter's steps;
if `capturable`, it computes them on the GPU."""
READS: Final = 2
"""Of the count, for each parameter."""
KERNEL_NS: Final = 1_750.0
"""A small elementwise kernel in a graph, with the gap before it: 1.0 to 1.5 us and 0.25."""
DIVISIONS, SMALL_OPS = 2, 10
"""With `capturable` the divisors are tensors. So both divisions run a kernel for each parameter, where before one ran
a few kernels for all; and ten foreach ops compute the divisors (torch/optim/adam.py, `_multi_tensor_adam`)."""


def capturable_ns(trace: Trace, graphed: Collection[int]) -> dict[int, float]:
    """Return by activity how much longer in ns the work takes that Adam launched from calls that a graph holds.

    It stands for all that `capturable=True` adds. An optimizer that is fused, or capturable already, adds nothing.
    """
    ops, launch = trace.ops, trace.links.launch
    marks = trace.annotations
    steps = marks.named(lambda name: ADAM.match(name) is not None)
    held = np.isin(launch, np.array(list(graphed), np.int64)) & (launch != NONE)
    op_of = np.where(held, trace.links.op[launch], NONE)
    divides = np.append(ops.named(DIVISION.__eq__), False)
    rows = np.flatnonzero(held & divides[op_of])
    issued = trace.calls.start_ns[launch[rows]]
    reads = ops.start_ns[ops.named(PER_STEP_COUNT.__eq__)]
    powers = ops.start_ns[ops.named(OF_CAPTURABLE.__eq__)]
    longer: dict[int, float] = {}
    for start, end in zip(marks.start_ns[steps].tolist(), marks.end_ns[steps].tolist(), strict=True):
        mine = rows[(issued >= start) & (issued < end)].tolist()
        parameters = int(((reads >= start) & (reads < end)).sum()) // READS
        if not mine or not parameters or ((powers >= start) & (powers < end)).any():
            continue
        small = (DIVISIONS * parameters + SMALL_OPS) * KERNEL_NS
        for row in mine:
            longer[row] = (DIVISIONS - 1) * float(trace.gpu.duration_ns[row]) + small / len(mine)
    return longer
