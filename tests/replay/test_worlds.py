"""Step, costs and savings are of the same worlds: properties, on small traces whose times are drawn."""

from functools import reduce
from operator import or_
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from analysed import analysed
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis
from pinprof.prediction.predict import paces_after
from pinprof.replay.settings import SETTING_PLACES, WORLD_COUNT, WORLDS, across, middle, range_of
from pinprof.rules.savings import saving_of
from pinprof.verdict.step_limits import Rerun

STEPS = 4
LEAST = 1e-6
"""Rounding, as a share of a step."""


def recorded(folder: Path, host: list[int], kernel: int, waits: list[bool]) -> Analysis:
    """Return a trace of steps with a launch after each pause of the host, and a wait after some; times in us."""
    builder = TraceBuilder()
    length = sum(host) + len(host) * (kernel + 15)
    for number in range(STEPS):
        start = now = number * length
        free = now
        for pause, is_awaited in zip(host, waits, strict=True):
            now += pause
            free = max(free, now + 8)
            builder.kernel(free, kernel, launch=now)
            now, free = now + 5, free + kernel
            if is_awaited:
                builder.call("cudaStreamSynchronize", now, max(free - now, 1))
                now = max(free, now) + 1
        builder.step(number, start, length)
    return analysed(builder, folder)


PROGRAMS = st.integers(2, 6).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(5, 300), min_size=count, max_size=count),
        st.integers(5, 300),
        st.lists(st.booleans(), min_size=count, max_size=count),
    )
)
few = settings(max_examples=25, deadline=None)


def analysis_of(program: tuple[list[int], int, list[bool]]) -> Analysis:
    with TemporaryDirectory() as folder:
        analysis = recorded(Path(folder), *program)
        assert analysis.findings.verdict
    return analysis


def test_the_expected_world_is_the_median_of_every_choice() -> None:
    for choices in WORLDS:
        assert len(choices) == WORLD_COUNT
        assert middle(choices) == pytest.approx(np.median(choices)) == pytest.approx(0.0, abs=1e-9)
        assert np.quantile(choices, 0.9) == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1e9), min_size=WORLD_COUNT, max_size=WORLD_COUNT))
def test_a_range_holds_the_expected_world(values: list[float]) -> None:
    in_worlds = np.array(values)
    low, high = range_of(in_worlds)
    assert low <= middle(in_worlds) <= high


@given(st.lists(st.floats(0, 1e9), min_size=len(SETTING_PLACES) + 1, max_size=len(SETTING_PLACES) + 1))
def test_worlds_lie_between_the_settings(values: list[float]) -> None:
    assert across(values[:1]) == pytest.approx(values[0])
    assert across(values[:2]).tolist() == across([*values[:2], values[1]]).tolist()
    among = across(values[: len(SETTING_PLACES)])
    assert middle(among) == pytest.approx(values[1])
    assert among.min() >= min(values[:-1]) * (1 - LEAST)
    assert among.max() <= max(values[:-1]) * (1 + LEAST)


@pytest.mark.slow
@few
@given(PROGRAMS)
def test_the_step_and_what_fixes_save_lie_in_their_ranges(program: tuple[list[int], int, list[bool]]) -> None:
    analysis = analysis_of(program)
    low, high = analysis.replay.step.range_ns or (0.0, 0.0)
    assert low <= analysis.replay.step_ns <= high
    for cost in analysis.findings.verdict.costs:
        assert 0 <= cost.range_ns[0] <= cost.ns <= cost.range_ns[1]
    for saving in (finding.saving for finding in analysis.findings if finding.saving):
        assert 0 <= saving.range_ns[0] <= saving.range_ns[1]
        assert saving.saving_ns <= saving.range_ns[1]


@pytest.mark.slow
@few
@given(PROGRAMS)
def test_no_change_leaves_less_than_the_work_of_the_gpu(program: tuple[list[int], int, list[bool]]) -> None:
    analysis = analysis_of(program)
    replay = analysis.replay
    for change in (finding.evidence.edits for finding in analysis.findings if finding.saving):
        after = paces_after(replay, [change])
        assert (replay.changed(after) >= np.minimum(after.busy_ns, after.step_ns) * (1 - LEAST)).all()


@pytest.mark.slow
@few
@given(PROGRAMS)
def test_more_edits_save_no_less_in_each_world(program: tuple[list[int], int, list[bool]]) -> None:
    analysis = analysis_of(program)
    replay, rerun = analysis.replay, Rerun(analysis.details, analysis.profile, analysis.replay)
    parts = [finding.evidence.edits for finding in analysis.findings if finding.rule.family == "waits"]
    if not parts or not replay.runs:
        return
    every = rerun.without_waits() | reduce(or_, parts)
    all_step = paces_after(replay, [every]).step_ns
    for part in parts:
        assert (all_step <= paces_after(replay, [part]).step_ns * 1.02).all()


@pytest.mark.slow
@few
@given(PROGRAMS)
def test_waits_cost_what_removing_them_saves(program: tuple[list[int], int, list[bool]]) -> None:
    """Where the step's parts do not limit the cost, the cause and a fix of all waits are of the same replay."""
    analysis = analysis_of(program)
    replay = analysis.replay
    if not replay.runs or not replay.before.step_ns:
        return
    rerun = Rerun(analysis.details, analysis.profile, replay)
    saved = replay.in_worlds - replay.changed(paces_after(replay, [rerun.without_waits()]))
    saving = saving_of(replay, rerun.without_waits())
    assert abs(middle(saved) - saving.saving_ns) <= max(0.002 * replay.step_ns, LEAST)
    cost = next((cost for cost in analysis.findings.verdict.costs if cost.cause == "sync"), None)
    assert cost is None or cost.ns <= max(middle(saved), 0.0) * (1 + LEAST) + 1
