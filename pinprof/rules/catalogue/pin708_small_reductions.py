from collections.abc import Iterator
from itertools import groupby

import numpy as np

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import Edits
from pinprof.rules.gradients import bytes_of, reductions_of
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import times_of_ops
from pinprof.trace.callers import usual_place
from pinprof.trace.collectives import exposed_ns, is_collective
from pinprof.trace.links import follow, outermost
from pinprof.trace.phases import OPTIMIZER
from pinprof.trace.tables import NONE, Int64s, Trace
from pinprof.units import duration, how_many, size

SMALL_MESSAGE_BYTES = 1 << 20
"""A smaller message spends its time on the start of a collective, not on the link."""
MIN_SMALL_REDUCTIONS = 20
"""Small collectives of a step that are worth gathering; DistributedDataParallel itself makes one or two."""
BUCKET_BYTES = 25 << 20
"""What DistributedDataParallel puts into a bucket by default."""
BYTES_PER_NS = 1_000.0
"""At which rate a GPU at least copies within its memory: packing reads and writes each gradient, there and back."""
MIN_STARTS_SHARE_OF_STEP = 0.02
"""Starts of collectives that are exposed for a smaller share of the step are not worth a finding."""


def _small_reductions(details: Details, profile: Profile) -> Iterator[Evidence]:
    trace = details.trace
    rows, phase, _ = reductions_of(trace)
    rows = rows[phase != OPTIMIZER]
    sizes = bytes_of(trace, rows)
    is_small = (sizes >= 0) & (sizes < SMALL_MESSAGE_BYTES)
    small, divisor = rows[is_small], profile.steps.divisor
    if not profile.step_ns or len(small) < MIN_SMALL_REDUCTIONS * divisor or 2 * len(small) <= len(rows):
        return
    buckets = list(_buckets(trace, small, sizes[is_small]))
    start_ns = int(trace.gpu.duration_ns[small].min())  # what any of them takes, however little it sends
    spared = np.concatenate([bucket[:-1] for bucket in buckets])
    starts = float(np.minimum(exposed_ns(trace.gpu, spared), start_ns).sum()) / divisor
    if starts < MIN_STARTS_SHARE_OF_STEP * profile.step_ns:
        return
    in_bucket = [(int(bucket[-1]), _packed_ns(trace, bucket, start_ns)) for bucket in buckets]
    launch = trace.links.launch[spared]
    ops = np.unique(outermost(trace.ops.named(is_collective), follow(trace.links.op, launch), trace.links.op_parent))
    host, _ = times_of_ops(trace, ops[ops != NONE].astype(np.int64))
    yield Evidence(
        starts,
        f"{how_many(len(small) / divisor)} collectives {profile.steps.per} add up less than "
        f"{SMALL_MESSAGE_BYTES >> 20} MiB each, {size(int(sizes[is_small].sum()) / divisor)} together: their starts "
        f"alone are exposed for {duration(starts)}, and the host takes {duration(host / divisor)} for them as traced",
        *usual_place(trace, trace.links.launch[small].astype(np.int64), details.sources),
        edits=Edits(
            removed_works=frozenset(spared.tolist()),
            removed_ops=frozenset(ops[ops != NONE].tolist()),
            prolonged=frozenset(in_bucket),
        ),
    )


def _buckets(trace: Trace, rows: Int64s, sizes: Int64s) -> Iterator[Int64s]:
    """Yield collectives of one step and process group that follow each other, in buckets of the usual size."""
    keys = list(zip(trace.links.activity_step[rows].tolist(), trace.gpu.group[rows].tolist(), strict=True))
    for _, numbers in groupby(range(len(rows)), key=keys.__getitem__):
        together = np.array(list(numbers))
        bucket = (np.cumsum(sizes[together]) - sizes[together]) // BUCKET_BYTES
        yield from (rows[together[bucket == number]] for number in np.unique(bucket))


def _packed_ns(trace: Trace, bucket: Int64s, start_ns: int) -> float:
    """Return how much longer the last collective of a bucket takes with all of its work, and with the copies."""
    sent = float((trace.gpu.duration_ns[bucket[:-1]] - start_ns).sum())
    return sent + 4 * float(bytes_of(trace, bucket).sum()) / BYTES_PER_NS


RULE = Rule(
    id="PIN708",
    title="many small reductions of gradients",
    short="larger buckets",
    answers=("communication", "launch"),
    numbers="rounding",
    looks_at=f"{MIN_SMALL_REDUCTIONS} or more all-reduces or reduce-scatters per step of less than "
    f"{SMALL_MESSAGE_BYTES >> 20} MiB each, in backward passes or behind them, where the trace has their sizes.",
    why="A collective takes some ten microseconds to start on all ranks, however little it sends, and the host as long "
    "to launch it. One that sends many gradients starts once.",
    fix="Put many gradients into one collective: a larger bucket_cap_mb of DistributedDataParallel (25 by default); in "
    "a loop over parameters one flat tensor, which is reduced and copied back.",
    before="for parameter in model.parameters():\n"
    "    dist.all_reduce(parameter.grad)\n\n"
    "# or small buckets:\n"
    "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)",
    code="gradients = [parameter.grad for parameter in model.parameters()]\n"
    "flat = torch.cat([gradient.flatten() for gradient in gradients])\n"
    "dist.all_reduce(flat)\n"
    "parts = flat.split([gradient.numel() for gradient in gradients])\n"
    "torch._foreach_copy_(gradients, [part.view_as(gradient) for part, gradient in zip(parts, gradients)])\n\n"
    "# or larger buckets:\n"
    "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=25)",
    safe_if="Gradients that are packed have one dtype and one process group, and memory suffices for a copy of them. "
    "Nothing reads one before all are reduced. A larger bucket is sent later: the backward pass hides less of it. "
    "Results differ by rounding.",
    near_miss="losses = torch.stack([loss_of(model(x), y)])  # reduced once per step: dist.all_reduce(losses)",
    search=_small_reductions,
)
