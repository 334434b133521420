"""The report as an object, and the one call that records a step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from fitting import fitting
from page_reader import Page
from recordings import TRACES
from trace_builder import TraceBuilder

import pinprof
from pinprof.ground.errors import CaptureError, PinprofError
from pinprof.measurement.measure import measure
from pinprof.notebook import Report, load, profile_step
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.search import find
from pinprof.trace import read_trace

TRACE = TRACES / "pageable_blocking.stack.json.gz"
FEW: dict[str, Any] = {"warmup": 1, "plain_steps": 2, "plain_seconds": 0.0, "plain_precision": 1}


@pytest.fixture(scope="module")
def report() -> Report:
    return load(TRACE)


def frame_of(report: Report) -> dict[str, str | None]:
    """Return the attributes of the frame, which must be all there is."""
    ((tag, attributes),) = Page(report._repr_html_()).tags
    assert tag == "iframe"
    return attributes


def test_a_report_holds_what_the_single_functions_return(report: Report) -> None:
    trace = read_trace(TRACE)
    profile = measure(trace)
    assert report.analysis.findings == find(profile, trace)
    assert str(report) == trace_to_text(profile, report.analysis.findings)


def test_a_trace_that_is_read_already_is_not_read_again(report: Report) -> None:
    assert load(report.analysis.trace).analysis.trace is report.analysis.trace


def test_in_a_notebook_it_is_the_page_in_a_frame_of_its_own(report: Report) -> None:
    frame = frame_of(report)
    assert frame["srcdoc"] == to_html([report.analysis])
    assert "src" not in frame
    assert frame["sandbox"] == "allow-scripts allow-downloads"  # no same origin: it cannot reach the notebook


@pytest.mark.parametrize(("name", "made"), [("out.html", Report.to_html), ("out.json", Report.to_json)])
def test_files_are_written_as_their_names_end_but_not_over_others(
    report: Report, tmp_path: Path, name: str, made: Callable[[Report], str]
) -> None:
    path = tmp_path / name
    report.save(path)
    text = path.read_text()
    assert text == made(report)
    assert text.startswith("<!DOCTYPE html>" if name == "out.html" else '{\n  "schema": "pinprof.report/1"')
    path.write_text("precious")
    with pytest.raises(PinprofError, match=r"exists already.*force=True"):
        report.save(str(path))
    assert path.read_text() == "precious"
    report.save(path, force=True)
    assert path.read_text() == text
    with pytest.raises(PinprofError, match="there is no folder"):
        report.save(tmp_path / "missing" / name)


# One call that records a step


class Step:
    """A training step on the host that notes its calls."""

    def __init__(self, fail_at: int = -1) -> None:
        self.weight = torch.ones(4, 4, requires_grad=True)
        self.fail_at = fail_at
        self.seen: list[object] = []

    def run(self, argument: object) -> None:
        if len(self.seen) == self.fail_at:
            raise ZeroDivisionError
        self.seen.append(argument)
        (self.weight @ self.weight).sum().backward()  # type: ignore[no-untyped-call]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_step_is_called_until_recorded_and_nothing_is_left_behind(temporary: Path) -> None:
    step, windows = Step(), []
    report = profile_step(step.run, "batch", steps=3, on_progress=lambda window, *_: windows.append(window), **FEW)
    assert windows[0] == "warm-up"
    assert step.seen == ["batch"] * 8  # 1 to warm up, 2 plain, 2 for the profiler to warm up, 3 recorded
    assert len(report.analysis.trace.steps) == 3
    assert report.profile.estimate.source == "measured"
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("torchinductor")] == []


def test_a_trace_with_a_path_is_kept(temporary: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json.gz"
    report = profile_step(Step().run, 0, path=path, steps=2, **FEW)
    assert report.profile.path == str(path)
    assert len(read_trace(path).steps) == 2
    with pytest.raises(CaptureError, match="exists already"):
        profile_step(Step().run, 0, path=path)


def test_what_the_step_raises_passes_and_its_steps_are_kept_at_a_path_alone(temporary: Path, tmp_path: Path) -> None:
    for path in (None, tmp_path / "out.json"):  # the profiler is not left running
        with pytest.raises(ZeroDivisionError):
            profile_step(Step(fail_at=6).run, 0, path=path, steps=3, **FEW)
        assert list(temporary.iterdir()) == []
    assert read_trace(tmp_path / "out.json").steps.complete.any()


def test_a_comparison_shows_itself_and_writes_what_the_command_writes(report: Report, tmp_path: Path) -> None:
    after = TRACE.with_name("prefetch.stack.json.gz")
    made = pinprof.compare(report, after)
    assert made.before is report
    assert "saves" in str(made)
    assert made.comparison.verdict in repr(made)
    ((tag, frame),) = Page(made._repr_html_()).tags
    assert tag == "iframe"
    made.save(tmp_path / "page.html")
    made.save(tmp_path / "made.json")
    assert (tmp_path / "page.html").read_text() == frame["srcdoc"]
    assert fitting((tmp_path / "made.json").read_text())["schema"] == "pinprof.compare/1"
    with pytest.raises(PinprofError, match="exists already"):
        made.save(tmp_path / "made.json")


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        *(("kernels", lambda trace: trace["kernels"]), ("ops", lambda trace: trace["ops"])),
        *(("copy_sums", lambda trace: trace["copies"]), ("idle", lambda trace: trace["idle"])),
        *(("gpu", lambda trace: trace["gpu"]), ("waits", lambda trace: trace["syncs"]["sites"])),
        *(("phases", lambda trace: trace["launches"]["phases"]), ("findings", lambda trace: trace["findings"])),
    ],
)
def test_tables_are_the_rows_of_the_document(report: Report, table: str, rows: Callable[[Any], list[Any]]) -> None:
    frame = getattr(report, table)
    entries = rows(json.loads(report.to_json())["traces"][0])
    assert entries
    assert frame.attrs["per"] in {"mean step", "whole trace"}
    assert set(frame.columns) >= set(entries[0])
    assert len(frame) == len(entries)
    for row, entry in zip(frame.to_dict("records"), entries, strict=True):
        for name, value in entry.items():
            cell = row[name]
            assert pd.isna(cell) if value is None else json.loads(json.dumps(cell)) == value, name


def test_the_steps_are_those_of_the_trace_and_their_parts_add_up(report: Report) -> None:
    steps = report.steps
    assert len(steps) == len(report.analysis.trace.steps)
    assert steps.start_ms.iloc[0] == 0
    parts = ["compute_ms", "overlapped_ms", "exposed_ms", "memset_ms", "idle_ms"]
    known = steps.dropna()
    assert len(known) == 2
    assert known[parts].sum(axis=1).to_numpy() == pytest.approx(known.device_ms.to_numpy())


def test_a_trace_without_kernels_has_empty_tables(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.op("aten::add", 0, 10)
    report = load(builder.write(tmp_path / "trace.json"))
    for table in ("kernels", "copies", "copy_sums", "collectives", "memory", "waits", "phases", "findings"):
        assert getattr(report, table).empty, table
    assert report.ops.name.tolist() == ["aten::add"]
    assert report.steps.host_ms.tolist() == [0.010001]
    assert report.verdict is None
    assert report.step_ms is None


def test_what_it_is_made_of_says_in_a_line_what_it_is(report: Report) -> None:
    trace, findings = repr(str(TRACE)), report.analysis.findings
    assert repr(report) == f"<pinprof report on {trace}: {len(findings)} findings; print it>"
    assert repr(report.analysis.trace) == (
        f"<pinprof trace {trace}: 3 complete steps of 3 (profiler_step), 1,605 events, NVIDIA H200>"
    )
    assert repr(report.profile) == f"<pinprof profile of {trace}: step 12.4 ms (measured), bound by host>"
    assert repr(findings) == "<pinprof findings, 2: PIN101 saves 1.89 ms, PIN701, together 2.81 ms>"
    assert repr(report.analysis.trace.gpu).startswith("<pinprof Activities, 118 rows: start_ns, end_ns, name, ")
    assert repr(report.analysis.findings[0]).startswith("<pinprof PIN101: copies of pageable memory")
    parts = (
        report,
        report.analysis.trace,
        report.profile,
        report.analysis,
        report.whatif(pin=True),
        pinprof.Scenario(),
    )
    for shown in (*parts, report.analysis.trace.gpu, report.analysis.trace.calls, report.analysis.findings[0]):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < (400 if shown in parts else 250)
