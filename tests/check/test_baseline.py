"""A check against an earlier report: what is new, and what is worse."""

import json
from pathlib import Path
from typing import Any

import check_traces
import pytest
from detector import WAITS, detector
from fitting import fitting
from recordings import WORKLOADS, analysis_of, each_recording
from trace_builder import TraceBuilder, without_known_events

from pinprof.check.baseline import BaselineTrace, match_traces, read_baseline, remarks_on
from pinprof.check.figures import measure_figures
from pinprof.check.judge import KEPT, NOT_JUDGED, Checked, judge, outcome
from pinprof.check.limits import QUANTITIES, Limits
from pinprof.ground.errors import PinprofError
from pinprof.report.trace.json import traces_to_json


def compared(
    now: TraceBuilder, before: TraceBuilder, folder: Path, limits: Limits | None = None, tolerance: float = 0.1
) -> Checked:
    (baseline,) = read_baseline(check_traces.report_of(before, folder)).traces
    return judge(check_traces.measured(now, folder), limits or Limits(), baseline, tolerance)


def test_a_trace_is_no_worse_than_itself(tmp_path: Path) -> None:
    builder = check_traces.pageable(
        check_traces.with_waits(), 5000, 1000, 50_000_000
    )  # and much work outside of the steps
    result = compared(builder, builder, tmp_path)
    assert check_traces.statuses(result) == {}
    assert outcome([result]) == KEPT
    assert len(result.verdicts) == len(QUANTITIES) + 1  # that on new waits


@pytest.mark.parametrize("path", each_recording(WORKLOADS))
def test_a_recorded_trace_is_no_worse_than_itself(tmp_path: Path, path: Path) -> None:
    analysis = analysis_of(path)
    report = tmp_path / "baseline.json"
    report.write_text(traces_to_json([(analysis.profile, analysis.findings)]))
    (baseline,) = read_baseline(report).traces
    assert outcome([judge(measure_figures(analysis), Limits(), baseline)]) == KEPT


def test_a_new_wait_fails_even_where_others_have_gone(tmp_path: Path) -> None:
    before = check_traces.plain()
    now = check_traces.plain()
    for start in range(0, 4000, 1000):
        check_traces.item(before, start, "aten::nonzero")
        check_traces.item(now, start)
    verdicts = {verdict.key: verdict for verdict in compared(now, before, tmp_path).verdicts if verdict.failed}
    assert set(verdicts) == {"new_waits"}
    assert [place.rule for place in verdicts["new_waits"].places] == ["PIN201"]
    assert verdicts["new_waits"].sentence == "hidden waits at places that the baseline does not have: 1"


def test_a_wait_that_moved_to_another_line_is_not_new(tmp_path: Path) -> None:
    before, now = check_traces.plain(function="train.py(3): train"), check_traces.plain(function="train.py(30): train")
    for start in range(0, 4000, 1000):
        check_traces.item(before, start)
        check_traces.item(now, start)
    assert outcome([compared(now, before, tmp_path)]) == KEPT


def test_more_of_everything_is_worse_and_less_is_not(tmp_path: Path) -> None:
    before = check_traces.plain()
    for start in range(0, 4000, 1000):
        check_traces.hidden_copy(before, start)
    worse = check_traces.statuses(compared(check_traces.with_waits(), before, tmp_path))
    expected = dict.fromkeys(("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes"), "worse")
    of_estimates = {"max_step_ms": "not compared"}  # their ranges are wider than the tolerance
    assert worse == expected | of_estimates | {"min_overlap": "worse", "new_waits": "new"}
    assert outcome([compared(before, check_traces.with_waits(), tmp_path)]) == KEPT


def longer_copies(time: float) -> TraceBuilder:
    builder = check_traces.plain()
    for start in range(0, 4000, 1000):
        builder.copy("HtoD (Pinned -> Device)", start + 150, time, launch=start + 130)
    return builder


@pytest.mark.parametrize(
    ("time", "tolerance", "failed"),
    [(239, 0.1, False), (241, 0.1, True), (241, 0.2, False), (221, 0, True), (219, 0, False)],
)
def test_worse_is_beyond_the_tolerance_and_the_noise_of_20_us(
    tmp_path: Path, time: float, tolerance: float, *, failed: bool
) -> None:
    result = compared(longer_copies(time), longer_copies(200), tmp_path, Limits(max_exposed_ms=0.1), tolerance)
    verdict = result.verdicts[0]
    assert verdict.failed == failed
    assert verdict.status == ("exceeded" if failed else "tolerated")


