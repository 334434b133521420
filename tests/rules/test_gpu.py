"""Rules of the GPU's own time, each with a scene that fires it and scenes that nearly do."""

from collections.abc import Callable
from functools import cache

import pytest
from fitting import fitting
from page_reader import Page
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.analysis import analyse
from pinprof.ground.units import duration
from pinprof.measurement.measure import measure
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.rule import Finding
from pinprof.rules.search import RULES, find
from pinprof.trace import Trace

Scene = Callable[[TraceBuilder, float], None]
"""Adds one step's events, of 1000 us, from the given time on."""
STEPS = 4
FULL = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(cutlass_80_simt_sgemm_256x128_8x4_nt_align1)"
OF_TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel"
TURNS = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>("
BATCH_NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>(cudnnTensorStruct)"


def busy(*works: tuple[str, str, float]) -> Scene:
    """Kernels of these names and lengths one behind the other, each launched by an op; then the host waits for them."""

    def scene(builder: TraceBuilder, start: float) -> None:
        free = start + 20
        for number, (op, kernel, length) in enumerate(works):
            at = start + 10 * number
            builder.op(op, at, 8)
            builder.kernel(free, length, launch=at + 4, name=kernel)
            free += length
        builder.call("cudaStreamSynchronize", start + 10 * len(works), 983 - 10 * len(works))

    return scene


float32 = busy(("aten::mm", FULL, 600), ("aten::add", "elementwise", 360))
tf32 = busy(("aten::mm", OF_TF32, 600), ("aten::add", "elementwise", 360))
cublas_takes_others = busy(("aten::mm", FULL, 300), ("aten::mm", OF_TF32, 300), ("aten::add", "elementwise", 360))
halves = busy(("aten::mm", "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_nn", 600), ("aten::add", "elementwise", 360))
little_float32 = busy(("aten::mm", FULL, 10), ("aten::add", "elementwise", 950))
turned = busy(("aten::cudnn_convolution", TURNS, 100), ("aten::cudnn_convolution", OF_TF32, 860))
hardly_turned = busy(("aten::cudnn_convolution", TURNS, 10), ("aten::cudnn_convolution", OF_TF32, 950))
batch_norm = busy(("aten::cudnn_batch_norm", BATCH_NORM, 100), ("aten::add", "elementwise", 860))


def attended(*ops: str, inner: str = "aten::bmm") -> Scene:
    """Ops in a row, each with a kernel of 100 us; products are those of batches within, unless of another name."""

    def scene(builder: TraceBuilder, start: float) -> None:
        for number, op in enumerate(ops):
            at = start + 10 * number
            builder.op(op, at, 8)
            if op == "aten::matmul":
                builder.op(inner, at + 1, 6)
            builder.kernel(start + 20 + 100 * number, 100, launch=at + 3)
        builder.op("aten::mul", start + 200, 700)

    return scene


by_hand = attended("aten::matmul", "aten::div", "aten::masked_fill", "aten::softmax", "aten::dropout", "aten::matmul")
of_matrices = attended("aten::matmul", "aten::softmax", "aten::matmul", inner="aten::mm")
something_between = attended("aten::matmul", "aten::topk", "aten::softmax", "aten::matmul")
one_product = attended("aten::matmul", "aten::softmax", "aten::sum")


def by_math(builder: TraceBuilder, start: float) -> None:
    """Attention of torch, in two kernels."""
    builder.op("aten::scaled_dot_product_attention", start, 60)
    builder.op("aten::_scaled_dot_product_attention_math", start + 1, 58)
    for number, op in enumerate(("aten::matmul", "aten::_softmax", "aten::matmul")):
        builder.op(op, start + 10 + 10 * number, 8)
        builder.kernel(start + 30 + 200 * number, 200, launch=start + 14 + 10 * number)
    builder.op("aten::mul", start + 70, 830)
    builder.kernel(start + 630, 350, launch=start + 80)


def fused(builder: TraceBuilder, start: float) -> None:
    builder.op("aten::scaled_dot_product_attention", start, 60)
    builder.op("aten::_scaled_dot_product_flash_attention", start + 1, 58)
    builder.kernel(start + 30, 950, launch=start + 14)
    builder.op("aten::mul", start + 70, 830)


def unread_gradients(elements: int) -> Scene:
    """Gradients that nothing had read at the end of the recording: of an input, and of two parameters."""
    gradients = {"inputs": [(32, 3, 160, 160)], "parameters": 2, "modules": ["Conv2d"], "elements": elements}

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.metadata["pinprof"] = {"unread": gradients}
        busy(("aten::convolution_backward", OF_TF32, 960))(builder, start)

    return scene


def distances(norm: str, length: float) -> Scene:
    kernel = f"void at::native::(anonymous namespace)::cdist_kernel_cuda_impl<float, dists<float>::{norm}>(float*)"
    backward = kernel.replace("cdist_kernel", "cdist_backward_kernel")
    return busy(
        ("aten::_cdist_forward", kernel, length),
        ("aten::_cdist_backward", backward, length / 3),
        ("aten::add", "elementwise", 960 - length * 4 / 3),
    )


def convolving(*, tried: bool | None = False, length: float = 600, grows: float = 0) -> Scene:
    """Convolutions of 600 us and their backward, in a program that has not let cuDNN try its kernels."""

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.metadata["pinprof"] = {"tries_convolutions": tried}
        lasts = length * (1 + grows * start / 1000)
        parts = (("aten::cudnn_convolution", OF_TF32, lasts), ("aten::convolution_backward", OF_TF32, 40))
        busy(*parts, ("aten::add", "elementwise", 920 - lasts))(builder, start)

    return scene


untried, tried, deterministic = convolving(), convolving(tried=True), convolving(tried=None)
few_convolutions, of_other_sizes = convolving(length=100), convolving(grows=0.1)
unread, hardly_unread = unread_gradients(2_457_600), unread_gradients(99_999)
one_by_one, of_another_norm, few_distances = distances("two", 300), distances("one", 300), distances("two", 9)


def read(scene: Scene, major: int | None = 9) -> Trace:
    builder = TraceBuilder()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "computeMajor": major}]
    for start in builder.steps(STEPS):
        scene(builder, start)
    return builder.read()


