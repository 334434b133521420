import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from check_traces import checked, hidden_copy, item, measured, pageable, plain, with_waits
from detector import WAITS, detector
from fitting import fitting
from one_after_another import STEP_US, STEPS, one_after_another
from recordings import TRACES, WORKLOADS, analysis_of, mostly_slow
from trace_builder import TraceBuilder, without_known_events

from pinprof.analysis import analyse
from pinprof.check.baseline import BaselineTrace, match_traces, read_baseline, remarks_on
from pinprof.check.config import find_config, read_config
from pinprof.check.figures import LIMITED, TraceFigures
from pinprof.check.judge import (
    KEPT,
    NOT_JUDGED,
    NOT_KEPT,
    Checked,
    LimitVerdict,
    absent_ranks,
    judge,
    judge_all,
    outcome,
)
from pinprof.check.limits import BYTES, COUNT, MS, QUANTITIES, SHARE, Limits, Quantity
from pinprof.check.remarks import remarks
from pinprof.errors import PinprofError, TraceError
from pinprof.measurement.measure import measure
from pinprof.report.trace.json import to_json
from pinprof.rules import find
from pinprof.trace import read_trace


def verdict_of(builder: TraceBuilder, folder: Path, **limits: float) -> LimitVerdict:
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
        "`.item()` (aten::item): 1 per step; as traced, the host waits 60.0 µs and the GPU is idle for 198 µs after it"
    )


def test_the_copies_behind_a_limit_are_named_by_who_made_them(tmp_path: Path) -> None:
    first, second = verdict_of(with_waits(), tmp_path, max_exposed_ms=0).places
    assert (first.file, first.function, first.rule) == ("train.py", "train", "PIN101")
    assert first.message == (
        "HtoD copies of pageable memory: 1 per step, 977 KiB, exposed for 200 µs of 200 µs (the memory is not pinned)"
    )
    assert (second.rule, second.subject) == (None, "DtoH pinned same_stream copies")


@pytest.mark.parametrize("limit", ["max_hidden_syncs", "max_exposed_ms", "max_pageable_bytes", "max_step_ms"])
def test_a_wait_for_a_batch_has_the_rule_of_its_finding_under_every_limit(tmp_path: Path, limit: str) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        pageable(builder, start)
        builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 2, 5)
    places = verdict_of(builder, tmp_path, **{limit: 0}).places
    (place,) = (each for each in places if not (each.rule or "").startswith("PIN60"))
    assert (place.rule, place.function) == ("PIN104", "train")
    found = remarks(checked(builder, tmp_path, Limits(max_hidden_syncs=0, max_step_ms=0)))
    assert [remark.rule for remark in found if not remark.rule.startswith("PIN60")] == ["PIN104"]


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
    analysis = analysis_of(TRACES / "loader_pageable.stack.json.gz")
    from pinprof.check.figures import measure_figures  # noqa: PLC0415  only here the trace is none of the builder's

    (place,) = measure_figures(analysis).figures["max_exposed_ms"].places
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
    ("limit", "status"), [(1.03, "kept"), (1.01, "unknown"), (0.94, "unknown"), (0.93, "exceeded")]
)
def test_an_unknown_step_fails_unless_its_bounds_keep_the_limit(tmp_path: Path, limit: float, status: str) -> None:
    verdict = verdict_of(plain(), tmp_path, max_step_ms=limit)  # 985 to 988 µs, less by 5 % or more by 3
    assert (verdict.status, verdict.failed, verdict.measured) == (status, status != "kept", None)
    assert "pinprof run" in verdict.sentence


# What cannot be known


PER_STEP = ("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes", "max_step_ms")


@pytest.mark.parametrize("limit", [*PER_STEP, "min_overlap"])
def test_an_empty_trace_keeps_no_limit_and_says_why(tmp_path: Path, limit: str) -> None:
    verdict = verdict_of(without_known_events(), tmp_path, **{limit: 0.5})
    assert (verdict.status, verdict.failed, verdict.measured) == ("unknown", True, None)
    assert "record" in verdict.sentence
    quantity = QUANTITIES[limit]
    assert verdict.sentence.startswith(f"the {quantity.noun or quantity.what} is not known, ")


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
    assert (result.verdicts, outcome([result])) == ((), KEPT)
    assert result.findings


