import json
from pathlib import Path
from typing import Any

import pytest
from check_traces import checked, hidden_copy, item, measured, pageable, plain, with_waits
from trace_builder import TraceBuilder, without_known_events

from pinprof.check import (
    QUANTITIES,
    Checked,
    Limits,
    Verdict,
    judge,
    match_traces,
    read_baseline,
    read_config,
    remarks,
)
from pinprof.errors import PinprofError
from pinprof.measure import measure
from pinprof.report.json_report import to_json
from pinprof.rules import find
from pinprof.trace import read_trace

TRACES = Path(__file__).parents[1] / "traces"


def verdict_of(builder: TraceBuilder, folder: Path, **limits: float) -> Verdict:
    (verdict,) = checked(builder, folder, Limits(**limits)).verdicts
    return verdict


# Limits, one by one: the figures of `with_waits` per step are two hidden waits, a stall of 60 + 260 µs,
# 2 + 200 µs of exposed copies, and 1 MB of pageable memory


@pytest.mark.parametrize(
    ("limit", "kept", "violated", "value"),
    [
        ("max_hidden_syncs", 2, 1, 2),
        ("max_stall_ms", 0.32, 0.319, 0.32),
        ("max_exposed_ms", 0.202, 0.201, 0.202),
        ("max_pageable_bytes", 1_000_000, 999_999, 1_000_000),
        ("min_overlap", 0, 0.01, 0),
    ],
)
def test_a_limit_is_kept_up_to_its_value_and_violated_beyond(
    tmp_path: Path, limit: str, kept: float, violated: float, value: float
) -> None:
    good = verdict_of(with_waits(), tmp_path, **{limit: kept})
    assert (good.status, good.failed, good.places) == ("kept", False, ())
    bad = verdict_of(with_waits(), tmp_path, **{limit: violated})
    assert (bad.status, bad.failed) == ("exceeded", True)
    assert bad.measured == pytest.approx(value)
    assert bad.places


def test_work_outside_of_complete_steps_is_no_steps(tmp_path: Path) -> None:
    before, after = measured(with_waits(), tmp_path), measured(pageable(with_waits(), 5000, 1000, 5000), tmp_path)
    for key in ("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes"):
        assert after.figures[key].value == before.figures[key].value


def test_the_overlap_is_that_of_the_whole_trace(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        hidden_copy(builder, start)
    pageable(builder, 5000, time=100)  # 400 of 500 µs are overlapped
    assert verdict_of(builder, tmp_path, min_overlap=0.8).status == "kept"
    verdict = verdict_of(builder, tmp_path, min_overlap=0.81)
    assert verdict.failed
    assert verdict.sentence == "80.0 % of the copy time is overlapped, at least 81.0 % wanted"


def test_a_trace_without_copies_keeps_the_overlap(tmp_path: Path) -> None:
    verdict = verdict_of(plain(), tmp_path, min_overlap=1)
    assert verdict.status == "kept"
    assert "no copies" in verdict.sentence


def test_the_sites_behind_a_limit_are_named_the_longest_stall_first(tmp_path: Path) -> None:
    first, second = verdict_of(with_waits(), tmp_path, max_stall_ms=0).places
    assert (first.file, first.line, first.function, first.rule) == ("train.py", None, "train", "PIN101")
    assert second.rule == "PIN201"
    assert second.message == (
        "aten::item (item): 1 per step; as traced, the host waits 60.0 µs and the GPU is idle for 198 µs after it"
    )


def test_the_copies_behind_a_limit_are_named_by_who_made_them(tmp_path: Path) -> None:
    first, second = verdict_of(with_waits(), tmp_path, max_exposed_ms=0).places
    assert (first.file, first.function, first.rule) == ("train.py", "train", "PIN101")
    assert first.message == (
        "HtoD copies of pageable memory: 1 per step, 977 KiB, exposed for 200 µs of 200 µs (pageable)"
    )
    assert (second.rule, second.subject) == (None, "DtoH pinned same_stream copies")


@pytest.mark.parametrize("limit", ["max_hidden_syncs", "max_exposed_ms", "max_pageable_bytes", "max_step_ms"])
def test_a_wait_for_a_batch_has_the_rule_of_its_finding_under_every_limit(tmp_path: Path, limit: str) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        pageable(builder, start)
        builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 2, 5)
    (place,) = verdict_of(builder, tmp_path, **{limit: 0}).places
    assert (place.rule, place.function) == ("PIN104", "train")
    (remark,) = remarks(checked(builder, tmp_path, Limits(max_hidden_syncs=0, max_step_ms=0)))
    assert remark.rule == "PIN104"


