import pytest
from trace_builder import TraceBuilder

from pinprof.analyses.steps import StepTimes, measure_steps


def steps_of(builder: TraceBuilder) -> StepTimes:
    return measure_steps(builder.read())


def test_a_host_that_runs_ahead_issues_steps_faster_than_the_gpu_does_them() -> None:
    builder = TraceBuilder()
    for number, start in enumerate(builder.steps(4, 100)):
        builder.kernel(50 + 1000 * number, 1000, launch=10 + start)
    times = steps_of(builder)
    assert times.host_ns == 100_000
    assert times.device_ns == 1_000_000
    assert times.traced_ns == 1_000_000
    assert times.busy_ns == 1_000_000
    assert times.count == 4


def test_the_gpu_has_no_pace_where_the_work_of_the_first_step_ends_last() -> None:
    builder = TraceBuilder()
    for number, start in enumerate(builder.steps(4)):
        builder.kernel(50 + start, 100 if number else 9000, launch=10 + start)
    times = steps_of(builder)
    assert times.device_ns is None
    assert times.traced_ns == times.host_ns == 1_000_000


def test_a_late_host_sets_the_pace_of_both() -> None:
    builder = TraceBuilder()
    for start in builder.steps(4, 500):
        builder.kernel(20 + start, 100, launch=10 + start)
    times = steps_of(builder)
    assert times.host_ns == times.device_ns == times.traced_ns == 500_000
    assert times.busy_ns == 100_000


def test_a_step_that_is_cut_off_does_not_count() -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100)  # only one of four kernels was recorded
    builder.kernel(20, 10, launch=10)
    for number in (1, 2, 3):
        builder.step(number, 1000 * number, 1000)
        for kernel in range(4):
            builder.kernel(20 + 1000 * number + 100 * kernel, 50, launch=10 + 1000 * number + 100 * kernel)
    times = steps_of(builder)
    assert times.count == 3
    assert times.host_ns == times.device_ns == 1_000_000


def test_work_left_over_from_before_the_recording_belongs_to_no_step() -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "backlog", 0, 5000, correlation=0, device=0, stream=7)
    for number, start in enumerate(builder.steps(3, 100)):
        builder.kernel(5000 + 1000 * number, 1000, launch=10 + start)
    times = steps_of(builder)
    assert times.device_ns == times.busy_ns == 1_000_000


def test_a_trace_of_the_gpu_alone_has_no_host_time() -> None:
    builder = TraceBuilder()
    for number in range(40):
        builder.activity("kernel", f"sgd_{number % 10}", 100 * number, 90, correlation=0, device=0, stream=7)
    times = steps_of(builder)
    assert times.source == "repetition"
    assert times.host_ns is None
    assert times.device_ns == pytest.approx(1_000_000)