@pytest.mark.parametrize("limits", [{"max_stall_ms": -1}, {"min_overlap": 1.1}, {"max_step_ms": float("nan")}])
def test_a_limit_that_cannot_be_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(PinprofError, match=next(iter(limits)).replace("_", "-")):
        Limits(**limits)


@pytest.mark.parametrize("quantity", QUANTITIES.values(), ids=QUANTITIES)
def test_a_limit_is_a_lower_bound_where_more_of_its_figure_is_better(quantity: Quantity) -> None:
    figure = LIMITED[quantity.key]
    assert quantity.at_least == figure.more_is_better
    assert quantity.unit in {"ns": (MS,), "bytes": (BYTES,), "count": (COUNT,), "share": (SHARE,)}[figure.unit]


# Baselines


def report_of(builder: TraceBuilder, folder: Path, **changes: Any) -> Path:
    trace = read_trace(builder.write(folder / "before.json"))
    profile = measure(trace)
    document = fitting(to_json([(profile, find(profile, trace))]))
    trace_fields = document["traces"][0]
    for name, value in changes.items():
        trace_fields[name] = trace_fields[name] | value if isinstance(value, dict) else value
    path = folder / "baseline.json"
    path.write_text(json.dumps(document))
    return path


def compared(
    now: TraceBuilder, before: TraceBuilder, folder: Path, limits: Limits | None = None, tolerance: float = 0.1
) -> Checked:
    (baseline,) = read_baseline(report_of(before, folder)).traces
    return judge(measured(now, folder), limits or Limits(), baseline, tolerance)


def statuses(result: Checked) -> dict[str, str]:
    return {verdict.key: verdict.status for verdict in result.verdicts if verdict.status != "kept"}


def test_a_trace_is_no_worse_than_itself(tmp_path: Path) -> None:
    builder = pageable(with_waits(), 5000, 1000, 50_000_000)  # and much work outside of the steps
    result = compared(builder, builder, tmp_path)
    assert statuses(result) == {}
    assert outcome([result]) == KEPT
    assert len(result.verdicts) == 7


@pytest.mark.parametrize("path", mostly_slow(WORKLOADS))
def test_a_recorded_trace_is_no_worse_than_itself(tmp_path: Path, path: Path) -> None:
    from pinprof.check.figures import measure_figures  # noqa: PLC0415

    analysis = analysis_of(path)
    report = tmp_path / "baseline.json"
    report.write_text(to_json([(analysis.profile, analysis.findings)]))
    (baseline,) = read_baseline(report).traces
    assert outcome([judge(measure_figures(analysis), Limits(), baseline)]) == KEPT


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
    assert outcome([compared(now, before, tmp_path)]) == KEPT


def test_more_of_everything_is_worse_and_less_is_not(tmp_path: Path) -> None:
    before = plain()
    for start in range(0, 4000, 1000):
        hidden_copy(before, start)
    worse = statuses(compared(with_waits(), before, tmp_path))
    expected = dict.fromkeys(("max_hidden_syncs", "max_stall_ms", "max_exposed_ms", "max_pageable_bytes"), "worse")
    assert worse == expected | {"min_overlap": "worse", "new_waits": "new"}
    assert outcome([compared(before, with_waits(), tmp_path)]) == KEPT


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


def test_an_estimated_step_is_tolerated_where_its_range_is_no_worse_than_before(tmp_path: Path) -> None:
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
        ("[]", "is not a report"),
        ("{}", "it has no schema"),
        ('{"schema": "pinprof.report/2"}', "pinprof.report/2, not pinprof.report/1"),
        ('{"schema": "pinprof.report/1"}', "is not a report"),
        ('{"schema": "pinprof.report/1", "traces": [{"path": 3}]}', "is not a report"),
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


def paths_of(matched: list[BaselineTrace | None]) -> list[str | None]:
    return [before.path if before else None for before in matched]


