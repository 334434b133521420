from dataclasses import replace

import numpy as np

from pinprof.rules.copies import uses_of_host_masks
from pinprof.rules.rule import AllEvidence, Change, Details, Profile, Rule
from pinprof.rules.wait_sites import search_waits
from pinprof.trace.calls import are_small_to_gpu
from pinprof.trace.tables import PAGEABLE

FIX_OF_SMALL_COPIES = "Add non_blocking=True: the driver takes copies this small along with the call, pinned or not."


def _blocking(details: Details, profile: Profile) -> AllEvidence:
    """Look for blocking copies, except for copies of pageable memory that other rules find."""
    gpu, copy = details.trace.gpu, details.syncs.stalls.copy
    are_small = are_small_to_gpu(gpu, np.arange(len(gpu)))
    of_others = (gpu.host_memory == PAGEABLE) & (details.loader.has_unpinned | ~are_small)
    of_others[uses_of_host_masks(details.trace).copies] = True
    for evidence in search_waits("blocking_copy_htod")(details, profile):
        unblocked = frozenset(row for row in evidence.edits.unblocked if not of_others[copy[row]])
        if unblocked:
            edits = replace(evidence.edits, pinned=frozenset(), unblocked=unblocked)
            yield replace(evidence, edits=edits, fix="" if evidence.edits.pinned else FIX_OF_SMALL_COPIES)


RULE = Rule(
    id="PIN102",
    title="copies to the GPU without `non_blocking=True`",
    short="non_blocking=True",
    answers=("copy",),
    what_if="--non-blocking",
    numbers="equal",
    why="A blocking copy waits for all earlier work on the stream; the host cannot queue the next kernels meanwhile.",
    fix="x.to(device, non_blocking=True). Copies of pageable memory are those of PIN101 and PIN104: until they are "
    "pinned, non_blocking=True does no harm, and saves next to nothing.",
    before="x = x.to(device)  # the host waits for the copy",
    code="x = x.to(device, non_blocking=True)  # x is pinned",
    safe_if="Nothing writes to the source before the copy has ended: an event after the copy shows that. Work on the "
    "same GPU stream runs after the copy anyway.",
    near_miss="x = x.to(device, torch.float16)  # from GPU to GPU: the host does not wait",
    change=Change(r"\.(?:to|cuda|copy_)\(", "add non_blocking=True"),
    causes=("blocking_copy_htod",),
    search=_blocking,
)
