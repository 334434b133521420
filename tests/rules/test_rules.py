from functools import cache, partial
from pathlib import Path

import pytest
from bench_builder import BenchBuilder, gbps, ms
from detector import STEPS, detector
from recordings import TRACES
from trace_builder import AUTOGRAD, COMPUTE, MAIN, SIDE, TraceBuilder
from trace_parts import Scene, all_of, call, copy, event, function, kernel, on_thread, op, overhead, scene_of

from pinprof.analyses.copies import REASONS
from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.bench.advice import pinning as pinning_of
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.prediction.pinning import Pinning
from pinprof.report.words import worth
from pinprof.rules.rule import Finding, Findings
from pinprof.rules.search import RULE_OF_CAUSE, RULE_OF_EXPOSURE, RULES, find
from pinprof.trace import read_trace
from pinprof.trace.lines import OPS_KEY
from pinprof.trace.tables import DIRECTIONS, Trace

PINNED = "HtoD (Pinned -> Device)"
READBACK = "DtoH (Device -> Pinned)"


@cache
def measured_of(scene: Scene) -> Profile:
    """Return what is measured of a trace of four steps."""
    return measure(recorded(scene))


@cache
def findings_of(scene: Scene, machine: Pinning | None = None) -> tuple[Finding, ...]:
    trace = recorded(scene)
    return without_launches(find(measure(trace), trace, machine))


def recorded(scene: Scene) -> Trace:
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.kernel(start + 20, 80, launch=start + 10)
        scene(builder, start)
        builder.kernel(start + 800, 180, launch=start + 790)
    return builder.read()


def without_launches(findings: Findings) -> Findings:
    """Return what the rules find but those of launches: between its calls the host of these scenes does nothing."""
    kept = (finding for finding in findings if finding.rule.family != "launches")
    return Findings(kept, findings.joint, findings.machine, findings.verdict)


def waiting(name: str) -> Scene:
    return scene_of(op(name, 30, 100), copy(READBACK, 100, 2, launch=40, size=4), call("cudaStreamSynchronize", 50, 60))


pageable = scene_of(copy("HtoD (Pageable -> Device)", 200, 300, launch=150, call=360))
pinned_beside_kernels = scene_of(copy(PINNED, 805, 100, launch=160, stream=SIDE))
pageable_readback = scene_of(copy("DtoH (Device -> Pageable)", 200, 300, launch=150, call=360))
blocking_readback = scene_of(
    op("aten::copy_", 30, 700), copy(READBACK, 100, 300, launch=40), call("cudaStreamSynchronize", 45, 360)
)
same_stream = scene_of(copy(PINNED, 200, 300, launch=150))
launched_late = scene_of(copy(PINNED, 200, 300, launch=190, stream=SIDE), kernel(505, 10, launch=195))
blocking_copy = scene_of(
    op("aten::to", 30, 700), copy(PINNED, 100, 300, launch=40), call("cudaStreamSynchronize", 45, 360)
)
non_blocking_copy_of_pageable_memory = scene_of(
    op("aten::to", 30, 400), copy("HtoD (Pageable -> Device)", 100, 300, launch=40, call=370)
)
item = waiting("aten::item")
item_that_costs_nothing = scene_of(all_of(item), kernel(20, 900, launch=15, stream=SIDE))
synchronize = scene_of(call("cudaDeviceSynchronize", 50, 60))
free = scene_of(call("cudaFree", 50, 60))


GIB = 1 << 30
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

OPS = (
    *(("aten::item", "PIN201"), ("aten::is_nonzero", "PIN202"), ("aten::nonzero", "PIN205")),
    *(("aten::_unique2", "PIN206"), ("aten::repeat_interleave", "PIN207"), ("aten::equal", "PIN208")),
)
loader = scene_of(event("user_annotation", WORKERS, 120, 650))
loader_that_keeps_up = scene_of(event("user_annotation", WORKERS, 1, 3))
batches_made_in_process = scene_of(event("user_annotation", IN_PROCESS, 120, 650))
pageable_batches = scene_of(all_of(loader_that_keeps_up), all_of(pageable))
batches_that_are_not_pinned = scene_of(all_of(pageable_batches), on_thread(300, "cpu_op", "aten::pin_memory", 10, 5))


def batches_of_a_class_without_pin_memory(builder: TraceBuilder, start: float) -> None:
    pageable_batches(builder, start)
    builder.metadata["pinprof"] = {"loaders_pin": True}