def test_traces_are_matched_by_rank_else_by_position(tmp_path: Path) -> None:
    now = []
    for rank in (1, 0):
        builder = plain()
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": 3}
        now.append(measured(builder, tmp_path))
    report = fitting(report_of(plain(), tmp_path).read_text())
    report["traces"] = [report["traces"][0] | {"rank": rank, "path": f"rank{rank}"} for rank in (0, 1, 2)]
    path = tmp_path / "three.json"
    path.write_text(json.dumps(report))
    three = read_baseline(path).traces
    assert paths_of(match_traces(now, three)) == ["rank1", "rank0"]
    assert paths_of(match_traces(now, three[1:])) == ["rank1", "rank2"]
    assert paths_of(match_traces(now, (three[0], three[1]))) == ["rank1", "rank0"]
    assert paths_of(match_traces([now[0], None], three)) == ["rank1", None]
    unnumbered = measured(plain(), tmp_path)
    assert paths_of(match_traces([None, unnumbered, None], three)) == [None, "rank1", None]
    for few in ([unnumbered], [None, unnumbered], [now[0], now[0]]):
        with pytest.raises(PinprofError, match="the baseline has 3 traces"):
            match_traces(few, three)


def test_a_limit_that_nobody_can_judge_is_not_excused_by_a_baseline_that_could_not_either(tmp_path: Path) -> None:
    result = compared(without_known_events(), without_known_events(), tmp_path, Limits(max_exposed_ms=1))
    assert statuses(result)["max_exposed_ms"] == "unknown"
    assert outcome([result]) == NOT_JUDGED


def test_where_nothing_can_be_compared_nothing_was_judged(tmp_path: Path) -> None:
    result = compared(without_known_events(), without_known_events(), tmp_path)
    assert {verdict.status for verdict in result.verdicts} == {"unknown"}
    assert outcome([result]) == NOT_JUDGED


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ({"step_ms": -1}, "step_ms"),
        ({"step_ms": 1e300}, "step_ms"),
        ({"step_ms": "3"}, "step_ms"),
        ({"count": -1}, "count"),
        ({"range_ms": [0, -2]}, "range_ms"),
        ({"range_ms": [2, 1]}, ""),
    ],
)
def test_a_baseline_with_an_impossible_figure_is_refused_by_its_name(
    tmp_path: Path, steps: dict[str, Any], said: str
) -> None:
    path = report_of(plain(), tmp_path)
    document = json.loads(path.read_text())
    document["traces"][0]["steps"] |= steps
    path.write_text(json.dumps(document))
    with pytest.raises(PinprofError, match=rf"baseline.json.*traces\[0\]\.steps.*{said}.*pinprof report"):
        read_baseline(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"per_step": {"hidden_syncs": 1e300}},
        {"per_step": {"exposed_ms": -1}},
        {"per_step": {"hidden_syncs": "1"}},
        {"overlap": {"fraction": 90}},
        {"overlap": {"fraction": "1"}},
        {"overlap": None},
        {"syncs": None},
    ],
)
def test_a_baseline_whose_figures_are_none_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(PinprofError, match=r"baseline.json: is not a report of pinprof that a check can use"):
        read_baseline(report_of(plain(), tmp_path, **changes))


def test_a_baseline_of_an_older_pinprof_may_lack_a_sum_per_step(tmp_path: Path) -> None:
    report = report_of(with_waits(), tmp_path)
    document = json.loads(report.read_text())
    del document["traces"][0]["per_step"]["bubble_ms"], document["traces"][0]["kernels"], document["ranks"]
    report.write_text(json.dumps(document))
    (baseline,) = read_baseline(report).traces
    assert outcome([judge(measured(with_waits(), tmp_path), Limits(), baseline)]) == KEPT


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_baseline_with_what_is_no_number_is_refused(tmp_path: Path, text: str) -> None:
    path = report_of(plain(), tmp_path, overlap={"fraction": "HERE"})
    path.write_text(path.read_text().replace('"HERE"', text))
    with pytest.raises(PinprofError, match="is not JSON"):
        read_baseline(path)


def remarks_of(now: TraceBuilder, before: TraceBuilder, folder: Path, **changes: Any) -> str:
    baseline = read_baseline(report_of(before, folder, **changes))
    return "\n".join(remarks_on(baseline, [measured(now, folder)], baseline.traces))


