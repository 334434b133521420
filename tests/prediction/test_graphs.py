"""CUDA graphs in a replay: many launches become one, and what no graph holds stays."""

import pytest
from host_builder import host_profile
from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.details import details_of
from pinprof.prediction import Scenario, predict
from pinprof.prediction.graphs import (
    GRAPH_GAP_NS,
    GRAPH_LATENCY_NS,
    GRAPH_LAUNCH_NS,
    HANDED_ON_NS,
    SMALL_KERNEL_NS,
    capturable_ns,
    capture_of,
)
from pinprof.trace import Trace
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, HostProfile
from pinprof.trace.spans.phases import NODE_PREFIX, TO_WEIGHT

US = 1000.0
COUNT, KERNEL_US, EVERY_US = 30, 2, 30


def recorded(
    *,
    item_at: float | None = None,
    pause_us: float = 0,
    varying: bool = False,
    optimizer: bool = False,
    hook: bool = False,
    host: HostProfile | None = None,
) -> Trace:
    """Six steps, each of 30 ops of 28 us, one every 30 us from 10 us on, each with a kernel of 2 us.

    In the middle the host pauses or reads an item. From the pause on, the step is an `optimizer`'s. Or it pauses in a
    `hook` of the backward pass. `host` are samples.
    """
    builder = TraceBuilder()
    length = 1000 + pause_us
    for number in range(6):
        start = length * number
        builder.step(number, start, length - 10)
        for launch in range(COUNT):
            at = start + 10 + EVERY_US * launch + (pause_us if launch >= COUNT // 2 else 0)
            builder.op("aten::add", at, EVERY_US - 2)
            name = "other" if varying and number == 2 and launch == 3 else "gemm"
            builder.kernel(at + 24, KERNEL_US, launch=at + 20, name=name)
        if optimizer:
            builder.event("user_annotation", "Optimizer.step#Adam.step", start + 460 - 2, pause_us + 450)
        if hook:
            builder.op(TO_WEIGHT, start + 460, pause_us - 2)
            builder.op(TO_WEIGHT.removeprefix(NODE_PREFIX), start + 461, pause_us - 4)
        if item_at is not None:
            builder.op("aten::item", start + item_at, 1.8)
            builder.call("cudaStreamSynchronize", start + item_at + 0.2, 1)
        builder.op("aten::mul", start + length - 90, 75)
    if host is not None:
        builder.metadata[HOST_KEY] = to_builtins(host)
    return builder.read()


def with_sizes(*waits: int) -> Trace:
    """Three steps of 20 forward and 10 backward ops, each with a kernel; before these forward ops, nonzero() waits."""
    builder = TraceBuilder()
    for start in builder.steps(3, 4000):
        for launch in range(30):
            at = start + 10 + 100 * launch
            if launch in waits:
                builder.op("aten::nonzero", at - 30, 20)
                builder.call("cudaStreamSynchronize", at - 25, 10)
            builder.op("aten::mul" if launch < 20 else f"{NODE_PREFIX}MulBackward0", at, 40)
            builder.kernel(at + 24, KERNEL_US, launch=at + 20)
    return builder.read()


def predicted_us(trace: Trace, step_us: float, **options: object) -> float:
    return predict(trace, Scenario(**options), step_us / 1000).predicted_ns / US  # type: ignore[arg-type]


def test_one_launch_makes_all_kernels() -> None:
    """What is left: the host until the first launch and after the last, the launch, or the kernels with their gaps."""
    trace = recorded()
    chain = GRAPH_LATENCY_NS / US + COUNT * KERNEL_US + (COUNT - 1) * GRAPH_GAP_NS / US  # 99 us
    after = predicted_us(trace, 1000, cuda_graph="step")
    host = 30 + 100 + GRAPH_LAUNCH_NS / US  # until the first launch, from the last one to the end, and the graph's
    assert after == pytest.approx(max(chain, host), abs=15)


def test_a_pause_in_the_region_stays() -> None:
    short = predicted_us(recorded(), 1000, cuda_graph="step")
    long = predicted_us(recorded(pause_us=600), 1600, cuda_graph="step")
    assert long - short == pytest.approx(600, abs=60)


def test_python_of_a_network_is_in_the_graph() -> None:
    """The Python between two ops of a forward pass runs when the graph is captured."""
    short = predicted_us(recorded(), 1000, cuda_graph="step")
    assert predicted_us(recorded(pause_us=300), 1300, cuda_graph="step") == pytest.approx(short, abs=20)


def test_python_of_an_optimizer_is_in_the_graph_of_the_step() -> None:
    """It runs when the graph is captured; a fused optimizer runs it in each step."""
    trace = recorded(pause_us=600, optimizer=True)
    chain = GRAPH_LATENCY_NS / US + COUNT * KERNEL_US + (COUNT - 1) * GRAPH_GAP_NS / US
    host = 30 + 100 + GRAPH_LAUNCH_NS / US
    assert predicted_us(trace, 1600, cuda_graph="step") == pytest.approx(max(chain, host), abs=20)
    fused = predicted_us(trace, 1600, fused_optimizer=True)
    launches = 15 * EVERY_US  # of forward; those of the optimizer are one
    assert fused == pytest.approx(10 + launches + 600 + GRAPH_LAUNCH_NS / US + 100, abs=60)


def test_python_of_the_program_in_an_optimizers_step_is_in_no_graph() -> None:
    """Lightning runs callbacks in the closure that it gives to the optimizer's step: samples show them there."""
    step = "train.py:9:main > torch/optim/optimizer.py:517:wrapper > torch/optim/adam.py:247:Adam.step"
    host = host_profile((60, f"{step} > lib/lightning/closure.py:12:closure > train.py:30:Rates.on_step"), (40, step))
    without = predicted_us(recorded(pause_us=600, optimizer=True), 1600, cuda_graph="step")
    after = predicted_us(recorded(pause_us=600, optimizer=True, host=host), 1600, cuda_graph="step")
    assert after - without == pytest.approx(600, abs=60)


def with_adam(*, count: int = 40, more: str = "aten::add") -> Trace:
    """Six steps, each of an Adam of N parameters: its count of steps is read twice for each, then it divides."""
    builder = TraceBuilder()
    for start in builder.steps(6):
        builder.event("user_annotation", "Optimizer.step#Adam.step", start + 10, 900)
        for read in range(2 * count):
            builder.op("aten::item", start + 20 + 4 * read, 2)
        for op, at in ((more, 700), ("aten::_foreach_div_", 800)):
            builder.op(op, start + at, 20)
            builder.kernel(start + at + 12, 8, launch=start + at + 10, name="multi_tensor_apply_kernel")
    return builder.read()


@pytest.mark.parametrize("count", [40, 80])
def test_adam_in_a_graph_divides_each_parameter_by_itself(count: int) -> None:
    """For each of two divisions one small kernel per parameter, ten small ones, and once more the recorded 8 us."""
    after = predicted_us(with_adam(count=count), 1000, cuda_graph="step", host_speed=100.0)
    small = (2 * count + 10) * SMALL_KERNEL_NS / US
    assert after == pytest.approx(GRAPH_LATENCY_NS / US + 8 + GRAPH_GAP_NS / US + 2 * 8 + small, abs=12)


def test_what_adam_adds_in_a_graph_is_added_once_for_several_divisions() -> None:
    one, two = (
        capturable_ns(trace, range(len(trace.calls))) for trace in (with_adam(), with_adam(more="aten::_foreach_div_"))
    )
    assert len(two) == 2 * len(one) == 12
    assert sum(two.values()) - sum(one.values()) == pytest.approx(6 * 8 * US)  # the recorded 8 us of the second


@pytest.mark.slow
def test_adam_that_is_capturable_or_becomes_a_fused_one_adds_nothing() -> None:
    plain = GRAPH_LATENCY_NS / US + 2 * 8 + GRAPH_GAP_NS / US
    trace = with_adam(more="aten::_foreach_pow")
    assert predicted_us(trace, 1000, cuda_graph="step", host_speed=100.0) == pytest.approx(plain, abs=12)
    trace = with_adam()
    both = predicted_us(trace, 1000, cuda_graph="step", fused_optimizer=True, host_speed=100.0)
    assert both == pytest.approx(plain, abs=12)


def with_gradients(*, gradients: int) -> Trace:
    """Six steps: ten ops forward, ten backward, one of SGD; behind each op of backward, a part of the gradients."""
    builder = TraceBuilder()
    for start in builder.steps(6, 3000):
        for launch in range(20):
            at = start + 10 + 100 * launch
            builder.op("aten::mul" if launch < 10 else f"{NODE_PREFIX}MulBackward0", at, 40)
            builder.kernel(at + 24, KERNEL_US, launch=at + 20)
            for gradient in range(gradients // 10 if launch >= 10 else 0):
                builder.op(TO_WEIGHT, at + 42 + 8 * gradient, 4)
        builder.event("user_annotation", "Optimizer.step#SGD.step", start + 2400, 100)
        builder.op("aten::_foreach_add_", start + 2410, 60)
        builder.kernel(start + 2440, KERNEL_US, launch=start + 2430)
    return builder.read()


@pytest.mark.parametrize(("region", "handed_on_us"), [("model", 60 * HANDED_ON_NS / US), ("step", 0.0)])
def test_gradients_of_a_graph_are_handed_on_by_the_host(region: str, handed_on_us: float) -> None:
    """One by one to an optimizer outside of the graph; to one in the graph, not at all."""
    without = predicted_us(with_gradients(gradients=0), 3000, cuda_graph=region)
    after = predicted_us(with_gradients(gradients=60), 3000, cuda_graph=region)
    assert after - without == pytest.approx(handed_on_us, abs=40)


def test_a_wait_cuts_the_region_in_two_and_is_named() -> None:
    trace = recorded(item_at=308)
    capture = capture_of(trace, details_of(trace).syncs, "step")
    assert capture.launches == COUNT
    assert [(blocker.per_step, blocker.what) for blocker in capture.blockers] == [(1.0, "item")]
    cut = predicted_us(trace, 1000, cuda_graph="step")
    whole = predicted_us(trace, 1000, cuda_graph="step", drop_syncs=("all",))
    assert predicted_us(recorded(), 1000, cuda_graph="step") == pytest.approx(whole, abs=5)
    assert whole < cut < 300


@pytest.mark.parametrize(
    ("waits", "launches"),
    [
        pytest.param((), 30, id="none"),
        pytest.param((4,), 30, id="one, which may be of the loss"),
        pytest.param((4, 12), 4 + 2, id="from the first of two on: 4 of 20 forward, 2 of 10 backward"),
        pytest.param((18, 19), 18 + 9, id="two at the end"),
    ],
)
def test_a_graph_does_not_hold_work_whose_size_the_gpu_decides(waits: tuple[int, ...], launches: int) -> None:
    trace = with_sizes(*waits)
    syncs = details_of(trace).syncs
    assert capture_of(trace, syncs, "step").launches == launches
    assert capture_of(trace, syncs, "step", dropped=range(len(syncs.sites))).launches == 30  # sizes are known then


def test_kernels_that_differ_from_step_to_step_are_said() -> None:
    trace = recorded(varying=True)
    assert "the steps do not launch the same kernels" in [
        blocker.what for blocker in capture_of(trace, details_of(trace).syncs, "step").blockers
    ]
    same = recorded()
    assert capture_of(same, details_of(same).syncs, "step").blockers == ()