pinning = scene_of(op("aten::pin_memory", 150, 400))
pinning_in_workers = scene_of(on_thread(300, "cpu_op", "aten::pin_memory", 150, 400))


def small_copies(builder: TraceBuilder, start: float, count: int = 40) -> None:
    for number in range(count):
        builder.copy(PINNED, start + 200 + 10 * number, 2, launch=start + 150 + 10 * number, size=4000)


def few_small_copies(builder: TraceBuilder, start: float) -> None:
    builder.kernel(start + 110, 600, launch=start + 105, stream=SIDE)  # hides them
    small_copies(builder, start, 10)


def host_masks(builder: TraceBuilder, start: float, *, found_by: str = "aten::nonzero", on_gpu: bool = False) -> None:
    """Index by one mask, and twice more in the backward pass: 60 µs of positions, and 20 µs of their copy, each."""
    builder.on_thread(AUTOGRAD, "cpu_op", "autograd::engine::evaluate_function: IndexPutBackward0", start + 299, 302)
    uses = ((110, MAIN, "aten::index_put_"), (300, AUTOGRAD, "aten::index_put"), (450, AUTOGRAD, "aten::index"))
    for at, thread, name in uses:
        builder.op(name, start + at, 140, thread=thread)
        if name != "aten::index":
            builder.op("aten::_index_put_impl_", start + at + 1, 138, thread=thread)
        builder.op(found_by, start + at + 10, 60, thread=thread)
        if on_gpu:
            builder.kernel(start + at + 13, 3, launch=start + at + 11, thread=thread)
        builder.op("aten::to", start + at + 75, 20, thread=thread)
        launched = builder.call("cudaMemcpyAsync", start + at + 80, 5, thread=thread)
        args = {"correlation": launched, "device": 0, "stream": COMPUTE, "bytes": 6560}
        builder.activity("gpu_memcpy", f"Memcpy {PINNED}", start + at + 86, 2, **args)
        builder.kernel(start + at + 110, 5, launch=start + at + 100, thread=thread)
    place = {"op": "aten::index_put_", "file": "train.py", "line": 7, "function": "mix"}
    builder.metadata[OPS_KEY] = [place]


slow_copies = scene_of(
    copy(PINNED, 110, 100, launch=105, size=5_500_000, stream=SIDE),  # 55 GB/s
    copy(PINNED, 220, 400, launch=215, size=5_500_000, stream=SIDE),  # 14 GB/s
)
slow_copies_beside_others = scene_of(
    all_of(slow_copies),
    copy(READBACK, 220, 400, launch=218, size=20_000_000, stream=SIDE + 1),
    call("cudaDeviceSynchronize", 985, 2),
)
printing = scene_of(
    function("train.py(3): train", 25, 150), function("torch/_tensor_str.py(708): _str", 26, 140), all_of(item)
)
counting_steps = scene_of(
    function("train.py(3): train", 25, 150),
    function("torch/optim/adam.py(215): step", 26, 145),
    function("torch/optim/optimizer.py(91): _get_value", 27, 140),
    all_of(item),
)
reading_a_tensor = scene_of(op("aten::to", 29, 102), all_of(waiting("aten::_to_copy")))
new_tensor = scene_of(
    op("aten::empty", 120, 5),
    op("aten::to", 130, 60),
    copy("HtoD (Pageable -> Device)", 160, 2, launch=140, size=8),
    call("cudaStreamSynchronize", 150, 20),
    op("aten::lift_fresh", 195, 1),
)
host_alloc = scene_of(call("cudaEventSynchronize", 50, 52), call("cudaHostAlloc", 110, 600))
barrier = scene_of(op("c10d::barrier", 40, 100), call("cudaStreamSynchronize", 50, 60))


def launches_that_wait(builder: TraceBuilder, start: float) -> None:
    for number in range(3):
        at = start + 200 + 150 * number
        correlation = builder.call("cudaLaunchKernel", at, 100)
        builder.activity("kernel", "gemm", at + 5, 90, correlation=correlation, device=0, stream=COMPUTE)


op_of_a_library = waiting("library::counts")
code_loaded = scene_of(call("cudaFuncGetAttributes", 150, 80), overhead("Runtime Triggered Module Loading", 152, 70))


