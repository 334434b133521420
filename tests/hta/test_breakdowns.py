"""What `pinprof report --hta` adds."""

from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from fitting import fitting
from recordings import TRACES
from trace_builder import COMPUTE, SIDE, TraceBuilder

from pinprof.documents.report import Hta, HtaKernel, HtaLaunches, HtaStream, HtaTimes
from pinprof.hta.breakdowns import Breakdown, breakdown_of
from pinprof.report.trace.hta import hta_to_text


def two_steps() -> TraceBuilder:
    """Return a trace; HTA looks at its first step: 40 µs of kernel, 10 µs idle, 20 µs of copy, 30 µs of kernel.

    The first kernel was launched 5 µs before it began; the second one when the copy ended, by a call of 60 µs.
    """
    builder = TraceBuilder()
    builder.step(0, 0, 300)
    builder.step(1, 300, 300)
    builder.kernel(10, 40, launch=3)
    builder.copy("HtoD (Pinned -> Device)", 60, 20, launch=55)
    correlation = builder.call("cudaLaunchKernel", 75, 60)
    builder.activity("kernel", "reduce", 80, 30.5, correlation=correlation, device=0, stream=COMPUTE)
    builder.kernel(400, 40, launch=310)
    return builder


def test_figures_are_those_of_hta_to_the_nanosecond(tmp_path: Path) -> None:
    rank, times = breakdown_of(str(two_steps().write(tmp_path / "rank3.json")))
    assert rank == 3
    assert times.times == HtaTimes(0.01, 0.0705, 0.02, 0.1005)
    assert times.overlapped is None
    assert times.kernels == [
        HtaKernel("gemm", "COMPUTATION", 0.04, 0.04, 0.04),
        HtaKernel("reduce", "COMPUTATION", 0.0305, 0.0305, 0.0305),
        HtaKernel("Memcpy HtoD (Pinned -> Device)", "MEMORY", 0.02, 0.02, 0.02),
    ]
    assert times.launches == HtaLaunches(3, longer_than_work=1, slow=1, late=0)
    (stream,) = times.streams
    assert (stream.stream, stream.host_wait_ms, stream.kernel_wait_ms, stream.longest_queue) == (COMPUTE, 0.01, 0, 1)
    assert times.failed == []


def test_what_hta_cannot_tell_is_said_and_the_rest_is_told(tmp_path: Path) -> None:
    builder = two_steps()
    correlation = builder.call("cudaLaunchKernel", 4, 2)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    builder.activity("kernel", name, 30, 40, correlation=correlation, device=0, stream=SIDE)
    assert breakdown_of(str(builder.write(tmp_path / "trace.json"))).figures.overlapped == 0.5
    builder.activity("kernel", "again", 120, 10, correlation=1, device=0, stream=COMPUTE)
    builder.call("cudaLaunchKernel", 100, 2, correlation=1)  # a counter wrapped
    times = breakdown_of(str(builder.write(tmp_path / "trace.json"))).figures
    assert times.streams == []
    assert [failure.partition(" ")[0] for failure in times.failed] == ["streams"]
    assert times.times is not None


# ---------------------------------------------------------------- the command


def report(*arguments: object) -> list[dict[str, Any]]:
    """Return the traces of a report."""
    result = invoke("report", *arguments, "--json", "-")
    assert result.exit_code == 0
    traces: list[dict[str, Any]] = fitting(result.stdout)["traces"]
    return traces


def test_a_report_has_its_figures_only_if_asked(tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    assert "HolisticTraceAnalysis" not in invoke("report", path).stdout
    lines = invoke("report", path, "--hta").stdout.partition("HolisticTraceAnalysis")[2]
    assert "70 %" in lines  # 70.5 of 100.5 µs
    assert "30.5 µs" in lines
    assert "all but the last step" in lines
    assert report(path)[0]["hta"] is None
    document = report(path, "--hta")[0]["hta"]
    assert document["times"] == {"idle_ms": 0.01, "compute_ms": 0.0705, "other_ms": 0.02, "span_ms": 0.1005}
    reduce = {"name": "reduce", "kind": "COMPUTATION", "time_ms": 0.0305, "mean_ms": 0.0305, "max_ms": 0.0305}
    assert document["kernels"][1] == reduce
    assert document["launches"] == {"count": 3, "longer_than_work": 1, "slow": 1, "late": 0}
    assert document["streams"][0]["host_wait_ms"] == 0.01
    assert (document["overlapped"], document["failed"]) == (None, [])


@pytest.mark.slow
def test_every_rank_of_a_job_has_its_own() -> None:
    paths = [TRACES / f"ranks/pageable_ranks.rank{rank}.before.json.gz" for rank in (0, 1)]
    assert [trace["hta"]["times"]["span_ms"] > 0 for trace in report(*paths, "--hta")] == [True, True]
    text = invoke("report", *paths, "--hta").stdout.partition("HolisticTraceAnalysis")[2]
    assert "the JSON report has the kernels of each rank" in text


@pytest.mark.slow
def test_a_folder_with_other_files_is_told_of_what_is_a_trace(tmp_path: Path) -> None:
    two_steps().write(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{}")
    (trace,) = report(tmp_path, "--hta")
    assert trace["hta"]["times"]


def test_many_traces_are_not_all_listed() -> None:
    stream = HtaStream(7, 0.001, 0, 0, None, None)
    times = breakdown_of(str(TRACES / "loss_item.json.gz")).figures.times
    many = [Breakdown(rank, Hta(times, None, [], [stream], None, [])) for rank in range(20)]
    assert "these are 16 of 20 traces; the JSON report has all" in hta_to_text(many)


@pytest.mark.parametrize("name", ["loss_item", "small_kernels", "prefetch.stack"])
def test_of_recordings_hta_can_tell_all(name: str) -> None:
    figures = breakdown_of(str(TRACES / f"{name}.json.gz")).figures
    assert figures.failed == []
    assert (times := figures.times)
    assert times.idle_ms + times.compute_ms + times.other_ms == pytest.approx(times.span_ms)
