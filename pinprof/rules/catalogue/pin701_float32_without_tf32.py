import numpy as np

from pinprof.ground.units import counted, duration, shortened
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import kernels_in_steps, matters, named, per_step
from pinprof.trace.links import follow, within
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.trace.vendors import FULL_FLOAT32, HALF, OF_CONVOLUTION, TF32

MAJOR_WITH_TF32 = 8  # the least major compute capability of GPUs with TF32
LONGEST_KERNEL_CHARS = 60
DEFAULT_OF_TF32 = {
    "matrix products": "torch has TF32 off for these by default",
    "convolutions": "torch has TF32 on for these by default, so the program turned it off",
}


def _precision(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    if not any((device.major or 0) >= MAJOR_WITH_TF32 for device in trace.info.devices):
        return
    rows = kernels_in_steps(trace)
    full, tf32, half = (trace.gpu.named(pattern.search)[rows] for pattern in (FULL_FLOAT32, TF32, HALF))
    full &= ~tf32 & ~half
    convolution = _of_convolutions(trace, rows)
    kinds = zip(DEFAULT_OF_TF32, (~convolution, convolution), strict=True)
    without_tf32 = [
        (what, full & of_kind) for what, of_kind in kinds if (full & of_kind).any() and not (tf32 & of_kind).any()
    ]
    chosen = np.any([of_kind for _, of_kind in without_tf32] or [np.zeros(len(rows), bool)], axis=0)
    time = per_step(trace, profile, rows[chosen])
    if not matters(profile, time):
        return
    words = []
    for what, of_kind in without_tf32:
        count = counted(int(of_kind.sum()) / profile.steps.divisor, "kernel")
        kernel = shortened(named(trace, rows, of_kind)[0], LONGEST_KERNEL_CHARS)
        words.append(
            f"{what}: {count} {profile.steps.per}, {duration(per_step(trace, profile, rows[of_kind]))}; mostly "
            f"{kernel}; {DEFAULT_OF_TF32[what]}"
        )
    yield Evidence(time, ". ".join(words), at_most=Edits(removed_works=frozenset(rows[chosen].tolist())))


def _of_convolutions(trace: Trace, rows: Int64s) -> Bools:
    """Return for each kernel whether a convolution launched it, or a recurrent net: torch has one setting for both."""
    ops = trace.ops.named(lambda name: "conv" in name.lower() or "cudnn" in name)
    launched = follow(trace.links.op, trace.links.launch[rows])
    return within(ops, launched, trace.links.op_parent) | trace.gpu.named(OF_CONVOLUTION.search)[rows]


RULE = Rule(
    id="PIN701",
    title="float32 products without TF32",
    short="allow TF32",
    answers=("gpu",),
    numbers="different",
    why="Kernels for plain float32 do not use the tensor cores, which are several times as fast on data-center GPUs. "
    "TF32 uses them: numbers stay float32, but products take only 10 bits of each mantissa.",
    fix='torch.set_float32_matmul_precision("high") for matrix products, torch.backends.cudnn.allow_tf32 = True for '
    "convolutions. Automatic mixed precision (torch.autocast with torch.bfloat16) is faster still.",
    before='torch.set_float32_matmul_precision("highest")  # the default\n'
    "torch.backends.cudnn.allow_tf32 = False       # not the default\n\n"
    "y = model(x)",
    code='torch.set_float32_matmul_precision("high")  # once, for matrix products\n'
    "torch.backends.cudnn.allow_tf32 = True      # for convolutions\n\n"
    "y = model(x)",
    safe_if="Results change: the model must train as well with products of three decimal digits (sums stay float32). "
    'Code that needs more, such as solving equations, stays at "highest".',
    near_miss="with torch.autocast(device, torch.bfloat16):\n    y = model(x)  # products of bfloat16",
    search=_precision,
)