def test_copies_that_expose_next_to_nothing_keep_the_overlap(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.copy("DtoH (Device -> Pinned)", start + 100, 0.5, launch=start + 60, size=20)
    verdict = verdict_of(builder, tmp_path, min_overlap=0.9)
    assert (verdict.status, verdict.measured) == ("kept", 0)
    assert verdict.sentence == (
        "0.0 % of the copy time is overlapped, at least 90.0 % wanted: only 500 ns per step are exposed, too little to "
        "matter"
    )


def test_the_line_of_a_copy_is_that_of_the_wait_for_it() -> None:
    trace = read_trace(TRACES / "loader_pageable.stack.json.gz")
    profile = measure(trace)
    from pinprof.check import measure_figures  # noqa: PLC0415  only here the trace is none of the builder's

    (place,) = measure_figures(profile, trace, find(profile, trace)).figures["max_exposed_ms"].places
    assert (place.file, place.function) == ("pinprof/workloads/loaders.py", "step")
    assert place.line is not None


def test_explicit_waits_are_not_hidden(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.call("cudaDeviceSynchronize", start + 25, 90)
    assert verdict_of(builder, tmp_path, max_hidden_syncs=0).status == "kept"


def test_two_values_that_read_alike_are_told_apart(tmp_path: Path) -> None:
    verdict = verdict_of(with_waits(), tmp_path, max_pageable_bytes=999_999)
    assert verdict.sentence.startswith("1000000 B copied from or to pageable memory per step, at most 999999 B allowed")


# The step without profiler


def measured_step(mean_ms: float) -> TraceBuilder:
    builder = plain()
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": mean_ms, "p10_ms": 0.6, "p90_ms": 0.9}}
    return builder


def test_a_measured_step_is_held_against_its_limit(tmp_path: Path) -> None:
    assert verdict_of(measured_step(0.7), tmp_path, max_step_ms=0.7).status == "kept"
    assert verdict_of(measured_step(0.7), tmp_path, max_step_ms=0.69).status == "exceeded"


@pytest.mark.parametrize(
    ("limit", "status"), [(1.02, "kept"), (1.01, "unknown"), (0.96, "unknown"), (0.95, "exceeded")]
)
def test_an_unknown_step_fails_unless_its_bounds_keep_the_limit(tmp_path: Path, limit: float, status: str) -> None:
    verdict = verdict_of(plain(), tmp_path, max_step_ms=limit)  # 985 to 988 µs, more or less by 3 %
    assert (verdict.status, verdict.failed, verdict.measured) == (status, status != "kept", None)
    assert "pinprof run" in verdict.sentence


# What cannot be known


PER_STEP = ("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes", "max_step_ms")


@pytest.mark.parametrize("limit", [*PER_STEP, "min_overlap"])
def test_an_empty_trace_keeps_no_limit_and_says_why(tmp_path: Path, limit: str) -> None:
    verdict = verdict_of(without_known_events(), tmp_path, **{limit: 0.5})
    assert (verdict.status, verdict.failed, verdict.measured) == ("unknown", True, None)
    assert "record" in verdict.sentence
    noun = next(quantity.noun for quantity in QUANTITIES if quantity.key == limit)
    assert verdict.sentence.startswith(f"the {noun} is not known, ")


def test_without_runtime_calls_waits_are_unknown_and_copies_are_not(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "k", 0, 10, correlation=0, device=0, stream=7)
    assert "ProfilerActivity.CPU" in verdict_of(builder, tmp_path, max_hidden_syncs=1).sentence
    assert verdict_of(builder, tmp_path, max_exposed_ms=0).status == "kept"


def test_memory_of_unknown_kind_may_be_pageable(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.copy("HtoD (Host -> Device)", start + 300, 10, launch=start + 250, size=1000)
    assert verdict_of(builder, tmp_path, max_pageable_bytes=1000).status == "kept"
    assert verdict_of(builder, tmp_path, max_pageable_bytes=999).status == "unknown"


def test_no_limit_is_no_verdict(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits())
    assert (result.verdicts, result.failed) == ((), False)
    assert result.findings


@pytest.mark.parametrize("limits", [{"max_stall_ms": -1}, {"min_overlap": 1.1}, {"max_step_ms": float("nan")}])
def test_a_limit_that_cannot_be_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(PinprofError, match=next(iter(limits)).replace("_", "-")):
        Limits(**limits)


def test_every_quantity_has_a_limit() -> None:
    assert [quantity.key for quantity in QUANTITIES] == list(Limits.__dataclass_fields__)


# Baselines


def report_of(builder: TraceBuilder, folder: Path, **changes: Any) -> Path:
    trace = read_trace(builder.write(folder / "before.json"))
    profile = measure(trace)
    document = json.loads(to_json([(profile, find(profile, trace))]))
    document["traces"][0].update(changes)
    path = folder / "baseline.json"
    path.write_text(json.dumps(document))
    return path


def compared(
    now: TraceBuilder, before: TraceBuilder, folder: Path, limits: Limits | None = None, tolerance: float = 0.1
) -> Checked:
    (baseline,) = read_baseline(report_of(before, folder))
    return judge(measured(now, folder), limits or Limits(), baseline, tolerance)


def statuses(result: Checked) -> dict[str, str]:
    return {verdict.key: verdict.status for verdict in result.verdicts if verdict.status != "kept"}


def test_a_trace_is_no_worse_than_itself(tmp_path: Path) -> None:
    builder = pageable(with_waits(), 5000, 1000, 50_000_000)  # and much work outside of the steps
    result = compared(builder, builder, tmp_path)
    assert statuses(result) == {}
    assert not result.failed
    assert len(result.verdicts) == 7


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.json.gz")), ids=lambda path: path.name)
def test_a_recorded_trace_is_no_worse_than_itself(tmp_path: Path, path: Path) -> None:
    from pinprof.check import measure_figures  # noqa: PLC0415

    trace = read_trace(path)
    profile = measure(trace)
    findings = find(profile, trace)
    report = tmp_path / "baseline.json"
    report.write_text(to_json([(profile, findings)]))
    (baseline,) = read_baseline(report)
    assert not judge(measure_figures(profile, trace, findings), Limits(), baseline).failed


def test_a_new_wait_fails_even_where_others_have_gone(tmp_path: Path) -> None:
    before = plain()
    now = plain()
    for start in range(0, 4000, 1000):
        item(before, start, "aten::nonzero")
        item(now, start)
    verdicts = {verdict.key: verdict for verdict in compared(now, before, tmp_path).verdicts if verdict.failed}
    assert set(verdicts) == {"new_waits"}
    assert [place.rule for place in verdicts["new_waits"].places] == ["PIN201"]
    assert verdicts["new_waits"].sentence == "1 hidden wait at a place that the baseline does not have"


def test_a_wait_that_moved_to_another_line_is_not_new(tmp_path: Path) -> None:
    before, now = plain(function="train.py(3): train"), plain(function="train.py(30): train")
    for start in range(0, 4000, 1000):
        item(before, start)
        item(now, start)
    assert not compared(now, before, tmp_path).failed


def test_more_of_everything_is_worse_and_less_is_not(tmp_path: Path) -> None:
    before = plain()
    for start in range(0, 4000, 1000):
        hidden_copy(before, start)
    worse = statuses(compared(with_waits(), before, tmp_path))
    expected = dict.fromkeys(("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes"), "worse")
    assert worse == expected | {"min_overlap": "worse", "new_waits": "new"}
    assert not compared(before, with_waits(), tmp_path).failed


def longer_copies(time: float) -> TraceBuilder:
    builder = plain()
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
    assert verdict.baseline == pytest.approx(0.2)


def test_a_limit_that_was_already_exceeded_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    result = compared(with_waits(), with_waits(), tmp_path, Limits(max_hidden_syncs=0))
    assert statuses(result) == {"max_hidden_syncs": "tolerated"}
    assert result.verdicts[0].places
    assert "so it does not fail" in result.verdicts[0].sentence


def test_other_numbers_of_steps_are_compared_per_step(tmp_path: Path) -> None:
    assert statuses(compared(with_waits(3), with_waits(6), tmp_path)) == {}


@pytest.mark.parametrize(
    ("now", "before", "status"),
    [
        (measured_step(0.7), measured_step(0.7), "kept"),
        (measured_step(0.8), measured_step(0.7), "worse"),
        (measured_step(1.1), plain(), "not compared"),
        (measured_step(1.2), plain(), "worse"),  # the baseline's upper bound is 1.02 ms
        (plain(), measured_step(0.9), "unknown"),
        (plain(), measured_step(1.0), "kept"),  # not above 1.02 ms
    ],
)
def test_a_step_is_compared_as_far_as_both_are_known(
    tmp_path: Path, now: TraceBuilder, before: TraceBuilder, status: str
) -> None:
    verdicts = {verdict.key: verdict.status for verdict in compared(now, before, tmp_path).verdicts}
    assert verdicts["max_step_ms"] == status


def test_an_unknown_step_that_was_unknown_before_fails_no_limit(tmp_path: Path) -> None:
    limits = Limits(max_step_ms=0.5)
    assert statuses(compared(plain(), plain(), tmp_path, limits)) == {"max_step_ms": "tolerated"}
    assert statuses(compared(plain(), measured_step(0.3), tmp_path, limits)) == {"max_step_ms": "exceeded"}


def test_an_exceeded_limit_that_the_baseline_cannot_excuse_fails(tmp_path: Path) -> None:
    assert statuses(compared(measured_step(1.1), plain(), tmp_path, Limits(max_step_ms=0.5))) == {
        "max_step_ms": "exceeded"
    }


def test_a_trace_that_lost_its_waits_to_the_recording_is_not_better(tmp_path: Path) -> None:
    result = compared(without_known_events(), with_waits(), tmp_path)
    assert statuses(result)["new_waits"] == "unknown"
    assert statuses(result)["max_hidden_syncs"] == "unknown"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("\udcff", "is not JSON"),
        ("[]", "is no report"),
        ("{}", "it has no schema"),
        ('{"schema": "pinprof.report/2"}', "pinprof.report/2, not pinprof.report/1"),
        ('{"schema": "pinprof.report/1"}', "is no report"),
        ('{"schema": "pinprof.report/1", "traces": [{"path": 3}]}', "is no report"),
    ],
)
def test_a_file_that_is_no_baseline_is_named_with_the_way_to_make_one(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(PinprofError, match=r"baseline.json.*pinprof report TRACE --json") as error:
        read_baseline(path)
    assert said in str(error.value)


def test_a_missing_baseline_is_named(tmp_path: Path) -> None:
    with pytest.raises(PinprofError, match=r"none.json.*pinprof report TRACE --json"):
        read_baseline(tmp_path / "none.json")


def test_traces_are_matched_by_position_else_by_rank(tmp_path: Path) -> None:
    now = []
    for rank in (1, 0):
        builder = plain()
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": 3}
        now.append(measured(builder, tmp_path))
    report = json.loads(report_of(plain(), tmp_path).read_text())
    report["traces"] = [report["traces"][0] | {"rank": rank, "path": f"rank{rank}"} for rank in (0, 1, 2)]
    path = tmp_path / "three.json"
    path.write_text(json.dumps(report))
    three = read_baseline(path)
    assert [trace.path for trace in match_traces(now, three)] == ["rank1", "rank0"]
    assert [trace.path for trace in match_traces(now, three[1:])] == ["rank1", "rank2"]
    with pytest.raises(PinprofError, match="rank unknown"):
        match_traces([measured(plain(), tmp_path)], three)


# Remarks


def test_one_spot_behind_several_limits_is_one_remark(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0, max_stall_ms=0, max_step_ms=0.1))
    errors = [remark for remark in remarks(result) if remark.level == "error"]
    spots = [(remark.rule, remark.place.function) for remark in errors]
    assert sorted(spots, key=str) == sorted({*spots}, key=str)
    assert {remark.rule: len(remark.verdicts) for remark in errors}["PIN201"] == 3


def test_findings_that_fail_nothing_are_warnings(tmp_path: Path) -> None:
    assert {remark.level for remark in remarks(checked(with_waits(), tmp_path, Limits()))} == {"warning"}


# pyproject.toml


def config(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_limits_are_read_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = config(tmp_path, "[tool.pinprof.check]\nmax-hidden-syncs = 0\nmin_overlap = 0.9")
    assert read_config(path) == Limits(max_hidden_syncs=0, min_overlap=0.9)


@pytest.mark.parametrize("text", ["", "[tool.other]", "[tool.pinprof]", "tool = 3"])
def test_a_file_without_the_table_has_no_limits(tmp_path: Path, text: str) -> None:
    assert read_config(config(tmp_path, text)) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.pinprof.check]\nmax-hiden-syncs = 0", "max-hiden-syncs: there is no such key; known are max-hidden"),
        ("[tool.pinprof.check]\nmax-step-ms = '3'", "max-step-ms = '3': must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = true", "max-step-ms = True: must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = nan", "max-step-ms = nan"),
        ("[tool.pinprof.check]\nmin-overlap = 90", "at most 1"),
        ("[tool.pinprof.check]\nmax-step-ms = 1\nmax_step_ms = 2", "twice"),
        ("[tool.pinprof]\nmax-step-ms = 1", r"limits stand in \[tool.pinprof.check\]"),
        ("[tool.pinprof]\ncheck = 1", "no table"),
        ("[tool", "is not TOML"),
    ],
)
def test_a_wrong_config_is_one_line_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PinprofError, match=said) as error:
        read_config(config(tmp_path, text))
    assert "pyproject.toml" in str(error.value)
    assert "\n" not in str(error.value)
