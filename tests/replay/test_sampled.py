"""The host's time in optimizers, as samples without the profiler tell it."""

import pytest
from host_builder import host_profile
from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.details import details_of
from pinprof.prediction import Scenario, predict
from pinprof.prediction.graphs import GRAPH_LAUNCH_NS
from pinprof.replay import Replay
from pinprof.replay.calibration import MIN_OPTIMIZER_SAMPLES, runs_in_optimizers, sampled_ns
from pinprof.trace import Trace
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, HostProfile
from pinprof.trace.spans.phases import OPTIMIZER, phase_of_calls

WRAPPED = "train.py:9:main > torch/optim/optimizer.py:517:Optimizer.profile_hook_step.<locals>.wrapper"
ADAM = f"{WRAPPED} > torch/optim/optimizer.py:81:_use_grad > torch/optim/adam.py:247:Adam.step > "
NETWORK = "train.py:7:main > torch/nn/linear.py:5:forward"


@pytest.mark.parametrize(
    ("stack", "is_counted"),
    [
        (f"{ADAM}torch/optim/adam.py:520:_single_tensor_adam", True),
        ("train.py:9:main > torch\\optim\\optimizer.py:5:wrapper > torch\\optim\\adam.py:9:step", True),
        (f"{WRAPPED} > torch/utils/_contextlib.py:9:decorate_context > lib/muon.py:5:step > lib/muon.py:9:f", True),
        (f"{WRAPPED} > train.py:40:Mine.step > torch/_tensor.py:9:mul", True),
        (f"{ADAM}train.py:12:closure > torch/nn/linear.py:5:forward", False),
        (f"{ADAM}lib/lightning/closure.py:12:closure > torch/autograd/graph.py:8:_engine_run_backward", False),
        ("train.py:9:main > torch/optim/lr_scheduler.py:5:LRScheduler.step", False),
        ("train.py:9:main > torch/optim/optimizer.py:5:Optimizer.zero_grad", False),
        (NETWORK, False),
    ],
)
def test_samples_are_the_optimizers_by_their_stacks(stack: str, *, is_counted: bool) -> None:
    """Of 100 samples 25: a quarter of a step of 1 ms."""
    profile = host_profile((25, stack), (75, NETWORK), steps=1000)
    assert sampled_ns(profile) == (pytest.approx(250_000) if is_counted else None)


CALLBACK = f"{ADAM}lib/lightning/closure.py:12:closure > train.py:30:Rates.on_before_optimizer_step"
LISTS = "torch/nn/modules/module.py:5:Module.named_parameters"


@pytest.mark.parametrize(
    ("stack", "runs"),
    [
        (CALLBACK, True),
        (f"{CALLBACK} > {LISTS}", True),
        (f"{WRAPPED} > train.py:50:hook", True),
        (f"{WRAPPED} > torch/utils/_contextlib.py:9:decorate_context > muon.py:5:Muon.step > muon.py:9:f", False),
        (f"{CALLBACK} > torch/nn/modules/module.py:5:Module._call_impl > train.py:3:forward", False),
        (f"{CALLBACK} > torch/autograd/__init__.py:5:backward", False),
        (f"{ADAM}torch/optim/adam.py:520:_single_tensor_adam", False),
        (NETWORK, False),
    ],
)
def test_the_programs_own_code_in_steps_of_optimizers_is_told_by_stacks(stack: str, *, runs: bool) -> None:
    assert runs_in_optimizers(host_profile((25, stack), (75, NETWORK))) is runs
    assert not runs_in_optimizers(host_profile((9, stack), (91, NETWORK)))


def test_few_samples_tell_nothing() -> None:
    stack = f"{ADAM}torch/optim/adam.py:520:f"
    assert sampled_ns(None) is None
    assert sampled_ns(HostProfile(10.0, 0, 0, 0.0)) is None
    assert sampled_ns(host_profile((MIN_OPTIMIZER_SAMPLES - 1, stack), (50, NETWORK))) is None
    assert sampled_ns(host_profile((MIN_OPTIMIZER_SAMPLES, stack), (50, NETWORK))) is not None


def recorded(in_optimizer: int | None) -> Trace:
    """Six steps of 1000 us, 700 without the profiler: 30 ops, half in the optimizer, as are N of 100 samples."""
    builder = TraceBuilder()
    for start in builder.steps(6):
        builder.event("user_annotation", "Optimizer.step#Adam.step", start + 458, 452)
        for at in range(start + 10, start + 910, 30):
            builder.op("aten::add", at, 28)
            builder.kernel(at + 24, 2, launch=at + 20)
        builder.op("aten::mul", start + 910, 75)
    times = dict.fromkeys(("mean_ms", "median_ms", "p10_ms", "p90_ms"), 0.7)
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "clock": "host", **times}}
    if in_optimizer is not None:
        stacks = (in_optimizer, f"{ADAM}torch/optim/adam.py:520:f"), (100 - in_optimizer, NETWORK)
        builder.metadata[HOST_KEY] = to_builtins(host_profile(*stacks, steps=1429))
    return builder.read()


@pytest.mark.parametrize("in_optimizer", [30, 45])
def test_the_optimizer_takes_what_the_samples_say_and_the_step_what_was_measured(in_optimizer: int) -> None:
    details = details_of(recorded(in_optimizer))
    replay = Replay([details])
    (program,) = replay.programs
    inside = phase_of_calls(details.trace)[[call.row for call in program.calls]] == OPTIMIZER
    host = replay.expected.cost.before_ns(program.host) + program.host.own
    assert host[inside].sum() / replay.steps == pytest.approx(in_optimizer * 7_000, rel=0.1)
    assert replay.before.step_ns == pytest.approx(700_000, rel=0.02)


def test_a_fused_optimizer_saves_what_the_samples_found_in_it() -> None:
    """All but what the host does before its first launch, and the launch that is left."""
    for in_optimizer in (30, 45):
        trace = recorded(in_optimizer)
        predicted = predict(trace, Scenario(fused_optimizer=True))
        saved_us = (predicted.baseline_ns - predicted.predicted_ns) / 1000
        assert saved_us == pytest.approx(in_optimizer * 7 * 14 / 15 - GRAPH_LAUNCH_NS / 1000, abs=25)


def test_without_samples_an_op_costs_the_same_everywhere() -> None:
    replay = Replay([details_of(recorded(None))])
    assert not any(call.cost_ns for call in replay.programs[0].calls)
    sampled = Replay([details_of(recorded(30))])
    assert any(call.cost_ns for call in sampled.programs[0].calls)
    without = Replay(sampled.ranks, 700_000)
    assert not any(call.cost_ns for call in without.programs[0].calls)
    assert sampled.at(700_000).programs == without.programs
