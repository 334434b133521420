"""Rules 1xx: copies between host and GPU that cost more than they must."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import in_library
from pinprof.details import Details
from pinprof.intervals import covered, union
from pinprof.measurement.profile import Profile
from pinprof.replay.feed import feed_of
from pinprof.rules.rule import Change, Evidence, Further, Look, Rule
from pinprof.rules.sites import as_one
from pinprof.rules.snippets import COST_OF_LATER, READ_LATER, REFILL, SAFE_REFILL, read_later
from pinprof.rules.sums import Copies, copies_in_steps, idle_within, in_complete_steps, of_all
from pinprof.rules.wait_sites import WaitFields, waits_of
from pinprof.trace.calls import SMALL_COPY_BYTES
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD, MEMCPY, NONE, PAGEABLE, PINNED, Bools, Int64s, Trace
from pinprof.trace.threads import PIN_OPS
from pinprof.units import counted, duration, rate, size
from pinprof.whatif import Edits
from pinprof.whatif.edits import LARGE_COPY_BYTES
from pinprof.whatif.scenarios import with_pinned, without_blocking

MANY_COPIES = 32
"""Small copies per step from one place that are worth gathering: at about 10 µs each they cost 0.3 ms."""

SLOW_SHARE = 0.5
"""Pinned copies at less than this share of the best rate in the trace are slow."""

SLOW_LINK_GBPS = 10.0
"""A PCIe 3.0 x16 link carries 12 GB/s from pinned memory, and newer ones more: less is slow on any GPU of a server."""


WHY_PAGEABLE = {
    False: "the DataLoader has no pin_memory=True",
    True: "the DataLoader has pin_memory=True, but this memory is not pinned",
    None: (
        "the trace does not show whether the DataLoader has pin_memory=True: if so, the class of the batches has no "
        "method pin_memory() (PIN105)"
    ),
}
"""Why batches are pageable, by whether the DataLoader pins."""
PIN_OR_HAVE_PINNED = (
    "Add pin_memory=True to the DataLoader, or, if it has that, a method pin_memory() to the class of the batches "
    "(PIN105); then non_blocking=True to the copies."
)
"""What to do where the trace does not show which of both it is."""


SENT = "a tensor that another process sends arrives in shared memory, unpinned, even if it was pinned there"
PIN_HERE = (
    f"Pin it in this process: {SENT}. Allocate it once with pin_memory=True and refill it, each time after an "
    "event that shows that its last copy has ended; or let a DataLoader of this process pin it (pin_memory=True)."
)
"""What to do in a process that multiprocessing started."""


PINNED_ALREADY = "Add non_blocking=True: this memory is pinned already."


def rule_of_batches(details: Details) -> str | None:
    """Return the rule for HtoD copies of pageable memory where they are batches of a DataLoader, else None."""
    loader = details.loader
    if not loader.waits or loader.pinned is not False:
        return None
    return "PIN105" if loader.pins else "PIN104"


def _pageable(code: int) -> Look:
    """Look for copies of pageable memory in this direction, except those that an op of a library makes by itself."""

    def look(details: Details, profile: Profile) -> Iterator[Evidence]:
        if code == HTOD and rule_of_batches(details):
            return  # batches have a rule of their own
        rows = details.overlap.row
        launch = details.trace.links.launch[rows]
        by_library = launch != NONE
        by_library[by_library] = in_library(details.trace, launch[by_library])
        chosen = (details.overlap.reason == REASONS.index("pageable")) & (details.trace.gpu.direction[rows] == code)
        what = f"{DIRECTIONS[code]} copies of pageable memory"
        each = copies_in_steps(details, profile, chosen & ~by_library)
        to_gpu = code == HTOD

        def seen(some: Sequence[Copies]) -> Evidence:
            evidence = _pageable_evidence(details, of_all(some), what)
            return _as_sent(evidence) if to_gpu and details.trace.info.spawned else evidence

        yield from as_one(profile, each, seen)

    return look


def _as_sent(evidence: Evidence) -> Evidence:
    """Return what is seen in a process that multiprocessing started: what it was sent is unpinned, pinned or not."""
    return replace(evidence, text=f"{evidence.text}; multiprocessing started this process: {SENT}", fix=PIN_HERE)


def _batches(rule: str, what: str) -> Look:
    def look(details: Details, profile: Profile) -> Iterator[Evidence]:
        if rule_of_batches(details) != rule:
            return
        rows, gpu = details.overlap.row, details.trace.gpu
        chosen = (gpu.direction[rows] == HTOD) & (gpu.host_memory[rows] == PAGEABLE)

        def seen(some: Sequence[Copies]) -> Evidence:
            evidence = _pageable_evidence(details, of_all(some), what)
            pins = details.loader.pins
            fix = PIN_OR_HAVE_PINNED if pins is None else ""
            evidence = replace(evidence, text=f"{evidence.text}; {WHY_PAGEABLE[pins]}", fix=fix)
            return _received_beside(evidence, details) if rule == "PIN104" else evidence

        yield from as_one(profile, copies_in_steps(details, profile, chosen), seen)

    return look


def _received_beside(evidence: Evidence, details: Details) -> Evidence:
    """Return what is seen of batches, with the time to receive them from workers: the thread that pins does that."""
    feed, edits = feed_of(details), with_pinned(details, evidence.edits.pinned)
    if feed is None or not edits.most_input_ns < feed.input_ns:
        return evidence
    return replace(
        evidence,
        cost_ns=evidence.cost_ns + feed.input_ns - feed.pinned_ns,
        text=f"{evidence.text}; to receive a batch from the workers takes {duration(feed.input_ns - feed.wait_ns)}, "
        "which the thread that pins does beside the step",
        edits=edits,
    )


def _pageable_evidence(details: Details, copies: Copies, what: str) -> Evidence:
    blocked = f"; as traced, the host is blocked for {duration(copies.blocked_ns)}" if copies.blocked_ns else ""
    idle = f" and the GPU is idle for {duration(copies.bubble_ns)} afterwards" if copies.bubble_ns else ""
    speed = (
        f" at {rate(copies.bytes / copies.time_ns)}" if copies.time_ns and copies.bytes and not copies.unsized else ""
    )
    return Evidence(
        copies.exposed_ns + copies.bubble_ns,
        f"{copies.named(what)} ({copies.amount}{speed}), "
        f"exposed for {duration(copies.exposed_ns)} of {duration(copies.time_ns)}{blocked}{idle}",
        *copies.place,
        edits=Edits(pinned=frozenset(copies.rows.tolist())),
        then=_prefetched(details, copies) if details.trace.gpu.direction[copies.rows[0]] == HTOD else None,
        figures=copies.figures,
    )


def _prefetched(details: Details, copies: Copies) -> Further:
    """Return the change that makes copies one step ahead, once they are pinned; pageable ones would stay exposed."""
    rows = frozenset(copies.rows.tolist())
    edits = Edits(ahead=rows) | without_blocking(details, rows)
    return Further("PIN301", "the copies one step ahead, on a stream of their own", edits)


def _knowing_pinned(fields: WaitFields) -> WaitFields:
    """Return the fields of a rule for blocking copies that does not ask to pin what is pinned."""

    def look(details: Details, profile: Profile) -> Iterator[Evidence]:
        for evidence in fields["look"](details, profile):
            memory = details.trace.gpu.host_memory[sorted(evidence.edits.pinned | evidence.at_most.pinned)]
            pinned = len(memory) > 0 and bool((memory == PINNED).all())
            yield replace(evidence, fix=PINNED_ALREADY) if pinned else evidence

    return {**fields, "look": look}


def _pin_then_copy(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for tensors pinned by the main thread in the step; what a DataLoader without workers pins does not count."""
    ops = details.trace.ops
    main = np.array([thread.role == "main" for thread in details.trace.threads], dtype=bool)
    chosen = (
        ops.named(PIN_OPS.__contains__)
        & (details.trace.links.op_parent == -1)
        & in_complete_steps(details.trace, ops.start_ns)
    )
    rows = np.flatnonzero(chosen & main[ops.thread]) if len(ops) else np.empty(0, np.int64)
    rows = rows[covered(details.loader.times, ops.start_ns[rows], ops.end_ns[rows]) == 0]
    if len(rows) == 0:
        return
    steps = profile.steps.count
    cost = idle_within(details, profile, ops.start_ns[rows], ops.end_ns[rows])
    time = float(ops.duration_ns[rows].sum()) / steps
    idle = "" if profile.withheld.busy else f", of which the GPU is idle for {duration(cost)}"
    yield Evidence(
        cost,
        f"pinning {counted(len(rows) / steps, 'tensor')} {profile.steps.per} takes the main thread "
        f"{duration(time)}{idle}",
        at_any_cost=True,
        edits=Edits(removed_ops=frozenset(rows.tolist())),
    )


