"""What rules look for in copies between host and GPU."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from pinprof.analyses.copies import REASONS
from pinprof.analyses.syncs.naming import INDEX_OPS, in_library
from pinprof.details import Details
from pinprof.ground.intervals import length
from pinprof.ground.units import duration, listed, rate, shortened
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import NO_EDITS, Edits
from pinprof.prediction.pinning import freed_batches
from pinprof.prediction.scenarios import with_pinned, without_blocking
from pinprof.replay.bound import feed_of
from pinprof.rules.rule import Evidence, Further, Search, as_one
from pinprof.rules.sums import LONGEST_NAMED_CHARS, Copies, copies_in_steps, kernels_in_steps, of_all, per_step
from pinprof.trace.calls import are_small_to_gpu
from pinprof.trace.links import outermost
from pinprof.trace.tables import DIRECTIONS, HTOD, NONE, PAGEABLE, Int64s, Trace, computed_once

MIN_SMALL_COPIES = 32
"""From this number of small copies per step on a place should gather them: at about 10 µs each they cost 0.3 ms."""
WHY_PAGEABLE = {
    False: "the DataLoader has no pin_memory=True",
    True: "the DataLoader has pin_memory=True, but this memory is not pinned",
    None: "the trace does not show whether the DataLoader has pin_memory=True",
}
PIN_OR_HAVE_PINNED = (
    "Add pin_memory=True to the DataLoader, or, if it has that, a method pin_memory() to the class of the batches "
    "(PIN105); then non_blocking=True to the copies."
)
SENT_UNPINNED = "if another process sent the tensor, it arrived in unpinned shared memory, even if the sender pinned it"
PIN_HERE = (
    "Pin it in this process, even if another one pins it before sending: it arrives in unpinned shared memory. "
    "Allocate it once with pin_memory=True and refill it, each time after an event that shows that its last copy has "
    "ended; or let a DataLoader of this process pin it (pin_memory=True)."
)


def of_places(
    profile: Profile, copies: Iterable[Copies], evidence_of: Callable[[Copies], Evidence]
) -> Iterator[Evidence]:
    """Return the evidence of the copies of several places together, with that of each."""
    return as_one(profile, copies, lambda parts: evidence_of(of_all(parts)))


def search_pageable(code: int) -> Search:
    """Look for copies of pageable memory in this direction, except those that an op of a library makes by itself."""

    def found(details: Details, profile: Profile) -> Iterator[Evidence]:
        if code == HTOD and details.loader.has_unpinned:
            return  # batches have rules of their own
        rows = details.overlap.row
        launch = details.trace.links.launch[rows]
        by_library = launch != NONE
        by_library[by_library] = in_library(details.trace, launch[by_library])
        chosen = (details.overlap.reason == REASONS.index("pageable")) & (details.trace.gpu.direction[rows] == code)
        blocking = details.syncs.stalls.copy[details.syncs.has_cause("blocking_copy_htod")]
        chosen &= ~(are_small_to_gpu(details.trace.gpu, rows) & np.isin(rows, blocking))  # those are of PIN102
        what = f"{DIRECTIONS[code]} copies of pageable memory"

        def evidence_of(copies: Copies) -> Evidence:
            evidence = _evidence(details, copies, what)
            if code == HTOD:  # they are not made in pinned memory now
                refilled = Edits(refilled=frozenset(copies.rows.tolist()))
                evidence = replace(evidence, edits=evidence.edits | refilled, at_best=evidence.edits)
            if code != HTOD or not details.trace.info.spawned:
                return evidence
            sent = f"{evidence.text}; multiprocessing started this process: {SENT_UNPINNED}"  # it may have been sent
            return replace(evidence, text=sent, fix=PIN_HERE)

        yield from of_places(profile, copies_in_steps(details, profile, chosen & ~by_library), evidence_of)

    return found


def search_batches(*, loader_pins: bool) -> Search:
    """Look for copies of unpinned batches, either of DataLoaders that pin or of those that do not."""

    def found(details: Details, profile: Profile) -> Iterator[Evidence]:
        if not details.loader.has_unpinned or bool(details.loader.pins) != loader_pins:
            return
        rows, gpu = details.overlap.row, details.trace.gpu
        chosen = (gpu.direction[rows] == HTOD) & (gpu.host_memory[rows] == PAGEABLE)
        places = list(copies_in_steps(details, profile, chosen))
        freed_ns_per_byte = length(freed_batches(details)) / profile.steps.divisor
        freed_ns_per_byte /= max(sum(copies.bytes or 0 for copies in places), 1)

        def evidence_of(copies: Copies) -> Evidence:
            evidence = _evidence(details, copies, "HtoD copies of pageable batches")
            pins = details.loader.pins
            fix = PIN_OR_HAVE_PINNED if pins is None else ""
            freed_ns = freed_ns_per_byte * (copies.bytes or 0)
            frees = f"; unmapping them takes {duration(freed_ns)} in pauses of the host, as traced" if freed_ns else ""
            text = f"{evidence.text}{frees}{_pinning(evidence)}; {WHY_PAGEABLE[pins]}"
            cost_ns = copies.exposed_ns + max(copies.bubble_ns, freed_ns)  # the GPU is idle while they are unmapped
            evidence = replace(evidence, cost_ns=cost_ns, text=text, fix=fix)
            return evidence if loader_pins else _with_receiving(evidence, details)

        yield from of_places(profile, places, evidence_of)

    return found


def _pinning(evidence: Evidence) -> str:
    """Return what a thread of the DataLoader needs to pin the batches; nothing if none does."""
    needed = evidence.edits.pinning_ns
    return f"; the thread that pins needs about {duration(needed)} per step for them" if needed else ""


def _with_receiving(evidence: Evidence, details: Details) -> Evidence:
    """Return evidence whose cost contains receiving batches from workers: a thread that pins would do that."""
    feed, edits = feed_of(details), evidence.edits | with_pinned(details, evidence.edits.pinned)
    if feed is None or not edits.most_input_ns < feed.input_ns:
        return evidence
    return replace(
        evidence,
        cost_ns=evidence.cost_ns + feed.input_ns - feed.pinned_ns,
        text=f"{evidence.text}; receiving a batch from the workers takes {duration(feed.input_ns - feed.wait_ns)}, "
        "which the pinning thread does during the step",
        edits=edits,
    )


def _evidence(details: Details, copies: Copies, what: str) -> Evidence:
    blocked = f"; as traced, the host is blocked for {duration(copies.blocked_ns)}" if copies.blocked_ns else ""
    idle = f" and the GPU is idle for {duration(copies.bubble_ns)} afterwards" if copies.bubble_ns else ""
    speed = (
        f" at {rate(copies.bytes / copies.time_ns)}" if copies.time_ns and copies.bytes and not copies.unsized else ""
    )
    rows = frozenset(copies.rows.tolist())
    to_gpu = details.trace.gpu.direction[copies.rows[0]] == HTOD
    return Evidence(
        copies.exposed_ns + copies.bubble_ns,
        f"{copies.named(what)} ({copies.amount}{speed}), "
        f"exposed for {duration(copies.exposed_ns)} of {duration(copies.time_ns)}{blocked}{idle}",
        *copies.place,
        edits=with_pinned(details, rows) | (without_blocking(details, rows) if to_gpu else NO_EDITS),
        then=Further("PIN301", "the copies one step ahead, on a stream of their own", _one_step_ahead(details, copies))
        if to_gpu
        else None,
        figures=copies.figures,
    )


def _one_step_ahead(details: Details, copies: Copies) -> Edits:
    rows = frozenset(copies.rows.tolist())
    return Edits(ahead=rows) | without_blocking(details, rows)


def search_exposed(reason: str) -> Search:
    """Look for HtoD copies that are exposed for this reason although kernels could hide them."""

    def found(details: Details, profile: Profile) -> Iterator[Evidence]:
        direction = details.trace.gpu.direction[details.overlap.row]
        chosen = (details.overlap.reason == REASONS.index(reason)) & (direction == HTOD)
        kernels = per_step(details.trace, profile, kernels_in_steps(details.trace))

        def evidence_of(copies: Copies) -> Evidence:
            return Evidence(
                min(copies.exposed_ns, kernels),
                f"{copies.named(f'{DIRECTIONS[HTOD]} copies')} ({copies.amount}), "
                f"exposed for {duration(copies.exposed_ns)} of {duration(copies.time_ns)}; there are "
                f"{duration(kernels)} of kernels that could hide them",
                *copies.place,
                edits=_one_step_ahead(details, copies),
                figures=copies.figures,
            )

        yield from of_places(profile, copies_in_steps(details, profile, chosen), evidence_of)

    return found


class MaskUses(NamedTuple):
    """Tensors on the GPU that masks in host memory index: the host finds the positions of a mask, and copies them."""

    op: Int64s  # the op of each use
    bytes: Int64s  # the size of its positions
    copies: Int64s  # all copies of positions: rows of `Trace.gpu`
    parts: Int64s  # the ops that find and copy positions
    use: Int64s  # the number of the use that each part is of


NO_MASKS = MaskUses(*[np.empty(0, np.int64)] * 5)


@computed_once
def uses_of_host_masks(trace: Trace) -> MaskUses:
    """Return the indices that find positions without a kernel (ATen/native/IndexingUtils.h: `expandTensors`)."""
    ops, gpu, launch, parent = trace.ops, trace.gpu, trace.links.launch, trace.links.op_parent
    rows, found = np.arange(len(ops)), ops.named("aten::nonzero".__eq__) & (parent != NONE)
    found &= ops.named(INDEX_OPS.__contains__)[parent]
    if not found.any():
        return NO_MASKS
    found &= ~np.isin(rows, outermost(found, trace.links.op[trace.launches_work], parent))  # the GPU finds them
    is_index = np.isin(rows, parent[found])
    copies = np.flatnonzero((gpu.direction == HTOD) & (launch != NONE))
    inner = trace.links.op[launch[copies]]
    index, moved = outermost(is_index, inner, parent), outermost(ops.named("aten::to".__eq__), inner, parent)
    inside = (index != NONE) & (moved != NONE)
    copies, (uses, use) = copies[inside], np.unique(index[inside], return_inverse=True)
    parts = np.union1d(np.flatnonzero(found & np.isin(parent, uses)), moved[inside])
    of_use = np.searchsorted(uses, outermost(is_index, parts.astype(np.int32), parent))
    return MaskUses(uses, np.bincount(use, gpu.bytes[copies], len(uses)).astype(np.int64), copies, parts, of_use)


def many_small(details: Details, profile: Profile) -> Iterator[Copies]:
    """Yield the small copies to the GPU of each place that makes many in a step, except for positions of masks."""
    rows = details.overlap.row
    small = are_small_to_gpu(details.trace.gpu, rows) & ~np.isin(rows, uses_of_host_masks(details.trace).copies)
    yield from (copies for copies in copies_in_steps(details, profile, small) if copies.per_step >= MIN_SMALL_COPIES)


MAX_OPS_NAMED = 3
WORDS_OF_TOUCH = {
    "read": ("to pinned host memory", ("runs", "run"), "reads the memory, it reads old values"),
    "written": (
        "of pinned host memory",
        ("waits or runs", "wait or run"),
        "writes to the memory, the GPU may get the new values",
    ),
}
"""By what an op on the host may do to the memory of copies: which copies, what they still do, and what follows."""


def search_touched(how: Literal["read", "written"]) -> Search:
    """Look for copies that have not ended when the host, which has not waited, may read or write their memory."""
    memory, (one, several), consequence = WORDS_OF_TOUCH[how]

    def found(details: Details, profile: Profile) -> Iterator[Evidence]:
        ops, touches = details.trace.ops, details.hazards.read if how == "read" else details.hazards.written
        for copies in copies_in_steps(details, profile, np.isin(details.overlap.row, touches.copy)):
            of_copies = np.isin(touches.copy, copies.rows)
            touching = touches.op[of_copies]
            names = list(dict.fromkeys(shortened(ops.name_of(op), LONGEST_NAMED_CHARS) for op in touching.tolist()))
            sized = ", which has an input of the size of the copy" if touches.is_sized[of_copies].all() else ""
            yield Evidence(
                0.0,
                f"{copies.named('non-blocking copies')} {memory} ({copies.amount}) still "
                f"{one if copies.per_step <= 1 else several} when the host, which has not waited, computes "
                f"{listed(names, MAX_OPS_NAMED)} for {duration(float(np.median(ops.duration_ns[touching])))}{sized}: "
                f"if that {consequence}; `pinprof run --guard` says for certain",
                *copies.place,
                at_any_cost=True,
            )

    return found