@cache
def found(scene: Scene, major: int | None = 9) -> list[Finding]:
    trace = read(scene, major)
    return [finding for finding in find(measure(trace), trace) if finding.rule.family == "gpu"]


def micro_steps(
    *,
    passes: int = 3,
    sizes: tuple[int, ...] = (500_000, 400_000, 300_000),
    updates: int = 1,
    forward: bool = False,
    called: str = "allreduce",
) -> Scene:
    """Passes before an optimizer step, with a collective of one of these sizes behind the backward pass of each."""

    def scene(builder: TraceBuilder, start: float) -> None:
        for number in range(passes):
            at, free = start + 5 + 90 * number, start + 20 + 300 * number
            size = sizes[number % len(sizes)]
            builder.op("aten::linear", at, 8)
            builder.kernel(free, 100, launch=at + 4)
            if forward:
                builder.collective(free + 100, 5, launch=at + 10, called=called, message=("Float", 99_999, 99_999, 2))
            builder.op("autograd::engine::evaluate_function: MmBackward0", at + 20, 30, thread=AUTOGRAD)
            builder.kernel(free + 110, 50, launch=at + 25, thread=AUTOGRAD)
            builder.collective(free + 160, 130, launch=at + 40, called=called, message=("Float", size, size, 2))
            if number >= passes - updates:
                builder.event("user_annotation", "Optimizer.step#SGD.step", at + 60, 20)
        builder.call("cudaStreamSynchronize", start + 300, 685)

    return scene


early = micro_steps(sizes=(500_000,))


def averaging(
    *,
    count: int = 40,
    message: tuple[str, int, int, int] | None = ("Float", 1000, 1000, 2),
    called: str = "allreduce",
    forward: bool = False,
    large: int = 0,
) -> Scene:
    """A loop over parameters that adds up the gradient of each over all ranks: 12 us, every 20 us."""

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.op("aten::linear", start + 5, 8)
        builder.kernel(start + 20, 50, launch=start + 9)
        if forward:
            builder.collective(start + 70, 5, launch=start + 16, called=called, message=message)
        builder.op("autograd::engine::evaluate_function: MmBackward0", start + 25, 20, thread=AUTOGRAD)
        builder.kernel(start + 80, 20, launch=start + 30, thread=AUTOGRAD)
        for number in range(count + large):
            at = start + 100 + 20 * number
            builder.op("c10d::allreduce_", at, 16)
            sent = message if number < count else ("Float", 500_000, 500_000, 2)
            builder.collective(at + 8, 12, launch=at + 2, called=called, message=sent)
        builder.call("cudaStreamSynchronize", start + 905, 80)

    return scene


