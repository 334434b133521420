"""What becomes of an optimizer's calls once it is fused: a launch, and one pass over the memory for that of each op."""

import re
from collections.abc import Collection
from typing import Final

import numpy as np

from pinprof.analyses.syncs import Syncs
from pinprof.intervals import contains, union
from pinprof.trace.tables import KERNEL, NONE, Trace
from pinprof.whatif.regions import capture_of

FUSED: Final = {"Adam": 7 / 18, "AdamW": 7 / 20}
"""How often a fused optimizer reads or writes a tensor as large as the parameters, as a share of how often the ops do
that it replaces. Fused, it reads the parameters, the gradients and both averages, and writes all but the gradients. The
ops (torch/optim/adam.py, `_multi_tensor_adam`; read and written): lerp 2 and 1, mul 1 and 1, addcmul 2 and 1, sqrt 1
and 1, div 1 and 1, add 1 and 1, addcdiv 3 and 1; AdamW one mul more. Of others, the GPU's work is taken to stay."""
SMALL_NS: Final = 1_000.0
"""A kernel that has hardly anything to do takes so long: half of those of small networks take 1.1 us on an H200."""

FUSED_OP: Final = re.compile(r"aten::_fused_\w+_$")


def calls_to_fuse(trace: Trace, syncs: Syncs) -> frozenset[int]:
    """Return the calls of optimizers that a fused one makes at once: not those of one that is fused."""
    calls = capture_of(trace, syncs, "optimizer").calls
    fused = np.append(trace.ops.named(lambda name: FUSED_OP.match(name) is not None), False)
    return frozenset(calls[~fused[trace.links.op[calls]]].tolist())


def fused_ns(trace: Trace, calls: Collection[int]) -> dict[int, float]:
    """Return by activity how long in ns the kernels run in a fused optimizer that such calls of optimizers launch now.

    Kernels of optimizers that are not in `FUSED` are left out.
    """
    marks, launch = trace.annotations, trace.links.launch
    launched = (launch != NONE) & np.isin(launch, np.array(list(calls), np.int64)) & (trace.gpu.category == KERNEL)
    rows = np.flatnonzero(launched)
    issued = trace.calls.start_ns[launch[rows]]
    share = np.zeros(len(rows))
    for name, left in FUSED.items():
        mine = marks.named(f"Optimizer.step#{name}.step".__eq__)
        share[contains(union(marks.start_ns[mine], marks.end_ns[mine]), issued)] = left
    known = share > 0
    times = share * np.maximum(trace.gpu.duration_ns[rows] - SMALL_NS, 0.0)
    return dict(zip(rows[known].tolist(), times[known].tolist(), strict=True))
