import numpy as np

from pinprof.ground.units import counted, duration, how_many
from pinprof.rules.copies import uses_of_host_masks
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import at, idle_within, in_complete_steps
from pinprof.trace.callers import usual_place
from pinprof.trace.links import step_at


def _host_masks(details: Details, profile: Profile) -> AllEvidence:
    """Look for masks in host memory that index GPU tensors; uses with positions of one size count as one mask."""
    trace, ops, steps, uses = details.trace, details.trace.ops, profile.steps.divisor, uses_of_host_masks(details.trace)
    chosen = np.flatnonzero(in_complete_steps(trace, ops.start_ns[uses.op]))
    if not len(chosen):
        return
    masks = np.stack((step_at(trace.steps, ops.start_ns[uses.op[chosen]]), uses.bytes[chosen]))
    first = chosen[np.unique(masks, axis=1, return_index=True)[1]]
    rows, later = (uses.parts[np.isin(uses.use, some)] for some in (chosen, np.setdiff1d(chosen, first)))
    calls, by_autograd = trace.links.launch[uses.copies].astype(np.int64), trace.has_role("autograd")
    place = usual_place(trace, calls[~by_autograd[trace.calls.thread[calls]]], details.sources)
    in_backward = int(by_autograd[ops.thread[uses.op[chosen]]].sum()) / steps
    backward = f", {how_many(in_backward)} of these in the backward pass" if in_backward else ""
    yield Evidence(
        idle_within(details, profile, ops.start_ns[rows], ops.end_ns[rows]),
        f"a mask in host memory indexes a GPU tensor {counted(len(chosen) / steps, 'time')} {profile.steps.per}"
        f"{at(place)}{backward}: finding and copying its positions takes the host "
        f"{duration(float(ops.duration_ns[rows].sum()) / steps)} as traced; their sizes suggest "
        f"{counted(len(first) / steps, 'mask')} {profile.steps.per}",
        *place,
        edits=Edits(removed_ops=frozenset(later.tolist())),
    )


RULE = Rule(
    id="PIN110",
    title="`x[mask]` with a mask in host memory",
    short="find positions once",
    figures=("per_step", "copies", "busy"),
    answers=("copy", "host"),
    numbers="equal",
    why="Each such index, forward and backward, finds the positions of the mask on the host, and copies them "
    "to the GPU. A mask on the GPU would make the host wait for their number (PIN205).",
    fix="Find and copy the positions once for each mask, and index with them. Or copy the mask once, with "
    "non_blocking=True, and keep the shape: torch.where(mask, a, x).",
    before="for value in values:\n    x[mask] = value  # mask is in host memory, x on the GPU",
    code="rows = mask.nonzero()[:, 0].to(device, non_blocking=True)  # of a mask of one dimension, once\n"
    "for value in values:\n    x[rows] = value",
    safe_if="The mask does not change between its uses.",
    near_miss="x[rows] = 0.5  # by positions that are on the GPU: nothing is copied",
    search=_host_masks,
)
