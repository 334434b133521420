import re

import numpy as np

from pinprof.ground.intervals import contains
from pinprof.ground.units import duration, how_many
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import in_complete_steps
from pinprof.trace.callers import usual_place
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.tables import NONE

BACKWARD_MARK = "FSDP::pre_backward"  # begins the names of ranges in which FSDP2 prepares the backward pass of a module
GATHER_MARK = re.compile(r"FSDP::all_gather(_copy_out)?( \(.*\))?")
"""A range in which FSDP2 gathers the weights of a module, or copies what was gathered into them."""


def _gathered_twice(details: Details, profile: Profile) -> AllEvidence:
    trace, marks, steps = details.trace, details.trace.annotations, profile.steps
    in_backward = contains(marks.times(marks.named(lambda name: name.startswith(BACKWARD_MARK))), marks.start_ns)
    is_gather = marks.named(GATHER_MARK.fullmatch) & in_backward
    again = np.flatnonzero(is_gather & in_complete_steps(trace, marks.start_ns))
    launch = trace.links.launch
    rows = np.flatnonzero((launch != NONE) & is_collective_kernel(trace.gpu))
    rows = rows[contains(marks.times(again), trace.links.launched_ns[rows])]
    if not profile.step_ns or not len(rows):
        return
    time = float(trace.gpu.duration_ns[rows].sum()) / steps.divisor
    times = zip(*(column[again].tolist() for column in (marks.thread, marks.start_ns, marks.end_ns)), strict=True)
    yield Evidence(
        time,
        f"{how_many(len(rows) / steps.divisor)} times {steps.per}, the backward pass repeats the forward "
        f"pass's gather of weights: {duration(time)} on the GPU, waiting included",
        *usual_place(trace, launch[rows].astype(np.int64), details.sources),
        edits=Edits(removed_times=frozenset(times)),
    )


RULE = Rule(
    id="PIN710",
    title="weights gathered again for the backward pass",
    short="no reshard",
    answers=("communication", "launch"),
    numbers="equal",
    why="After a module's forward pass, FSDP frees its gathered weights; each rank keeps only its shard. "
    "The backward pass needs the whole weights, and gathers them again.",
    fix="If memory suffices, keep them in all blocks or in some: fully_shard(block, reshard_after_forward=False). "
    "Otherwise overlap each gather with the kernels of the block before: set_modules_to_forward_prefetch() "
    "and set_modules_to_backward_prefetch().",
    before="for block in model:\n    fully_shard(block)\nfully_shard(model)",
    code="for block in model:\n    fully_shard(block, reshard_after_forward=False)\nfully_shard(model)",
    safe_if="The GPU has room for the activations and these modules' whole weights.",
    near_miss="loss_of(model(x), y).backward()  # of a model with all its weights on each GPU",
    search=_gathered_twice,
)
