from functools import partial

import numpy as np

from pinprof.ground.intervals import covered, union
from pinprof.ground.units import rate
from pinprof.prediction.pinning import LARGE_COPY_BYTES
from pinprof.rules.copies import of_places
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.sums import Copies, copies_in_steps
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD, MEMCPY, PINNED, Bools, Int64s, Trace

SLOW_SHARE_OF_BEST_RATE = 0.5  # pinned copies at less than this share of the best rate in the trace are slow
SLOW_LINK_GBPS = 10.0
"""A PCIe 3.0 x16 link carries 12 GB/s from pinned memory, and newer ones more: less is slow on any GPU of a server."""


def _slow(details: Details, profile: Profile) -> AllEvidence:
    gpu, rows = details.trace.gpu, details.overlap.row
    pinned = (gpu.host_memory[rows] == PINNED) & (gpu.bytes[rows] >= LARGE_COPY_BYTES)
    rates = gpu.bytes[rows] / np.maximum(gpu.duration_ns[rows], 1)
    for code in (HTOD, DTOH):
        of_direction = pinned & (gpu.direction[rows] == code)
        if not of_direction.any():
            continue
        best = float(rates[of_direction].max())
        slow = of_direction & (rates < max(SLOW_SHARE_OF_BEST_RATE * best, SLOW_LINK_GBPS))
        reason = _why_slow(details.trace, rows[slow])
        evidence_of = partial(_slow_evidence, f"pinned {DIRECTIONS[code]} copies", best, reason)
        yield from of_places(profile, copies_in_steps(details, profile, slow), evidence_of)


def _slow_evidence(what: str, best: float, reason: str, copies: Copies) -> Evidence:
    got = (copies.bytes or 0) / copies.time_ns
    share = 1 - got / best if best >= SLOW_LINK_GBPS else 1 - got / SLOW_LINK_GBPS
    return Evidence(
        copies.exposed_ns * share,
        f"{copies.named(what)}, at {rate(got)}; "
        f"the fastest in this trace reaches {rate(best)}. Likely reason: {reason}",
        *copies.place,
        figures=f"{copies.figures}, at {rate(got)}",
    )


def _why_slow(trace: Trace, slow: Int64s) -> str:
    gpu = trace.gpu
    others: Bools = gpu.category == MEMCPY
    others[slow] = False
    other_times = union(gpu.start_ns[others], gpu.end_ns[others])
    shared = covered(other_times, gpu.start_ns[slow], gpu.end_ns[slow]).sum()
    if 2 * shared > gpu.duration_ns[slow].sum():
        return "other copies run at the same time and share the link"
    return (
        "a link that other GPUs share, memory of another NUMA node, or workers and pinning threads that keep the "
        "host memory busy (try numactl and fewer workers)"
    )


RULE = Rule(
    id="PIN107",
    title="slow copies of pinned memory",
    short="its own NUMA node",
    answers=("copy",),
    numbers="equal",
    why="Pinned memory should be copied at the speed of the link: about 12 GB/s on PCIe 3.0 x16, 25 on 4.0, 55 on 5.0.",
    fix="Run the process on the NUMA node of its GPU, keep copies of both directions apart, and leave memory "
    "bandwidth to the copy.",
    before="python train.py  # on any node of the machine",
    code='nvidia-smi topo -m  # its column "NUMA Affinity" shows the node of each GPU\n'
    "node=0              # that of yours\n"
    'numactl --cpunodebind="$node" --preferred="$node" python train.py',
    safe_if="The node has enough cores for the process and its workers: they run on no other node. On the wrong node "
    "the copies become slower, not faster.",
    near_miss="python train.py  # on a machine of one node",
    search=_slow,
)
