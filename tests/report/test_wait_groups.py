"""Sites gathered by the user's line or by the library's function."""

from pathlib import Path

import pytest
from detector import WAITS, detector
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.measurement.profile import WaitSite
from pinprof.report.trace.sections.wait_groups import BY_LIBRARY, BY_LINE, group_waits, place_in_group
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
