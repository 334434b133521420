from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analysed import analysed
from fitting import fitting
from trace_builder import TraceBuilder

from pinprof.report.tables import grids_of
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.sections.work import DEFAULT_ROWS, kernel_label
from pinprof.report.trace.text import trace_to_text

WHERE = {"file": None, "line": None, "function": None, "places": 0, "module": None, "modules": 0}


def training(kernels: int = 2) -> TraceBuilder:
    """Four steps of 1 ms that the host limits: kernels of 50, 40, ... µs, and as many ops of 60, 50, ... µs."""
    builder = TraceBuilder()
    for start in builder.steps(4, length=1000):
        for number in range(kernels):
            at = start + 100 * number + 10
            builder.op(f"aten::op{number}", at, 60 - 10 * (number % 6))
            builder.kernel(at + 5, 50 - 5 * number, launch=at + 2, name=f"void at::native::kernel{number}(float*)")
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": 0.5, "p10_ms": 0.4, "p90_ms": 0.6}}
    return builder


def document(builder: TraceBuilder, folder: Path) -> dict[str, Any]:
    analysis = analysed(builder, folder)
    (trace,) = fitting(traces_to_json([(analysis.profile, analysis.findings)]))["traces"]
    assert isinstance(trace, dict)
    return trace


def text(builder: TraceBuilder, folder: Path, rows: int = DEFAULT_ROWS) -> str:
    analysis = analysed(builder, folder)
    return trace_to_text(analysis.profile, analysis.findings, rows=rows, width=160)