def test_a_limit_that_was_already_exceeded_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    result = compared(check_traces.with_waits(), check_traces.with_waits(), tmp_path, Limits(max_hidden_syncs=0))
    assert check_traces.statuses(result) == {"max_hidden_syncs": "tolerated"}
    assert result.verdicts[0].places
    assert "so it does not fail" in result.verdicts[0].sentence


@pytest.mark.parametrize(
    ("now", "before", "status"),
    [
        (check_traces.measured_step(0.7), check_traces.measured_step(0.7), "kept"),
        (check_traces.measured_step(0.8), check_traces.measured_step(0.7), "worse"),
        (check_traces.measured_step(1.1), check_traces.plain(), "not compared"),
        (check_traces.measured_step(1.2), check_traces.plain(), "worse"),  # the baseline's upper bound is 1.02 ms
        (check_traces.plain(), check_traces.measured_step(0.9), "unknown"),
        (check_traces.plain(), check_traces.measured_step(1.0), "kept"),  # not above 1.02 ms
    ],
)
def test_a_step_is_compared_as_far_as_both_are_known(
    tmp_path: Path, now: TraceBuilder, before: TraceBuilder, status: str
) -> None:
    verdicts = {verdict.key: verdict.status for verdict in compared(now, before, tmp_path).verdicts}
    assert verdicts["max_step_ms"] == status


def test_an_exceeded_step_is_tolerated_where_the_baseline_excuses_it(tmp_path: Path) -> None:
    for now, before, status in (
        (check_traces.measured_step(1.0), check_traces.measured_step(1.0), "tolerated"),
        (
            check_traces.plain(),
            check_traces.plain(),
            "exceeded",
        ),  # the step may have been shorter by more than the tolerance
        (check_traces.plain(), check_traces.measured_step(0.3), "exceeded"),
        (check_traces.measured_step(1.1), check_traces.plain(), "exceeded"),
    ):
        assert check_traces.statuses(compared(now, before, tmp_path, Limits(max_step_ms=0.5))) == {
            "max_step_ms": status
        }


def test_a_trace_that_lost_its_waits_to_the_recording_is_not_better(tmp_path: Path) -> None:
    result = compared(without_known_events(), check_traces.with_waits(), tmp_path)
    assert check_traces.statuses(result)["new_waits"] == "unknown"
    assert check_traces.statuses(result)["max_hidden_syncs"] == "unknown"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("\udcff", "is not JSON"),
        ("[" * 100_000, "is not a report"),
        ("null", "is not a report"),
        ("[]", "is not a report"),
        ("{}", "it has no schema"),
        ('{"schema": "pinprof.report/2"}', "pinprof.report/2, not pinprof.report/1"),
        ('{"schema": "pinprof.report/1"}', "is not a report"),
        ('{"schema": "pinprof.report/1", "traces": []}', "is not a report"),
        ('{"schema": "pinprof.report/1", "traces": [{"path": 3}]}', "is not a report"),
    ],
)
def test_a_file_that_is_no_baseline_is_named_with_the_way_to_make_one(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(PinprofError, match=r"baseline.json.*pinprof report TRACE --json") as error:
        read_baseline(path)
    assert said in str(error.value)


def paths_of(matched: list[BaselineTrace | None]) -> list[str | None]:
    return [before.path if before else None for before in matched]


def test_traces_are_matched_by_rank_else_by_position(tmp_path: Path) -> None:
    now = []
    for rank in (1, 0):
        builder = check_traces.plain()
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": 3}
        now.append(check_traces.measured(builder, tmp_path))
    report = fitting(check_traces.report_of(check_traces.plain(), tmp_path).read_text())
    report["traces"] = [report["traces"][0] | {"rank": rank, "path": f"rank{rank}"} for rank in (0, 1, 2)]
    path = tmp_path / "three.json"
    path.write_text(json.dumps(report))
    three = read_baseline(path).traces
    assert paths_of(match_traces(now, three)) == ["rank1", "rank0"]
    assert paths_of(match_traces(now, three[1:])) == ["rank1", "rank2"]
    assert paths_of(match_traces(now, (three[0], three[1]))) == ["rank1", "rank0"]
    assert paths_of(match_traces([now[0], None], three)) == ["rank1", None]
    unnumbered = check_traces.measured(check_traces.plain(), tmp_path)
    assert paths_of(match_traces([None, unnumbered, None], three)) == [None, "rank1", None]
    for few in ([unnumbered], [None, unnumbered], [now[0], now[0]]):
        with pytest.raises(PinprofError, match="the baseline has 3 traces"):
            match_traces(few, three)


def test_where_nothing_can_be_compared_nothing_was_judged(tmp_path: Path) -> None:
    result = compared(without_known_events(), without_known_events(), tmp_path)
    assert {verdict.status for verdict in result.verdicts} == {"unknown"}
    assert outcome([result]) == NOT_JUDGED
    result = compared(without_known_events(), without_known_events(), tmp_path, Limits(max_exposed_ms=1))
    assert check_traces.statuses(result)["max_exposed_ms"] == "unknown"
    assert outcome([result]) == NOT_JUDGED


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        *(({"step_ms": -1}, "step_ms"), ({"step_ms": 1e300}, "step_ms"), ({"step_ms": "3"}, "step_ms")),
        *(({"count": -1}, "count"), ({"range_ms": [0, -2]}, "range_ms"), ({"range_ms": [2, 1]}, "")),
    ],
)
def test_a_baseline_with_an_impossible_figure_is_refused_by_its_name(
    tmp_path: Path, steps: dict[str, Any], said: str
) -> None:
    path = check_traces.report_of(check_traces.plain(), tmp_path)
    document = json.loads(path.read_text())
    document["traces"][0]["steps"] |= steps
    path.write_text(json.dumps(document))
    with pytest.raises(PinprofError, match=rf"baseline.json.*traces\[0\]\.steps.*{said}.*pinprof report"):
        read_baseline(path)


