from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np

from pinprof.ground.units import counted, duration, how_many, listed, percent, shortened
from pinprof.rules.launching import late_ns
from pinprof.rules.loops import NORM_OPS, Loop, LoopKind, find_loops, in_one_call, place_of_loop
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule, as_one
from pinprof.rules.sums import LONGEST_NAMED_CHARS, MAX_THINGS_NAMED
from pinprof.trace.lines import Place
from pinprof.trace.tables import Trace

MIN_LOOP_SHARE_OF_STEP = 0.01
MAX_OPS_OF_LOOP_NAMED = 6
LONG_KERNEL_NS = 20_000.0  # if half of the kernels of a loop take longer, the GPU has enough to do
SHORT_KERNEL_NS = 2_500.0
"""A kernel on a tensor of one layer takes no longer: it lasts as long as a kernel takes to start and to end. In
recordings of loops over 100 tensors on an H200, 100 kernels of 1.2 µs became one of 18, and 200 became two of 24."""
SHORT_KERNEL_OF_MODULE_NS = 15_000.0
"""The same of a layer on one sample: its time goes into reading the weights, which one call reads once."""
KEPT_NS_PER_TENSOR, KEPT_NS_PER_NORM = 1_000.0, 5_000.0
"""The host's time for each tensor in one op for many: 50 to 130 µs for 100 in these recordings, of norms 630."""
FIX_OF_LOOP: dict[LoopKind, str] = {
    "tensors": "One call for all tensors: torch._foreach_mul_, torch._foreach_add_, torch._foreach_lerp_ or "
    "torch._foreach_norm on lists; clip_grad_norm_ with foreach=True; for averaged weights AveragedModel with "
    "multi_avg_fn=get_ema_multi_avg_fn(decay).",
    "gather": "One call for all indices: torch.gather, torch.take_along_dim, or x[rows, columns] with tensors of both.",
    "module": "Call the module once on all parts as one batch: torch.stack them first if they are separate tensors. "
    "torch.vmap does it if the code is written for one sample.",
    "ops": "One op on a tensor of all parts, with a dimension for what the loop counts, and one sum or mean over it; "
    "torch.vmap does it if the code is written for one part.",
    "cell": "It looks like a recurrent cell: each repetition needs the one before. If it is a cell of torch, "
    "torch.nn.RNN, GRU or LSTM runs all repetitions in one call. Otherwise torch.compile of the cell fuses its ops, "
    "and a CUDA graph of the loop spares launches.",
}


def _loops(details: Details, profile: Profile) -> AllEvidence:
    places: defaultdict[tuple[LoopKind, Place], list[Loop]] = defaultdict(list)
    trace = details.trace
    loops = [loop for loop in find_loops(trace, details.syncs.stalls) if _is_short(trace, loop)]
    for loop in loops:
        places[loop.kind, place_of_loop(trace, loop, details.sources)].append(loop)
    for kind in dict.fromkeys(loop.kind for loop in loops):
        members = [(place, some) for (of_kind, place), some in places.items() if of_kind == kind]
        for evidence in as_one(profile, members, partial(_evidence, details, profile)):
            if evidence.cost_ns >= MIN_LOOP_SHARE_OF_STEP * (profile.step_ns or inf):
                yield evidence


def _is_short(trace: Trace, loop: Loop) -> bool:
    kernels = np.isin(trace.links.launch, loop.calls)
    return bool(np.median(trace.gpu.duration_ns[kernels]) < LONG_KERNEL_NS)