def many_small(details: Details, profile: Profile) -> Iterator[Copies]:
    """Yield the small copies to the GPU of each place that makes many in a step."""
    rows = details.overlap.row
    small = (details.trace.gpu.direction[rows] == HTOD) & (details.trace.gpu.bytes[rows] >= 0)
    small &= details.trace.gpu.bytes[rows] <= SMALL_COPY_BYTES
    yield from (copies for copies in copies_in_steps(details, profile, small) if copies.per_step >= MANY_COPIES)


def _small(details: Details, profile: Profile) -> Iterator[Evidence]:
    def seen(some: Sequence[Copies]) -> Evidence:
        copies = of_all(some)
        launch = details.trace.links.launch[copies.rows]
        time = float(details.trace.calls.duration_ns[launch[launch != -1]].sum()) / profile.steps.count
        each = size((copies.bytes or 0) / copies.per_step)
        return Evidence(
            copies.exposed_ns,
            f"{copies.named(f'copies of {each} each')}: "
            f"{duration(copies.exposed_ns)} exposed on the GPU, and the host takes {duration(time)} to launch them",
            *copies.place,
            at_any_cost=True,
            figures=copies.figures,
        )

    yield from as_one(profile, many_small(details, profile), seen)


def _slow(details: Details, profile: Profile) -> Iterator[Evidence]:
    gpu, rows = details.trace.gpu, details.overlap.row
    pinned = (gpu.host_memory[rows] == PINNED) & (gpu.bytes[rows] >= LARGE_COPY_BYTES)
    rates = gpu.bytes[rows] / np.maximum(gpu.duration_ns[rows], 1)
    for code in (HTOD, DTOH):
        mine = pinned & (gpu.direction[rows] == code)
        if not mine.any():
            continue
        best = float(rates[mine].max())
        slow = mine & (rates < max(SLOW_SHARE * best, SLOW_LINK_GBPS))
        reason = _why_slow(details.trace, rows[slow])
        seen = partial(_slow_evidence, f"pinned {DIRECTIONS[code]} copies", best, reason)
        yield from as_one(profile, copies_in_steps(details, profile, slow), seen)