def test_a_baseline_of_the_same_program_and_machine_is_not_remarked_on(tmp_path: Path) -> None:
    assert remarks_of(with_waits(3), with_waits(6), tmp_path) == ""


def test_a_baseline_of_another_program_machine_or_version_is_remarked_on(tmp_path: Path) -> None:
    busy, other = plain(), plain()
    for start in range(0, 4000, 1000):
        for kernel in range(3):
            busy.kernel(start + 400 + 10 * kernel, 5, launch=start + 300 + 10 * kernel)
    busy.metadata["deviceProperties"] = [{"id": 0, "name": "H100"}]
    other.metadata["deviceProperties"] = [{"id": 0, "name": "A100"}]
    said = remarks_of(
        busy,
        other,
        tmp_path,
        missing=[{**dict.fromkeys(("level", "what", "effect", "remedy"), ""), "check": "truncated", "invalidates": []}],
    )
    assert "of A100, not H100" in said
    assert "whose steps have 2 kernels, not 5: is it the same program?" in said
    assert "which has lost its end" in said
    path = report_of(plain(), tmp_path)
    path.write_text(path.read_text().replace('"pinprof_version": "', '"pinprof_version": "9.'))
    baseline = read_baseline(path)
    assert "it is of pinprof 9." in "".join(remarks_on(baseline, [None], [None]))


# A file that has lost its end


def cut(builder: TraceBuilder, folder: Path, until: float) -> TraceFigures:
    """Return the figures of a trace that lost all GPU work and calls that begin later: torch writes these last."""
    whole = builder.document()
    on_gpu = {"kernel", "gpu_memcpy", "cuda_runtime"}
    whole["traceEvents"] = sorted(whole["traceEvents"], key=lambda event: (event["cat"] in on_gpu, event["ts"]))
    end = next(
        place
        for place, event in enumerate(whole["traceEvents"])
        if event["cat"] in on_gpu and event["ts"] >= builder.base_us + until
    )
    lost = json.dumps({**whole, "traceEvents": whole["traceEvents"][:end]})[: -len("]}")]
    path = folder / "cut.json"
    path.write_text(lost)
    trace = read_trace(path)
    assert trace.cut
    from pinprof.check.figures import measure_figures  # noqa: PLC0415

    return measure_figures(analyse(trace))


@pytest.mark.parametrize(
    ("limit", "kept", "violated"),
    [
        ("max_hidden_syncs", 2, 1),
        ("max_stall_ms", 0.33, 0.31),
        ("max_exposed_ms", 0.21, 0.2),
        ("max_pageable_bytes", 1_000_000, 999_999),
        ("min_overlap", 0, 0.01),
        ("max_step_ms", 100, 0.1),
    ],
)
def test_a_file_that_lost_its_end_breaks_limits_and_keeps_none(
    tmp_path: Path, limit: str, kept: float, violated: float
) -> None:
    figures = cut(with_waits(6), tmp_path, 4500)
    (verdict,) = judge(figures, Limits(**{limit: kept})).verdicts
    assert (verdict.status, verdict.places) == ("kept" if limit == "min_overlap" else "unknown", ())
    assert "without the end of the file" in verdict.sentence
    (verdict,) = judge(figures, Limits(**{limit: violated})).verdicts
    assert verdict.status == "exceeded"
    assert verdict.places


def test_a_file_that_lost_its_end_may_have_lost_new_waits(tmp_path: Path) -> None:
    (baseline,) = read_baseline(report_of(with_waits(6), tmp_path)).traces
    assert statuses(judge(cut(with_waits(6), tmp_path, 4500), Limits(), baseline))["new_waits"] == "unknown"
    (clean,) = read_baseline(report_of(plain(6), tmp_path)).traces
    assert statuses(judge(cut(with_waits(6), tmp_path, 4500), Limits(), clean))["new_waits"] == "new"


