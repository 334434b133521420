"""Rules of the host's launches, each with a scene that fires it and one that nearly does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.measurement.profile import measure
from pinprof.report.trace.json import to_json
from pinprof.rules import Findings, find, launches
from pinprof.trace import Trace, read_trace

Scene = Callable[[TraceBuilder, float], None]
"""Adds one step's events, of 1000 us, from the given time on."""
STEPS = 4


def launching(
    builder: TraceBuilder, start: float, *, count: int = 30, kernel: float = 2, begin: float = 10, every: float = 30
) -> None:
    """Ops of 28 us, each of which launches a kernel after 20 us; the last ends at 918 us."""
    for number in range(count):
        at = start + begin + every * number
        builder.op("aten::add", at, every - 2)
        builder.kernel(at + every - 6, kernel, launch=at + 20)


def small_kernels(builder: TraceBuilder, start: float) -> None:
    launching(builder, start)
    builder.op("aten::mul", start + 910, 75)


def large_kernels(builder: TraceBuilder, start: float) -> None:
    launching(builder, start, kernel=30)
    builder.op("aten::mul", start + 910, 75)


def looping_optimizer(builder: TraceBuilder, start: float) -> None:
    small_kernels(builder, start)
    builder.event("user_annotation", "Optimizer.step#Adam.step", start + 205, 700)  # launches 6 to 29


def fused_optimizer(builder: TraceBuilder, start: float) -> None:
    small_kernels(builder, start)
    builder.event("user_annotation", "Optimizer.step#Adam.step", start + 805, 100)


def pausing(builder: TraceBuilder, start: float) -> None:
    launching(builder, start, count=2, begin=250)
    builder.op("aten::mul", start + 700, 285)
    builder.kernel(start + 720, 265, launch=start + 710)


def pausing_beside_a_kernel(builder: TraceBuilder, start: float) -> None:
    pausing(builder, start)
    builder.kernel(start + 310, 445, launch=start + 300)
    builder.kernel(start + 985, 270, launch=start + 715)  # until the next step's first


def op_on_the_host(builder: TraceBuilder, start: float) -> None:
    launching(builder, start, count=2, begin=250)
    builder.op("aten::sort", start + 310, 600)
    builder.op("aten::mul", start + 911, 74)
    builder.kernel(start + 930, 40, launch=start + 915)


def long_op_that_launches(builder: TraceBuilder, start: float) -> None:
    op_on_the_host(builder, start)
    builder.kernel(start + 420, 450, launch=start + 410)


def read(scene: Scene, folder: Path) -> Trace:
    builder = TraceBuilder()
    for number in range(STEPS):
        builder.step(number, 1000 * number, 990)
        scene(builder, 1000 * number)
    return read_trace(builder.write(folder / "trace.json"))


def found(scene: Scene, folder: Path) -> Findings:
    trace = read(scene, folder)
    return find(measure(trace), trace)


FIRES = [
    (small_kernels, "PIN601"),
    (looping_optimizer, "PIN602"),
    (pausing, "PIN603"),
    (op_on_the_host, "PIN604"),
]
NEARLY = [
    (large_kernels, "PIN601"),
    (pausing, "PIN601"),
    (op_on_the_host, "PIN601"),
    (fused_optimizer, "PIN602"),
    (pausing_beside_a_kernel, "PIN603"),
    (small_kernels, "PIN603"),
    (long_op_that_launches, "PIN604"),
]


@pytest.mark.parametrize(("scene", "rule"), FIRES)
def test_a_rule_finds_what_it_is_for(tmp_path: Path, scene: Scene, rule: str) -> None:
    (finding,) = [each for each in found(scene, tmp_path) if each.rule.id == rule]
    assert finding.saving is not None
    assert finding.saving.saving_ns > 0


@pytest.mark.parametrize(("scene", "rule"), NEARLY)
def test_a_near_miss_is_not_found(tmp_path: Path, scene: Scene, rule: str) -> None:
    assert rule not in {each.rule.id for each in found(scene, tmp_path)}


def test_every_rule_of_launches_has_both() -> None:
    assert {rule for _, rule in FIRES} == {rule for _, rule in NEARLY} == {rule.id for rule in launches.RULES}


def test_launches_are_counted_by_phase(tmp_path: Path) -> None:
    (finding,) = [each for each in found(small_kernels, tmp_path) if each.rule.id == "PIN601"]
    assert finding.evidence.text.startswith(
        "30 launches per step (forward 30), one each 30.0 µs of the host, as traced; half of the kernels take less "
        "than 2.00 µs; the GPU is idle for "
    )
    assert "forward 6, optimizer 24)" in found(looping_optimizer, tmp_path)[0].evidence.text


def test_backward_is_a_phase_of_its_own_and_what_follows_it_is_other(tmp_path: Path) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        launching(builder, start, count=4, begin=30)
        for number in range(5):
            at = start + 200 + 30 * number
            builder.op("autograd::engine::evaluate_function: MmBackward0", at, 28, thread=AUTOGRAD)
            builder.kernel(at + 24, 2, launch=at + 10, thread=AUTOGRAD)
        launching(builder, start, count=3, begin=400)
        builder.op("aten::mul", start + 490, 490)

    texts = [each.evidence.text for each in found(scene, tmp_path) if each.rule.id == "PIN601"]
    assert all("(forward 4, backward 5, other 3)" in text for text in texts)
    assert len(texts) == 1


def test_what_a_graph_cannot_hold_is_named(tmp_path: Path) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        small_kernels(builder, start)
        builder.op("aten::item", start + 308, 2)
        builder.call("cudaStreamSynchronize", start + 308.5, 1)

    (finding,) = [each for each in found(scene, tmp_path) if each.rule.id == "PIN601"]
    assert finding.evidence.text.endswith("What one CUDA graph of the step cannot hold: item")


def test_the_report_tells_how_kernels_are_launched(tmp_path: Path) -> None:
    trace = read(looping_optimizer, tmp_path)
    (told,) = json.loads(to_json([(measure(trace), Findings())]))["traces"]
    launched = told["launches"]
    assert (launched["per_step"], launched["median_kernel_us"], launched["host_us_per_launch"]) == (30, 2, 30)
    assert [(each["phase"], each["launches"], each["kernel_ms"]) for each in launched["phases"]] == [
        ("forward", 6, 0.012),
        ("optimizer", 24, 0.048),
    ]
