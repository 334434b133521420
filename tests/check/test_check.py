import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from check_traces import checked, hidden_copy, measured, measured_step, pageable, plain, report_of, statuses, with_waits
from one_after_another import STEP_US, STEPS, one_after_another
from quick import slow_but
from recordings import ROOT, TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.check.baseline import read_baseline
from pinprof.check.figures import TraceFigures, measure_figures
from pinprof.check.judge import LimitVerdict, judge, remarks
from pinprof.check.limits import QUANTITIES, Limits
from pinprof.trace import read_trace

GUIDE = ROOT / "pinprof" / "guides" / "ci.md"
BEGIN, END = "| option | what it limits |\n|---|---|\n", "\n`--min-overlap` is kept"
"""What stands before the table of limits in the guide, and behind it."""


def test_the_table_of_limits_in_the_guide_is_made_of_the_rows(*, pytestconfig: pytest.Config) -> None:
    rows = (
        f"| `--{quantity.name} {quantity.unit.metavar}` | {quantity.help.rstrip('.')} |\n"
        for quantity in QUANTITIES.values()
    )
    text = GUIDE.read_text()
    written = "".join((text.split(BEGIN)[0], BEGIN, *rows, END, text.split(END)[1]))
    if pytestconfig.getoption("--update-golden"):
        GUIDE.write_text(written)
    assert GUIDE.read_text() == written


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
    assert bad.places
    assert measured(with_waits(), tmp_path).figures[limit].value == pytest.approx(value)


def test_the_overlap_is_that_of_the_whole_trace(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        hidden_copy(builder, start)
    pageable(builder, 5000, time=100)  # 400 of 500 µs are overlapped
    assert verdict_of(builder, tmp_path, min_overlap=0.8).status == "kept"
    verdict = verdict_of(builder, tmp_path, min_overlap=0.81)
    assert verdict.failed
    assert verdict.sentence == "overlapped share of the copy time: 80.0 %, at least 81.0 % wanted"


def test_a_trace_without_copies_keeps_the_overlap_and_explicit_waits_are_not_hidden(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.call("cudaDeviceSynchronize", start + 25, 90)
    overlap = verdict_of(builder, tmp_path, min_overlap=1)
    assert overlap.status == verdict_of(builder, tmp_path, max_hidden_syncs=0).status == "kept"
    assert "no copies" in overlap.sentence


@pytest.mark.parametrize("limit", ["max_hidden_syncs", "max_exposed_ms", "max_pageable_bytes", "max_step_ms"])
def test_a_wait_for_a_batch_has_the_rule_of_its_finding_under_every_limit(tmp_path: Path, limit: str) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        pageable(builder, start)
        builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 2, 5)
    places = verdict_of(builder, tmp_path, **{limit: 0}).places
    (place,) = (place for place in places if not (place.rule or "").startswith("PIN60"))
    assert (place.rule, place.function) == ("PIN104", "train")
    all_remarks = remarks(checked(builder, tmp_path, Limits(max_hidden_syncs=0, max_step_ms=0)))
    assert [remark.rule for remark in all_remarks if not remark.rule.startswith("PIN60")] == ["PIN104"]


def test_the_line_of_a_copy_is_that_of_the_wait_for_it() -> None:
    analysis = analysis_of(TRACES / "loader_pageable.stack.json.gz")
    (place,) = measure_figures(analysis).figures["max_exposed_ms"].places
    assert (place.file, place.function) == ("pinprof/workloads/loaders.py", "step")
    assert place.line is not None


# The step without profiler


def test_a_measured_step_is_held_against_its_limit(tmp_path: Path) -> None:
    assert verdict_of(measured_step(0.7), tmp_path, max_step_ms=0.7).status == "kept"
    assert verdict_of(measured_step(0.7), tmp_path, max_step_ms=0.69).status == "exceeded"


@pytest.mark.parametrize(
    ("limit", "status"), [(1.03, "kept"), (1.01, "unknown"), (0.93, "unknown"), (0.91, "exceeded")]
)
def test_an_unknown_step_fails_unless_its_bounds_keep_the_limit(tmp_path: Path, limit: float, status: str) -> None:
    verdict = verdict_of(plain(), tmp_path, max_step_ms=limit)  # 917 to 1029 µs
    assert (verdict.status, verdict.failed) == (status, status != "kept")
    assert "pinprof run" in verdict.sentence


# What cannot be known


def test_without_runtime_calls_waits_are_unknown_and_copies_are_not(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "k", 0, 10, correlation=0, device=0, stream=7)
    assert "ProfilerActivity.CPU" in verdict_of(builder, tmp_path, max_hidden_syncs=1).sentence
    assert verdict_of(builder, tmp_path, max_exposed_ms=0).status == "kept"


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
    return measure_figures(analyse(trace))


@pytest.mark.parametrize(
    ("limit", "kept", "violated"),
    [
        *(("max_hidden_syncs", 2, 1), ("max_stall_ms", 0.33, 0.31), ("max_exposed_ms", 0.21, 0.2)),
        *(("max_pageable_bytes", 1_000_000, 999_999), ("min_overlap", 0, 0.01), ("max_step_ms", 100, 0.1)),
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


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> TraceBuilder:
    """Return steps that keep all limits of `GENEROUS`; each event is one of 60 of its kind."""
    builder = with_waits(60)
    for start in range(0, 60_000, 1000):
        hidden_copy(builder, start)
    assert statuses(checked(builder, tmp_path_factory.mktemp("keeping"), GENEROUS)) == {}
    return builder


@pytest.mark.parametrize("spoil", slow_but(["null", "no event"], SPOILED))
@pytest.mark.parametrize(("name", "limits"), HIT.items(), ids=HIT)
def test_a_limit_passes_only_where_all_that_its_figure_is_made_of_can_be_used(
    tmp_path: Path, keeping: TraceBuilder, name: str, limits: set[str], spoil: str
) -> None:
    builder = deepcopy(keeping)
    SPOILED[spoil](next(event for event in builder.events if event["name"] == name))
    unknown = {key for key, status in statuses(checked(builder, tmp_path, GENEROUS)).items() if status == "unknown"}
    assert unknown >= limits


def test_copies_that_were_lost_are_not_overlapped(tmp_path: Path) -> None:
    builder = plain()
    for start in range(0, 4000, 1000):
        builder.call("cudaMemcpyAsync", start + 200, 5)
    verdict = verdict_of(builder, tmp_path, min_overlap=0.9)
    assert verdict.status == "unknown"


@pytest.mark.parametrize(("at", "status"), [(992, "unknown"), (100, "exceeded")])
def test_copies_without_calls_are_of_the_step_in_which_they_run_if_they_run_in_one(
    tmp_path: Path, at: int, status: str
) -> None:
    builder = TraceBuilder()
    copy = {"correlation": 0, "device": 0, "stream": 7, "bytes": 1000}
    for start in builder.steps(4):
        builder.activity("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", start + at, 5, **copy)
    for limit in ("max_exposed_ms", "max_pageable_bytes"):
        assert verdict_of(builder, tmp_path, **{limit: 0}).status == status


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


def test_a_new_site_of_a_rule_that_the_baseline_has_is_new(tmp_path: Path) -> None:
    (baseline,) = read_baseline(report_of(one_after_another(3), tmp_path)).traces
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
