from collections.abc import Iterator
from itertools import repeat

import numpy as np

from pinprof.ground.intervals import covered, subtract, union
from pinprof.ground.units import counted, duration
from pinprof.rules.rule import AllEvidence, Change, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.snippets import REFILL, SAFE_REFILL
from pinprof.rules.sums import idle_within, in_complete_steps
from pinprof.trace.tables import Int64s, Trace
from pinprof.trace.threads import PIN_OPS


def _pin_then_copy(details: Details, profile: Profile) -> AllEvidence:
    """Look for tensors that the main thread pins in the step, except in a DataLoader without workers."""
    ops = details.trace.ops
    chosen = (
        ops.named(PIN_OPS.__contains__)
        & (details.trace.links.op_parent == -1)
        & in_complete_steps(details.trace, ops.start_ns)
    )
    rows = np.flatnonzero(chosen & details.trace.has_role("main")[ops.thread]) if len(ops) else np.empty(0, np.int64)
    rows = rows[covered(details.loader.times, ops.start_ns[rows], ops.end_ns[rows]) == 0]
    if len(rows) == 0:
        return
    steps = profile.steps.count
    cost = idle_within(details, profile, ops.start_ns[rows], ops.end_ns[rows])
    time = float(ops.duration_ns[rows].sum()) / steps
    idle = "" if profile.withheld.busy else f", during which the GPU is idle for {duration(cost)}"
    yield Evidence(
        cost,
        f"pinning {counted(len(rows) / steps, 'tensor')} {profile.steps.per} takes the main thread "
        f"{duration(time)}{idle}",
        at_any_cost=True,
        edits=Edits(removed_times=frozenset(_without_copies(details.trace, rows))),
        at_best=Edits(removed_ops=frozenset(rows.tolist())),  # by a thread, or with data that are made there
    )


def _without_copies(trace: Trace, pinning: Int64s) -> Iterator[tuple[int, int, int]]:
    """Yield the times in which ops pin but do not copy: what refills pinned memory copies as well."""
    ops, is_copy = trace.ops, trace.ops.named("aten::copy_".__eq__)
    for row in pinning.tolist():
        inside = slice(row, int(np.searchsorted(ops.start_ns, ops.end_ns[row])))  # the table is sorted by start
        copies = row + np.flatnonzero(is_copy[inside] & (ops.thread[inside] == ops.thread[row]))
        own = subtract(union(ops.start_ns[[row]], ops.end_ns[[row]]), union(ops.start_ns[copies], ops.end_ns[copies]))
        yield from zip(repeat(int(ops.thread[row])), own.start.tolist(), own.end.tolist(), strict=False)


RULE = Rule(
    id="PIN103",
    title="`.pin_memory()` in the training loop",
    short="pin before the loop",
    figures=("per_step",),
    answers=("copy", "allocation"),
    numbers="equal",
    weighs_pinning=True,
    why="x.pin_memory() copies the tensor on the host first, in the thread that should queue kernels, and may have to "
    "allocate pinned memory, which takes a lock of the driver. Whether pinning takes longer than the pageable copy "
    "depends on the machine: pinprof bench measures it (E1). Memory that is already pinned is always faster.",
    fix="Keep one pinned tensor and refill it, each time after an event that shows that its last copy has ended; or "
    "let the thread of a DataLoader pin. A refill copies, too: only that thread, or data made in place, avoids this.",
    before="for x in batches:\n"
    "    train(x.pin_memory().to(device, non_blocking=True))  # a fresh pinned tensor each time",
    code=REFILL + "\n\n# or, where batches come from a Dataset:\n"
    "for x in DataLoader(data, batch_size=64, num_workers=4, pin_memory=True):\n"
    "    train(x.to(device, non_blocking=True))",
    safe_if=f"{SAFE_REFILL} A Dataset that workers read can be used from several processes.",
    near_miss="loader = DataLoader(data, num_workers=4, pin_memory=True)  # pins in a thread of its own",
    change=Change(r"\.pin_memory\(", "refill one pinned tensor instead"),
    search=_pin_then_copy,
)