def _slow_evidence(what: str, best: float, reason: str, some: Sequence[Copies]) -> Evidence:
    copies = of_all(some)
    got = (copies.bytes or 0) / copies.time_ns
    share = 1 - got / best if best >= SLOW_LINK_GBPS else 1 - got / SLOW_LINK_GBPS
    return Evidence(
        copies.exposed_ns * share,
        f"{copies.named(what)}, at {rate(got)}; "
        f"the fastest in this trace reaches {rate(best)}. Likely reason: {reason}",
        *copies.place,
        figures=f"{copies.figures}, at {rate(got)}",
    )


def _why_slow(trace: Trace, slow: Int64s) -> str:
    gpu = trace.gpu
    others: Bools = gpu.category == MEMCPY
    others[slow] = False
    beside = union(gpu.start_ns[others], gpu.end_ns[others])
    shared = covered(beside, gpu.start_ns[slow], gpu.end_ns[slow]).sum()
    if 2 * shared > gpu.duration_ns[slow].sum():
        return "other copies run at the same time and share the link"
    return (
        "a link that other GPUs share, memory of another NUMA node, or workers and pinning threads that keep the "
        "host memory busy (try numactl and fewer workers)"
    )


OF_THE_HOST = (
    Rule(
        id="PIN103",
        title="`.pin_memory()` in the training loop",
        rests_on=("per_step",),
        answers=("copy", "allocation"),
        what_if="",
        mended="hand",
        numbers="equal",
        weighs_pinning=True,
        looks_at="aten::pin_memory on the main thread within the step, outside of a DataLoader.",
        why=(
            "x.pin_memory() copies the tensor on the host first, in the thread that should queue kernels, and may "
            "have to allocate pinned memory, which takes a lock of the driver. Whether that takes longer than the "
            "pageable copy depends on the machine: pinprof bench measures it (E1). Memory that is pinned already is "
            "faster in any case."
        ),
        fix=(
            "Keep one pinned tensor and refill it, each time after an event that shows that its last copy has ended; "
            "or let the thread of a DataLoader pin."
        ),
        before="for x in batches:\n"
        "    train(x.pin_memory().to(device, non_blocking=True))  # a fresh pinned tensor each time",
        code=REFILL + "\n\n# or, where batches come from a Dataset:\n"
        "for x in DataLoader(data, batch_size=64, num_workers=4, pin_memory=True):\n"
        "    train(x.to(device, non_blocking=True))",
        safe_if=f"{SAFE_REFILL} A Dataset that workers read can be used from several processes.",
        near_miss="loader = DataLoader(data, num_workers=4, pin_memory=True)  # pins in a thread of its own",
        change=Change(r"\.pin_memory\(", "refill one pinned tensor instead"),
        look=_pin_then_copy,
    ),
)
"""What pinning takes shows without any work of a GPU."""

