from dataclasses import replace
from math import inf

import pytest
from msgspec import structs

from pinprof.replay.calibration import (
    HOST_SHARE,
    MAX_COST_IN_LAUNCHES,
    MAX_COST_NS,
    MIN_COST_IN_LAUNCHES,
    USUAL_NS,
    Way,
    expected,
    fit_cost,
    fits_of,
    noise_of,
    unsure_of,
)
from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import ISSUE, STAGED, Call, GpuWork, Program
from pinprof.trace.tables import HTOD, NONE


def program_of(*gaps_ns: float, launch_ns: float, events: float = 2.0) -> Program:
    calls = (Call(row, ISSUE, gap_ns, events=events) for row, gap_ns in enumerate(gaps_ns))
    return Program(tuple(calls), launch_ns=launch_ns)


def cost_of(program: Program, way: Way = "plain") -> float:
    return expected([program], way).cost.per_event_ns


EVEN = program_of(8_000, 8_000, launch_ns=4_000)


@pytest.mark.parametrize(
    ("program", "cost_ns"),
    [
        pytest.param(EVEN, HOST_SHARE["plain"] * 4_000, id="a share of the host's time per op"),
        pytest.param(
            program_of(24_000, 24_000, launch_ns=12_000), HOST_SHARE["plain"] * 12_000, id="more on a slow host"
        ),
        pytest.param(
            replace(EVEN, launch_spread=1.5),
            1.5 * HOST_SHARE["plain"] * 4_000,
            id="more next to other work of the host",
        ),
        pytest.param(
            program_of(*[8_000.0] * 99, 5_000_000, launch_ns=4_000),
            HOST_SHARE["plain"] * 4_000,
            id="nothing of rare long work",
        ),
        pytest.param(
            program_of(100_000, 100_000, launch_ns=4_000), MAX_COST_IN_LAUNCHES * 4_000, id="at most some launches"
        ),
        pytest.param(
            program_of(500, 500, launch_ns=4_000), MIN_COST_IN_LAUNCHES * 4_000, id="at least a part of a launch"
        ),
        pytest.param(program_of(1e6, launch_ns=1e6), MAX_COST_NS, id="at most the largest"),
        pytest.param(program_of(6_000, launch_ns=0.0), USUAL_NS, id="the usual one without launches"),
        pytest.param(
            program_of(6_000, launch_ns=4_000, events=0.0),
            MIN_COST_IN_LAUNCHES * 4_000,
            id="a part of a launch without ops",
        ),
    ],
)
def test_the_cost_of_a_profiler_is(program: Program, cost_ns: float) -> None:
    assert cost_of(program) == pytest.approx(cost_ns)


def test_runs_on_a_slow_host_differ_by_more() -> None:
    assert noise_of(3_000) == noise_of(4_000) < noise_of(8_000)


def test_an_estimate_is_unsure_where_the_profiler_cost_much_and_steps_scatter_but_never_less_than_runs_differ() -> None:
    assert unsure_of(4_000, 0.1, longer=0.0) == noise_of(4_000) < unsure_of(4_000, 0.1, longer=0.1)
    assert unsure_of(4_000, 0.1, longer=0.2) == unsure_of(4_000, 0.1, longer=0.9) == pytest.approx(0.3)
    assert unsure_of(4_000, 0.0, longer=0.9) == pytest.approx(0.1)


def test_ops_that_load_data_in_the_process_cost_the_profiler_their_part() -> None:
    """Of 20 us before a call 12 load data, with four events, and 8 not, with two; the profiler cost 1 us for each."""
    call = Call(0, ISSUE, 20_000, input_ns=12_000, events=2, input_events=4, step=0)
    cost = ProfilerCost(1_000.0, 0.2)
    assert cost.before_ns(Program((call,)).host).tolist() == [20_000 - 6_000]
    assert replace(cost, input_speed=inf).before_ns(Program((call,)).host).tolist() == [8_000 - 2_000]


@pytest.mark.parametrize("step_ns", [150_000.0, 90_000.0, 35_000.0])
def test_a_given_step_is_reached_even_if_the_host_did_other_work_while_it_recorded(step_ns: float) -> None:
    """Ten calls, one every 30 us: the most that a profiler costs leaves 100 us, and a host four times as fast 25."""
    program = program_of(*[30_000.0] * 10, launch_ns=4_000)
    program = replace(program, calls=tuple(structs.replace(call, step=0) for call in program.calls))
    assert pace([program], 1, fit_cost([program], 1, step_ns)).step_ns == pytest.approx(step_ns, rel=0.01)


def test_a_longer_step_with_a_staged_copy_is_that_of_a_slower_copy_or_of_a_slower_gpu() -> None:
    """A copy of 4 ms, then 6 ms of work: 11 ms are a copy of 5, or work of 7.5 at the least pace, or between."""
    copy = GpuWork(0, 0, HTOD, 4e6, 0.0, 0.0, is_pageable=True)
    work = GpuWork(1, 0, NONE, 6e6, 0.0, 0.0)
    calls = (
        Call(0, STAGED, 0.0, own_ns=4e6, works=[copy], step=0),
        Call(1, ISSUE, 0.0, own_ns=5e3, works=[work], step=0),
    )
    program = Program(calls)
    step = pace([program], 1).step_ns
    fits = fits_of([program], 1, 1.1 * step)
    assert len(fits) == 3
    assert [fit.gpu_speed for fit in fits] == sorted(fit.gpu_speed for fit in fits)
    assert fits[-1].gpu_speed == 1.0
    assert fits[0].cost.staging < fits[-1].cost.staging
    for cost, gpu_speed in fits:
        assert pace([program], 1, cost, gpu_speed=gpu_speed).step_ns == pytest.approx(1.1 * step, rel=0.01)
    slow, expected = fits_of([program], 1, 0.9 * step)
    assert expected.gpu_speed == 1.0
    assert expected.cost.staging < 1.0
    assert slow.gpu_speed == pytest.approx(6 / (9 - 4 / 1.5), abs=0.01)  # work of 6.3 ms, with the fastest copy
    for cost, gpu_speed in (slow, expected):
        assert pace([program], 1, cost, gpu_speed=gpu_speed).step_ns == pytest.approx(0.9 * step, rel=0.01)