def _evidence(details: Details, profile: Profile, members: Sequence[tuple[Place, Sequence[Loop]]]) -> Evidence:
    trace, divisor = details.trace, profile.steps.divisor
    loops = [loop for _, some in members for loop in some]
    runs = [run for loop in loops for run in (*loop.runs, *loop.of_backward)]
    edits, launch = _edits(trace, loops), trace.links.launch
    host = sum(run.host_ns for run in runs) / divisor
    on_gpu, later = (
        float(trace.gpu.duration_ns[np.isin(launch, np.concatenate(calls))].sum()) / divisor
        for calls in ([run.calls for run in runs], [rows for run in runs for rows in run.repetitions[1:]])
    )
    spared = 0.0 if edits.graphed else max(later - sum(more for _, more in edits.prolonged) / divisor, 0.0)
    calls = np.concatenate([loop.calls for loop in loops])
    share = len(calls) / int((trace.launches_work & trace.steps.holds(trace.links.call_step)).sum())
    gradients = sum(len(run.calls) for loop in loops for run in loop.of_backward) / divisor
    times = [counted(loop.repeats / divisor, "time") for loop in loops]
    named = (
        listed([shortened(name, LONGEST_NAMED_CHARS) for name in loop.ops], MAX_OPS_OF_LOOP_NAMED) for loop in loops
    )
    repeated = list(map(" ".join, zip(named, times, strict=True)))
    more = f"; its backward pass makes {how_many(gradients)} more" if gradients else ""
    text = (
        f"the same ops run again and again, with no wait in between: "
        f"{listed(repeated, MAX_THINGS_NAMED, '; ')} {profile.steps.per}, which is "
        f"{how_many(len(calls) / divisor)} launches, {percent(min(share, 1.0))} of all{more}; "
    )
    figures = f"{duration(host)} of the host as traced, and {duration(on_gpu)} of the GPU"
    return Evidence(
        max(min(host, late_ns(profile)), spared),
        f"{text}together they take {figures}",
        *members[0][0],
        edits=edits,
        fix=FIX_OF_LOOP[loops[0].kind],
        title=_title(loops[0], times[0]) if len(loops) == 1 else "",
        figures=figures,
    )


def _title(loop: Loop, times: str) -> str:
    first, *more = loop.ops
    return f"a loop runs {f'the same {len(loop.ops)} ops' if more else shortened(first, LONGEST_NAMED_CHARS)} {times}"


def _edits(trace: Trace, loops: Sequence[Loop]) -> Edits:
    """Return what changes if one call does the work of each loop; of cells, if a graph launches them."""
    kind = loops[0].kind
    if kind == "cell":
        rows = np.concatenate([run.calls for loop in loops for run in (*loop.runs, *loop.of_backward)])
        return Edits(graphed=frozenset(rows.tolist()))
    longest = SHORT_KERNEL_OF_MODULE_NS if kind == "module" else SHORT_KERNEL_NS
    runs = []
    for loop in loops:
        kept = 0.0
        if kind == "tensors":
            kept = sum(KEPT_NS_PER_NORM if name in NORM_OPS else KEPT_NS_PER_TENSOR for name in loop.ops)
        runs += [*((run, kept) for run in loop.runs), *((run, 0.0) for run in loop.of_backward)]
    return in_one_call(trace, runs, longest)


RULE = Rule(
    id="PIN607",
    title="a loop of the same ops",
    short="one call, not a loop",
    answers=("launch", "host"),
    numbers="rounding",
    why="Each repetition launches kernels that take the GPU some microseconds, and the host takes as long for each "
    "launch. One call for all of them launches as much as a single repetition does.",
    fix="One call for all repetitions: torch._foreach_* for many tensors, one batch for an op or a module.",
    before="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)\n\n"
    "# or norms one by one:\n"
    "norms = [parameter.grad.norm() for parameter in model.parameters()]\n\n"
    "# or an average of the weights:\n"
    "with torch.no_grad():\n"
    "    for mean, parameter in zip(means, model.parameters()):\n"
    "        mean.mul_(0.999).add_(parameter, alpha=0.001)\n\n"
    "# or a module, sample by sample:\n"
    "y = torch.stack([head(sample) for sample in x])\n\n"
    "# or an index for each sample:\n"
    "chosen = torch.stack([x[row, index[row]] for row in range(len(x))])",
    code="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)\n\n"
    "# or norms one by one:\n"
    "norms = torch._foreach_norm([parameter.grad for parameter in model.parameters()])\n\n"
    "# or an average of the weights:\n"
    "with torch.no_grad():\n"
    "    torch._foreach_lerp_(means, list(model.parameters()), 0.001)\n\n"
    "# or a module, sample by sample:\n"
    "y = head(x)\n\n"
    "# or an index for each sample:\n"
    "chosen = x[torch.arange(len(x), device=x.device), index]",
    safe_if="No repetition needs the result of the one before. Parameters without a gradient are left out of lists, "
    "and no module in the loop uses statistics of its batch. Results differ by rounding.",
    near_miss="layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4, device=device) for _ in range(10)))\n"
    "y = layers(x)  # each has weights of its own, and needs the result of the one before",
    search=_loops,
)
