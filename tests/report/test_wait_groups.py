"""Sites gathered by the user's line or by the library's function."""

from pathlib import Path

import pytest
from detector import FOLDER, WAITS, detector, in_detector
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.measurement.profile import WaitSite
from pinprof.report.trace.sections.wait_groups import (
    BY_LIBRARY,
    BY_LINE,
    called_from_several,
    group_waits,
    place_in_group,
)
from pinprof.report.words import whole_place
from pinprof.trace import read_trace
from pinprof.trace.lines import Place


def sites_of(builder: TraceBuilder, folder: Path) -> tuple[WaitSite, ...]:
    return measure(read_trace(builder.write(folder / "trace.json"))).sites


def test_by_library_each_function_stands_with_all_that_call_it(tmp_path: Path) -> None:
    gathered = group_waits(sites_of(detector(), tmp_path), BY_LIBRARY)
    nms = next(group for group in gathered if group.at.function == "batched_nms")
    assert nms.at == Place("torchvision/ops/boxes.py", None, "batched_nms")
    assert sorted(site.line or 0 for site in nms.sites) == [30, 60]


@pytest.mark.parametrize("by", [BY_LINE, BY_LIBRARY])
def test_no_site_is_lost_and_none_counts_twice(tmp_path: Path, by: str) -> None:
    sites = sites_of(detector(), tmp_path)
    assert sorted(map(id, sites)) == sorted(id(site) for group in group_waits(sites, by) for site in group.sites)


def test_what_waits_at_the_line_itself_stands_with_what_it_calls(tmp_path: Path) -> None:
    own = WAITS[6]._replace(stack=("train.py:30:main",), line=30)
    (gathered,) = group_waits(sites_of(detector([WAITS[1], own]), tmp_path))
    assert sorted(place_in_group(site) for site in gathered.sites) == [
        "by itself",
        "in detection/_utils.py:60 (__call__)",
    ]


def test_waits_without_libraries_and_without_places_stand_alone(tmp_path: Path) -> None:
    own = [
        WAITS[6]._replace(op=op, cause=cause) for op, cause in (("aten::item", "item"), ("aten::nonzero", "nonzero"))
    ]
    assert [len(group.sites) for group in group_waits(sites_of(detector(own), tmp_path))] == [1, 1]
    assert [len(group.sites) for group in group_waits(sites_of(detector(with_lines=False), tmp_path))] == [1, 1, 1]
    assert group_waits([]) == []


def test_it_is_told_whether_a_function_is_called_from_several_lines(tmp_path: Path) -> None:
    sites = sites_of(detector(), tmp_path)
    assert called_from_several(sites)
    assert not called_from_several([site for site in sites if site.line == 30])
    assert not called_from_several([])


def test_a_place_without_the_user_is_the_librarys_alone(tmp_path: Path) -> None:
    (site,) = sites_of(detector([in_detector("aten::item", "item", f"{FOLDER}/a.py:1:f")]), tmp_path)
    assert whole_place(site) == "train.py:30 (main), in detection/a.py:1 (f)"
    builder = TraceBuilder()
    builder.step(0, 0, 900)
    builder.function("torchvision/ops/boxes.py(7): nms", 10, 500)
    builder.kernel(60, 50, launch=50)
    builder.call("cudaStreamSynchronize", 70, 45)
    builder.kernel(700, 50, launch=690)
    (alone,) = sites_of(builder, tmp_path)
    assert whole_place(alone) == "nms (ops/boxes.py)"