def parallel(*, buffers: bool = True, searched: bool = False, model_first: bool = False) -> Scene:
    """A forward pass of DistributedDataParallel that sends buffers first, then a backward pass with a reduction."""

    def scene(builder: TraceBuilder, start: float) -> None:
        builder.event("user_annotation", "DistributedDataParallel.forward", start + 5, 300)
        if model_first:
            builder.op("aten::linear", start + 6, 2)
        for number, op in enumerate(("aten::flatten_dense_tensors", "c10d::broadcast_", "aten::copy_") * buffers):
            builder.op(op, start + 10 + 60 * number, 50)
            builder.kernel(start + 20 + 60 * number, 5, launch=start + 15 + 60 * number)
        builder.op("aten::linear", start + 200, 50)
        builder.kernel(start + 210, 100, launch=start + 204)
        if searched:
            builder.op("torch.distributed.ddp.reducer::search_unused_parameters", start + 260, 20)
            builder.op("_DDPSink", start + 285, 30)
        builder.op("autograd::engine::evaluate_function: MmBackward0", start + 400, 30, thread=AUTOGRAD)
        builder.kernel(start + 410, 100, launch=start + 405, thread=AUTOGRAD)
        builder.call("cudaStreamSynchronize", start + 500, 400)

    return scene


def sharded(*, again: bool) -> Scene:
    """A module of FSDP2 whose weights are gathered for the forward pass, and once more for the backward pass."""

    def scene(builder: TraceBuilder, start: float) -> None:
        for at, mark in ((0, "FSDP::pre_forward (0)"), *(((400, "FSDP::pre_backward (0)"),) * again)):
            builder.event("user_annotation", mark, start + 5 + at, 250)
            builder.event("user_annotation", "FSDP::all_gather (0)", start + 10 + at, 200)
            builder.collective(start + 30 + at, 150, launch=start + 20 + at, called="_allgather_base")
        builder.op("aten::linear", start + 270, 50)
        builder.kernel(start + 280, 60, launch=start + 275)
        builder.call("cudaStreamSynchronize", start + 700, 200)

    return scene


FIRES = [
    *((parallel(), "PIN709"), (parallel(buffers=False, searched=True), "PIN709"), (sharded(again=True), "PIN710")),
    *((early, "PIN707"), (averaging(), "PIN708"), (float32, "PIN701"), (turned, "PIN702"), (by_math, "PIN703")),
    *((by_hand, "PIN703"), (unread, "PIN704"), (one_by_one, "PIN705"), (untried, "PIN706")),
]
NEARLY = [
    (parallel(buffers=False), "PIN709"),
    (parallel(model_first=True), "PIN709"),  # the model's own collective
    (sharded(again=False), "PIN710"),
    (micro_steps(), "PIN707"),  # of other networks: each pass has gradients of its own
    (micro_steps(sizes=(500_000,), passes=1), "PIN707"),
    (micro_steps(sizes=(500_000,), updates=3), "PIN707"),
    (micro_steps(sizes=(500_000,), updates=0), "PIN707"),
    (micro_steps(sizes=(512,)), "PIN707"),  # statistics of a normalization
    (micro_steps(sizes=(500_000,), forward=True), "PIN707"),  # tensor-parallel layers
    (micro_steps(sizes=(500_000,), called="allgather"), "PIN707"),
    (averaging(count=7), "PIN708"),
    (averaging(message=("Float", 500_000, 500_000, 2)), "PIN708"),
    (averaging(message=None), "PIN708"),  # of unknown size
    (averaging(called="allgather"), "PIN708"),
    (averaging(forward=True), "PIN708"),  # tensor-parallel layers
    (averaging(count=20, large=20), "PIN708"),
    (tf32, "PIN701"),
    (cublas_takes_others, "PIN701"),
    (halves, "PIN701"),
    (little_float32, "PIN701"),
    (hardly_turned, "PIN702"),
    (batch_norm, "PIN702"),
    (fused, "PIN703"),
    (of_matrices, "PIN703"),
    (something_between, "PIN703"),
    (one_product, "PIN703"),
    (hardly_unread, "PIN704"),
    (of_another_norm, "PIN705"),
    (few_distances, "PIN705"),
    (tried, "PIN706"),
    (deterministic, "PIN706"),
    (few_convolutions, "PIN706"),
    (of_other_sizes, "PIN706"),
]


@pytest.mark.parametrize(("scene", "rule"), FIRES)
def test_a_rule_finds_what_it_is_for(scene: Scene, rule: str) -> None:
    assert [finding.rule.id for finding in found(scene)] == [rule]


