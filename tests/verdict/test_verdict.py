"""Why a step is long: programs of which one cause costs most, built by hand and recorded."""

from functools import cache

import pytest
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder
from trace_parts import Scene, call, copy, kernel, op, scene_of

from pinprof.analyses.idle import IDLE
from pinprof.analysis import Analysis, analyse
from pinprof.measurement.profile import OUTSIDE_WORK, busiest
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.text import trace_to_text
from pinprof.report.trace.verdict import advice
from pinprof.rules.rule import Findings
from pinprof.trace import read_trace
from pinprof.verdict.step_limits import CAUSES, LIMITS
from pinprof.verdict.verdict import LimitCost, Verdict, _cause, _most

US = 1000.0


def ops(builder: TraceBuilder, start: float, end: float, *, kernel: float = 2, every: float = 30) -> None:
    """Ops one after the other, each of which launches a kernel."""
    at = start
    while at + every <= end:
        builder.op("aten::add", at, every - 2)
        builder.kernel(at + every - 6, kernel, launch=at + 20)
        at += every


def launching(builder: TraceBuilder, start: float) -> None:
    ops(builder, start, start + 990)


def computing(builder: TraceBuilder, start: float) -> None:
    ops(builder, start, start + 990, kernel=29.5)


def pausing(builder: TraceBuilder, start: float) -> None:
    ops(builder, start + 700, start + 990)


# A kernel of 500 us, a read of its result, then as much work of the host, beside which the GPU could run it.
waiting = scene_of(
    op("aten::mm", 0, 30),
    kernel(30, 500, launch=20),
    op("aten::item", 40, 510),
    copy("DtoH (Device -> Pinned)", 531, 2, launch=45, size=4),
    call("cudaStreamSynchronize", 60, 480),
    op("aten::cpu_work", 551, 435),
)
copying = scene_of(
    op("aten::to", 0, 505),
    copy("HtoD (Pageable -> Device)", 15, 480, launch=10, call=490, size=5_000_000),
    op("aten::mm", 510, 30),
    kernel(535, 420, launch=520),
    op("aten::sum", 545, 440),
)


def allocating(builder: TraceBuilder, start: float) -> None:
    ops(builder, start, start + 300, kernel=25)
    builder.op("aten::empty", start + 301, 610)
    builder.call("cudaMalloc", start + 303, 600)
    ops(builder, start + 915, start + 990, kernel=25)


@cache
def analysed(scene: Scene) -> Analysis:
    builder = TraceBuilder()
    for start in builder.steps(6):
        scene(builder, start)
    return analyse(builder.read())


def findings_of(scene: Scene) -> Findings:
    return analysed(scene).findings


@pytest.mark.parametrize(
    ("scene", "cause"),
    [
        *((launching, "launch"), (computing, "gpu"), (pausing, "python"), (waiting, "sync"), (copying, "copy")),
        (allocating, "allocation"),
    ],
)
def test_the_cause_that_costs_most_is_named(scene: Scene, cause: str) -> None:
    verdict = findings_of(scene).verdict
    assert verdict.cause == cause
    assert verdict.cost is not None
    assert verdict.step_ns is not None
    low, high = verdict.cost.range_ns
    assert low <= verdict.cost.ns <= high
    assert [cost.ns for cost in verdict.costs] == sorted((cost.ns for cost in verdict.costs), reverse=True)
    assert {cost.cause for cost in verdict.costs} == set(CAUSES)


@pytest.mark.parametrize(
    ("name", "cause", "saving_ms"),
    [
        ("small_kernels", "launch", None),
        ("prefetch", "gpu", None),
        ("clean", "gpu", None),
        ("pageable_blocking", "copy", 12.38 - 9.53),  # measured: prefetch
        ("loss_item_host_work", "sync", 12.74 - 9.53),  # measured: clean
        ("overlap_default_pageable", "copy", None),
    ],
)
def test_the_cause_of_a_recorded_step_is_named(name: str, cause: str, saving_ms: float | None) -> None:
    verdict = analyse(read_trace(TRACES / f"{name}.json.gz")).findings.verdict
    assert verdict.cause == cause
    if saving_ms is not None:
        assert verdict.cost is not None
        assert verdict.cost.ns == pytest.approx(saving_ms * 1e6, rel=0.1)