@pytest.mark.parametrize(("spoiled", "status"), [(0, "kept"), (1, "unknown")])
def test_events_that_cannot_be_used_may_have_been_waits(tmp_path: Path, spoiled: int, status: str) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.call("cudaStreamSynchronize", start + 700, 60)
        if spoiled:
            builder.events[-1]["dur"] = None
        else:
            builder.events.pop()
    verdict = verdict_of(builder, tmp_path, max_hidden_syncs=0)
    assert verdict.status == status


SPOILED: dict[str, Callable[[dict[str, Any]], object]] = {
    "NaN": lambda event: event.update(dur=float("nan")),
    "NaN ts": lambda event: event.update(ts=float("nan")),
    "null": lambda event: event.update(dur=None),
    "text": lambda event: event.update(ts="soon"),
    "negative": lambda event: event.update(dur=-1),
    "missing": lambda event: event.pop("dur"),
    "no ts": lambda event: event.pop("ts"),
    "absurd": lambda event: event.update(ts=9e15),
    "no event": lambda event: event.update(pid=["of", "no", "kind"]),
}
"""How an event can be unusable."""
HIT = {
    "cudaStreamSynchronize": {"max_hidden_syncs", "max_stall_ms"},
    "aten::item": {"max_hidden_syncs", "max_stall_ms"},
    "cudaMemcpyAsync": {"max_exposed_ms", "max_pageable_bytes"},
    "Memcpy HtoD (Pageable -> Device)": {"max_exposed_ms", "min_overlap", "max_pageable_bytes"},
}
"""Which limits depend on an event of this name."""
GENEROUS = Limits(max_hidden_syncs=50, max_stall_ms=50, max_exposed_ms=50, min_overlap=0.01, max_pageable_bytes=10**9)


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize(("name", "limits"), HIT.items(), ids=HIT)
def test_a_limit_passes_only_where_all_that_its_figure_is_made_of_can_be_used(
    tmp_path: Path, name: str, limits: set[str], spoil: Callable[[dict[str, Any]], object]
) -> None:
    builder = with_waits(60)
    for start in range(0, 60_000, 1000):
        hidden_copy(builder, start)
    assert statuses(checked(builder, tmp_path, GENEROUS)) == {}
    spoil(next(event for event in builder.events if event["name"] == name))
    unknown = {key for key, status in statuses(checked(builder, tmp_path, GENEROUS)).items() if status == "unknown"}
    assert unknown >= limits