def full_queue(builder: TraceBuilder, start: float) -> None:
    correlation = builder.call("cudaLaunchKernel", start + 25, 60)
    builder.event("overhead", "Command Buffer Full", start + 27, 55).update(pid=-1, tid=0)
    builder.activity("kernel", "gemm", start + 100, 90, correlation=correlation, device=0, stream=COMPUTE)


unawaited_readback = scene_of(copy(READBACK, 810, 50, launch=795, stream=SIDE))
awaited_readback = scene_of(all_of(unawaited_readback), call("cudaEventSynchronize", 880, 2))


def guarding(kind: str, name: str = "cudaDeviceSynchronize", ends: float = 400) -> Scene:
    """Add an asynchronous copy of pinned memory that runs until `ends`, and a wait from 150 to 450."""
    return scene_of(copy(kind, 100, ends - 100, launch=90), call(name, 150, 300))


# A wait for a kernel, behind a copy to pinned memory that has ended.
behind_a_copy = scene_of(copy(READBACK, 25, 20, launch=15, stream=SIDE), all_of(synchronize))


def item_that_guards(kind: str) -> Scene:
    """Add a copy of pinned memory from 100 to 200, and an `.item()` whose own copy comes behind it."""
    return scene_of(
        *(copy(kind, 100, 100, launch=90), op("aten::item", 110, 150)),
        *(copy(READBACK, 201, 2, launch=115, size=4), call("cudaStreamSynchronize", 125, 90)),
    )


def read_early(
    name: str = "aten::mean", *, call: str = "", size: int = 10_000_000, ends: float = 700, begins: float = 105
) -> Scene:
    """Add a copy to pinned memory from 100 on, an op on the host that takes 600, and a wait behind both."""

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.copy(READBACK, start + 100, ends - 100, launch=start + 90, size=size)
        if call:
            builder.call(call, start + 100, 2)
        builder.op(name, start + begins, 600)
        builder.call("cudaDeviceSynchronize", start + 710, 50)

    return scene


def written_early(name: str = "aten::zero_", *, call: str = "", ends: float = 300, after: str = "") -> Scene:
    """Add a copy of pinned memory from 100 on, called at 90, and an op on the host from 120 on, that takes 600.

    The launch of a kernel between them orders nothing.
    """

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.copy(PINNED, start + 100, ends - 100, launch=start + 90, size=10_000_000)
        if call:
            builder.call(call, start + 105, 2)
        builder.kernel(start + 300, 100, launch=start + 110)
        if after:
            builder.op(after, start + 118, 1)
        builder.op(name, start + 120, 600)

    return scene


def looking_for_nan(builder: TraceBuilder, start: float) -> None:
    """Two nodes of a backward pass, each with a check that waits for the kernel of its gradient."""
    for number in range(2):
        at = start + 100 + 400 * number
        builder.op("autograd::engine::evaluate_function: MmBackward0", at, 300)
        builder.op("aten::mm", at + 5, 15)
        builder.kernel(at + 20, 100, launch=at + 10)
        builder.op("aten::isnan", at + 30, 20)
        builder.kernel(at + 121, 5, launch=at + 35)
        builder.op("aten::_is_any_true", at + 55, 20)
        builder.kernel(at + 127, 5, launch=at + 60)
        builder.op("aten::item", at + 80, 70)
        builder.copy(READBACK, at + 133, 2, launch=at + 85, size=1)
        builder.call("cudaStreamSynchronize", at + 90, 55)


def idle_only(builder: TraceBuilder, start: float) -> None:
    """Nothing but a late host."""


@pytest.mark.parametrize(
    ("file", "is_validation"), [("torch/distributions/distribution.py", True), ("torch/nn/utils/clip_grad.py", False)]
)
def test_the_validation_of_distributions_has_a_fix_of_its_own(file: str, is_validation: bool) -> None:
    def validating(builder: TraceBuilder, start: float) -> None:
        builder.function("train.py(3): policy", start + 5, 200)
        builder.function(f"{file}(40): __init__", start + 25, 110)
        waiting("aten::is_nonzero")(builder, start)

    (finding,) = [finding for finding in findings_of(validating) if finding.rule.id == "PIN202"]
    assert finding.title.startswith("a distribution that validates") is is_validation
    assert ("validate_args=False, or for all distributions" in finding.fix) is is_validation
    assert finding.saving is not None


