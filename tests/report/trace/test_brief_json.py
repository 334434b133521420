"""The brief: what the short report says, in a few kB, with ids that the whole report resolves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from analysed import analysed, host_alone
from command_line import copying_trace, invoke
from fitting import fitting, pointed_at
from host_builder import host_profile
from msgspec import to_builtins
from recordings import RECORDINGS, TRACES, analysis_of, each_recording

from pinprof.analysis import Analysis
from pinprof.document import MAX_BRIEF_BYTES
from pinprof.report.trace.brief_json import traces_to_brief_json
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.verdict import headline
from pinprof.trace.metadata.sampled_stacks import HOST_KEY

SAMPLES = host_profile(
    (60, "train.py:9:<module> > model.py:4:forward > torch/nn/linear.py:5:forward"),
    (30, "train.py:8:<module> > torch/utils/data/dataloader.py:7:__next__"),
    (10, "train.py:9:<module> > model.py:3:forward"),
)


def brief_of(analysis: Analysis, **options: Any) -> Any:
    text = traces_to_brief_json([(analysis.profile, analysis.findings)], **options)
    assert len(text.encode()) <= MAX_BRIEF_BYTES
    return fitting(text)


def ids(part: Any) -> Iterator[str]:
    """Yield all ids in a document."""
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key in {"id", "finding"} and value)
        for value in part.values():
            yield from ids(value)
    elif isinstance(part, list):
        for value in part:
            yield from ids(value)


@pytest.mark.parametrize("path", each_recording(RECORDINGS))
def test_a_brief_is_small_and_says_what_the_whole_report_says(path: Path) -> None:
    analysis = analysis_of(path)
    brief = brief_of(analysis)["traces"][0]
    whole = json.loads(traces_to_json([(analysis.profile, analysis.findings)]))
    assert all(pointed_at(whole, pointer) is not None for pointer in ids(brief))
    assert all(finding["rule"] == pointed_at(whole, finding["id"])["rule"] for finding in brief["findings"])
    assert all(doubt["withholds"] == pointed_at(whole, doubt["id"])["invalidates"] for doubt in brief["cannot_tell"])
    assert len(brief["findings"]) + brief["more_findings"] == len(whole["traces"][0]["findings"])
    assert (brief["step"]["step_ms"] is None) == bool(brief["step"]["why_null"])
    assert brief["verdict"]["sentence"].startswith(headline(first_screen(analysis.profile, analysis.findings))[:200])


def test_findings_come_in_the_order_of_the_short_report_with_line_saving_and_numbers() -> None:
    analysis = analysis_of(TRACES / "loss_item_host_work.stack.json.gz")
    brief = brief_of(analysis)["traces"][0]
    first, second = brief["findings"]
    assert [first["rule"], second["rule"]] == [finding.rule.id for finding in analysis.findings]
    assert (first["file"], first["line"]) == ("pinprof/workloads/waits.py", 58)
    assert first["numbers"] == "equal"
    assert second["numbers"] == "different"
    assert second["saving_ms"] is None
    assert second["at_most_ms"] > 9
    assert brief["verdict"]["finding"] == first["id"]


def test_what_a_trace_cannot_tell_is_null_with_its_reason_and_the_way_out(tmp_path: Path) -> None:
    brief = brief_of(analysed(host_alone(), tmp_path, "no_gpu.json.gz"))["traces"][0]
    assert brief["findings"] == []
    assert brief["verdict"]["cause"] is None
    assert any("GPU" in doubt["what"] and doubt["remedy"] for doubt in brief["cannot_tell"])
    assert brief["lines"] == []


def test_without_a_gpu_the_lines_that_take_the_time_are_named(tmp_path: Path) -> None:
    builder = host_alone()
    builder.metadata[HOST_KEY] = to_builtins(SAMPLES)
    analysis = analysed(builder, tmp_path, "no_gpu.json.gz")
    lines = brief_of(analysis)["traces"][0]["lines"]
    assert [(line["file"], line["line"], line["share"]) for line in lines] == [
        ("model.py", 4, 0.6),
        ("train.py", 8, 0.3),
        ("model.py", 3, 0.1),
    ]
    assert lines[1]["spent"] == "In the DataLoader"
    assert lines[1]["do"].startswith("More workers")
    whole = json.loads(traces_to_json([(analysis.profile, analysis.findings)]))
    assert [pointed_at(whole, line["id"])["share"] for line in lines] == [0.6, 0.3, 0.1]


def test_long_names_do_not_make_it_long(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(8):
        folder = folder / ("n" * 200)
    folder.mkdir(parents=True)
    text = invoke("report", copying_trace(folder), "--json", "-", "--brief").stdout
    assert len(text.encode()) <= MAX_BRIEF_BYTES
    fitting(text)
