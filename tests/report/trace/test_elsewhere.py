"""What reports say of waits that were seen outside of the recorded steps alone."""

from pathlib import Path
from typing import Any

import pytest
from fitting import fitting
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import to_brief, trace_to_text
from pinprof.trace import read_trace


def wait(line: int, at: list[int], *, called: str | None = "item", waits: int = 0) -> dict[str, Any]:
    place = {"file": "train.py", "line": line, "function": "train", "stack": [f"train.py:{line}:train"]}
    return {"line": place, "called": called, "waited": called, "thread": "main", "waits": waits or len(at), "at": at}


def analysed(folder: Path, waits: list[dict[str, Any]], steps: int = 100) -> Analysis:
    """Return two steps with a wait at line 10, of which many more steps were watched."""
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.kernel(start + 10, 5, launch=start + 2)
        builder.op("aten::item", start + 100, 30)
        builder.call("cudaStreamSynchronize", start + 105, 20)
    recorded = wait(10, list(range(steps)))["line"]
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [recorded]}]
    builder.metadata["pinprof_watched"] = {"steps": steps, "waits": waits, "sequences": None}
    return analyse(read_trace(builder.write(folder / "trace.json")))


def text_of(analysis: Analysis) -> str:
    return trace_to_text(analysis.profile, analysis.findings, width=160)


def syncs(analysis: Analysis) -> dict[str, Any]:
    section: dict[str, Any] = fitting(traces_to_json([(analysis.profile, analysis.findings)]))["traces"][0]["syncs"]
    return section


def test_a_line_that_no_recorded_step_has_is_told_with_how_often_it_waits(tmp_path: Path) -> None:
    waits = [wait(10, list(range(100))), wait(20, [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]), wait(30, [5, 7], waits=6)]
    analysis = analysed(tmp_path, waits)
    text = text_of(analysis)
    assert "Waits seen outside of the recorded steps, in 100 steps without profiler" in text
    tenth, rare = (next(line for line in text.splitlines() if f"train.py:{number}" in line) for number in (20, 30))
    assert tenth.split() == ["train.py:20", "(train)", "item", "every", "10", "steps", "10"]
    assert rare.split() == ["train.py:30", "(train)", "item", "in", "2", "of", "100", "steps", "6"]
    seen = syncs(analysis)["seen_elsewhere"]
    assert [(line["line"], line["steps"], line["every"], line["count"]) for line in seen] == [
        (20, 10, 10, 10),
        (30, 2, None, 6),
    ]
    assert seen[0]["stack"] == ["train.py:20:train"]
    assert syncs(analysis)["watched_steps"] == 100
    page = to_html([analysis])
    assert "Waits seen outside of the recorded steps" in page
    assert "every 10 steps" in page


@pytest.mark.parametrize(("steps", "is_named"), [([3, 13, 40, 60, 80], True), ([3, 13, 40, 60], False)])
def test_the_short_report_names_what_waits_in_one_of_twenty_steps(
    tmp_path: Path, steps: list[int], is_named: bool
) -> None:
    analysis = analysed(tmp_path, [wait(20, steps)])
    short = " ".join(to_brief(analysis.profile, analysis.findings).split())
    assert ("outside of the recorded steps" in short) is is_named
    assert "outside of the recorded steps" in text_of(analysis)


def test_a_line_that_waits_in_every_step_is_not_outside_of_the_recorded_steps(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, [wait(10, list(range(100))), wait(20, list(range(100)))])
    text = text_of(analysis)
    assert "Waits seen in every step, at lines without a certain recorded wait, in 100 steps" in text
    assert "outside of the recorded steps" not in text
    assert "outside of the recorded steps" not in to_html([analysis])
    assert [line["every"] for line in syncs(analysis)["seen_elsewhere"]] == [1]


def test_a_wait_after_the_watched_steps_is_said_to_be_there(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, [wait(20, [100], called=None)])
    assert "after 100 watched steps" in text_of(analysis)
    assert syncs(analysis)["seen_elsewhere"][0]["steps"] == 0