@pytest.mark.parametrize(("scene", "rule"), NEARLY)
def test_a_near_miss_is_not_found(scene: Scene, rule: str) -> None:
    assert rule not in {finding.rule.id for finding in found(scene)}


def test_every_rule_of_the_gpu_has_both() -> None:
    assert (
        {rule for _, rule in FIRES}
        == {rule for _, rule in NEARLY}
        == {rule.id for rule in RULES if rule.family == "gpu"}
    )


@pytest.mark.parametrize("major", [7, None])
def test_a_gpu_without_tf32_or_of_an_unknown_kind_is_not_told_to_use_it(major: int | None) -> None:
    assert not found(float32, major)


def test_of_float32_is_said_which_products_how_long_and_what_torch_does_by_default() -> None:
    (finding,) = found(float32)
    assert finding.evidence.text.startswith("matrix products: 1 kernel per step, 600 µs")
    assert finding.evidence.text.endswith("torch has TF32 off for these by default")
    by_the_op = busy(("aten::cudnn_convolution", FULL, 600), ("aten::mm", OF_TF32, 360))
    (finding,) = found(by_the_op)
    assert "convolutions: 1 kernel " in finding.evidence.text
    assert "so the program turned it off" in finding.evidence.text


def test_of_unread_gradients_is_said_whose_they_are() -> None:
    (finding,) = found(unread)
    assert finding.evidence.text == (
        "backward computes 2,457,600 gradient elements of a tensor that is not a parameter (32 x 3 x 160 x 160) and of "
        "2 parameters of Conv2d; nothing had read them when the last recorded step ended"
    )


def test_what_float32_saves_is_bounded_by_a_step_without_these_kernels() -> None:
    trace = read(float32)
    (finding,) = [finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN701"]
    assert finding.saving is None
    assert finding.most_ns is not None
    assert finding.most_ns == pytest.approx(600_000, rel=0.1)
    assert finding.severity == "high"
    analysis = analyse(trace)
    for text in (
        trace_to_text(analysis.profile, analysis.findings),
        Page(to_html([analysis])).text.replace("\N{NO-BREAK SPACE}", " "),
    ):
        assert f"{duration(finding.most_ns)} of the GPU's work could run faster" in text
        assert "saves at most" not in text
    (document,) = fitting(traces_to_json([(analysis.profile, analysis.findings)]))["traces"]
    (document,) = [finding for finding in document["findings"] if finding["rule"] == "PIN701"]
    assert (document["saving_ms"], document["at_most_ms"]) == (None, pytest.approx(0.6, rel=0.1))


def test_layouts_that_are_not_changed_save_their_time() -> None:
    (finding,) = found(turned)
    assert finding.evidence.text == (
        "1 kernel per step only for changes of layout around convolutions: 100 µs, 10 % of the GPU's work "
        "(nchwToNhwcKernel); pinprof does not predict what convolutions and normalizations gain from channels last"
    )
    assert finding.saving is not None
    assert finding.saving.saving_ns == pytest.approx(100_000, rel=0.1)


def test_attention_is_told_apart_by_who_takes_it_to_parts() -> None:
    (finding,) = found(by_math)
    assert finding.evidence.text.startswith(
        "1 attention per step by scaled_dot_product_attention's math, not fused: 3 kernels each, 600 µs together"
    )
    (finding,) = found(by_hand)
    assert finding.evidence.text.startswith(
        "1 attention per step by hand: product, softmax, product: 6 kernels each, 600 µs together"
    )
    assert finding.saving is None


def test_gradients_are_reduced_once_less_for_each_pass_but_the_last() -> None:
    (finding,) = found(early)
    assert "1 collective per pass, 3 per optimizer step" in finding.evidence.text
    assert len(finding.evidence.edits.removed_works) == 2 * STEPS
    assert finding.saving is not None
    assert finding.saving.saving_ns == pytest.approx(260e3, rel=0.2)


def test_small_reductions_become_one_with_the_work_of_all() -> None:
    (finding,) = found(averaging())
    assert finding.evidence.text == (
        "40 collectives per step reduce less than 1 MiB each, 156 KiB together: their starts alone are exposed for "
        "468 µs, and the host spends 624 µs on them as traced"
    )
    edits = finding.evidence.edits
    assert (len(edits.removed_works), len(edits.removed_ops)) == (39 * STEPS, 39 * STEPS)
    assert {more for _, more in edits.prolonged} == {4 * 160.0}  # four passes over 160 kB, at 1 kB per ns
    assert finding.saving is not None
    assert finding.saving.saving_ns == pytest.approx(39 * 12e3, rel=0.1)
