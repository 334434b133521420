"""Predictions from recordings before a fix, against the measured truth of recordings after it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from recordings import TRACES, analysis_of
from trace_builder import SIDE, TraceBuilder, without_known_events

from pinprof.details import Details, details_of
from pinprof.ground.errors import TraceError
from pinprof.measurement.profile import Profile
from pinprof.prediction.verification import Verification, verify

TRUTH = json.loads((TRACES / "truth.json").read_text())["workloads"]

FIXES = [
    ("pageable_blocking", "pinned_non_blocking", {"pin", "non_blocking"}),
    ("pageable_non_blocking", "pinned_non_blocking", {"pin"}),
    ("pinned_blocking", "pinned_non_blocking", {"non_blocking"}),
    ("pinned_non_blocking", "prefetch", {"overlap_copies"}),
    ("pageable_blocking", "prefetch", {"pin", "non_blocking", "overlap_copies"}),
    ("loss_item", "clean", {"drop_syncs"}),
    ("loss_item_host_work", "clean", {"drop_syncs"}),
    ("empty_cache", "clean", {"drop_allocs"}),
    ("readback_blocking", "readback_async", {"pin", "non_blocking"}),
    ("loader_pageable", "loader_pinned", {"pin"}),
    ("clean", "clean", set()),
]


def loaded(path: Path) -> tuple[Details, Profile]:
    analysis = analysis_of(path)
    return analysis.details, analysis.profile


def verified(before: Path, after: Path) -> Verification:
    return verify(*loaded(before), *loaded(after))


def recorded(before: str, after: str, kind: str = "") -> Verification:
    return verified(TRACES / f"{before}{kind}.json.gz", TRACES / f"{after}{kind}.json.gz")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", ".stack"])
@pytest.mark.parametrize(("before", "after", "options"), FIXES)
def test_the_fix_is_seen_and_its_step_predicted(before: str, after: str, options: set[str], kind: str) -> None:
    result = recorded(before, after, kind)
    assert {change.option for change in result.changes} == options
    assert abs(result.error) < 0.05
    assert result.prediction.predicted_ns / 1e6 == pytest.approx(TRUTH[after]["plain_ms"]["median"], rel=0.05)
    assert result.measured_source == "measured"
    assert result.is_same_program
    assert result.kernels_alike == 1
    assert result.new_waits == ()


def test_savings_are_of_the_same_step_before() -> None:
    result = recorded("loss_item_host_work", "clean")
    assert result.prediction.baseline_ns - result.predicted_saving_ns == result.prediction.predicted_ns
    assert result.prediction.baseline_ns - result.measured_saving_ns == result.measured_ns


def program(path: Path, *, waits: float = 0, function: str = "train.py(3): train", stream: int = 7) -> Path:
    """Write four steps: a pinned copy, two kernels, and waits for the device in N of the steps."""
    builder = TraceBuilder()
    builder.function(function, 0, 5000)
    for number, start in enumerate(builder.steps(4)):
        builder.kernel(start + 100, 300, launch=start + 50)
        builder.copy("HtoD (Pinned -> Device)", start + 150, 100, launch=start + 70, stream=stream)
        builder.kernel(start + 400, 100, launch=start + 90, name="relu")
        if number < waits:
            builder.call("cudaDeviceSynchronize", start + 110, 400)
    return builder.write(path)


def options_of(before: Path, after: Path) -> list[str]:
    return [change.option for change in verified(before, after).changes]


def test_a_wait_in_half_of_the_steps_as_many_has_gone_and_one_in_most_has_not(tmp_path: Path) -> None:
    all_steps = program(tmp_path / "all.json", waits=4)
    assert options_of(all_steps, program(tmp_path / "none.json")) == ["drop_syncs"]
    assert options_of(all_steps, program(tmp_path / "half.json", waits=2)) == ["drop_syncs"]
    assert options_of(all_steps, program(tmp_path / "most.json", waits=3)) == []


def test_a_wait_that_moved_to_another_function_has_not_gone(tmp_path: Path) -> None:
    before = program(tmp_path / "before.json", waits=4)
    after = program(tmp_path / "after.json", waits=4, function="train.py(9): train_step")
    assert options_of(before, after) == []
    assert verified(before, after).new_waits == ()


def test_copies_that_moved_to_another_stream_beside_kernels_are_made_ahead(tmp_path: Path) -> None:
    same, other = program(tmp_path / "same.json"), program(tmp_path / "other.json", stream=SIDE)
    assert options_of(same, other) == ["overlap_copies"]
    assert options_of(other, same) == []


@pytest.mark.parametrize("empty_is_first", [True, False])
def test_a_trace_without_gpu_work_is_refused_by_name(tmp_path: Path, *, empty_is_first: bool) -> None:
    empty, full = without_known_events().write(tmp_path / "empty.json"), program(tmp_path / "full.json")
    pair = (empty, full) if empty_is_first else (full, empty)
    with pytest.raises(TraceError, match=r"empty\.json: has no complete step"):
        verified(*pair)


def test_several_waits_of_one_kind_on_lines_of_one_function_are_all_found_again() -> None:
    details, profile = loaded(TRACES / "loss_item.json.gz")
    (site,) = (site for site in details.syncs.sites if site.is_of_the_code)
    other = replace(site, line=(site.line or 0) + 1)
    twice = details_of(details.trace)
    vars(twice)["syncs"] = replace(details.syncs, sites=(*details.syncs.sites, other))
    assert len(twice.syncs.sites) == len(details.syncs.sites) + 1
    result = verify(twice, profile, twice, profile)
    assert result.changes == ()
    assert result.new_waits == ()