def row_of(report: str, name: str) -> list[str]:
    (line,) = [line for line in report.splitlines() if line.strip().startswith(name)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_json_has_kernels_per_step_and_as_shares_of_the_gpu_and_of_the_step(tmp_path: Path) -> None:
    trace = document(training(), tmp_path)
    first, second = trace["kernels"]
    assert first == {
        "name": "void at::native::kernel0(float*)",
        "kind": "other",
        "count": 1,
        "ms": 0.05,
        "mean_us": 50,
        "share": pytest.approx(50 / 95),
        "step_share": pytest.approx(0.05 / 0.5),  # of the step without the profiler
        "communication": False,
        "streams": [{"device": 0, "stream": 7}],
        "op": "aten::op0",
        **WHERE,
    }
    assert (second["name"], second["ms"]) == ("void at::native::kernel1(float*)", 0.045)
    kinds = trace["kernel_sums"].pop("kinds")
    assert kinds == [{"kind": "other", "count": 2, "ms": 0.095, "share": 1, "tensor_core_ms": None}]
    assert trace["kernel_sums"] == {"names": 2, "left_out": 0, "left_out_ms": 0, "ms": 0.095, "busy_ms": 0.095}


def test_json_has_ops_as_traced_and_as_a_share_of_the_step_without_the_profiler(tmp_path: Path) -> None:
    trace = document(training(), tmp_path)
    assert trace["steps"]["bound"] == "host"
    assert trace["ops"][0] == {
        "name": "aten::op0",
        "count": 1,
        "ms": 0.06,
        "mean_us": 60,
        "share": pytest.approx(0.06),
        "without_profiler_ms": pytest.approx(0.03),  # 6 % of 0.5 ms
        "stall_ms": 0,
        "kernels": 1,
        "kernel_ms": 0.05,
        **WHERE,
    }
    assert trace["op_sums"] == {"names": 2, "left_out": 0, "left_out_ms": 0, "ms": 0.11, "host_ms": 1}


def test_the_profilers_cost_is_not_taken_out_where_the_gpu_sets_the_pace(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(4, length=1000):
        builder.op("aten::mm", start + 10, 20)
        builder.kernel(start + 20, 995, launch=start + 15)
    trace = document(builder, tmp_path)
    assert trace["steps"]["bound"] == "gpu"
    assert trace["ops"][0]["without_profiler_ms"] is None
    assert "without profiler:" not in text(builder, tmp_path)


def test_what_is_withheld_is_nowhere(tmp_path: Path) -> None:
    builder = training()
    builder.call("cudaLaunchKernel", 5, 2)  # not the last of its step: the length of the step is known
    trace = document(builder, tmp_path)
    assert trace["kernels"] == []
    assert trace["kernel_sums"] is None
    assert {(op["kernels"], op["kernel_ms"]) for op in trace["ops"]} == {(None, None)}
    analysis = analysed(builder, tmp_path)
    for report in (text(builder, tmp_path), to_html([analysis])):
        assert "kernel0(" not in report
        assert "not shown (no GPU work of 1 launch" in report


def test_the_terminal_has_the_costliest_five_and_more_or_all_if_asked(tmp_path: Path) -> None:
    builder = training(kernels=7)
    short, more, whole = text(builder, tmp_path), text(builder, tmp_path, 6), text(builder, tmp_path, 99)
    assert row_of(short, "kernel0(float*)") == [
        "kernel0(float*)",
        "aten::op0",
        "1",
        "50.0 µs",
        "50.0 µs",
        "20 %",
        "10 %",
    ]
    assert "kernel4(" in short
    assert "kernel5(" not in short
    assert "and 2 more kernels by name: --json" in short
    assert "kernel5(" in more
    assert "and 1 more kernel by name: --json" in more
    assert "kernel6(" in whole
    assert "--json" not in whole
    assert row_of(whole, "aten::op1")[1:4] == ["1", "50.0 µs", "50.0 µs"]


def test_more_waits_or_all_are_there_if_asked(tmp_path: Path) -> None:
    builder = training()
    for number in range(12):
        builder.op(f"aten::wait{number}", 1300 + 50 * number, 40)
        builder.call("cudaStreamSynchronize", 1310 + 50 * number, 20)
    assert "and 2 more sites: --json" in text(builder, tmp_path)
    assert "and 1 more site: --json" in text(builder, tmp_path, 11)
    assert "more site" not in text(builder, tmp_path, 99)


def test_collectives_stand_apart(tmp_path: Path) -> None:
    builder = training()
    builder.collective(3700, 100, launch=3600)
    report = text(builder, tmp_path)
    before, after = report.split("Collectives by GPU time, per step; waiting for other ranks counts")
    assert "AllReduce" not in before.split("Kernels by GPU time")[1]
    assert row_of(after, "ncclDevKernel_AllReduce")[1:4] == ["0.25", "25.0 µs", "100 µs"]


def test_the_page_leads_to_all_rows_and_shows_names_as_they_are(tmp_path: Path) -> None:
    builder = training(kernels=7)
    builder.kernel(3800, 150, launch=3700, name="<script>alert(1)</script>")
    analysis = analysed(builder, tmp_path)
    page, kernels = to_html([analysis]), next(grid for grid in grids_of(analysis) if grid.name == "kernels")
    assert 'data-grid="kernels"' in page
    assert "<script>alert(1)</script>" in kernels.texts["name"]
    assert "<script>alert(1)" not in page
    assert 'data-grid="ops"' in page


def test_an_empty_name_is_a_name(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.op("", 0, 10)
    builder.kernel(20, 10, launch=5, name="")
    trace = document(builder, tmp_path)
    assert (trace["kernels"][0]["name"], trace["kernels"][0]["op"]) == ("", "")
    assert text(builder, tmp_path)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("void at::native::(anonymous namespace)::softmax<float>(float*)", "softmax<float>(float*)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("cat::nap", "cat::nap"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_a_kernel_is_labelled_by_what_is_its_own(name: str, label: str) -> None:
    assert kernel_label(name) == label


def test_without_steps_the_shares_are_of_the_trace(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 30)
    builder.kernel(20, 70, launch=10)
    report = text(builder, tmp_path)
    assert "Kernels by GPU time, in the whole trace" in report
    assert "of the trace" in report
    assert "of the step" not in report.split("Kernels by GPU time")[1].split("What to do")[0]


def test_without_complete_steps_there_are_no_sums(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(4, length=1000):
        builder.kernel(start + 20, 10, launch=start + 10)
    analysis = analysed(builder, tmp_path)
    steps = replace(analysis.profile.steps, count=0)
    (trace,) = fitting(traces_to_json([(replace(analysis.profile, steps=steps), analysis.findings)]))["traces"]
    assert (trace["kernels"], trace["kernel_sums"], trace["ops"], trace["op_sums"]) == ([], None, [], None)