@pytest.mark.parametrize(
    ("scene", "rule"),
    [
        (pageable, "PIN101"),
        (non_blocking_copy_of_pageable_memory, "PIN101"),
        (blocking_copy, "PIN102"),
        (pinning, "PIN103"),
        (pageable_batches, "PIN104"),
        (batches_that_are_not_pinned, "PIN105"),
        (batches_of_a_class_without_pin_memory, "PIN105"),
        (small_copies, "PIN106"),
        (slow_copies, "PIN107"),
        (host_masks, "PIN110"),
        (slow_copies_beside_others, "PIN107"),
        (pageable_readback, "PIN108"),
        (blocking_readback, "PIN203"),
        *((waiting(op), rule) for op, rule in OPS),
        (reading_a_tensor, "PIN203"),
        (printing, "PIN204"),
        (new_tensor, "PIN209"),
        (synchronize, "PIN210"),
        (host_alloc, "PIN211"),
        (barrier, "PIN212"),
        (launches_that_wait, "PIN213"),
        (op_of_a_library, "PIN214"),
        (counting_steps, "PIN215"),
        (looking_for_nan, "PIN217"),
        (same_stream, "PIN301"),
        (launched_late, "PIN302"),
        (free, "PIN303"),
        (code_loaded, "PIN304"),
        (loader, "PIN401"),
        (batches_made_in_process, "PIN402"),
        (guarding(READBACK), "PIN216"),
        (guarding(PINNED), "PIN216"),
        (guarding(READBACK, "cudaEventSynchronize"), "PIN216"),
        (unawaited_readback, "PIN501"),
        (read_early(), "PIN508"),
        (written_early(), "PIN509"),
        (written_early("aten::copy_", ends=121), "PIN509"),
    ],
)
def test_a_rule_finds_what_it_is_for(tmp_path: Path, scene: Scene, rule: str) -> None:
    assert rule in {finding.rule.id for finding in findings_of(scene)}


@pytest.mark.parametrize(
    "scene",
    [
        *(pinned_beside_kernels, item_that_costs_nothing, idle_only, pinning_in_workers, few_small_copies),
        *(awaited_readback, full_queue, loader_that_keeps_up),
    ],
)
def test_what_costs_nothing_is_not_found(scene: Scene) -> None:
    assert findings_of(scene) == ()


@pytest.mark.parametrize("scene", [behind_a_copy, guarding("DtoH (Device -> Pageable)"), guarding("DtoD"), synchronize])
def test_a_wait_that_guards_no_copy_in_flight_may_go(scene: Scene) -> None:
    findings = {finding.rule.id: finding for finding in findings_of(scene)}
    assert "PIN216" not in findings
    assert findings["PIN210"].saving


def test_a_wait_that_guards_a_copy_in_flight_does_not_go() -> None:
    findings = findings_of(guarding(READBACK))
    assert {finding.rule.id for finding in findings if finding.rule.family == "waits"} == {"PIN216"}
    (guard,) = (finding for finding in findings if finding.rule.id == "PIN216")
    assert guard.saving is None
    assert guard.title == "`synchronize()` guards a copy in flight"
    assert guard.most_ns
    assert worth(guard, measured_of(guarding(READBACK))).startswith("saves at most ")
    assert "it awaits DtoH copies of pinned memory in flight" in guard.evidence.text
    assert guard.fix.startswith("Do not remove it: record an event after the copy")


def test_what_an_item_guards_is_said_with_its_fix() -> None:
    (sent,) = (finding for finding in findings_of(item_that_guards(PINNED)) if finding.rule.id == "PIN201")
    assert sent.saving  # its source is written in the next step
    assert sent.fix.endswith(
        "But wait for the copy in flight that it also awaits, by an event, before its source is written (PIN216)."
    )
    (read,) = (finding for finding in findings_of(item_that_guards(READBACK)) if finding.rule.id == "PIN201")
    assert read.saving is None
    assert read.fix.endswith("before its result is read (PIN216).")


@pytest.mark.parametrize(
    "scene",
    [
        read_early(call="cudaEventRecord"),  # to be awaited later: double buffering
        read_early(call="cudaStreamSynchronize"),
        read_early("aten::randn"),  # reads nothing
        read_early(size=4),  # a loss: no op reads it for 600 us
        read_early(ends=104),  # has ended before
    ],
)
def test_what_does_not_read_a_copy_is_no_hazard(scene: Scene) -> None:
    assert "PIN508" not in {finding.rule.id for finding in findings_of(scene)}


