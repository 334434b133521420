from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analysed import host_alone
from command_line import copying_trace
from detector import detector
from quick import slow_but
from recordings import TRACES
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.rule import Findings
from pinprof.rules.search import find
from pinprof.trace import read_trace

WIDTH = 110


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Find no source: whether the project's files are older than its traces depends on how it was checked out."""
    monkeypatch.chdir(tmp_path)


def text_of(path: Path, **options: Any) -> str:
    trace = read_trace(path)
    profile = measure(trace)
    return trace_to_text(profile, find(profile, trace), **{"width": WIDTH, **options}).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    "name", slow_but(["mask_loss.stack"], ["mask_loss.stack", "pageable_blocking.stack", "small_kernels"])
)
def test_the_report_reads_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    text = text_of(TRACES / f"{name}.json.gz")
    golden(f"console-{name}.txt", text)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_trace_of_the_host_alone_reads_as_kept(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    golden("console-host-alone.txt", text_of(host_alone().write(tmp_path / "host.json")))


def test_a_trace_of_unlabelled_work_reads_as_kept(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    builder = TraceBuilder()
    builder.event("user_annotation", "all", 0, 250)
    builder.copy("HtoD (Host -> Device)", 0, 100, launch=0)
    builder.activity("kernel", "k", 150, 100, correlation=0, device=1, stream=7)
    golden("console-unlabelled.txt", text_of(builder.write(tmp_path / "unlabelled.json")))


def test_names_of_the_trace_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.function("\x1b]0;owned\x07.py(1): \x1b[2Jf", 0, 900)
    builder.op("aten::\x1b[31mto [bold]x[/bold]", 30, 100)
    builder.copy("DtoH (Device -> Pinned)", 100, 2, launch=40, size=4)
    builder.call("cudaStreamSynchronize", 50, 60)
    builder.kernel(300, 50, launch=290)
    text = text_of(builder.write(tmp_path / "hostile.json"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]" in text


def test_what_no_replay_can_tell_shows_its_cost_and_says_so(tmp_path: Path) -> None:
    trace = read_trace(copying_trace(tmp_path))
    profile = measure(trace)
    finding, *_ = find(profile, trace)
    text = trace_to_text(profile, Findings([replace(finding, saving=None)]))
    assert " of idle GPU or exposed copies: PIN101" in text
    assert "together" not in text


def pageable_copy_after(kernel: int, copy: int) -> TraceBuilder:
    """Return steps in which the host waits for a kernel and then for a pageable copy, of such lengths in µs."""
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000):
        builder.kernel(start + 100, kernel, launch=start + 50)
        builder.op("aten::to", start + 60, kernel + copy + 50)
        builder.copy(
            "HtoD (Pageable -> Device)", start + 100 + kernel, copy, launch=start + 70, call=kernel + copy + 33
        )
        builder.kernel(start + 105 + kernel + copy, 9_800 - kernel - copy, launch=start + 104 + kernel + copy)
    return builder


def test_a_long_wait_is_not_said_to_cost_only_the_idle_time_after_it(tmp_path: Path) -> None:
    text = text_of(pageable_copy_after(6_000, 2_000).write(tmp_path / "drain.json"))
    assert "PIN101" in text  # the slow copy is what costs
    assert " and costs " not in text
    (row,) = [line for line in text.splitlines() if line.lstrip().startswith("pageable copy")]
    assert " ".join(row.split()[-10:-2]) == "8.03 ms 6.03 ms 2.00 ms 3.00 µs"  # 8033 = 6030 + 2000 + 3


def test_waits_in_libraries_stand_below_the_line_that_calls_them(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    golden("console-detector.txt", text_of(detector().write(tmp_path / "detector.json")))
