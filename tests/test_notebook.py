"""The report as an object, and the one call that records a step."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from fitting import fitting
from page_reader import Page
from recordings import TRACES
from trace_builder import TraceBuilder, without_known_events

import pinprof
from pinprof.ground.errors import CaptureError, PinprofError, TraceError
from pinprof.measurement.measure import measure
from pinprof.notebook import Report, load, profile_step
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.search import find
from pinprof.trace import read_trace

TRACE = TRACES / "pageable_blocking.stack.json.gz"
HOSTILE = "</iframe><script>alert(1)</script>\"'&quot;"
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


def test_a_report_can_rest_on_the_bench_of_a_machine(tmp_path: Path) -> None:
    file = TRACE.parent / "bench.json"
    report = load(TRACE.parent / "pageable_blocking.json.gz", machine=file)
    assert report.analysis.findings.machine == "NVIDIA H100 80GB HBM3"
    rates = "opies that become pinned run at the rates measured on NVIDIA H100 80GB HBM3; the trace is of NVIDIA H200"
    assert f"c{rates}" in " ".join(str(report).split())
    assert f"C{rates}." in report._repr_html_()
    report.save(tmp_path / "report.json")
    assert fitting((tmp_path / "report.json").read_text())["machine"] == {"gpu": "NVIDIA H100 80GB HBM3"}
    with pytest.raises(PinprofError, match="No such file or directory; measure it with: pinprof bench --json"):
        load(TRACE, machine=tmp_path / "missing.json")


def test_in_a_notebook_it_is_the_page_in_a_frame_of_its_own(report: Report) -> None:
    frame = frame_of(report)
    assert frame["srcdoc"] == to_html([report.analysis])
    assert "src" not in frame
    assert frame["sandbox"] == "allow-scripts allow-downloads"  # no same origin: it cannot reach the notebook


def test_names_cannot_leave_the_frame(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.function(f"{HOSTILE}.py(1): {HOSTILE}", 0, 900)
    builder.copy("DtoH (Device -> Pageable)", 100, 2, launch=40, size=4)
    builder.call("cudaStreamSynchronize", 50, 60)
    builder.kernel(300, 50, launch=290, name=HOSTILE)
    (tmp_path / "<").mkdir()
    report = load(builder.write(tmp_path / "<" / "iframe>\"'.json"))
    markup = report._repr_html_()
    assert markup.count("<") == markup.count(">") == 2
    assert HOSTILE not in (frame_of(report)["srcdoc"] or "")


def test_ipython_in_a_terminal_prints_the_text(report: Report) -> None:
    printed: list[str] = []
    printer = type("Printer", (), {"text": staticmethod(printed.append)})
    report._repr_pretty_(printer, cycle=False)
    assert printed == [str(report)]


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


@pytest.mark.slow
def test_the_report_is_named_after_the_function(temporary: Path) -> None:
    assert str(profile_step(Step().run, 0, steps=1, **FEW)).startswith("Step.run\n")
    assert profile_step(partial(Step().run, 0), steps=1, **FEW).profile.path == "partial"


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


@pytest.mark.slow
def test_progress_is_for_terminals(
    temporary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_step(Step().run, 0, steps=1, **FEW)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    profile_step(Step().run, 0, steps=1, **FEW)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "pinprof: warm-up (1 step)"
    assert lines[-1] == "pinprof: recorded (1 step)"


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


def test_a_report_is_not_written_over_its_own_trace(report: Report, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    content = gzip.decompress(Path(report.profile.path).read_bytes())
    trace.write_bytes(content)
    with pytest.raises(PinprofError, match="is also an input"):
        pinprof.load(trace).save(trace, force=True)
    assert trace.read_bytes() == content


def test_what_is_shown_of_an_empty_or_hostile_trace_is_text(tmp_path: Path) -> None:
    builder = without_known_events()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE + "\x1b[2J"}]
    report = load(builder.write(tmp_path / "empty.json"))
    assert "GPU activities" in str(report)
    assert frame_of(report)["srcdoc"]
    assert repr(report.analysis.findings) == "<pinprof findings, none>"
    for shown in (report.analysis.trace, report.profile):
        assert len(repr(shown)) < 500


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("kernels", lambda trace: trace["kernels"]),
        ("ops", lambda trace: trace["ops"]),
        ("copy_sums", lambda trace: trace["copies"]),
        ("idle", lambda trace: trace["idle"]),
        ("gpu", lambda trace: trace["gpu"]),
        ("waits", lambda trace: trace["syncs"]["sites"]),
        ("phases", lambda trace: trace["launches"]["phases"]),
        ("findings", lambda trace: trace["findings"]),
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


def test_events_have_their_steps_ops_and_lines(report: Report) -> None:
    events, trace = report.events, report.analysis.trace
    assert len(events) == len(trace.gpu) + len(trace.calls) + len(trace.ops)
    assert events.start_ms.is_monotonic_increasing
    of_step = events[events.kind == "kernel"].groupby("step").size()
    assert of_step.index.tolist() == report.steps.index.unique().tolist() == [2, 3, 4]
    copies = report.copies
    assert copies.exposed_ms.sum() == pytest.approx(report.copy_sums.exposed_ms.sum())
    assert copies.attrs == events.attrs == {"per": "whole trace"}
    (copy,) = copies[copies.step == 3].to_dict("records")
    assert (copy["op"], copy["line"], copy["reason"]) == ("aten::copy_", 23, "pageable")
    assert "direction" not in events.kernels
    assert "stream" not in events.ops


def test_a_line_is_that_of_the_recorded_wait() -> None:
    recorded = pinprof.load(TRACES / "pageable_blocking.json.gz")  # it has no Python stacks
    assert set(recorded.copies.line) == {23}
    assert recorded.events.calls.line.dropna().unique().tolist() == [23]


def test_what_the_trace_does_not_show_is_not_zero(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.copy("HtoD (Pageable -> Device)", 100, 20, launch=90)
    copies = load(builder.write(tmp_path / "trace.json")).copies
    assert copies[["op", "file", "line", "function"]].isna().all(axis=None)
    assert copies.step.tolist() == [0]  # ProfilerStep#0


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


def test_what_if_is_asked_of_a_report_or_a_file(report: Report) -> None:
    prediction = report.whatif(pin=True, non_blocking=True)
    assert prediction == pinprof.predict(report.analysis.trace, pinprof.Scenario(pin=True, non_blocking=True))
    assert prediction == pinprof.load(TRACE).whatif(pin=True, non_blocking=True)
    assert prediction.saving_ms == pytest.approx(prediction.baseline_ms - prediction.predicted_ms)
    assert prediction.range_ms[0] <= prediction.predicted_ms <= prediction.range_ms[1]


def test_a_comparison_has_the_verdict_of_its_text_and_its_figures_as_a_table(report: Report) -> None:
    comparison = pinprof.compare(report, TRACES / "prefetch.json.gz")
    assert comparison.verdict == json.loads(comparison.to_json())["sentence"]
    assert f"{comparison.verdict}." in str(comparison)
    table = comparison.table.set_index("name")
    assert list(table.columns[:5]) == ["device", "before", "after", "difference", "fraction"]
    assert table.loc["step_ms", "before"] == pytest.approx(report.step_ms)
    assert table.loc["step_ms", "outcome"] == "better"


def test_a_job_has_a_table_of_its_ranks() -> None:
    job = pinprof.load(sorted(TRACES.glob("ranks/sleeping_rank.rank?.before.json.gz")))
    assert isinstance(job, pinprof.JobReport)
    assert repr(job) == "<pinprof report on a job: 2 ranks, rank 1 holds up the others; print it>"
    assert job.table["rank"].tolist() == [0, 1]
    assert job.table["alone_ms"].tolist() == [row["alone_ms"] for row in json.loads(job.to_json())["ranks"]["rows"]]


def test_an_address_that_does_not_answer_is_an_error_in_a_line() -> None:
    with pytest.raises(TraceError) as raised:
        pinprof.load("http://127.0.0.1:9/trace.json.gz")
    assert "\n" not in str(raised.value)
    assert "cannot be read" in str(raised.value)


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
