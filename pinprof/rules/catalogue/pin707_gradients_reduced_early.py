import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from pinprof.ground.units import counted, duration, how_many
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import per_step
from pinprof.trace.callers import outermost_op, usual_place
from pinprof.trace.collectives import MESSAGE, is_collective_kernel
from pinprof.trace.spans.phases import BACKWARD, FORWARD, phase_of_calls
from pinprof.trace.tables import NONE, Int64s, Trace, computed_once
from pinprof.trace.threads import optimizer_marks

MIN_GRADIENT_ELEMENTS = 10_000
"""Smaller collectives exchange metrics or the statistics of normalizations; gradients come in buckets."""
REDUCING_KERNEL = re.compile(r"(?i)all_?reduce|reduce_?scatter")
"""In the name of each reducing collective, or of its kernel."""

OPS_OF_BUCKETS = frozenset(
    {"torch::distributed::reducer::mul_out", "torch.distributed.ddp.reducer::copy_bucket_to_grad"}
)
"""They copy gradients into the buckets of DistributedDataParallel, and back."""


class Reductions(NamedTuple):
    """Collectives of complete steps that may add up gradients, in order of launch."""

    rows: Int64s  # in `Trace.gpu`
    phase: Int64s  # that of the work that was launched before each: an index into `PHASES`


def reductions_of(trace: Trace, least_elements: int = 0) -> Reductions:
    """Return the collectives that may add up gradients, by their names, and by their sizes as far as these are known.

    Those of a process group that also adds up in forward passes are left out: it is one of tensor-parallel layers.
    """
    launch = trace.links.launch
    rows = np.flatnonzero((launch != NONE) & is_collective_kernel(trace.gpu))
    rows = rows[trace.steps.holds(trace.links.activity_step[rows])]
    rows = rows[np.argsort(trace.links.launched_ns[rows], kind="stable")]
    rows = rows[[_adds_up(trace, row, least_elements) for row in rows.tolist()]]
    computing, phase = _computing_launches(trace)
    before = np.searchsorted(trace.calls.start_ns[computing], trace.links.launched_ns[rows]) - 1
    rows, behind = rows[before >= 0], phase[before[before >= 0]]
    group = trace.gpu.group[rows]
    of_layers = group[(behind == FORWARD) & (group != NONE)]
    chosen = (behind != FORWARD) & ~np.isin(group, of_layers)
    return Reductions(rows[chosen], behind[chosen])


@computed_once
def _computing_launches(trace: Trace) -> tuple[Int64s, Int64s]:
    """Return the calls that launch other work than collectives, and the phase of each."""
    others, launch = trace.launches_work.copy(), trace.links.launch
    others[launch[(launch != NONE) & is_collective_kernel(trace.gpu)]] = False
    computing = np.flatnonzero(others)
    return computing, phase_of_calls(trace)[computing]


def _forward_launches_ns(trace: Trace) -> Int64s:
    computing, phase = _computing_launches(trace)
    return trace.calls.start_ns[computing[phase == FORWARD]]


def _adds_up(trace: Trace, row: int, least_elements: int) -> bool:
    gpu, message = trace.gpu, trace.gpu.message[row]
    called = gpu.names[gpu.collective[row]] if gpu.collective[row] != NONE else gpu.name_of(row)
    match = MESSAGE.fullmatch(gpu.names[message]) if message != NONE else None
    return bool(REDUCING_KERNEL.search(called)) and (match is None or int(match[2]) >= least_elements)


Position = tuple[int, int]  # how many optimizer steps, and how many launches of forward passes, began before


class _Pass(NamedTuple):
    """The collectives of gradients in one backward pass."""

    place: Position  # where it stands in the program
    rows: Int64s  # in `Trace.gpu`

    def names(self, trace: Trace) -> list[tuple[int, int]]:
        """Return what is reduced, in order: two passes of one model reduce the same."""
        return list(zip(trace.gpu.name[self.rows].tolist(), trace.gpu.message[self.rows].tolist(), strict=True))


