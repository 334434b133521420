"""What a comparison reads like, in the terminal, on the page and for programs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fitting import fitting
from page_reader import Page
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.comparison import Comparison, compare
from pinprof.ground.units import uncoded
from pinprof.report.comparison.json import comparison_to_json
from pinprof.report.comparison.page import to_html
from pinprof.report.comparison.text import comparison_to_text, to_brief
from pinprof.report.comparison.words import verdict
from pinprof.trace import read_trace

WIDTH = 100
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"
FULL_PAIRS = [("pageable_blocking", "prefetch"), ("mask_loss", "clean")]
BRIEF_PAIRS = [*FULL_PAIRS, ("clean", "loss_item"), ("clean", "clean.stack")]


def without_folders(analysis: Analysis) -> Analysis:
    """Return the same of a trace whose name has no folders: their length would change how lines are broken."""
    return replace(analysis, profile=replace(analysis.profile, path=Path(analysis.profile.path).name))


def recording(path: Path) -> Analysis:
    return without_folders(analyse(read_trace(path)))


def recorded(name: str) -> Analysis:
    return without_folders(analysis_of(TRACES / f"{name}.json.gz"))


def shown(before: Analysis, after: Analysis) -> tuple[Comparison, str, Page]:
    """Return a comparison, its text and its page."""
    made = compare(before, after)
    return made, comparison_to_text(made, width=WIDTH), Page(to_html(before, after, made))


def host_alone(folder: Path) -> Analysis:
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.op("aten::mm", start + 10, 500)
    return recording(builder.write(folder / "host.json"))


@pytest.mark.parametrize(("before", "after"), FULL_PAIRS)
def test_a_comparison_reads_as_kept(before: str, after: str, golden: Callable[[str, str], None]) -> None:
    made = compare(recorded(before), recorded(after))
    golden(f"compare-{before}-{after}.txt", comparison_to_text(made, width=WIDTH))


@pytest.mark.parametrize(("before", "after"), BRIEF_PAIRS)
def test_a_short_comparison_reads_as_kept(before: str, after: str, golden: Callable[[str, str], None]) -> None:
    text = to_brief(compare(recorded(before), recorded(after)), width=WIDTH)
    golden(f"compare-brief-{before}-{after}.txt", text)
    assert len(text.splitlines()) <= 22
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_trace_of_the_host_alone_reads_as_kept(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    made = compare(host_alone(tmp_path), recorded("clean"))
    golden("compare-host-alone.txt", comparison_to_text(made, width=WIDTH))


@pytest.mark.parametrize(("before", "after"), FULL_PAIRS)
def test_the_page_says_what_the_terminal_says(before: str, after: str) -> None:
    made, text, page = shown(recorded(before), recorded(after))
    assert page.misnested == []
    assert verdict(made) in page.text
    assert verdict(made) in " ".join(text.split())
    assert len(page.figures) == 2
    for change in made.findings:
        assert uncoded(change.members[0].title) in page.text


def test_programs_read_the_same_numbers() -> None:
    made = compare(recorded("pageable_blocking"), recorded("prefetch"))
    document = fitting(comparison_to_json(made))
    assert document["schema"] == "pinprof.compare/1"
    assert document["verdict"] == "faster"
    step = document["figures"][0]
    assert (step["name"], step["within_noise"]) == ("step_ms", False)
    assert step["difference"] == pytest.approx(step["after"] - step["before"], abs=1e-5)
    assert step["range_before"][0] <= step["before"] <= step["range_before"][1]
    assert document["repinned"] == [
        {"direction": "HtoD", "before": "pageable", "after": "pinned", "count": 1.0, "bytes": 50331648.0}
    ]
    (wait,) = document["waits"]
    assert (wait["change"], wait["cause"], wait["after"]) == ("gone", "blocking_copy_htod", [])
    assert (wait["before"][0]["line"], wait["per_step"]["before"], wait["per_step"]["after"]) == (23, 1, 0)
    assert {finding["change"] for finding in document["findings"] if finding["rule"] != "PIN701"} == {"gone"}


def test_names_of_the_traces_are_shown_and_obeyed_by_nobody(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.function(f"{HOSTILE}.py(1): {HOSTILE}", 0, 5000)
    for start in builder.steps(4):
        builder.kernel(start + 100, 300, launch=start + 50, name=HOSTILE)
        builder.copy("DtoH (Device -> Pageable)", start + 500, 2, launch=start + 410, size=4)
        builder.op(HOSTILE, start + 105, 410)
        builder.call("cudaDeviceSynchronize", start + 110, 400)
    hostile = recording(builder.write(tmp_path / "a.json"))
    _, text, page = shown(hostile, recorded("clean"))
    assert "\x1b" not in text
    assert "img" not in {tag for tag, _ in page.tags}
    assert "<img src=x onerror=alert(1)>" in page.text
