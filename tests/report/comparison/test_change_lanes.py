"""The lanes that mark what changed between two traces."""

from pathlib import Path

import pytest
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.comparison import compare
from pinprof.report.comparison.page import CHANGE_GROUP, changed_lanes, to_html
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.trace import read_trace

Told = dict[str, list[tuple[str, int]]]


def told(before: Analysis, after: Analysis, side: int) -> Told:
    """Return of each lane its texts, and how often each is marked."""
    lanes = changed_lanes(compare(before, after), (before, after), side)
    assert {lane.group for lane in lanes} <= {CHANGE_GROUP}
    events: Told = {}
    for lane in lanes:
        assert (lane.start_ns[1:] >= lane.end_ns[:-1]).all()
        for row in sorted(set(lane.row.tolist())):
            on_row = lane.row == row
            assert {EVENT_KINDS[kind].label for kind in lane.kind[on_row].tolist()} == {lane.names[row].split(":")[0]}
            events.setdefault(lane.label, []).append((lane.names[row], int(on_row.sum())))
    return events


def looped(folder: Path, name: str, *, kernel: float, extra: bool = False) -> Analysis:
    """Four steps of 1000 us: `work` takes so long, `same` takes 100 us, and there is perhaps an `extra` one."""
    builder = TraceBuilder()
    for time in builder.steps(4):
        builder.kernel(time + 20, kernel, launch=time + 10, name="work")
        builder.kernel(time + 500, 100, launch=time + 11, name="same")
        if extra:
            builder.kernel(time + 700, 50, launch=time + 12, name="extra")
        for number in range(4):
            builder.kernel(time + 800 + 30 * number, 20, launch=time + 13 + number, name="more")
    return analyse(read_trace(builder.write(folder / f"{name}.json")))


def test_a_prefetch_takes_away_the_wait_and_the_pageable_copies() -> None:
    before, after = (analysis_of(TRACES / f"{name}.stack.json.gz") for name in ("pageable_blocking", "prefetch"))
    old, new = told(before, after, 0), told(before, after, 1)
    assert old["waits"] == [
        ("gone after: blocking copy to the GPU at workloads/copies.py:23, 10.9 ms per step", 6)
    ]  # the copy and its wait
    assert old["copies"] == [("gone after: HtoD pageable, 2.78 ms per step", 3)]
    assert "waits" not in new
    ((text, count),) = new["copies"]
    assert text.startswith("new: HtoD pinned, ")
    assert count >= 3


def test_kernels_are_marked_if_they_are_new_or_take_longer(tmp_path: Path) -> None:
    before, after = looped(tmp_path, "a", kernel=100), looped(tmp_path, "b", kernel=150, extra=True)
    assert told(before, after, 0) == {"kernels": [("longer after: work, 100 \u00b5s -> 150 \u00b5s per step", 4)]}
    new = told(before, after, 1)["kernels"]
    assert sorted(new) == [
        ("longer after: work, 100 \u00b5s -> 150 \u00b5s per step", 4),
        ("new: extra, 50.0 \u00b5s per step", 4),
    ]
    assert sorted(told(after, before, 0)["kernels"]) == [
        ("gone after: extra, 50.0 \u00b5s per step", 4),
        ("shorter after: work, 150 \u00b5s -> 100 \u00b5s per step", 4),
    ]


@pytest.mark.parametrize("kernel", [100.0, 105.0])
def test_what_is_alike_is_not_marked(tmp_path: Path, kernel: float) -> None:
    before, after = looped(tmp_path, "a", kernel=100), looped(tmp_path, "b", kernel=kernel)
    assert told(before, after, 0) == told(before, after, 1) == {}


def test_the_page_has_them_on_top(tmp_path: Path) -> None:
    before, after = looped(tmp_path, "a", kernel=100), looped(tmp_path, "b", kernel=150)
    text = to_html(before, after, compare(before, after))
    assert "The lanes on top mark what only one of them has" in text
