from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import OF_A_GPU, each_recording, trace_of
from trace_builder import SIDE, TraceBuilder

from pinprof.analyses.loader import measure_loader
from pinprof.analyses.syncs.stalls import measure_stalls
from pinprof.replay.building import LOADING_COST_FACTOR, build_program
from pinprof.replay.machine import Engine, Job, ProfilerCost, ReplayRun, pace
from pinprof.replay.program import ISSUE, STAGED, Program
from pinprof.trace import Trace

TOLERATED = 0.02
"""Of the recorded time."""


def program_of(trace: Trace) -> Program:
    return build_program(trace, measure_stalls(trace), measure_loader(trace).times, 0.3)


def built(builder: TraceBuilder) -> tuple[Trace, Program]:
    trace = builder.read()
    return trace, program_of(trace)


def replay(program: Program) -> ReplayRun:
    job = Job([program])
    job.play()
    return job.machines[0].run


ON_A_SHARED_GPU = "experts"  # its all-to-alls wait for kernels of the other rank, on the same GPU


def worst(trace: Trace) -> float:
    """Return the largest difference between a replayed and a recorded end, as a share of the recorded time."""
    program = program_of(trace)
    run = replay(program)
    works = np.array(list(run.work_ends_ns))
    calls = np.array(list(run.call_ends_ns))
    recorded = np.concatenate((trace.gpu.end_ns[works], trace.calls.end_ns[calls])) - program.start_ns
    replayed = np.array([*run.work_ends_ns.values(), *run.call_ends_ns.values()])
    assert len(works) > 0
    differences = np.abs(replayed[: len(works)] - recorded[: len(works)])
    last_call = abs(replayed[-1] - recorded[-1])
    return float(max(differences.max(), last_call) / recorded.max())


@pytest.mark.parametrize("path", each_recording(OF_A_GPU))
def test_the_unchanged_replay_ends_as_recorded_on_host_and_gpu(path: Path) -> None:
    assert worst(trace_of(path)) <= TOLERATED * (5 if path.name.startswith(ON_A_SHARED_GPU) else 1)


def test_work_starts_after_its_launch_and_after_what_is_before_it_on_its_stream() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 100, launch=10)
    builder.kernel(121, 100, launch=30)
    builder.kernel(40, 50, launch=35, stream=SIDE)
    trace, program = built(builder)
    ends = replay(program).work_ends_ns
    assert [ends[row] for row in range(len(trace.gpu))] == [110_000, 80_000, 211_000]  # since the first launch, at 10


def test_a_wait_returns_when_its_stream_has_run_dry() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 100, launch=10)
    builder.call("cudaStreamSynchronize", 30, 95)  # returns 5 after the kernel's end
    builder.kernel(140, 10, launch=130)
    _, program = built(builder)
    longer = program.calls[0].works[0]
    longer.duration_ns += 50_000
    run = replay(program)
    assert run.call_ends_ns[program.calls[1].row] == 165_000
    assert max(run.work_ends_ns.values()) == 190_000  # 50 later than recorded


def test_a_stream_that_waits_for_an_event_goes_on_after_the_recorded_work() -> None:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.copy("HtoD (Pinned -> Device)", start + 20, 300, launch=start + 10, stream=SIDE)
        builder.call("cudaEventRecord", start + 30, 1)
        builder.call("cudaStreamWaitEvent", start + 32, 1)
        builder.kernel(start + 322, 100, launch=start + 40)
    _, program = built(builder)
    for call in program.calls:
        for work in call.works:
            if work.engine >= 0:
                work.duration_ns -= 100_000
    assert max(replay(program).work_ends_ns.values()) == 2_422_000 - 100_000  # since the first step


def test_a_wait_for_the_event_of_the_step_before_awaits_that() -> None:
    builder = TraceBuilder()
    for number, start in enumerate(builder.steps(4)):
        builder.kernel(start + 10, 900, launch=start + 5)
        builder.copy("DtoH (Device -> Pinned)", start + 911, 50, launch=start + 20)
        builder.call("cudaEventRecord", start + 30, 1)
        if number:
            builder.call("cudaEventSynchronize", start + 40, 2)  # long done
    trace, program = built(builder)
    assert replay(program).completed_ns() == trace.gpu.end_ns.max() - program.start_ns


def test_the_host_waits_for_room_in_a_full_queue_and_nowhere_else() -> None:
    builder = TraceBuilder()
    for number in range(1030):
        builder.kernel(10_000 + 10 * number, 10, launch=2 * number)
    trace, program = built(builder)
    last = program.calls[-1].row
    run = replay(replace(program, queue_depth=1022))
    assert run.call_ends_ns[last] == trace.gpu.end_ns[7] - program.start_ns  # of 1030 at most 1022 are pending
    # it has room for what it held in the recording, as on AMD's GPUs, whose queues hold many thousands
    assert program.queue_depth == 1030
    assert replay(program).host_ns == trace.calls.end_ns[-1] - program.start_ns - 2_000  # a launch takes none here


