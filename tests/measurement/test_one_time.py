"""What a program does only once is named, and neither a step nor a saving."""

from collections.abc import Callable

import pytest
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse

STEP_US = 20_000
Part = Callable[[TraceBuilder], None]


def steps(count: int = 1, *, first: Part | None = None) -> TraceBuilder:
    """Return steps of 20 kernels of 10 us, launched every 100 us; `first` adds to the first step, from 5 ms on."""
    builder = TraceBuilder()
    for step in range(count):
        builder.step(step + 1, STEP_US * step, STEP_US - 10)
        for number in range(20):
            time = STEP_US * step + 100 + 100 * number
            builder.kernel(time + 10, 10, launch=time)
    if first is not None:
        first(builder)
    return builder


def slow_launch(builder: TraceBuilder, *, name: str = "add", at: float = 5_000, us: float = 12_000) -> None:
    correlation = builder.call("hipLaunchKernel", at, us)
    builder.activity("kernel", name, at + us + 5, 10, correlation=correlation, device=0, stream=7)


def slow_launch_of_a_known_kernel(builder: TraceBuilder) -> None:
    slow_launch(builder, name="gemm")


def many_first_launches(builder: TraceBuilder) -> None:
    for number in range(20):
        slow_launch(builder, name=f"k{number}", at=5_000 + 500 * number, us=400)


def start(builder: TraceBuilder) -> None:
    builder.call("cudaDeviceGetStreamPriorityRange", 20, 70)
    builder.events[-1]["dur"] = 3_000  # before any launch
    builder.events[-1]["ts"] -= 4_000
    builder.call("cudaFree", 5_000, 12_000)


def loading(builder: TraceBuilder) -> None:
    builder.call("cuModuleLoadData", 5_000, 6_000)
    builder.event("overhead", "Runtime Triggered Module Loading", 12_000, 4_000)


def capture(builder: TraceBuilder) -> None:
    builder.call("cudaStreamBeginCapture", 5_000, 5)
    builder.call("cudaLaunchKernel", 6_000, 5)
    builder.call("cudaStreamEndCapture", 14_000, 5)


def marked_capture(builder: TraceBuilder) -> None:
    builder.event("user_annotation", "capture_32_DECODE", 5_000, 10_000)
    capture(builder)


def analysis(builder: TraceBuilder) -> Analysis:
    return analyse(builder.read())


def one_time(analysed: Analysis) -> str | None:
    doubt = analysed.profile.doubt("one_time")
    return doubt.what if doubt else None


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (slow_launch, "12.0 ms (60 %) of the recorded steps is one-time work (first launches of kernels)"),
        (many_first_launches, "8.00 ms (40 %) of the recorded steps is one-time work (first launches of kernels)"),
        (start, "12.0 ms (60 %) of the recorded steps is one-time work (CUDA's start)"),
        (loading, "10.0 ms (50 %) of the recorded steps is one-time work (loading of modules)"),
        (capture, "9.01 ms (45 %) of the recorded steps is one-time work (the capture of graphs)"),
    ],
)
def test_one_time_work_is_named_and_saves_nothing(part: Part, what: str) -> None:
    analysed = analysis(steps(first=part))
    assert one_time(analysed) == what
    assert analysed.findings.verdict.cause is None
    assert [finding.rule.id for finding in analysed.findings if finding.rule.id.startswith("PIN6")] == []
    assert all(finding.saving is None for finding in analysed.findings)


def test_a_server_that_captures_is_told_to_be_recorded_later() -> None:
    analysed = analysis(steps(first=marked_capture))
    doubt = analysed.profile.doubt("one_time")
    assert doubt is not None
    assert doubt.what == "10.0 ms (50 %) of the recorded steps is one-time work (the capture of graphs)"
    assert doubt.remedy == "record batches after the server has started"


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(steps, id="nothing is done once"),
        pytest.param(lambda: steps(first=slow_launch_of_a_known_kernel), id="a slow launch of a known kernel"),
        pytest.param(lambda: steps(first=lambda builder: slow_launch(builder, us=1_500)), id="7 % of the step"),
        pytest.param(lambda: steps(8, first=slow_launch), id="once in eight steps"),
    ],
)
def test_a_near_miss_is_no_one_time_work(builder: Callable[[], TraceBuilder]) -> None:
    assert one_time(analysis(builder())) is None


def test_graphs_that_are_captured_again_are_not_done_once() -> None:
    builder = steps(6)
    for step in range(6):
        at = STEP_US * step
        builder.call("cudaStreamBeginCapture", at + 5_000, 5)
        builder.call("cudaStreamEndCapture", at + 12_000, 5)
        correlation = builder.call("cudaGraphLaunch", at + 13_000, 5)
        builder.activity("kernel", "gemm", at + 13_010, 10, correlation=correlation, device=0, stream=7)
    analysed = analysis(builder)
    assert one_time(analysed) is None
    assert "PIN605" in {finding.rule.id for finding in analysed.findings}
