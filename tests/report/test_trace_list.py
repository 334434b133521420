"""A row for each of several traces that are no job."""

import pytest
from command_line import invoke
from recordings import TRACES
from rich.cells import cell_len

from pinprof.analysis import Analysis, analyse
from pinprof.report.trace_list import overview_to_text
from pinprof.trace import read_trace

LOADERS = sorted(TRACES.glob("loader_*.json.gz"))
AGAIN = "traces/loader_*"


@pytest.fixture(scope="module")
def analyses() -> list[Analysis]:
    return [analyse(read_trace(str(path))) for path in reversed(LOADERS)]


def lines_of(analyses: list[Analysis], skipped: dict[str, str] | None = None, width: int = 100) -> list[str]:
    return overview_to_text(analyses, skipped or {}, AGAIN, width=width).splitlines()


def test_each_trace_has_a_line_and_they_stand_in_the_order_of_their_files(analyses: list[Analysis]) -> None:
    lines = lines_of(analyses)
    assert lines[0] == f"{TRACES}/ · 4 traces"
    assert lines[2].split() == ["file", "verdict", "first", "change", "step", "saves"]
    rows = [line.split() for line in lines if "bound" in line]
    assert [row[0][:12] for row in rows] == [path.name[:12] for path in LOADERS]
    assert " ".join(rows[0]) == "loader_pageable.json.gz Copy-bound PIN104 pin_memory=True 13.4 ms 16 % (8 to 19)"
    assert lines[-2:] == [
        f"One of them: pinprof report {LOADERS[0]}",
        f"All reports: pinprof report {AGAIN} --full; a page: --html FILE",
    ]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_is_longer_than_the_terminal_but_what_is_to_be_copied(analyses: list[Analysis], width: int) -> None:
    rows = lines_of(analyses, {f"{TRACES}/{'x' * 200}.json": "is no trace " * 20}, width)[2:-2]
    assert max(map(cell_len, rows)) <= width


@pytest.mark.slow
def test_report_shows_several_traces_in_a_line_each_and_full_one_after_the_other() -> None:
    first, second = LOADERS[:2]
    result = invoke("report", first, "none.json", second)
    assert result.exit_code == 0
    assert result.stdout.count("Copy-bound") == 2
    assert "no such file" in result.stdout
    assert "Skipped" not in result.stderr
    assert "Next" not in result.stderr
    full = invoke("report", first, "none.json", second, "--full")
    assert full.stdout.count("Why the step takes so long") == 2
    assert "Skipped: none.json: no such file" in full.stderr
