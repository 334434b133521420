"""A few steps whose replay is that of all: equal steps, steps of several kinds, and steps that none stand for."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from recordings import TRACES

from pinprof.details import details_of
from pinprof.replay import Replay
from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import ISSUE, STREAM_WAIT, Call, GpuWork, Program
from pinprof.replay.representatives import (
    BALANCED_SHARE_OF_STEP,
    MAX_STEPS_ALL_REPLAYED,
    SAMPLE_SIZES,
    balanced,
    representatives,
)
from pinprof.trace import read_trace
from scripts.bench_reader import main as bench_reader

COST = ProfilerCost(per_event_ns=1_000, keep=0.2)


def program(lengths_ns: list[int]) -> Program:
    """Make a program of a step for each length: the host takes that, launches 5 µs of work and waits for it."""
    calls = []
    for step, length in enumerate(lengths_ns):
        work = GpuWork(step, 0, -1, 5_000.0, 6_000.0, 1_500.0)
        calls.append(Call(2 * step, ISSUE, float(length), own_ns=5_000.0, works=[work], step=step, events=2.0))
        calls.append(Call(2 * step + 1, STREAM_WAIT, 1_000.0, queue=0, own_ns=1_000.0, step=step, events=1.0))
    return Program(tuple(calls))


def chosen(whole: Program, count: int) -> list[int]:
    return representatives([whole], [range(count)], [np.zeros(len(whole.calls), np.int64)])


def paces(whole: Program, count: int) -> tuple[float, float]:
    """Return the pace of a program and that of its representatives."""
    places = chosen(whole, count)
    return pace([whole], count, COST).step_ns, pace([whole.of_steps(set(places))], len(places), COST).step_ns


@given(st.integers(1, 60), st.integers(20_000, 2_000_000))
@settings(max_examples=30, deadline=None)
def test_a_few_of_equal_steps_have_exactly_the_pace_of_all(count: int, length_ns: int) -> None:
    whole = program([length_ns] * count)
    assert len(chosen(whole, count)) == (SAMPLE_SIZES[0] if count > MAX_STEPS_ALL_REPLAYED else count)
    of_all, of_few = paces(whole, count)
    assert of_few == pytest.approx(of_all, rel=1e-12)


@given(st.lists(st.integers(20_000, 2_000_000), min_size=1, max_size=8), st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_of_several_kinds_of_steps_each_stands_for_its_share(kinds_ns: list[int], times: int) -> None:
    count = len(kinds_ns) * times
    of_all, of_few = paces(program(kinds_ns * times), count)
    assert of_few == pytest.approx(of_all, rel=0.002)


def test_the_step_that_is_long_once_is_not_lost() -> None:
    whole = program([100_000] * 40 + [1_000_000])
    assert chosen(whole, 41) == list(range(41))


def test_steps_are_balanced_in_each_phase() -> None:
    """Steps that are equally long, but divide their time otherwise between two phases."""
    issues = [call for call in program([100_000] * 80).calls if call.kind is ISSUE]
    longer = np.random.default_rng(0).integers(-40_000, 40_000, 40)
    calls = [
        structs.replace(call, step=number // 2, gap_ns=100_000.0 + (-1) ** number * longer[number // 2])
        for number, call in enumerate(issues)
    ]
    places = representatives([Program(tuple(calls))], [range(40)], [np.arange(80) % 2])
    assert len(places) < 40
    assert longer[places].mean() == pytest.approx(longer.mean(), abs=BALANCED_SHARE_OF_STEP * 210_000)


def test_the_same_steps_stand_for_the_others_on_all_ranks() -> None:
    """Each of two ranks has other lengths: the steps are balanced on both."""
    random = np.random.default_rng(0)
    ranks = [program(random.integers(100_000, 101_000, 40).tolist()) for _ in range(2)]
    places = representatives(ranks, [range(40)] * 2, [np.zeros(80, np.int64)] * 2)
    assert len(places) <= SAMPLE_SIZES[-1]
    for rank in ranks:
        few = rank.of_steps(set(places))
        assert pace([few], len(places)).step_ns == pytest.approx(pace([rank], 40).step_ns, rel=0.002)


def test_rows_are_exchanged_until_each_column_is_balanced() -> None:
    table = np.random.default_rng(1).normal(0, 5, (60, 4))
    rows = balanced(table)
    assert len(rows) < len(table)
    assert np.abs(table[rows].mean(axis=0) - table.mean(axis=0)).max() <= 1


@pytest.mark.slow
def test_a_repeated_recording_has_the_step_that_it_had(tmp_path: Path) -> None:
    """The middle of a recording that is 20 times as long, by a few of its steps, and by all that are replayed."""
    path = tmp_path / "repeated.json"
    source = TRACES / "small_kernels.stack.json.gz"
    bench_reader(["make", f"{path}", "--megabytes", "40", "--source", f"{source}"], standalone_mode=False)
    details = details_of(read_trace(path))
    few = Replay([details])
    assert few.steps <= SAMPLE_SIZES[-1]
    whole = Replay([details])
    vars(whole)["replayed_steps"] = whole.recorded.steps
    assert whole.steps >= 2 * few.steps
    assert few.step.step_ns == pytest.approx(whole.step.step_ns, rel=0.002)
    assert few.before.step_ns == pytest.approx(whole.before.step_ns, rel=0.002)
