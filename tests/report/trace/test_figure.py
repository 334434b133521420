"""The timeline and the numbers as plotly figures that people restyle, alone and in a notebook."""

from pathlib import Path

import plotly.graph_objects as go
import pytest
from recordings import ROOT, TRACES
from trace_builder import SIDE, TraceBuilder

import pinprof
from pinprof.ground.errors import PinprofError
from pinprof.notebook import Report, load

RECORDED = TRACES / "readback_async.stack.json.gz"
HOSTILE = "</script><img src=x onerror=alert(1)>"


def training() -> TraceBuilder:
    """Return four steps of 1 ms, each with a kernel of 0.3 ms, a pageable copy of 0.4 ms, and a wait for it."""
    builder = TraceBuilder()
    for at in builder.steps(4):
        builder.op("aten::mm", at + 40, 30)
        builder.kernel(at + 100, 300, launch=at + 50)
        builder.copy("HtoD (Pageable -> Device)", at + 500, 400, launch=at + 450, call=430, stream=SIDE)
    return builder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return training().write(tmp_path / "trace.json.gz")


@pytest.fixture(scope="module")
def report() -> Report:
    return load(RECORDED)


def bars(figure: go.Figure, name: str) -> list[tuple[float, float]]:
    """Return start and length in ms of the bars of a kind, in order; those of the overlap band are left out."""
    (series,) = [drawn for drawn in figure.data if drawn.name == name]
    band = [row for row, text in rows(figure).items() if text == "overlap"]
    columns = zip(series.base, series.x, series.y, strict=True)
    return sorted((round(base, 6), round(length, 6)) for base, length, row in columns if row not in band)


def subtitle(figure: go.Figure) -> list[str]:
    lines: list[str] = figure.layout.title.subtitle.text.split("<br>")
    return lines


def rows(figure: go.Figure) -> dict[float, str]:
    return dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))


def test_a_part_is_chosen_by_steps_or_by_times(trace: Path) -> None:
    assert len(bars(pinprof.timeline(trace, steps=(1, 3)), "kernel")) == 3
    second = pinprof.timeline(trace, steps=1)  # ProfilerStep#1
    assert [bars(second, kind) for kind in ("kernel", "exposed copies")] == [[(0.1, 0.3)], [(0.5, 0.4)]]
    assert second.layout.meta["start_ns"] == str(1_001_000_000)
    figure = pinprof.timeline(trace, range_ms=(1.2, 2.45))
    assert bars(figure, "kernel") == [(0.0, 0.2), (0.9, 0.3)]  # cut at the edge
    assert subtitle(figure)[1] == "From 1.2 to 2.45 ms after the start of step 0."


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"steps": 4}, {"steps": (3, 2)}, {"range_ms": (2, 2)}])
def test_a_part_that_is_not_there_is_an_error(trace: Path, wrong: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(PinprofError, match=next(iter(wrong))):
        pinprof.timeline(trace, **wrong)


def test_it_takes_paths_traces_and_reports(report: Report) -> None:
    figures = [pinprof.timeline(source) for source in (str(RECORDED), report.analysis.trace, report)]
    assert figures[0] == figures[1] == figures[2]


def test_names_are_escaped(tmp_path: Path) -> None:
    builder = training()
    builder.function(f"{HOSTILE}.py(1): {HOSTILE}", 0, 4000)
    for event in builder.events:
        if event["cat"] in {"kernel", "cpu_op"}:
            event["name"] = HOSTILE
        event["tid"] = HOSTILE if event["tid"] == 100 else event["tid"]
    figures = load(builder.write(tmp_path / "trace.json")).figures()
    texts = [text for figure in figures["timeline"].data for text in figure.hovertext]
    for figure in figures.values():
        texts += [str(text) for text in figure.layout.yaxis.ticktext or ()]
        texts += [note.text for note in figure.layout.annotations]
    assert any("img" in text for text in texts)
    assert not any("<img" in text for text in texts)


def test_a_report_has_figures_of_its_numbers(report: Report) -> None:
    figures = report.figures()
    assert list(figures) == ["timeline", "copies", "busy", "stalls"]
    details = report.analysis.details
    for name, expected in (
        ("copies", details.overlap.copy_ns),
        ("busy", sum(device.span_ns for device in details.devices)),
        ("stalls", sum(cost.stall_ns + cost.idle_ns for _, cost in report.profile.waits) / report.profile.steps.count),
    ):
        assert sum(sum(figure.x) for figure in figures[name].data) == pytest.approx(expected / 1e6)


@pytest.mark.slow
def test_in_a_notebook_it_shows_itself(trace: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook()
    lines = [f"import pinprof\ntrace = pinprof.read_trace({str(trace)!r})", "pinprof.timeline(trace)"]
    lines += ["pinprof.load(trace)", "pinprof.load(trace).figures()['copies']"]
    notebook.cells = [nbformat.v4.new_code_cell(line) for line in lines]
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}})
    client.execute()
    shown = [[output["data"] for output in cell.outputs if "data" in output] for cell in notebook.cells[1:]]
    plotly = "application/vnd.plotly.v1+json"
    timeline, copies = ([data[plotly] for data in outputs if plotly in data] for outputs in (shown[0], shown[2]))
    assert [figure["layout"]["title"]["text"] for figure in timeline] == ["trace.json.gz"]
    assert [figure["data"][0]["name"] for figure in copies] == ["overlapped copies"]
    (report,) = shown[1]
    assert "<iframe" in report["text/html"]
    assert "What to do" in report["text/plain"]
