"""Steps with something else in them do not make the step of the others."""

from pathlib import Path

import pytest
from trace_builder import TraceBuilder

from pinprof.details import Details, details_of
from pinprof.measurement.profile import measure
from pinprof.trace import read_trace


def steps_of(*lengths: float, work: tuple[float, ...] = ()) -> TraceBuilder:
    """Return a trace of steps of so many µs; the GPU works for 100 µs of each, or as `work` says."""
    builder, start = TraceBuilder(), 0.0
    for number, length in enumerate(lengths):
        builder.step(number, start, length - 10)
        busy = work[number] if work else 100.0
        builder.kernel(start + 20, busy, launch=start + 10)
        start += length
    return builder


def details(builder: TraceBuilder, folder: Path) -> Details:
    return details_of(read_trace(builder.write(folder / "trace.json")))


def test_a_long_step_among_usual_ones_is_left_out(tmp_path: Path) -> None:
    found = details(steps_of(1000, 1010, 9000, 990, 1000, 1000), tmp_path)
    (long,) = found.irregular
    assert (long.step, long.time_ns, long.reason) == (2, 9_000_000, "host")
    assert found.trace.steps.complete.tolist() == [True, True, False, True, True, True]
    assert found.steps.count == 5
    assert found.steps.host_ns == pytest.approx(1_000_000, rel=0.01)
    assert found.steps.device_ns == pytest.approx(1_000_000, rel=0.01)


def test_a_step_with_more_work_of_the_gpu_says_so(tmp_path: Path) -> None:
    work = (500.0, 500.0, 500.0, 8500.0, 500.0, 500.0)
    found = details(steps_of(1000, 1000, 1000, 9000, 1000, 1000, work=work), tmp_path)
    (long,) = found.irregular
    assert (long.step, long.reason) == (3, "gpu")


@pytest.mark.parametrize(
    "lengths",
    [
        (1000, 1000, 1400, 1000, 1000, 1000),  # a log line
        (1000, 3000, 1000, 3000, 1000, 3000, 1000),  # of two kinds
        (500, 900, 1700, 3000, 4500, 900),  # no usual step
        (1000, 9000),  # too few
    ],
)
def test_steps_that_only_scatter_all_count(lengths: tuple[float, ...], tmp_path: Path) -> None:
    found = details(steps_of(*lengths), tmp_path)
    assert found.irregular == ()
    assert found.trace.steps.complete.all()


def test_input_that_comes_in_bursts_belongs_to_the_steps(tmp_path: Path) -> None:
    builder = steps_of(1000, 1000, 9000, 1000, 1000, 1000)
    builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 2200, 8000)
    assert details(builder, tmp_path).irregular == ()


def test_the_report_tells_of_it(tmp_path: Path) -> None:
    profile = measure(read_trace(steps_of(1000, 1010, 9000, 990, 1000, 1000).write(tmp_path / "trace.json")))
    (doubt,) = (doubt for doubt in profile.doubts if doubt.check == "irregular_steps")
    assert doubt.what == "1 step of 6 unlike the others (step #2 takes 9.00 ms where 1.00 ms are usual)"
    assert "adds 1.33 ms per step to the mean" in doubt.effect
    assert doubt.level == "unsure"
    assert profile.steps.traced_ns == pytest.approx(1_000_000, rel=0.01)
