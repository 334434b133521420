import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.launches import LONGEST
from pinprof.details import Details
from pinprof.intervals import distinct
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import Edits
from pinprof.rules.launching import late_ns
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import LONGEST_NAME, MOST_NAMED, launched_kernels
from pinprof.trace.callers import outermost_op, usual_place
from pinprof.trace.links import within
from pinprof.trace.phases import OTHER, phase_of_calls
from pinprof.trace.tables import NONE, Int64s, Trace
from pinprof.units import duration, how_many, listed, shortened

MANY = 20
"""Launches by ops of one name, per step, that an op for all tensors at once is far below."""
TINY_NS = 5_000.0
"""The median kernel of such ops is shorter: the host takes longer to launch it than the GPU to run it."""
WORTH = 0.01
"""Launches that cost a smaller share of the step are not worth a finding."""
FOR_ALL = ("aten::_foreach", "aten::_fused", "aten::_amp_foreach")
"""How the names of ops begin that are for many tensors at once."""
KNOWN = (
    (re.compile(r"nn/utils/clip_grad\.py|clip_grad"), "clipping of gradients"),
    (
        re.compile(r"optim/swa_utils\.py|(?i:\bema\b|_ema\b|\bema_|exponential_moving|moving_average)"),
        "an average of weights",
    ),
    (re.compile(r"torchmetrics/|(?i:metrics?\b)"), "metrics"),
)
"""What functions are for, by their names."""


@dataclass(frozen=True)
class _Small:
    """Launches of the complete steps by repeated small ops outside of forward, backward and the optimizer."""

    calls: Int64s
    """Rows of `Trace.calls`."""
    ops: tuple[tuple[str, float], ...]
    """Their ops by name, with launches per step, the most first."""
    median_ns: float
    host_ns: float
    """The host's time until each of them since the launch before, per step, as traced."""


def _tiny(details: Details, profile: Profile) -> Iterator[Evidence]:
    late, step = late_ns(profile), profile.step_ns
    small = _small(details.trace, profile.steps.divisor) if late else None
    if small is None or not step or min(small.host_ns, late) < WORTH * step:
        return
    named = [f"{shortened(name, LONGEST_NAME)} {how_many(count)}" for name, count in small.ops]
    total = sum(count for _, count in small.ops)
    yield Evidence(
        min(small.host_ns, late),
        f"{how_many(total)} launches {profile.steps.per} by the same small ops, outside of forward, backward and the "
        f"optimizer{_purpose(details.trace, small.calls)}: {listed(named, MOST_NAMED)}; half of their kernels take "
        f"less than {duration(small.median_ns)}, and the host takes {duration(small.host_ns)} for them, as traced",
        *usual_place(details.trace, small.calls, details.sources),
        edits=Edits(graphed=frozenset(small.calls.tolist())),
    )


def _small(trace: Trace, divisor: int) -> _Small | None:
    gpu, launch = trace.gpu, trace.links.launch
    rows = launched_kernels(trace)
    launching = distinct(launch[rows]).astype(np.int64)
    outside = (phase_of_calls(trace)[launch[rows]] == OTHER) & trace.has_role("main")[trace.calls.thread[launch[rows]]]
    rows = rows[outside]
    calls = launch[rows].astype(np.int64)
    op = outermost_op(trace, calls)
    rows, calls, op = rows[op != NONE], calls[op != NONE], op[op != NONE]
    names = trace.ops.name[op]
    ops: list[tuple[str, float]] = []
    chosen = np.zeros(len(rows), bool)
    for name in np.unique(names).tolist():
        of_name = names == name
        count = len(distinct(calls[of_name])) / divisor
        text = trace.ops.names[name]
        if count >= MANY and np.median(gpu.duration_ns[rows[of_name]]) < TINY_NS and not text.startswith(FOR_ALL):
            ops.append((text, count))
            chosen |= of_name
    if not ops:
        return None
    kept = distinct(calls[chosen])
    since = np.diff(trace.calls.start_ns[launching], prepend=trace.calls.start_ns[launching[0]])
    host = float(np.minimum(since, LONGEST * np.median(since))[np.searchsorted(launching, kept)].sum()) / divisor
    by_count = tuple(sorted(ops, key=lambda op: -op[1]))
    return _Small(kept, by_count, float(np.median(gpu.duration_ns[rows[chosen]])), host)


def _purpose(trace: Trace, calls: Int64s) -> str:
    """Return what the functions around most of the launches are for, as far as their names tell."""
    purposes = []
    for pattern, what in KNOWN:
        flagged = trace.functions.named(pattern.search)
        if within(flagged, trace.links.function[calls], trace.links.function_parent).mean() > 0.5:  # noqa: PLR2004  most
            purposes.append(what)
    return f" ({' and '.join(purposes)})" if purposes else ""


RULE = Rule(
    id="PIN607",
    title="the same small op for each parameter",
    short="torch._foreach_*",
    answers=("launch", "host"),
    numbers="rounding",
    looks_at="Launches of the main thread after the last backward pass and outside of the optimizer's marks: ops of "
    "one name that launch dozens of kernels of less than 5 µs.",
    why="A loop over parameters (norms and clipping of gradients, an average of the weights, metrics) launches at "
    "least one kernel for each. A launch takes the host some microseconds, and the GPU less.",
    fix="Ops for all tensors at once: clip_grad_norm_ with foreach=True, torch._foreach_norm, torch._foreach_lerp_; "
    "for averaged weights torch.optim.swa_utils.AveragedModel with multi_avg_fn=get_ema_multi_avg_fn(decay). For "
    "metrics, keep sums on the GPU and stack them once.",
    before="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)\n\n"
    "# or norms one by one:\n"
    "norms = [parameter.grad.norm() for parameter in model.parameters()]\n\n"
    "# or an average of the weights:\n"
    "with torch.no_grad():\n"
    "    for mean, parameter in zip(means, model.parameters()):\n"
    "        mean.mul_(0.999).add_(parameter, alpha=0.001)",
    code="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)\n\n"
    "# or norms one by one:\n"
    "norms = torch._foreach_norm([parameter.grad for parameter in model.parameters()])\n\n"
    "# or an average of the weights:\n"
    "with torch.no_grad():\n"
    "    torch._foreach_lerp_(means, list(model.parameters()), 0.001)",
    safe_if="Parameters without a gradient are left out of the list. Results differ by rounding.",
    near_miss="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # foreach, where the device supports it",
    look=_tiny,
)
