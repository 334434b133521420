"""Work of other programs on the same GPU, which is not in the trace.

Programs that share a GPU take turns of a ms or two, in which nothing of the others runs (NVIDIA's documentation of MPS,
`Time-Sliced Scheduling`). In 150 recordings of programs alone on an H100 or H200 no kernel started later than 11 us
after it could; in 38 of 56 beside three others, kernels did by up to 7 ms.
"""

import numpy as np

from pinprof.measurement.trust.doubt import MATTERS, Doubt, Seen
from pinprof.measurement.trust.launches import launches_of, may_await_host
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.gaps import LATE_START_NS
from pinprof.trace.tables import NONE, Int64s, Trace
from pinprof.units import counted, duration, percent

FEWEST = 3
"""Fewer kernels that are held up say nothing of the steps."""


def shared_gpu(seen: Seen) -> Doubt | None:
    """Report kernels that started late although the GPU had nothing to do for this program.

    Where they may have waited for something else, it says nothing: for other ranks or GPUs, for host functions in a
    stream, or for kernels that the trace has lost.
    """
    trace = seen.trace
    held_up = _held_up_ns(trace)
    late = held_up[held_up > LATE_START_NS]
    span = int(trace.gpu.end_ns.max() - trace.gpu.start_ns.min()) if len(trace.gpu) else 0
    if len(late) < FEWEST or late.sum() < MATTERS * span:
        return None
    return Doubt(
        f"{counted(len(late), 'kernel', 'kernels')} started {duration(int(late.sum()) // len(late))} late on average, "
        f"{percent(int(late.sum()) / span)} of the time, while the GPU ran nothing else of this program",
        "another program seems to have used the GPU: waits for the GPU, its idle time, and what a change saves are "
        "those of a shared GPU",
        "record again while nothing else uses the GPU (nvidia-smi shows what does)",
    )


def _held_up_ns(trace: Trace) -> Int64s:
    """Return for how long kernels were held up, after their launch and after all work that began before them."""
    gpu, launch, launches = trace.gpu, trace.links.launch, launches_of(trace)
    has_others = len(gpu.of_device) > 1 or is_collective_kernel(gpu).any()
    has_lost = (launches.kernel & launches.lost).any()
    if has_others or has_lost or may_await_host(trace.calls):
        return np.zeros(0, np.int64)
    kernels = np.flatnonzero(launch != NONE)[1:]
    kernels = kernels[launches.kernel[launch[kernels]]]
    before = np.maximum.accumulate(gpu.end_ns)[kernels - 1]
    return np.maximum(gpu.start_ns[kernels] - np.maximum(before, trace.calls.end_ns[launch[kernels]]), 0)