@pytest.mark.parametrize(
    "scene",
    [
        written_early(call="cudaEventRecord"),  # to be awaited before this buffer is filled again
        written_early(call="cudaEventSynchronize"),  # for the copy before last: two buffers in turn
        written_early("aten::mean"),  # reads
        written_early("aten::__and__"),  # writes to memory of its own
        written_early(after="aten::empty"),  # as does `torch.empty(n).zero_()`
        written_early(ends=119),  # has ended before
    ],
)
def test_what_does_not_write_to_a_source_in_flight_is_no_hazard(scene: Scene) -> None:
    assert "PIN509" not in {finding.rule.id for finding in findings_of(scene)}


def test_what_may_be_wrong_is_said_as_a_suspicion() -> None:
    (suspicion,) = (finding for finding in findings_of(written_early()) if finding.rule.id == "PIN509")
    assert suspicion.severity == "suspect"
    assert suspicion.evidence.text == (
        "1 non-blocking copy per step of pinned host memory (9.54 MiB) still waits or runs when the host, which has "
        "not waited, computes aten::zero_ for 600 µs: if that writes to the memory, the GPU may get the new values; "
        "`pinprof run --guard` says for certain"
    )


@pytest.mark.parametrize(("rows", "sized"), [(2_500_000, True), (2_499_999, False)])
def test_recorded_shapes_tell_whether_an_op_reads_what_is_copied(rows: int, sized: bool) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        read_early()(builder, start)
        op = next(event for event in reversed(builder.events) if event["name"] == "aten::mean")
        op["args"] |= {"Input Dims": [[rows], []], "Input type": ["float", ""]}

    findings = [finding for finding in findings_of(scene) if finding.rule.id == "PIN508"]
    texts = [finding.evidence.text for finding in findings]
    assert [", which has an input of the size of the copy" in text for text in texts] == [True] * sized


@pytest.mark.parametrize(("spawned", "told"), [(True, True), (False, False), (None, False)])
def test_a_process_that_multiprocessing_started_is_told_where_to_pin(spawned: bool | None, told: bool) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        pageable(builder, start)
        builder.metadata["pinprof"] = {} if spawned is None else {"spawned": spawned}

    (finding,) = (finding for finding in findings_of(scene) if finding.rule.id == "PIN101")
    assert ("multiprocessing started this process" in finding.evidence.text) == told
    assert finding.fix.startswith("Pin it in this process, even if another one pins it before sending") == told
    assert ("if another process sent the tensor" in finding.evidence.text) == told  # no trace shows whether one did


def test_what_is_pinned_by_hand_is_copied_by_the_host_first() -> None:
    """The call of 360 µs becomes one of 4, behind a copy on the host: 0.35 times the 300 µs of the GPU."""
    (finding,) = (finding for finding in findings_of(pageable) if finding.rule.id == "PIN101")
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx((360 - 4 - 105) * 1000, rel=0.01)
    low, high = finding.saving.range_ns
    assert low < (360 - 4 - 2 * 105) * 1000
    assert high > (360 - 4) * 1000
    (by_thread,) = (finding for finding in findings_of(pageable_batches) if finding.rule.id == "PIN104")
    assert not by_thread.evidence.edits.refilled


@pytest.mark.parametrize(("copied_us", "saved_us"), [(0, 400), (300, 100)])
def test_a_refill_of_pinned_memory_still_copies(copied_us: int, saved_us: int) -> None:
    scene = scene_of(all_of(pinning), op("aten::copy_", 550 - copied_us, copied_us)) if copied_us else pinning
    (finding,) = (finding for finding in findings_of(scene) if finding.rule.id == "PIN103")
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx(saved_us * 1000, rel=0.1)
    assert finding.saving.range_ns[1] > 400_000


def test_positions_of_a_host_mask_are_found_and_copied_once() -> None:
    (finding,) = (finding for finding in findings_of(host_masks) if finding.rule.id == "PIN110")
    assert str(finding.evidence.place) == "train.py:7"
    assert finding.evidence.text == (
        "a mask in host memory indexes a GPU tensor 3 times per step at train.py:7, 2 of these in the backward pass: "
        "finding and copying its positions takes the host 240 µs as traced; their sizes suggest 1 mask per step"
    )
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx(2 * (60_000 + 20_000), rel=0.1)  # two of three uses have them


