"""The tables of all that was recorded: sums that can be checked by eye, in the steps and in the recording."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from analysed import analysed
from detector import WAITS, detector
from recordings import TRACES, analysis_of, each_recording
from trace_builder import SIDE, TraceBuilder

from pinprof.analysis import Analysis
from pinprof.measurement.trust.doubt import given
from pinprof.report.tables import grids_of
from pinprof.report.tables.gpu import collectives, copies, kernels
from pinprof.report.tables.grid import Grid
from pinprof.report.tables.host import ops, waits

US = 1000
SIZED = "HtoD (Pinned -> Device)"


@pytest.fixture
def training(tmp_path: Path) -> Analysis:
    """Three steps of 1 ms, and work before them."""
    builder = TraceBuilder()
    builder.op("aten::empty", 0, 40)
    builder.kernel(60, 30, launch=50, name="gemm")
    for number in range(3):
        start = 1000 + 1000 * number
        builder.step(number, start, 990)
        builder.op("aten::linear", start + 100, 100)
        builder.op("aten::linear", start + 110, 60)
        builder.op("aten::mm", start + 120, 40)
        builder.kernel(start + 200, 100 + 10 * number, launch=start + 130, name="gemm")
        builder.kernel(start + 400, 50, launch=start + 150, name="gemm", stream=SIDE)
        builder.kernel(start + 500, 50, launch=start + 160, name="relu")
        for place, size in enumerate((4096, 4096, 8192)):
            builder.copy(SIZED, start + 600 + 30 * place, 20, launch=start + 300 + 10 * place, size=size)
        builder.call("cudaDeviceSynchronize", start + 700, 100)
    builder.step(3, 4000, 990)
    return analysed(builder, tmp_path)


def figures(grid: Grid | None, *keys: str) -> list[tuple[object, ...]]:
    """Return columns of a table, row by row: texts, and of figures those in the steps and those in the recording."""
    assert grid
    columns: Iterator[Sequence[object]] = (
        grid.texts[key] if key in grid.texts else list(zip(*grid.numbers[key], strict=True)) for key in keys
    )
    return list(zip(*columns, strict=True))


def test_kernels_are_summed_by_name_and_stream_in_the_steps_and_in_the_recording(training: Analysis) -> None:
    assert figures(kernels(training), "name", "stream", "count", "total", "most", "op") == [
        ("gemm", "stream 7", (3, 4), (330 * US, 360 * US), (120 * US, 120 * US), "aten::linear"),
        ("gemm", "stream 20", (3, 3), (150 * US, 150 * US), (50 * US, 50 * US), "aten::linear"),
        ("relu", "stream 7", (3, 3), (150 * US, 150 * US), (50 * US, 50 * US), "aten::linear"),
    ]


def test_copies_are_summed_by_size_too(training: Analysis) -> None:
    assert figures(copies(training), "name", "memory", "size", "count", "bytes", "exposed") == [
        ("HtoD", "pinned", (4096, 4096), (6, 6), (24576, 24576), (120 * US, 120 * US)),
        ("HtoD", "pinned", (8192, 8192), (3, 3), (24576, 24576), (60 * US, 60 * US)),
    ]


def test_ops_have_their_own_time_and_that_with_callees_which_recursion_does_not_count_twice(training: Analysis) -> None:
    assert figures(ops(training), "name", "count", "total", "all", "kernels") == [
        ("aten::linear", (6, 6), (180 * US, 180 * US), (300 * US, 300 * US), (3, 3)),
        ("aten::mm", (3, 3), (120 * US, 120 * US), (120 * US, 120 * US), (6, 6)),
        ("aten::empty", (0, 1), (0, 40 * US), (0, 40 * US), (0, 0)),
    ]


def test_waits_are_those_of_the_sites_without_the_profilers(training: Analysis) -> None:
    assert figures(waits(training), "name", "op", "count", "total", "most") == [
        ("torch.cuda.synchronize()", "cudaDeviceSynchronize", (3, 3), (300 * US, 300 * US), (100 * US, 100 * US))
    ]


def test_waits_may_be_gathered_by_line(tmp_path: Path) -> None:
    grid = waits(analysed(detector(), tmp_path))
    assert grid
    (rows,) = grid.together["by line"]
    assert len(rows) == 6
    assert {grid.texts["line"][row] for row in rows} == {"train.py:30 (main)"}
    assert all(grid.stacks)
    assert waits(analysed(detector([WAITS[6]]), tmp_path)).together == {}  # type: ignore[union-attr]


def test_collectives_stand_apart_from_kernels_and_say_what_nothing_hides(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.kernel(start + 100, 100, launch=start + 10)
        builder.collective(start + 150, 100, launch=start + 20, stream=SIDE)
    analysis = analysed(builder, tmp_path)
    assert figures(collectives(analysis), "name", "group", "total", "exposed") == [
        ("allreduce", "[0, 1]", (300 * US, 300 * US), (150 * US, 150 * US))
    ]
    assert figures(kernels(analysis), "name") == [("gemm",)]


@pytest.mark.parametrize("name", each_recording(sorted(path.name for path in TRACES.glob("*.json.gz")), str))
def test_the_sums_are_those_of_the_report(name: str) -> None:
    analysis = analysis_of(TRACES / name)
    profile = analysis.profile
    made = {grid.name: grid for grid in grids_of(analysis)}
    sums = given(profile.kernels)
    if sums:
        rows = (row for key in ("kernels", "collectives") if key in made for row in made[key].numbers["total"][0])
        assert sum(filter(None, rows)) == sums.time_ns
        assert made["kernels"].whole_ns[0] == sums.busy_ns
    for key, time in (("copies", profile.copies), ("waits", profile.sites)):
        assert (key in made) <= bool(time)
    for grid in made.values():
        counts, totals, longest = (grid.numbers[key] for key in ("count", "total", "most"))
        for scope in (0, 1):
            for count, total, most in zip(counts[scope], totals[scope], longest[scope], strict=True):
                assert (count == 0) <= (total == most == 0)
                assert most <= total  # type: ignore[operator]
        assert all(len(column) == len(grid) for column in grid.texts.values())
        assert all(inside <= whole for inside, whole in zip(*counts, strict=True))  # type: ignore[operator]
