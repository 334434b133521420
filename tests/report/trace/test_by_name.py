from pathlib import Path
from typing import Any

import pytest
from analysed import analysed
from fitting import fitting
from trace_builder import TraceBuilder

from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.sections.work import DEFAULT_ROWS
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
        assert "kernel0" not in report
        assert "not shown (no GPU work of 1 launch" in report


def test_the_terminal_has_the_costliest_five_and_more_or_all_if_asked(tmp_path: Path) -> None:
    builder = training(kernels=7)
    short, more, whole = text(builder, tmp_path), text(builder, tmp_path, 6), text(builder, tmp_path, 99)
    assert row_of(short, "kernel0") == [*("kernel0", "aten::op0", "1", "50.0 µs", "50.0 µs", "20 %", "10 %")]
    assert "kernel4" in short
    assert "kernel5" not in short
    assert "and 2 more kernels by name: --json" in short
    assert "kernel5" in more
    assert "and 1 more kernel by name: --json" in more
    assert "kernel6" in whole
    assert "--json" not in whole
    assert row_of(whole, "aten::op1")[1:4] == ["1", "50.0 µs", "50.0 µs"]