@pytest.mark.parametrize(
    "scene",
    [
        partial(host_masks, on_gpu=True),  # a wait (PIN205)
        partial(host_masks, found_by="aten::view"),  # positions of the host: an index without a mask
        scene_of(kernel(5, 990, launch=3, stream=SIDE), all_of(host_masks)),  # the GPU works meanwhile
    ],
)
def test_what_finds_no_positions_while_the_gpu_is_idle_is_no_host_mask(scene: Scene) -> None:
    assert "PIN110" not in {finding.rule.id for finding in findings_of(scene)}


def test_the_cost_is_per_step_and_the_largest_saving_comes_first() -> None:
    def both(builder: TraceBuilder, start: float) -> None:
        item(builder, start)
        same_stream(builder, start)

    findings = findings_of(both)
    assert [finding.rule.id for finding in findings] == ["PIN201", "PIN301"]
    assert findings[0].evidence.cost_ns == 98_000  # idle from 102 to 200
    assert findings[1].evidence.cost_ns == 260_000  # of 300 µs exposed, as much as there are kernels to hide it
    savings = [finding.saving.saving_ns for finding in findings if finding.saving]
    assert len(savings) == 2
    assert savings[0] > 100_000 > savings[1] == 0
    assert [finding.severity for finding in findings] == ["high", "low"]  # of what the fix saves


def test_all_calls_of_the_allocator_are_one_finding_at_the_costliest_place() -> None:
    def allocating(builder: TraceBuilder, start: float) -> None:
        builder.function("train.py(3): step", start + 1, 900)
        builder.call("cudaFree", start + 50, 60)  # awaits the kernel up to 100; the next is at 800
        builder.call("cudaFree", start + 120, 30)
        builder.op("aten::empty", start + 150, 45)
        builder.call("cudaMalloc", start + 160, 20)

    (finding,) = findings_of(allocating)
    assert finding.evidence.cost_ns == 700_000  # once, of whichever call it is
    assert finding.evidence.text == (
        "cudaFree in step(), aten::empty in step(): 3 per step; as traced, the host waits 110 µs and the GPU is idle "
        "for 700 µs in and after them"
    )
    assert (finding.evidence.file, finding.evidence.function) == ("train.py", "step")
    assert finding.saving
    assert finding.saving.saving_ns > 0


@pytest.mark.parametrize(
    ("memory", "size", "rule"),
    [("Pageable", 100, "PIN102"), ("Pinned", 10**6, "PIN102"), ("Pageable", 10**6, "PIN101")],
)
def test_a_blocking_copy_has_one_finding_and_that_is_about_pinning_only_where_the_driver_stages_it(
    memory: str, size: int, rule: str
) -> None:
    def copying(builder: TraceBuilder, start: float) -> None:
        builder.op("aten::to", start + 30, 700)
        builder.copy(f"HtoD ({memory} -> Device)", start + 100, 300, launch=start + 40, size=size)
        builder.call("cudaStreamSynchronize", start + 45, 360)

    (finding,) = (finding for finding in findings_of(copying) if finding.rule.id in {"PIN101", "PIN102"})
    assert finding.rule.id == rule
    assert bool(finding.evidence.edits.pinned) is (rule == "PIN101")
    assert ("takes copies this small along" in finding.fix) is (size == 100)
    assert finding.evidence.edits.unblocked


@pytest.mark.parametrize(
    ("recorded", "rule", "fix", "said"),
    [
        (True, "PIN105", "", "; the DataLoader has pin_memory=True, but this memory is not pinned"),
        (False, "PIN104", "DataLoader(..., pin_memory=True), and", "; the DataLoader has no pin_memory=True"),
        (
            None,
            "PIN104",
            "Add pin_memory=True to the DataLoader, or, if it has that, a method",
            "; the trace does not show whether the DataLoader has pin_memory=True",
        ),
    ],
)
def test_why_batches_are_pageable_is_said_as_far_as_it_is_known(
    recorded: bool | None, rule: str, fix: str, said: str
) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        pageable_batches(builder, start)
        builder.metadata["pinprof"] = {} if recorded is None else {"loaders_pin": recorded}

    (finding,) = [finding for finding in findings_of(scene) if finding.rule.id in {"PIN101", "PIN104", "PIN105"}]
    assert finding.rule.id == rule
    assert finding.fix.startswith(fix)
    assert finding.evidence.text.endswith(said)


