from collections.abc import Iterator
from itertools import groupby

import numpy as np

from pinprof.ground.units import duration, how_many, size
from pinprof.rules.catalogue.pin707_gradients_reduced_early import reductions_of
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import times_of_ops
from pinprof.trace.callers import usual_place
from pinprof.trace.collectives import Collectives, is_collective
from pinprof.trace.links import follow, outermost
from pinprof.trace.spans.phases import OPTIMIZER
from pinprof.trace.tables import NONE, Int64s

SMALL_MESSAGE_BYTES = 1 << 20
"""A smaller message spends its time on starting the collective, not on the link."""
MIN_SMALL_REDUCTIONS = 8
"""Fewer small collectives per step are not worth merging; DistributedDataParallel itself makes one or two."""
BUCKET_BYTES = 25 << 20
"""What DistributedDataParallel puts into a bucket by default."""
BYTES_PER_NS = 1_000.0
"""The least rate at which a GPU copies within its memory. Packing and unpacking each read and write all gradients."""
MIN_STARTS_SHARE_OF_STEP = 0.02
"""Starts of collectives that are exposed for a smaller share of the step are not worth a finding."""


def _small_reductions(details: Details, profile: Profile) -> AllEvidence:
    trace, table, divisor = details.trace, profile.communication.collectives, profile.steps.divisor
    reductions = reductions_of(trace)
    of_gradients = np.isin(table.row, reductions.rows[reductions.phase != OPTIMIZER])
    small = np.flatnonzero(of_gradients & (table.bytes >= 0) & (table.bytes < SMALL_MESSAGE_BYTES))
    if not profile.step_ns or len(small) < MIN_SMALL_REDUCTIONS * divisor or 2 * len(small) <= of_gradients.sum():
        return
    buckets = list(_buckets(table, small))
    saved = np.concatenate([bucket[:-1] for bucket in buckets])
    took_ns = table.end_ns - table.start_ns
    start_ns = int(took_ns[small].min())  # even the smallest message takes this long
    starts_ns = float(np.minimum(table.exposed_ns[saved], start_ns).sum()) / divisor
    if starts_ns < MIN_STARTS_SHARE_OF_STEP * profile.step_ns:
        return
    packed = {
        int(table.row[bucket[-1]]): float((took_ns[bucket[:-1]] - start_ns).sum())
        + 4 * float(table.bytes[bucket].sum()) / BYTES_PER_NS
        for bucket in buckets
    }
    launch = trace.links.launch[table.row[saved]]
    ops = np.unique(outermost(trace.ops.named(is_collective), follow(trace.links.op, launch), trace.links.op_parent))
    ops = ops[ops != NONE].astype(np.int64)
    host, _ = times_of_ops(trace, ops)
    yield Evidence(
        starts_ns,
        f"{how_many(len(small) / divisor)} collectives {profile.steps.per} reduce less than "
        f"{SMALL_MESSAGE_BYTES >> 20} MiB each, {size(int(table.bytes[small].sum()) / divisor)} together: their starts "
        f"alone are exposed for {duration(starts_ns)}, "
        f"and the host spends {duration(host / divisor)} on them as traced",
        *usual_place(trace, trace.links.launch[table.row[small]].astype(np.int64), details.sources),
        edits=Edits(
            removed_works=frozenset(table.row[saved].tolist()),
            removed_ops=frozenset(ops.tolist()),
            prolonged=frozenset(packed.items()),
        ),
    )


def _buckets(table: Collectives, small: Int64s) -> Iterator[Int64s]:
    """Yield collectives of one step and process group that follow each other, in buckets of the usual size."""
    for _, together in groupby(small.tolist(), key=lambda index: (int(table.place[index]), table.group[index])):
        bucket = np.array(list(together))
        number = (np.cumsum(table.bytes[bucket]) - table.bytes[bucket]) // BUCKET_BYTES
        yield from (bucket[number == each] for each in np.unique(number))


RULE = Rule(
    id="PIN708",
    title="many small reductions of gradients",
    short="larger buckets",
    answers=("communication", "launch"),
    numbers="rounding",
    why="However little a collective sends, it takes about ten microseconds to start on all ranks, and the host as "
    "long to launch it. One that sends many gradients starts once.",
    fix="Put many gradients into one collective: raise bucket_cap_mb of DistributedDataParallel (25 by default); "
    "instead of a loop over parameters, reduce one flat tensor and copy it back.",
    before="for parameter in model.parameters():\n"
    "    dist.all_reduce(parameter.grad)\n\n"
    "# or small buckets:\n"
    "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)",
    code="gradients = [parameter.grad for parameter in model.parameters()]\n"
    "flat = torch.cat([gradient.flatten() for gradient in gradients])\n"
    "dist.all_reduce(flat)\n"
    "parts = flat.split([gradient.numel() for gradient in gradients])\n"
    "torch._foreach_copy_(gradients, [part.view_as(own) for part, own in zip(parts, gradients)])\n\n"
    "# or larger buckets:\n"
    "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=25)",
    safe_if="The packed gradients share one dtype and one process group, and a copy of them fits in memory. Nothing "
    "reads a gradient before all are reduced. A larger bucket is sent later: the backward pass hides less of it. "
    "Results differ by rounding.",
    near_miss="losses = torch.stack([loss_of(model(x), y)])  # reduced once per step: dist.all_reduce(losses)",
    search=_small_reductions,
)