RULES = (
    Rule(
        id="PIN101",
        title="copies of pageable memory",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="--pin --non-blocking",
        mended="line",
        numbers="equal",
        weighs_pinning=True,
        looks_at="HtoD copies whose host side is pageable, the time in which no kernel hides them, and how long they "
        "block the host.",
        why="The driver stages pageable memory through a pinned buffer of its own, at the speed of one CPU thread and "
        "after waiting for the stream: the copy is slow, blocks the host even with non_blocking=True, and hides "
        f"nothing. {SENT[0].upper()}{SENT[1:]}: bare, in an object, or by a queue.",
        fix=(
            "Pin the host side: DataLoader(..., pin_memory=True), or allocate it once with pin_memory=True and "
            "refill it, each time after an event that shows that its last copy has ended. What a fresh pinned tensor "
            "in each step costs or saves depends on the machine: pinprof bench measures it (E1)."
        ),
        before="for x in batches:\n    train(x.to(device, non_blocking=True))  # pageable: the host waits all the same",
        code=REFILL + "\n\n# or, where batches come from a Dataset:\n"
        "for x in DataLoader(data, batch_size=64, pin_memory=True):\n"
        "    train(x.to(device, non_blocking=True))",
        safe_if=f"{SAFE_REFILL} Nothing writes to a batch of a DataLoader that pins while its copy runs.",
        near_miss="x = x.to(device)  # on the GPU already: nothing is copied",
        change=Change(r"\.(?:to|cuda|copy_)\(", "copy it from pinned memory"),
        look=_pageable(HTOD),
        causes=("pageable_copy",),
        exposures=(("pageable", "HtoD"),),
    ),
    Rule(
        id="PIN102",
        title="copies to the GPU without `non_blocking=True`",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="--pin --non-blocking",
        mended="line",
        numbers="equal",
        looks_at="HtoD copies after which the host waits for the stream: an asynchronous copy and a synchronize in the "
        "same op.",
        why="A blocking copy waits for all earlier work on the stream; the host cannot queue the next kernels "
        "meanwhile.",
        fix=(
            "x.to(device, non_blocking=True), of pinned memory: PIN101 and PIN104 show how to pin it. For pageable "
            "memory non_blocking=True does no harm, and saves little."
        ),
        before="x = x.to(device)  # the host waits for the copy",
        code="x = x.to(device, non_blocking=True)  # x is pinned",
        safe_if=(
            "Nothing writes to the source before the copy has ended: an event after the copy shows that. Work on the "
            "same GPU stream runs after the copy anyway."
        ),
        near_miss="x = x.to(device, torch.float16)  # from GPU to GPU: the host does not wait",
        change=Change(r"\.(?:to|cuda|copy_)\(", "add non_blocking=True, from pinned memory"),
        **_knowing_pinned(waits_of("blocking_copy_htod")),
    ),
    Rule(
        id="PIN104",
        title="batches that are not pinned",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="--pin --non-blocking",
        mended="line",
        numbers="equal",
        looks_at=(
            "Batches that come from a DataLoader and are copied from pageable memory; nothing shows that the loader "
            "pins them."
        ),
        why=(
            "The driver stages pageable batches while the host waits. A DataLoader can pin them in a thread of its "
            "own, beside the step."
        ),
        fix=(
            "DataLoader(..., pin_memory=True), and non_blocking=True in the copies. A batch of your own class is "
            "pinned only if the class has a method pin_memory() that returns the pinned batch."
        ),
        before="loader = DataLoader(data, batch_size=64, num_workers=4)\n"
        "for x, y in loader:\n"
        "    train(x.to(device), y.to(device))",
        code="loader = DataLoader(data, batch_size=64, num_workers=4, pin_memory=True)\n"
        "for x, y in loader:\n"
        "    train(x.to(device, non_blocking=True), y.to(device, non_blocking=True))",
        safe_if="The host has memory for the pinned batches (prefetch_factor times num_workers of them), which cannot "
        "be swapped. Nothing writes to a batch on the host after its copy was queued.",
        near_miss="for x in DataLoader(data, batch_size=64):\n    log(x.mean())  # stays on the host",
        change=Change(r"\.(?:to|cuda)\(", "add non_blocking=True, and pin_memory=True to the DataLoader"),
        look=_batches("PIN104", "HtoD copies of pageable batches"),
    ),
    Rule(
        id="PIN105",
        title="batches that `pin_memory=True` does not pin",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="--pin --non-blocking",
        mended="line",
        numbers="equal",
        looks_at="Batches copied from pageable memory although their DataLoader has pin_memory=True: pinprof recorded "
        "so, or aten::pin_memory, a thread that pins or torch's Python function for it are in the trace.",
        why=(
            "A DataLoader pins tensors, and those in lists, tuples, mappings and named tuples. An object of any "
            "other class passes as it is unless it has a method pin_memory(). Tensors that the step makes from a "
            "batch on the host, by x.float() for instance, are pageable again."
        ),
        fix="Give the batch class a method pin_memory() that pins its tensors and returns the batch. Change batches in "
        "the collate_fn, or on the GPU.",
        before="class Batch:  # pin_memory=True of the DataLoader passes it as it is\n"
        "    def __init__(self, x, y):\n"
        "        self.x, self.y = x, y",
        code="class Batch:\n"
        "    def __init__(self, x, y):\n"
        "        self.x, self.y = x, y\n\n"
        "    def pin_memory(self):\n"
        "        self.x, self.y = self.x.pin_memory(), self.y.pin_memory()\n"
        "        return self",
        safe_if=(
            "No code keeps the unpinned tensors and relies on sharing memory with the batch. The copies have "
            "non_blocking=True, and nothing writes to the batch afterwards."
        ),
        near_miss="class Batch(NamedTuple):  # a DataLoader pins what named tuples hold\n"
        "    x: torch.Tensor\n"
        "    y: torch.Tensor",
        look=_batches("PIN105", "HtoD copies of pageable batches"),
    ),
    Rule(
        id="PIN106",
        title="many small copies",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="",
        mended="hand",
        numbers="equal",
        looks_at=f"{MANY_COPIES} or more HtoD copies of at most 64 KiB per step from one place.",
        why=(
            "A small copy spends its time on launch and start, not on the transfer: many of them cost far more than "
            "one copy of the same bytes."
        ),
        fix=(
            "Put them into one tensor on the host, copy that, and take views of it on the GPU. If the collate_fn of a "
            "DataLoader with pin_memory=True makes it, it is pinned, too; a worker must not pin by itself."
        ),
        before="parts = [x.to(device) for x in small]  # each has to be launched and to start",
        code="packed = torch.cat([x.reshape(-1) for x in small])  # best in the loader's collate_fn\n"
        "flat = packed.to(device, non_blocking=True).split([x.numel() for x in small])\n"
        "parts = [part.view(x.shape) for part, x in zip(flat, small)]",
        safe_if=(
            "The tensors have one dtype, or are packed per dtype. No part changes its size or outlives the others: "
            "they share memory."
        ),
        near_miss="parts = [x.to(device) for x in small[:4]]  # so few cost less than to pack them",
        change=Change(r"\.(?:to|cuda|copy_)\(", "pack them into one copy"),
        look=_small,
    ),
    Rule(
        id="PIN107",
        title="slow copies of pinned memory",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy",),
        what_if="",
        mended="hand",
        numbers="equal",
        looks_at="Pinned copies of 1 MiB and more at less than half of the best rate in the trace, or below 10 GB/s.",
        why="Pinned memory should be copied at the speed of the link: about 12 GB/s on PCIe 3.0 x16, 25 on 4.0, 55 on "
        "5.0.",
        fix="Run the process on the NUMA node of its GPU, keep copies of both directions apart, and leave memory "
        "bandwidth to the copy.",
        before="python train.py  # on any node of the machine",
        code='nvidia-smi topo -m  # its column "NUMA Affinity" tells the node of each GPU\n'
        "node=0              # that of yours\n"
        'numactl --cpunodebind="$node" --preferred="$node" python train.py',
        safe_if=(
            "The node has enough cores for the process and its workers: they run on no other node. On the wrong node "
            "the copies become slower, not faster."
        ),
        near_miss="python train.py  # on a machine of one node",
        look=_slow,
    ),
    Rule(
        id="PIN108",
        title="copies to the host into pageable memory",
        rests_on=("per_step", "copies", "overlap", "drain"),
        answers=("copy", "sync"),
        what_if="",
        mended="hand",
        numbers="equal",
        looks_at="DtoH copies whose host side is pageable, the time in which no kernel hides them, and how long they "
        "block the host.",
        why="The driver stages pageable memory through a pinned buffer of its own, at the speed of one CPU thread and "
        "after waiting for the stream: the copy is slow, and blocks the host even with non_blocking=True.",
        fix=f"Allocate the destination once, pinned; {READ_LATER}. pin_memory=True of a DataLoader is for the other "
        "direction, and does not help here.",
        before="for batch in batches:\n"
        "    host.copy_(train(batch), non_blocking=True)  # pageable: waits all the same\n"
        "    log(host.tolist())",
        code=read_later("shape, dtype=dtype", "host.tolist()"),
        safe_if=f"host is read only after the event: read earlier, it silently holds old values. {COST_OF_LATER}",
        near_miss="host.copy_(x, non_blocking=True)  # host is pinned: nothing waits",
        change=Change(r"\.(?:to|cpu|copy_)\(", "copy it into pinned memory, and read it a step late"),
        look=_pageable(DTOH),
        causes=(),
        exposures=(("pageable", "DtoH"),),
    ),
)
