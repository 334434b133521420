"""Copies whose size the trace lacks, or gives as one that no copy has: unknown is not nothing."""

from pathlib import Path

import numpy as np
import pytest
from analysed import analysed
from trace_builder import TraceBuilder

from pinprof.analyses.copies import Copied, total_bytes
from pinprof.analysis import Analysis
from pinprof.comparison import compare
from pinprof.measurement.figures import PAGEABLE_BYTES
from pinprof.measurement.profile import CopySums, Profile
from pinprof.measurement.trust.doubt import Known
from pinprof.report.trace.view import copy_cells
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
    [([], (0, 0)), ([-1, -1], (None, 2)), ([5, -1, 0], (5, 1)), ([MAX_COPY_BYTES] * 3, (3 << 40, 0))],
)
def test_a_sum_of_sizes_tells_what_it_lacks(recorded: list[int], expected: tuple[int | None, int]) -> None:
    assert total_bytes(np.array(recorded, np.int64)) == expected


def test_copies_without_a_size_have_none_in_any_report(tmp_path: Path) -> None:
    analysis = analysed(copying(None, None), tmp_path)
    profile = analysis.profile
    group, copied = only_copies(profile)
    assert (copied.count, copied.bytes, group.unsized, copied.bandwidth_gbps) == (6, None, 6, None)
    assert next(copy_cells(profile))[3] == "unknown size"
    assert PAGEABLE_BYTES.of(profile) == Known(None)
    assert missing(profile) == ["no size of 6 of 6 copies"]
    assert "2 HtoD copies of pageable memory per step (unknown size), exposed" in said_of_copies(analysis)


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