def test_a_baseline_of_another_program_machine_or_version_is_remarked_on(tmp_path: Path) -> None:
    busy, other = check_traces.plain(), check_traces.plain()
    for start in range(0, 4000, 1000):
        for kernel in range(3):
            busy.kernel(start + 400 + 10 * kernel, 5, launch=start + 300 + 10 * kernel)
    busy.metadata["deviceProperties"] = [{"id": 0, "name": "H100"}]
    other.metadata["deviceProperties"] = [{"id": 0, "name": "A100"}]
    baseline = read_baseline(check_traces.report_of(other, tmp_path))
    said = "\n".join(remarks_on(baseline, [check_traces.measured(busy, tmp_path)], baseline.traces))
    assert "of A100, not H100" in said
    assert "whose steps have 2 kernels, not 5: is it the same program?" in said
    path = check_traces.report_of(check_traces.plain(), tmp_path)
    path.write_text(path.read_text().replace('"pinprof_version": "', '"pinprof_version": "9.'))
    baseline = read_baseline(path)
    assert "it is of pinprof 9." in "".join(remarks_on(baseline, [None], [None]))


def test_a_wait_in_another_function_of_a_library_is_new(tmp_path: Path) -> None:
    (verdict,) = [
        verdict
        for verdict in compared(detector(WAITS[:4]), detector(WAITS[:3]), tmp_path).verdicts
        if verdict.key == "new_waits"
    ]
    (place,) = verdict.places
    assert place.message.startswith(
        "`nonzero()` (aten::nonzero) within fastrcnn_loss (torchvision/models/detection/roi_heads.py:32): 1 per step; "
    )


def test_what_one_line_calls_in_libraries_is_one_place_of_a_limit(tmp_path: Path) -> None:
    (verdict,) = check_traces.checked(detector(), tmp_path, Limits(max_hidden_syncs=0)).verdicts
    assert sorted((str(place.place), place.rule or "") for place in verdict.places) == [
        ("train.py:30", "PIN201"),
        ("train.py:30", "PIN205"),
        ("train.py:32", "PIN201"),
        ("train.py:60", "PIN205"),
    ]
    masks = next(place for place in verdict.places if (place.line, place.rule) == (30, "PIN205"))
    assert masks.message.startswith("`nonzero()`, `x[mask]` (aten::nonzero, aten::index) within __call__ (torchvision/")
    assert ": 5 per step; as traced, the host waits 250 µs" in masks.message
