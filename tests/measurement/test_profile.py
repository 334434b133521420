from dataclasses import asdict

import pytest
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.replay.calibration import HOST_SHARE
from pinprof.trace.metadata.info import Made, MadeLoader


def profile_of(builder: TraceBuilder) -> Profile:
    return measure(builder.read())


def steps(builder: TraceBuilder, *, busy: float, period: float = 1000, count: int = 4) -> TraceBuilder:
    for number in range(count):
        builder.step(number, period * number, period - 10)
        builder.kernel(period * number + 20, busy, launch=period * number + 10)
    return builder


def missing_of(profile: Profile) -> list[str]:
    return [doubt.what for doubt in profile.doubts]


def test_a_measured_step_is_taken_as_it_is() -> None:
    builder = steps(TraceBuilder(), busy=300)
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": 0.7, "p10_ms": 0.6, "p90_ms": 0.9}}
    step = profile_of(builder).estimate
    assert (step.step_ns, step.source, step.range_ns) == (700_000, "measured", (600_000, 900_000))


def test_an_inflated_step_is_not_given_as_the_truth_but_corrected_and_bounded() -> None:
    builder = steps(TraceBuilder(), busy=300)
    for at in range(30, 4000):
        if at % 1000 < 900 and at % 3 == 0:
            builder.op("aten::add", at, 1)  # 290 ops in each step
    profile = profile_of(builder)
    step = profile.estimate
    assert step.source == "estimated"
    assert step.range_ns is not None
    cost = HOST_SHARE["plain"] * 990_000  # of the 300 ops of a step
    assert step.step_ns == pytest.approx(990_000 - cost, rel=0.02)
    assert step.range_ns[0] == pytest.approx(0.9 * (990_000 - 1.1 * cost), rel=0.02)
    assert step.range_ns[1] == pytest.approx(1.1 * (990_000 - 0.9 * cost), rel=0.02)
    assert profile.bound == "host"
    assert "the step without profiler" in missing_of(profile)


def test_workers_may_not_keep_up_without_the_profiler() -> None:
    builder = steps(TraceBuilder(), busy=300)
    for at in range(30, 4000, 3):
        builder.op("aten::add", at, 1)
    for number in range(1, 4):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        builder.event("user_annotation", name, 1000 * number - 20, 5)
    profile = profile_of(builder)
    assert profile.estimate.range_ns is not None
    assert profile.estimate.range_ns[1] == pytest.approx(1.03 * 1_000_000, rel=0.01)
    assert any("may not keep up" in doubt.effect for doubt in profile.doubts)


def test_a_step_that_waits_for_batches_is_bound_by_the_input() -> None:
    builder = steps(TraceBuilder(), busy=300)
    for number in range(1, 4):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        builder.event("user_annotation", name, 1000 * number - 600, 590)
    assert profile_of(builder).bound == "input"


def test_what_the_trace_lacks_is_said() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 300, launch=10)
    builder.activity("kernel", "lost", 400, 10, correlation=999, device=0, stream=7)
    builder.event("cpu_op", "broken", 10, -5)
    builder.function("train.py(7): step", 0, 900)
    assert missing_of(profile_of(builder)) == [
        "no launch of 1 of 2 GPU activities",
        "1 unusable event (1 negative duration)",
        "no step marks",
        "the step without profiler",
    ]


@pytest.mark.parametrize("gpu", [True, False])
def test_a_trace_of_one_side_alone_is_measured(gpu: bool) -> None:
    builder = TraceBuilder()
    if gpu:
        builder.activity("kernel", "k", 0, 10, correlation=0, device=0, stream=7)
    else:
        builder.op("aten::add", 0, 10)
    profile = profile_of(builder)
    assert profile.span_ns == 10_000
    assert ("no GPU activities" in missing_of(profile)) is not gpu
    assert ("no runtime calls" in missing_of(profile)) is gpu


@pytest.mark.parametrize(("yields_tensors", "pinned"), [(True, False), (False, None)])
def test_small_copies_alone_are_batches_where_a_loader_yields_tensors(
    *, yields_tensors: bool, pinned: bool | None
) -> None:
    builder = steps(TraceBuilder(), busy=300)
    builder.copy("HtoD (Pageable -> Device)", 700, 1, launch=690, size=2048)
    assert profile_of(builder).loader.pinned is None
    loader = MadeLoader(2, persistent_workers=False, drawn=5, yields_tensors=yields_tensors)
    builder.metadata["pinprof"] = {"made": asdict(Made((loader,)))}
    assert profile_of(builder).loader.pinned is pinned


@pytest.mark.parametrize(("memory", "pinned"), [("Pinned", True), ("Pageable", False), ("Host", None)])
def test_the_memory_of_batches_is_told(memory: str, pinned: bool | None) -> None:
    builder = steps(TraceBuilder(), busy=300)
    builder.copy(f"HtoD ({memory} -> Device)", 500, 100, launch=450, call=120)
    builder.copy("HtoD (Pageable -> Device)", 700, 1, launch=690, size=8)  # a label
    assert profile_of(builder).loader.pinned is pinned