def _reduced_early(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    updates = [list(passes) for _, passes in groupby(_passes(trace), key=lambda one: one.place[0])]
    micro = [passes for passes in updates if len(passes) > 1 and len({tuple(one.names(trace)) for one in passes}) == 1]
    if not profile.step_ns or 2 * len(micro) <= len(updates):
        return
    early = np.concatenate([one.rows for passes in micro for one in passes[:-1]])
    number, count = len(micro[0]), len(micro[0][0].rows)
    time = per_step(trace, profile, early)
    reduced = f"each of {number} backward passes before an optimizer step reduces the gradients of all ranks"
    yield Evidence(
        time,
        f"{reduced}: {counted(count, 'collective')} per pass, {how_many(count * number)} per optimizer step; the sums "
        f"are read only after the last pass. The collectives of the earlier passes take {duration(time)} "
        f"{profile.steps.per}, waiting included",
        *usual_place(trace, trace.links.launch[early].astype(np.int64), details.sources),
        edits=Edits(removed_works=frozenset(early.tolist()), removed_ops=_ops_of_buckets(trace, micro)),
    )


def _ops_of_buckets(trace: Trace, micro: Sequence[Sequence[_Pass]]) -> frozenset[int]:
    """Return the ops of all passes but the last ones that fill buckets, launch their collectives, and empty them."""
    early = {one.place for passes in micro for one in passes[:-1]}
    ops = np.flatnonzero(trace.ops.named(OPS_OF_BUCKETS.__contains__))
    filling = [
        op for op, place in zip(ops.tolist(), _places(trace, trace.ops.start_ns[ops]), strict=True) if place in early
    ]
    rows = np.concatenate([one.rows for passes in micro for one in passes[:-1]])
    launching = outermost_op(trace, trace.links.launch[rows].astype(np.int64))
    return frozenset(filling) | frozenset(launching[launching != NONE].tolist())


def _passes(trace: Trace) -> Iterator[_Pass]:
    """Yield the backward passes of complete steps that reduce gradients; none where no optimizer is marked."""
    reductions = reductions_of(trace, MIN_GRADIENT_ELEMENTS)
    rows = reductions.rows[reductions.phase == BACKWARD]
    places = _places(trace, trace.links.launched_ns[rows])
    has_optimizer = optimizer_marks(trace.annotations, "step").any()
    for place, numbers in groupby(range(len(rows) if has_optimizer else 0), key=places.__getitem__):
        yield _Pass(place, rows[list(numbers)])


def _places(trace: Trace, times_ns: Int64s) -> list[Position]:
    marks = trace.annotations
    updates = np.sort(marks.start_ns[optimizer_marks(marks, "step")])
    counts = (np.searchsorted(of, times_ns).tolist() for of in (updates, _forward_launches_ns(trace)))
    return list(zip(*counts, strict=True))


RULE = Rule(
    id="PIN707",
    title="gradients reduced in each micro-step",
    short="no_sync()",
    answers=("communication",),
    numbers="rounding",
    why="Each backward pass of a wrapped model adds up the gradients of all ranks. With several passes before an "
    "optimizer step, only the sum after the last is read.",
    fix="Run all passes but the last within model.no_sync(); with FSDP2, call set_requires_gradient_sync(False) before "
    "them.",
    before="for x, y in micro_batches:\n    (loss_of(model(x), y) / len(micro_batches)).backward()\noptimizer.step()",
    code="import contextlib\n\n"
    "for number, (x, y) in enumerate(micro_batches):\n"
    "    is_last = number == len(micro_batches) - 1\n"
    "    with contextlib.nullcontext() if is_last else model.no_sync():\n"
    "        (loss_of(model(x), y) / len(micro_batches)).backward()\n"
    "optimizer.step()",
    safe_if="Nothing reads the gradients between the passes. The forward pass is also within no_sync(). Sharded models "
    "keep whole gradients meanwhile. Results differ by rounding.",
    near_miss="loss_of(model(x), y).backward()  # one pass for each optimizer step",
    search=_reduced_early,
)