def test_copies_that_were_lost_are_not_overlapped(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.call("cudaMemcpyAsync", start + 200, 5)
    verdict = verdict_of(builder, tmp_path, min_overlap=0.9)
    assert verdict.status == "unknown"


def test_steps_without_gpu_work_tell_nothing_of_copies(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number in range(4):
        builder.step(number, 1000 * number, 990)
        builder.activity(
            "gpu_memcpy",
            "Memcpy HtoD (Pageable -> Device)",
            1000 * number + 100,
            300,
            correlation=0,
            device=0,
            stream=7,
            bytes=1000,
        )
    for limit in ("max_exposed_ms", "max_pageable_bytes"):
        assert verdict_of(builder, tmp_path, **{limit: 0}).status == "unknown"


# The traces of a job


def of_rank(rank: int | None, world_size: int | None, folder: Path, name: str | None = None) -> TraceFigures:
    builder = plain()
    builder.metadata["distributedInfo"] = {"rank": rank, "world_size": world_size}
    return measured(builder, folder, name or f"r{rank}.json")


def test_every_rank_that_a_job_promises_is_asked_for(tmp_path: Path) -> None:
    ranks = [of_rank(rank, 3, tmp_path) for rank in range(3)]
    assert absent_ranks(ranks) == {}
    assert absent_ranks([]) == {}
    (said,) = absent_ranks(ranks[:2]).values()
    assert said.startswith("no trace of rank 2 of 3 given; ")
    assert list(absent_ranks(ranks[1:])) == [ranks[1].path]
    assert absent_ranks(ranks[:2], ["run/rank2.json"]) == {}
    assert absent_ranks([*ranks[:2], of_rank(None, None, tmp_path, "rank2.json")]) == {}
    assert absent_ranks([of_rank(None, None, tmp_path, "rank7.json"), of_rank(0, 1, tmp_path, "one.json")]) == {}


def test_each_run_of_a_job_has_all_ranks(tmp_path: Path) -> None:
    first = [of_rank(rank, 2, tmp_path, f"a{rank}.json") for rank in range(2)]
    second = [of_rank(rank, 2, tmp_path, f"b{rank}.json") for rank in range(2)]
    assert absent_ranks([*first, *second]) == {}
    (said,) = absent_ranks([*first, second[0]]).values()
    assert said.startswith("fewer than 2 traces of rank 1 of 2 given; ")
    assert absent_ranks([*first, first[0]]) == {}  # the same file again is no other run


@pytest.mark.parametrize(
    ("size", "said"), [(10**15, "and 999999999999991 more of 1000000000000000"), (-3, ""), (0, "")]
)
def test_an_absurd_number_of_ranks_costs_nothing(tmp_path: Path, size: int, said: str) -> None:
    assert said in "".join(absent_ranks([of_rank(0, size, tmp_path)]).values())


def test_what_could_not_be_judged_is_no_pass_and_does_not_hide_a_broken_limit(tmp_path: Path) -> None:
    good, bad = measured(plain(), tmp_path, "good.json"), measured(with_waits(), tmp_path, "bad.json")
    lost = ("lost.json", TraceError("lost.json: no such file"))
    limits = Limits(max_hidden_syncs=0)
    assert outcome(judge_all([("good", good)], limits)) == KEPT
    both = judge_all([lost, ("good", good)], limits)
    assert outcome(both) == NOT_JUDGED
    assert [(verdict.name, verdict.sentence) for verdict in both[0].verdicts] == [("readable", "no such file")]
    assert outcome(judge_all([lost, ("bad", bad)], limits)) == NOT_KEPT
    alone = [("alone", of_rank(0, 2, tmp_path))]
    assert outcome(judge_all(alone, limits)) == NOT_JUDGED
    assert outcome(judge_all(alone, limits, some_ranks=True)) == KEPT


# Remarks


def test_a_limit_that_could_not_be_judged_blames_no_line(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits(max_step_ms=1))
    assert statuses(result) == {"max_step_ms": "unknown"}
    (error,) = [remark for remark in remarks(result) if remark.level == "error"]
    assert (error.rule, error.place.file, error.place.function) == ("max-step-ms", None, None)


def test_one_spot_behind_several_limits_is_one_remark(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0, max_stall_ms=0, max_step_ms=0.1))
    errors = [remark for remark in remarks(result) if remark.level == "error"]
    spots = [(remark.rule, remark.place.function) for remark in errors]
    assert sorted(spots, key=str) == sorted({*spots}, key=str)
    assert {remark.rule: len(remark.verdicts) for remark in errors}["PIN201"] == 3


def test_findings_that_fail_nothing_are_warnings(tmp_path: Path) -> None:
    assert {remark.level for remark in remarks(checked(with_waits(), tmp_path, Limits()))} == {"warning"}


def test_each_site_of_a_finding_is_a_remark_of_its_severity(tmp_path: Path) -> None:
    """Alone each of them saves nothing: together they are what to change."""
    found = [one for one in remarks(checked(one_after_another(10), tmp_path, Limits())) if one.rule == "PIN201"]
    assert {remark.place.function for remark in found} == {f"value{number}" for number in range(10)}
    assert {remark.level for remark in found} == {"warning"}


def test_a_new_site_of_a_rule_that_the_baseline_has_is_new(tmp_path: Path) -> None:
    """The baseline is as pinprof wrote it before findings had sites."""
    report = report_of(one_after_another(3), tmp_path)
    document = json.loads(report.read_text())
    for finding in document["traces"][0]["findings"]:
        del finding["sites"], finding["family"]
    report.write_text(json.dumps(document))
    (baseline,) = read_baseline(report).traces
    verdicts = {verdict.key: verdict for verdict in judge(measured(late(3), tmp_path), Limits(), baseline).verdicts}
    assert (verdicts["new_waits"].status, [place.function for place in verdicts["new_waits"].places]) == (
        "new",
        ["late"],
    )


def late(reads: int) -> TraceBuilder:
    """Return steps that read so many values one after another, and one more at their end."""
    builder = one_after_another(reads)
    for start in range(0, STEPS * STEP_US, STEP_US):
        builder.function("train.py(90): late", start + 7_200, 2_700)
        builder.op("aten::item", start + 7_201, 2_698)
        builder.copy("DtoH (Device -> Pinned)", start + 9_890, 1, launch=start + 7_205, size=4)
        builder.call("cudaStreamSynchronize", start + 7_210, 2_683)
    return builder


# pyproject.toml


def config(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def test_limits_are_read_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = config(tmp_path, "[tool.pinprof.check]\nmax-hidden-syncs = 0\nmin_overlap = 0.9")
    assert read_config(path) == Limits(max_hidden_syncs=0, min_overlap=0.9)


@pytest.mark.parametrize("text", ["", "[tool.other]", "tool = 3", "[tool.pyprof]"])
def test_a_file_without_the_table_is_not_pinprofs(tmp_path: Path, text: str) -> None:
    assert read_config(config(tmp_path, text)) is None


@pytest.mark.parametrize("text", ["[tool.pinprof]", "[tool.pinprof.check]"])
def test_an_empty_table_has_no_limits(tmp_path: Path, text: str) -> None:
    assert read_config(config(tmp_path, text)) == Limits()


@pytest.mark.parametrize(
    "text", ["\ufeff[tool.pinprof.check]\nmax-stall-ms = 2", "[tool.pinprof.check]\r\nmax-stall-ms = 2\r\n"]
)
def test_a_config_as_windows_writes_it_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(text.encode())
    assert read_config(path) == Limits(max_stall_ms=2)


def test_the_nearest_file_with_the_table_wins_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    top, inner = tmp_path / "top", tmp_path / "top" / "a" / "b"
    inner.mkdir(parents=True)
    outside = config(tmp_path, "[tool.pinprof.check]\nmax-stall-ms = 1")
    assert find_config(inner) == (outside, Limits(max_stall_ms=1))
    (top / ".git").write_text("gitdir: elsewhere")
    config(top / "a", "[tool.other]")
    assert find_config(inner) == (None, None)
    of_top = config(top, "[tool.pinprof.check]\nmax-stall-ms = 2")
    assert find_config(inner) == (of_top, Limits(max_stall_ms=2))
    nearest = config(inner, "[tool.pinprof]")
    assert find_config(inner) == (nearest, Limits())


def test_a_file_above_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").symlink_to("pyproject.toml")
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(PinprofError, match=r"pyproject.toml: cannot be read"):
        find_config(inner)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[tool.pinprof.check]\nmax-hiden-syncs = 0",
            "max-hiden-syncs: unknown key; perhaps you mean max-hidden-syncs; ",
        ),
        ("[tool.pinprof.check]\nmax-step-ms = '3'", "max-step-ms = '3': must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = true", "max-step-ms = True: must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = nan", "max-step-ms = nan"),
        ("[tool.pinprof.check]\nmin-overlap = 90", "at most 1"),
        ("[tool.pinprof.check]\nmax-step-ms = 1\nmax_step_ms = 2", "twice"),
        ("[tool.pinprof]\nmax-step-ms = 1", r"put limits into \[tool.pinprof.check\]"),
        ("[tool.pinprof]\ncheck = 1", "is not a table"),
        ("[tool", r"is not TOML .*line 1"),
        ("a = 1\nb = \udcff", "line 2 is not UTF-8"),
        ("a = " + "[" * 20_000, "is not TOML"),
        ("a = " + "9" * 5_000, "is not TOML"),
        ("[tool.pinprof.checks]\nmax-step-ms = 1", r"\[tool.pinprof\] has no key checks; .*\[tool.pinprof.check\]"),
        ("[tool.pinprof]\nchekc = {}", r"has no key chekc; .*\[tool.pinprof.check\]"),
        ("[tool.PinProf.check]\nmax-step-ms = 1", r"does not read \[tool.PinProf\]; .*\[tool.pinprof.check\]"),
        ("[tool.pin-prof.check]", r"pinprof does not read \[tool.pin-prof\]"),
        ("[tool.pinproof.check]", r"pinprof does not read \[tool.pinproof\]"),
        ("[tool.pinprof.check]\n[tool.Pinprof.check]", r"pinprof does not read \[tool.Pinprof\]"),
        ("[Tool.pinprof.check]", r"pinprof does not read \[Tool\]"),
        ("[pinprof.check]", r"does not read \[pinprof\]"),
        ("[[tool.pinprof]]", "tool.pinprof is not a table"),
        ("[tool.pinprof.check]\nMax-Stall-Ms = 1", "perhaps you mean max-stall-ms"),
        ("[tool.pinprof.check]\nmax-stall = 1", "perhaps you mean max-stall-ms"),
        ("[tool.pinprof.check]\nmax-stall-ms = '3 ms'", "'3 ms': must be a number without a unit"),
        ("[tool.pinprof.check]\nmax-stall-ms = [1]", "must be a number"),
        ("[tool.pinprof.check]\nmax-stall-ms = -1", "a number from 0 to 3600000"),
        ("[tool.pinprof.check]\nmax-stall-ms = inf", "max-stall-ms = inf: a limit is a number from 0 to 3600000"),
        ("[tool.pinprof.check]\nmax-step-ms = 1e300", "no trace breaks a larger one"),
        (f"[tool.pinprof.check]\nmax-step-ms = {'9' * 400}", "no trace breaks a larger one"),
    ],
)
def test_a_wrong_config_is_one_line_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PinprofError, match=said) as error:
        read_config(config(tmp_path, text))
    assert "pyproject.toml" in str(error.value)
    assert "\n" not in str(error.value)


