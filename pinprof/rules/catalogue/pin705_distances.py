import re

import numpy as np

from pinprof.ground.units import counted, duration
from pinprof.rules.rule import AllEvidence, Change, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import launched_kernels, matters, per_step
from pinprof.trace.callers import usual_place

EUCLIDEAN_KERNEL = re.compile(r"cdist_(?:backward_)?kernel_cuda_impl<.*dists<\w+>::two")
"""Torch's kernels that compute Euclidean distances one by one; those of other norms have no product to take instead."""
BACKWARD_KERNEL = "cdist_backward"


def _distances(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    rows = launched_kernels(trace)
    rows = rows[trace.gpu.named(EUCLIDEAN_KERNEL.search)[rows]]
    time = per_step(trace, profile, rows)
    if not matters(profile, time):
        return
    backward = rows[trace.gpu.named(lambda name: BACKWARD_KERNEL in name)[rows]]
    forward = np.setdiff1d(rows, backward)
    yield Evidence(
        time,
        f"{counted(len(rows) / profile.steps.divisor, 'kernel')} {profile.steps.per}, {duration(time)}, of it "
        f"{duration(per_step(trace, profile, backward))} in backward",
        *usual_place(trace, trace.links.launch[forward if len(forward) else rows].astype(np.int64), details.sources),
        at_most=Edits(removed_works=frozenset(rows.tolist())),
    )


RULE = Rule(
    id="PIN705",
    title="`torch.cdist` without a matrix product",
    short="cdist by a product",
    answers=("gpu",),
    numbers="rounding",
    why="Between up to 25 points on either side, and with compute_mode='donot_use_mm_for_euclid_dist', torch computes "
    "each distance by itself, also of a whole batch. A matrix product gives all of them, forward and backward, on "
    "the fastest units of the GPU.",
    fix="torch.cdist(x, y, compute_mode='use_mm_for_euclid_dist').",
    before="d = torch.cdist(x, y, compute_mode='donot_use_mm_for_euclid_dist')",
    code="d = torch.cdist(x, y, compute_mode='use_mm_for_euclid_dist')",
    safe_if="Distances that are small against the points' norms need not be exact: a product loses their last digits.",
    near_miss="x = torch.randn(4, 8, device=device)\nd = torch.cdist(x, x, p=1.0)  # no product gives this norm",
    change=Change(r"\bcdist\(", "compute it by a matrix product"),
    search=_distances,
)