def test_of_several_gpus_the_finding_names_the_one_that_is_idle() -> None:
    def on_the_second(builder: TraceBuilder, start: float) -> None:
        builder.kernel(start + 20, 80, launch=start + 12, device=1)
        builder.op("aten::item", start + 30, 100)
        builder.copy(READBACK, start + 100, 2, launch=start + 40, size=4, device=1)
        builder.call("cudaStreamSynchronize", start + 50, 60)
        builder.kernel(start + 400, 180, launch=start + 390, device=1)

    (finding,) = findings_of(on_the_second)
    assert finding.evidence.text.endswith("the host waits 60.0 µs and GPU 1 is idle for 298 µs after it")


def test_every_rule_has_a_trace_that_fires_it() -> None:
    marks = test_a_rule_finds_what_it_is_for.pytestmark  # type: ignore[attr-defined]
    others = {rule.id for rule in RULES if rule.family in ("launches", "gpu")}  # test_launches.py and test_gpu.py
    others.add("PIN403")  # of samples that `run` takes: tests/capture/test_workers.py
    assert {rule for _, rule in marks[0].args[1]} == {rule.id for rule in RULES if rule.search} - others


def test_every_cause_of_a_wait_belongs_to_one_rule() -> None:
    assert set(WAIT_CAUSES) - set(RULE_OF_CAUSE) == {"queue_full", "profiler"}
    assert sum(len(rule.causes) for rule in RULES) == len(RULE_OF_CAUSE)


def test_each_reason_why_copies_are_exposed_has_one_rule_at_most() -> None:
    exposures = [exposure for rule in RULES for exposure in rule.exposures]
    assert len(exposures) == len(set(exposures)) == len(RULE_OF_EXPOSURE)
    assert all(reason in REASONS and direction in DIRECTIONS for reason, direction in exposures)


@pytest.mark.parametrize("scene", [pageable_readback, blocking_readback, waiting("aten::_to_copy")])
def test_what_goes_to_the_host_gets_no_advice_for_the_other_direction(scene: Scene) -> None:
    """The pin_memory of a DataLoader, and x.to(device, non_blocking=True), are for copies to the GPU."""
    findings = findings_of(scene)
    assert findings
    for finding in findings:
        texts = (
            finding.rule.code,
            finding.rule.before,
            finding.rule.fix.replace("pin_memory=True of a DataLoader", ""),
        )
        assert not any(part in text for text in texts for part in ("DataLoader", "to(device"))


nms = scene_of(op("torchvision::nms", 28, 104), all_of(waiting("aten::masked_select")))
pageable_copies_of_a_library = scene_of(op("mylib::lookup", 140, 400), all_of(pageable))


@pytest.mark.parametrize("scene", [nms, pageable_copies_of_a_library])
def test_what_an_op_of_a_library_does_is_not_advised_on_as_if_the_code_did_it(scene: Scene) -> None:
    """Nobody can take the wait out of the op: no saving is promised."""
    (finding,) = findings_of(scene)
    assert (finding.rule.id, finding.saving) == ("PIN214", None)
    assert finding.evidence.cost_ns > 0


def test_copies_that_are_pinned_can_go_ahead_where_that_brings_more() -> None:
    trace = read_trace(TRACES / "overlap_default_pageable.json.gz")
    findings = find(measure(trace), trace)
    first = findings[0]
    assert (first.rule.id, first.evidence.then and first.evidence.then.rule) == ("PIN101", "PIN301")
    assert first.saving
    assert first.with_then
    assert 0.80e6 < first.saving.range_ns[1] < 0.95e6  # with data that are made in pinned memory, as measured
    assert 1.16e6 < first.with_then.range_ns[1] < 1.30e6  # from 1.95 to 0.76 ms; overlap_side_pinned measured 0.72
    assert first.saving.saving_ns < first.with_then.saving_ns < 1.0e6  # the host copies them first
    assert findings.joint
    assert findings.joint.saving_ns >= first.with_then.saving_ns
    assert not any(finding.evidence.then and finding.evidence.then.edits for finding in findings.summary())


# On the user's machine


def machine(*pinned_gbps: float, plain: float = 2.0, fresh_ms: float = 0.8) -> Pinning:
    """Return what a bench tells with these rates of pinned copies to the GPU of 4 KiB, 64 KiB, 1 MiB and so on.

    Pageable ones reach `plain` at all sizes. To pin a fresh tensor of 4 MiB and to copy it takes `fresh_ms`, to copy
    it 0.4 ms.
    """
    bench = BenchBuilder().add(
        "E13",
        *(gbps("HtoD pinned", 4096 * 16**place, rate) for place, rate in enumerate(pinned_gbps)),
        *(gbps("HtoD pageable", 4096 * 16**place, plain) for place in range(len(pinned_gbps))),
    )
    times = ms("pageable.pin_memory().to", fresh_ms), ms("pageable.to", 0.4)
    return pinning_of(bench.add("E1", *times, sizes={"floats": 1 << 20}).build())