def without_libraries(report: Path) -> Path:
    """Turn a report into one of a pinprof that did not tell waits apart by library."""
    document = fitting(report.read_text())
    for site in document["traces"][0]["syncs"]["sites"]:
        del site["library"]
    report.write_text(json.dumps(document))
    return report


def new_waits(before: TraceBuilder, now: TraceBuilder, folder: Path, *, of_old_pinprof: bool) -> tuple[str, ...]:
    """Return what is said of the hidden waits that a baseline does not have."""
    report = report_of(before, folder)
    (baseline,) = read_baseline(without_libraries(report) if of_old_pinprof else report).traces
    checked = judge(measured(now, folder), Limits(), baseline)
    return tuple(
        place.message for verdict in checked.verdicts if verdict.key == "new_waits" for place in verdict.places
    )


def test_a_wait_in_another_function_of_a_library_is_new(tmp_path: Path) -> None:
    (said,) = new_waits(detector(WAITS[:3]), detector(WAITS[:4]), tmp_path, of_old_pinprof=False)
    assert said.startswith(
        "`nonzero()` (aten::nonzero) within fastrcnn_loss (torchvision/models/detection/roi_heads.py:32): 1 per step; "
    )


def test_a_baseline_that_does_not_tell_libraries_knows_all_that_a_line_calls(tmp_path: Path) -> None:
    assert new_waits(detector(WAITS[:3]), detector(WAITS[:4]), tmp_path, of_old_pinprof=True) == ()
    (said,) = new_waits(detector(WAITS[:1]), detector(WAITS[:2]), tmp_path, of_old_pinprof=True)
    assert said.startswith("`nonzero()` (aten::nonzero) within __call__")


def test_what_one_line_calls_in_libraries_is_one_place_of_a_limit(tmp_path: Path) -> None:
    (verdict,) = checked(detector(), tmp_path, Limits(max_hidden_syncs=0)).verdicts
    assert sorted((str(place.place), place.rule or "") for place in verdict.places) == [
        ("train.py:30", "PIN201"),
        ("train.py:30", "PIN205"),
        ("train.py:32", "PIN201"),
        ("train.py:60", "PIN205"),
    ]
    masks = next(place for place in verdict.places if (place.line, place.rule) == (30, "PIN205"))
    assert masks.message.startswith("`nonzero()`, `x[mask]` (aten::nonzero, aten::index) within __call__ (torchvision/")
    assert ": 5 per step; as traced, the host waits 250 µs" in masks.message
