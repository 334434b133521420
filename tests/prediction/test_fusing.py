"""Fused optimizers in a replay: which calls become one launch, and what is left of their kernels."""

import pytest
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.details import details_of
from pinprof.prediction import Scenario, predict
from pinprof.prediction.graphs import (
    EMPTY_KERNEL_NS,
    FUSED_TRAFFIC,
    GRAPH_LAUNCH_NS,
    calls_to_fuse,
    capture_of,
    fused_ns,
)
from pinprof.trace import Trace
from pinprof.trace.spans.phases import optimizer_steps, phase_of_calls

US = 1000.0
STEPS, STEP_US = 6, 1000
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"


def launching(builder: TraceBuilder, start: float, count: int, *, kernel: float = 2, op: str = "aten::add") -> None:
    """Ops of 28 us, one every 30; each launches a kernel after 20."""
    for at in (start + 30 * number for number in range(count)):
        builder.op(op, at, 28)
        builder.kernel(at + 24, kernel, launch=at + 20)


def mark(builder: TraceBuilder, start: float, duration: float, name: str = "step#Adam.step") -> None:
    builder.event("user_annotation", f"Optimizer.{name}", start, duration)


def saved_us(trace: Trace, step_us: float = STEP_US, **options: object) -> float:
    """Return what a fused optimizer saves by prediction."""
    scenario = Scenario(fused_optimizer=True, **options)  # type: ignore[arg-type]
    return (step_us * US - predict(trace, scenario, step_us / 1000).predicted_ns) / US


def two_optimizers(between: int) -> Trace:
    """In each step an optimizer of 8 launches, a network's forward of N launches, and another optimizer of 8."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS, STEP_US):
        for begin in (start + 8, start + 248 + 30 * between):
            mark(builder, begin, 241)
        launching(builder, start + 10, 16 + between)
        builder.op("aten::mul", start + 10 + 30 * (16 + between), STEP_US - 30 - 30 * (16 + between))
    return builder.read()


def test_gradients_that_are_set_to_zero_are_not_in_a_fused_optimizer() -> None:
    builder = TraceBuilder()
    for start in builder.steps(STEPS, STEP_US):
        mark(builder, start + 8, 121, "zero_grad#Adam.zero_grad")
        launching(builder, start + 10, 30)
        mark(builder, start + 608, 302)
        builder.op("aten::mul", start + 910, 75)
    trace = builder.read()
    assert len(calls_to_fuse(trace, details_of(trace).syncs)) == 10 * STEPS
    assert saved_us(trace) == pytest.approx(9 * 30 - GRAPH_LAUNCH_NS / US, abs=12)


def test_forward_and_backward_that_a_closure_runs_are_not_the_optimizers() -> None:
    """Lightning gives the optimizer's step a closure, so that torch marks all of a training step as the optimizer's."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS, STEP_US):
        mark(builder, start + 5, 900)
        launching(builder, start + 10, 10)
        for number in range(5):
            at = start + 310 + 30 * number
            builder.op(BACKWARD, at, 28, thread=AUTOGRAD)
            builder.kernel(at + 24, 2, launch=at + 20, thread=AUTOGRAD)
        launching(builder, start + 460, 15)
        builder.op("aten::mul", start + 910, 75)
    trace = builder.read()
    assert optimizer_steps(trace).start.tolist()[0] - trace.steps.start_ns[0] == (310 + 4 * 30 + 20 + 2) * US
    assert [int((phase_of_calls(trace) == phase).sum()) // STEPS for phase in range(4)] == [10, 5, 15, 0]
    assert saved_us(trace) == pytest.approx(14 * 30 - GRAPH_LAUNCH_NS / US, abs=12)


@pytest.mark.parametrize(
    ("name", "share"), [("step#Adam.step", 7 / 18), ("step#AdamW.step", 7 / 20), ("step#SGD.step", None)]
)
def test_a_fused_adam_reads_and_writes_the_memory_once(name: str, share: float | None) -> None:
    """Of 20 kernels of 37 us 36 us each are for their bytes; nothing is known of other optimizers."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS, STEP_US):
        mark(builder, start + 5, 600, name)
        for number in range(20):
            builder.op("aten::_foreach_mul_", start + 10 + 10 * number, 9)
            builder.kernel(start + 20 + 40 * number, 37, launch=start + 15 + 10 * number)
    trace = builder.read()
    left = fused_ns(trace, calls_to_fuse(trace, details_of(trace).syncs))
    assert list(left.values()) == ([pytest.approx(36 * share * US)] * 20 * STEPS if share else [])
    after_us = 20 * 36 * share if share else 20 * 37
    assert STEP_US - saved_us(trace, host_speed=100.0) == pytest.approx(after_us, abs=25)
    assert FUSED_TRAFFIC.get("Adam") == 7 / 18
    assert EMPTY_KERNEL_NS == US


def test_a_graph_of_the_network_does_not_hold_the_optimizer_between_two_passes() -> None:
    trace = two_optimizers(14)
    assert capture_of(trace, details_of(trace).syncs, "model").launches == 14
    assert capture_of(trace, details_of(trace).syncs, "optimizer").launches == 16
    assert capture_of(trace, details_of(trace).syncs, "step").launches == 30
