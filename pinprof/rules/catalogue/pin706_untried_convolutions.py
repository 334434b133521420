from collections import Counter

import numpy as np

from pinprof.ground.units import counted, duration
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.snippets import PLAIN_TRAINING
from pinprof.rules.sums import aten, launched_kernels, per_step
from pinprof.trace.links import within
from pinprof.trace.tables import Int64s, Trace

MIN_CONVOLUTION_SHARE = 0.2  # convolutions that take a smaller share of the step gain too little from other kernels
MAX_DEVIATION_OF_STEPS = 0.05
"""Convolutions of the same shapes take a time that differs from the usual one by at most this share."""
CONVOLUTION_OPS = aten("cudnn_convolution cudnn_convolution_transpose convolution_backward")


def _untried(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    if trace.info.tries_convolutions is not False:
        return
    rows = launched_kernels(trace)
    ops = trace.ops.named(CONVOLUTION_OPS.__contains__)
    rows = rows[within(ops, trace.links.op[trace.links.launch[rows]], trace.links.op_parent)]
    time = per_step(trace, profile, rows)
    if not profile.step_ns or time < MIN_CONVOLUTION_SHARE * profile.step_ns or not _are_same(trace, rows):
        return
    yield Evidence(
        time,
        f"torch.backends.cudnn.benchmark is off, and the convolutions of each step are the same: "
        f"{counted(len(rows) / profile.steps.divisor, 'kernel')}, {duration(time)}. cuDNN took those that it expects "
        "to be fast, without a trial; what a trial brings, no trace shows",
        at_most=Edits(removed_works=frozenset(rows.tolist())),
    )


def _are_same(trace: Trace, rows: Int64s) -> bool:
    step = trace.links.activity_step[rows]
    steps = [rows[step == number] for number in np.flatnonzero(trace.steps.complete)]
    names = [Counter(trace.gpu.name[of_step].tolist()) for of_step in steps]
    times = np.array([trace.gpu.duration_ns[of_step].sum() for of_step in steps])
    usual = np.median(times)
    return all(name == names[0] for name in names) and bool(
        (np.abs(times - usual) <= MAX_DEVIATION_OF_STEPS * usual).all()
    )


RULE = Rule(
    id="PIN706",
    title="convolutions whose kernels cuDNN has not tried",
    short="cudnn.benchmark",
    answers=("gpu",),
    numbers="rounding",
    why="cuDNN has several kernels for each convolution. By default it takes the one that its rules expect to be "
    "fastest. With benchmark on, torch runs all of them once for each new shape, and keeps the fastest.",
    fix="torch.backends.cudnn.benchmark = True before the first step; `pinprof run --repeat 3` shows what it brings.",
    before=PLAIN_TRAINING,
    code=f"torch.backends.cudnn.benchmark = True\n\n{PLAIN_TRAINING}",
    safe_if="Batches and images keep their sizes: each new shape costs a trial. Another kernel rounds differently, and "
    "may be taken in the next run.",
    near_miss="torch.backends.cudnn.deterministic = True  # a trial could take another kernel in each run\n"
    "y = model(x)",
    search=_untried,
)