def test_a_pageable_copy_holds_the_host_until_its_stream_has_waited_for_another() -> None:
    """Steps of 2000 us: a kernel of 600, a stream that waits for it, and on that a copy of 300 that the host stages."""
    builder = TraceBuilder()
    for start in builder.steps(3, 2000):
        builder.kernel(start + 20, 600, launch=start + 10)
        builder.call("cudaEventRecord", start + 30, 1)
        builder.call("cudaStreamWaitEvent", start + 32, 1)
        pageable = "HtoD (Pageable -> Device)"
        builder.copy(pageable, start + 630, 300, launch=start + 40, call=895, stream=SIDE, size=5_000_000)
        builder.kernel(start + 950, 10, launch=start + 940)
    trace, program = built(builder)
    staged = [call for call in program.calls if call.kind == STAGED]
    assert [call.own_ns for call in staged] == [315_000] * 3  # from the end of the kernel, at 620
    for call in program.calls:
        for work in call.works:
            if work.duration_ns == 600_000:
                work.duration_ns -= 500_000
    run, third = replay(program), staged[-1].row
    assert run.call_ends_ns[third] == trace.calls.end_ns[third] - program.start_ns - 3 * 500_000


def test_a_pageable_copy_whose_call_returned_before_its_stream_was_free_did_not_hold_the_host() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 10_000, launch=10)
    builder.copy("HtoD (Pageable -> Device)", 10_021, 4, launch=30, call=20, size=82_944)
    builder.kernel(10_030, 10, launch=100)
    trace, program = built(builder)
    run = replay(program)
    assert program.calls[1].kind == ISSUE
    assert run.call_ends_ns[program.calls[1].row] == 40_000  # since the first launch, at 10
    assert max(run.work_ends_ns.values()) == trace.gpu.end_ns.max() - program.start_ns


def test_a_copy_engine_makes_what_is_ready_before_what_was_launched_before() -> None:
    engine = Engine()
    assert engine.copied(1_000, 100) == 1_100
    assert engine.copied(0, 300) == 300  # launched later, on a stream with nothing before it
    assert engine.copied(200, 800) == 1_900  # too long for the time between both
    assert engine.copied(200, 700) == 1_000  # just long enough
    assert engine.copied(0, 100) == 2_000


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 50)), max_size=60))
def test_a_copy_engine_makes_one_copy_at_a_time(copies: list[tuple[int, int]]) -> None:
    engine, busy = Engine(), []
    for ready, duration in copies:
        end = engine.copied(ready, duration)
        assert end >= ready + duration
        busy.append((end - duration, end))
    assert all(end <= start for (_, end), (start, _) in pairwise(sorted(busy)))


def test_the_pace_of_a_gpu_bound_program_is_the_gpus() -> None:
    builder = TraceBuilder()
    for number, start in enumerate(builder.steps(4, 100, length=99)):
        builder.kernel(50 + 500 * number, 500, launch=start + 10)
    _, program = built(builder)
    steady = pace([program.of_steps({1, 2})], 2)
    assert steady.step_ns == pytest.approx(500_000, rel=0.01)
    assert steady.busy_ns == pytest.approx(500_000, rel=0.01)


def test_short_ops_of_a_loader_in_the_process_count_by_their_share_of_the_time() -> None:
    """Before the second launch: 100 ops of a DataLoader in 200 us, then 10 ops in 100 us, five times as long each."""
    builder = TraceBuilder()
    builder.kernel(20, 5, launch=10)
    builder.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 200)
    for number in range(100):
        builder.op("aten::div", 20 + 2 * number, 1)
    for number in range(10):
        builder.op("aten::add", 220 + 10 * number, 5)
    builder.kernel(330, 5, launch=320)
    _, program = built(builder)
    call = program.calls[1]
    assert (call.gap_ns, call.input_ns) == (310_000, 200_000)
    own = call.events
    assert own == pytest.approx(11, abs=1)  # with the launch before
    per_op = (call.gap_ns - call.input_ns) / own
    assert call.input_events == pytest.approx(LOADING_COST_FACTOR * 100 * (200_000 / 100) / per_op, rel=0.15)


def test_the_profilers_cost_comes_out_of_the_hosts_time_only() -> None:
    builder = TraceBuilder()
    for start in builder.steps(4, length=1000):
        for at in range(10):
            builder.op("aten::add", start + 100 * at, 50)
            builder.kernel(start + 100 * at + 20, 10, launch=start + 100 * at + 10)
    _, program = built(builder)
    middle = program.of_steps({1, 2})
    assert pace([middle], 2).step_ns == pytest.approx(1_000_000, rel=0.01)
    without = pace([middle], 2, ProfilerCost(per_event_ns=10_000, keep=0.1))  # an op and a launch in each 100 µs
    assert without.step_ns == pytest.approx(800_000, rel=0.01)
    assert pace([middle], 2, ProfilerCost(per_event_ns=90_000, keep=0.4)).step_ns == pytest.approx(400_000, rel=0.01)