FRESH = "for 4.00 MiB write x.to(device), not x.pin_memory().to(device): it takes 800 µs against 400 µs"


def test_copies_that_become_pinned_take_as_long_as_on_the_machine() -> None:
    """At 0.5 GB/s a MB takes 2 ms: the step of 1 ms would only become longer."""
    (assumed,) = findings_of(pageable)
    (fast,) = findings_of(pageable, machine(25, 25, 25))
    (slow,) = (findings := findings_of(pageable, machine(0.5, 0.5, 0.5)))
    assert assumed.saving
    assert fast.saving
    assert slow.saving
    assert fast.saving.saving_ns == pytest.approx(assumed.saving.saving_ns, abs=2_000)  # a start of 2 µs
    assert assumed.saving.saving_ns > 50_000
    assert slow.saving.saving_ns == 0
    assert isinstance(findings, Findings)
    assert findings.joint
    assert findings.joint.without == ("PIN101",)  # what else there is saves the more without it
    assert findings.summary().machine == findings.machine == "NVIDIA H200"


@pytest.mark.parametrize(
    ("pinned_gbps", "sizes", "said"),
    [
        ((4, 10, 30), (1_000_000,), "pinned memory pays from 4.00 KiB on, which 4 of these 4 copies have"),
        (
            (4, 10, 30),
            (4096, 1 << 20),
            "pinned memory pays from 4.00 KiB on, which 8 of these 8 copies have",
        ),
        (
            (1, 2, 30),
            (4096, 65536),
            "pinned memory pays from 1.00 MiB on, which 0 of these 8 copies have",
        ),
        (
            (1, 2, 30),
            (4096, 65536, 1 << 20),
            "pinned memory pays from 1.00 MiB on, which 4 of these 12 copies have",
        ),
        ((1, 2, 2), (4096,), "copies to the GPU are no faster from pinned memory"),
    ],
)
def test_sizes_are_held_against_that_from_which_pinning_pays(
    pinned_gbps: tuple[float, ...], sizes: tuple[int, ...], said: str
) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        for place, size in enumerate(sizes):
            at = start + 150 + 200 * place
            builder.copy("HtoD (Pageable -> Device)", at + 50, 100, launch=at, call=160, size=size)

    (finding,) = findings_of(scene, machine(*pinned_gbps))
    assert finding.rule.id == "PIN101"
    assert finding.evidence.text.endswith(f". As measured on NVIDIA H200: {said}; {FRESH}")


@pytest.mark.parametrize(
    ("fresh_ms", "said"),
    [
        (0.8, FRESH),
        (0.2, "for 4.00 MiB x.pin_memory().to(device) is faster than x.to(device): it takes 200 µs against 400 µs"),
    ],
)
def test_pinning_in_each_step_is_advised_as_measured(fresh_ms: float, said: str) -> None:
    (plain,) = findings_of(pinning)
    (finding,) = findings_of(pinning, machine(30, fresh_ms=fresh_ms))
    assert finding.rule.id == "PIN103"
    assert finding.evidence.text == f"{plain.evidence.text}. As measured on NVIDIA H200: {said}"


def test_what_one_line_calls_in_libraries_is_one_site_that_saves_what_all_of_it_saves() -> None:
    trace = detector().read()
    findings = without_launches(find(measure(trace), trace))
    assert [(finding.rule.id, [str(site.evidence.place) for site in finding.sites]) for finding in findings] == [
        ("PIN205", ["train.py:30", "train.py:60"]),
        ("PIN201", ["train.py:30", "train.py:32"]),
    ]
    masks = findings[0].sites[0]
    assert masks.evidence.text.startswith("aten::nonzero, aten::index at train.py:30 within ")
    assert "fastrcnn_loss (torchvision/models/detection/roi_heads.py:32)" in masks.evidence.text
    assert ": 5 per step; " in masks.evidence.text
    assert masks.saving is not None
    assert masks.evidence.cost_ns == 700_000  # five times 140 µs
    assert len(masks.evidence.edits.unwaited) == 5 * STEPS
