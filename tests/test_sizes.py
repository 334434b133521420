"""Copies whose size the trace lacks, or gives as one that no copy has: unknown is not nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import analysed
from fitting import fitting
from trace_builder import TraceBuilder

from pinprof.analyses.copies import Copied, total_bytes
from pinprof.analysis import Analysis
from pinprof.comparison import compare
from pinprof.ground.units import sizes
from pinprof.measurement.figures import PAGEABLE_BYTES
from pinprof.measurement.profile import CopySums, Profile
from pinprof.measurement.trust.doubt import Known
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.sections.copies import copy_cells
from pinprof.trace.reader.assemble import MAX_COPY_BYTES

PAGEABLE = "HtoD (Pageable -> Device)"


def copying(*recorded: int | None, kind: str = PAGEABLE) -> TraceBuilder:
    """Three steps of 1 ms with a kernel of 100 µs and copies of 100 µs of these sizes."""
    builder = TraceBuilder()
    for start in builder.steps(3, length=1000):
        builder.kernel(start + 20, 100, launch=start + 10)
        for place, size in enumerate(recorded):
            begin = start + 200 + 200 * place
            builder.copy(kind, begin, 100, launch=begin - 10, size=size or 0)
            if size is None:
                del builder.events[-1]["args"]["bytes"]
    return builder


def only_copies(profile: Profile) -> tuple[CopySums, Copied]:
    (group,) = profile.copies
    assert isinstance(group.copied, Known)
    return group, group.copied.value


def missing(profile: Profile) -> list[str]:
    return [doubt.what for doubt in profile.doubts if doubt.check == "copy_sizes"]


def said_of_copies(analysis: Analysis) -> str:
    (text,) = [finding.evidence.text for finding in analysis.findings if "copies" in finding.evidence.text]
    return text


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ([], (0, 0)),
        ([-1, -1], (None, 2)),
        ([5, -1, 0], (5, 1)),
        ([MAX_COPY_BYTES] * 3, (3 << 40, 0)),
    ],
)
def test_a_sum_of_sizes_tells_what_it_lacks(recorded: list[int], expected: tuple[int | None, int]) -> None:
    assert total_bytes(np.array(recorded, np.int64)) == expected


def test_sums_of_sizes_read_as_known_as_least_or_as_unknown() -> None:
    assert [sizes(2048, 0), sizes(2048, 1), sizes(None, 2), sizes(0, 0)] == [
        "2.00 KiB",
        "at least 2.00 KiB",
        "unknown size",
        "0 B",
    ]


def test_copies_without_a_size_have_none_in_any_report(tmp_path: Path) -> None:
    analysis = analysed(copying(None, None), tmp_path)
    profile = analysis.profile
    group, copied = only_copies(profile)
    assert (copied.count, copied.bytes, group.unsized, copied.bandwidth_gbps) == (6, None, 6, None)
    assert next(copy_cells(profile))[3] == "unknown size"
    assert PAGEABLE_BYTES.of(profile) == Known(None)
    assert missing(profile) == ["no size of 6 of 6 copies"]
    assert "2 HtoD copies of pageable memory per step (unknown size), exposed" in said_of_copies(analysis)


def test_where_some_sizes_are_known_the_sum_is_the_least(tmp_path: Path) -> None:
    analysis = analysed(copying(2_000_000, None), tmp_path)
    group, copied = only_copies(analysis.profile)
    assert (copied.bytes, group.unsized) == (6_000_000, 3)
    assert copied.bandwidth_gbps == 20.0  # 2 MB in 100 µs: of the others the size is unknown, not 0
    assert next(copy_cells(analysis.profile))[3] == "at least 5.72 MiB"
    assert "(at least 1.91 MiB), exposed" in said_of_copies(analysis)


def test_sizes_that_no_copy_has_are_not_summed_and_are_reported(tmp_path: Path) -> None:
    profile = analysed(copying(2**63 - 1, 2**62, 1000), tmp_path).profile
    group, copied = only_copies(profile)
    assert (copied.bytes, group.unsized) == (3000, 6)
    assert missing(profile) == ["no size of 6 of 9 copies; 6 recorded sizes are corrupt"]


def test_recorded_sizes_are_not_reported(tmp_path: Path) -> None:
    assert missing(analysed(copying(0, MAX_COPY_BYTES), tmp_path).profile) == []


def test_json_has_null_for_a_size_that_is_unknown(tmp_path: Path) -> None:
    analysis = analysed(copying(None), tmp_path)
    document: dict[str, Any] = fitting(traces_to_json([(analysis.profile, analysis.findings)]))
    (copies,) = document["traces"][0]["copies"]
    assert (copies["bytes"], copies["unsized"], copies["bandwidth_gbps"]) == (None, 3, None)


def test_a_comparison_does_not_take_an_unknown_size_for_a_small_one(tmp_path: Path) -> None:
    before, after = (analysed(copying(size), tmp_path) for size in (1000, None))
    (change,) = compare(before, after).copies
    assert change.bytes.before.value == 1000
    assert change.bytes.after.value is None
    assert change.bytes.reason == "after: sizes of copies are not recorded"
    assert not change.bytes.has_changed


def test_a_pageable_copy_of_unknown_size_may_block(tmp_path: Path) -> None:
    assert len(analysed(copying(None), tmp_path).details.syncs.stalls.call) == 3
    assert len(analysed(copying(1000), tmp_path).details.syncs.stalls.call) == 0