@pytest.mark.parametrize(
    ("costs", "cause"),
    [
        ({"sync": 3, "gpu": 6}, "sync"),
        ({"sync": 2.8, "copy": 3}, "sync"),  # about as large, and of a line of the program
        ({"sync": 2.6, "copy": 3}, "copy"),
        ({"sync": 0.9, "gpu": 6}, "gpu"),
        ({"sync": 0.9, "gpu": 4}, None),
        ({"launch": 0.9, "python": 0.9, "host": 1.8}, "host"),
        ({"launch": 1.2, "python": 0.9, "host": 2.1}, "launch"),
    ],
)
def test_the_cause_of_a_world_is_what_costs_most_there(costs: dict[str, float], cause: str | None) -> None:
    assert _most({name: costs.get(name, 0.0) for name in CAUSES}, 10.0) == cause


def verdict_of(step: float = 10.0, **shares: float) -> Verdict:
    """Return the verdict where causes cost most in these shares of the worlds; what is not named does in none."""
    costs = {name: LimitCost(name, 7.0, (0.0, 9.0), shares.get(name, 0.0)) for name in CAUSES}
    return Verdict(_cause(costs, step), step, tuple(costs.values()))


@pytest.mark.parametrize(
    ("shares", "cause"),
    [
        ({"sync": 0.8}, "sync"),
        ({"sync": 0.79, "copy": 0.21}, None),
        ({"launch": 0.4, "python": 0.4}, "host"),  # one of the two, whichever it is
        ({"launch": 0.4, "sync": 0.6}, None),
    ],
)
def test_a_cause_is_named_that_costs_most_in_nearly_all_worlds(shares: dict[str, float], cause: str | None) -> None:
    assert verdict_of(**shares).cause == cause


def test_the_causes_between_which_a_trace_cannot_tell_are_named_the_likeliest_first() -> None:
    between = verdict_of(sync=0.3, launch=0.5, copy=0.15, gpu=0.05).between
    assert [cost.cause for cost in between] == ["launch", "sync", "copy"]
    assert verdict_of(sync=0.9, launch=0.1).between == ()


def test_a_trace_that_cannot_tell_says_between_what_and_how_to_find_out() -> None:
    analysis = analyse(read_trace(TRACES / "ranks" / "sleeping_rank.rank0.after.json.gz"))
    text = trace_to_text(analysis.profile, analysis.findings, width=1000)
    assert "collectives run alone for 63 % of the step, and the trace cannot tell what collectives cost: 0 to" in text
    assert "a report on all ranks of the job shows" in text
    assert "pinprof run SCRIPT measures the step" in text


@pytest.mark.parametrize(
    ("memory", "advised"),
    [
        ("e13.htod-pinned", "copy one batch ahead, or copy less: uint8 or float16, converted on the GPU"),
        ("e5.read-after-synchronize", "copy less to the host: compute on the GPU what is read of it"),
    ],
)
def test_what_to_do_about_copies_is_what_they_lack(memory: str, advised: str) -> None:
    analysis = analysis_of(TRACES / "experiments" / f"{memory}.json.gz")
    assert advice(first_screen(analysis.profile, analysis.findings)).do == advised


def test_each_cause_of_idle_time_is_explained_by_a_limit() -> None:
    assert {cause for limit in LIMITS.values() for cause in limit.idle} == {*IDLE, OUTSIDE_WORK}


def test_idle_time_is_divided_among_what_costs_it() -> None:
    verdict, mean = findings_of(pausing).verdict, busiest(analysed(pausing).profile)
    assert mean is not None
    assert dict(verdict.idle)["python"] == pytest.approx(700 * US, rel=0.05)
    assert sum(ns for _, ns in verdict.idle) <= mean.idle_ns
    assert [ns for _, ns in verdict.idle] == sorted((ns for _, ns in verdict.idle), reverse=True)
