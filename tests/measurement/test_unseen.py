"""Work that was queued before a recording began is neither idle time nor a reason to call the host the limit."""

import pytest
from trace_builder import COMPUTE, SIDE, TraceBuilder

from pinprof.analysis import analyse
from pinprof.measurement.profile import Profile

MARK = "execute_context_0(0)_generation_8(8)"
WITHHELD = {"step", "estimate", "causes", "drain"}


def profile_of(builder: TraceBuilder) -> Profile:
    return analyse(builder.read()).profile


def found(profile: Profile) -> set[str]:
    """Return what is withheld because of what was queued before."""
    return {figure for doubt in profile.doubts if doubt.check == "queued_before" for figure in doubt.withholds}


def in_flight(builder: TraceBuilder, start: float, duration: float) -> None:
    """Add a kernel that was launched before the recording began."""
    builder.activity("kernel", "earlier", start, duration, correlation=9_000, device=0, stream=COMPUTE)


def replay(builder: TraceBuilder, launch: float, start: float, kernels: int = 10, lasting: float = 100) -> None:
    """Launch a graph without an op around it; its kernels follow each other, every other one on another stream."""
    graph = builder.call("cudaGraphLaunch", launch, 20)
    for number in range(kernels):
        stream = SIDE if number % 2 else COMPUTE
        builder.activity(
            "kernel", f"layer_{number}", start + lasting * number, lasting, correlation=graph, device=0, stream=stream
        )


def apart(mark: str | None = MARK) -> TraceBuilder:
    """Return a batch that the host has launched after 0.3 ms and that the GPU begins 2 ms later, for 1 ms."""
    builder = TraceBuilder()
    if mark:
        builder.event("user_annotation", mark, 0, 300)
    builder.op("aten::copy_", 0, 20)
    replay(builder, launch=200, start=2300)
    return builder


# ---------------------------------------------------------------- the windows of host and GPU


@pytest.mark.parametrize("mark", [MARK, "step[DECODE bs=8]", "ProfilerStep#3", None])
def test_where_the_gpu_begins_after_the_host_has_ended_no_limit_and_no_idle_time_of_a_step_is_given(
    mark: str | None,
) -> None:
    profile = profile_of(apart(mark))
    assert found(profile) == WITHHELD
    assert profile.bound is None
    assert profile.parts == ()
    assert profile.step_ns is None
    assert [doubt.what for doubt in profile.doubts if doubt.withholds] == [
        "no GPU work for 2.08 ms after the first launch"  # from 220 to 2300 µs
    ]


def test_a_gpu_that_begins_as_soon_as_it_is_told_is_compared_with_the_host() -> None:
    builder = TraceBuilder()
    builder.event("user_annotation", MARK, 0, 300)
    replay(builder, launch=200, start=230)
    profile = profile_of(builder)
    assert not found(profile)
    assert profile.bound == "gpu"
    assert profile.steps.traced_ns == 1_000_000


def test_a_launch_that_takes_long_itself_is_no_work_of_before() -> None:
    builder = TraceBuilder()
    graph = builder.call("cudaGraphLaunch", 0, 5000)  # it loads the code of its kernels
    builder.activity("kernel", "k", 5010, 1000, correlation=graph, device=0, stream=COMPUTE)
    profile = profile_of(builder)
    assert not found(profile)
    assert profile.steps.traced_ns == 6_010_001


# ---------------------------------------------------------------- work in flight


def test_work_in_flight_counts_where_the_whole_trace_is_the_step() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 100)
    in_flight(builder, 5, 895)
    builder.kernel(900, 100, launch=50)
    profile = profile_of(builder)
    (mean,) = profile.parts
    assert profile.steps.busy_ns == 995_000
    assert mean.work_ns == 995_000
    assert profile.bound == "gpu"


def test_work_in_flight_beside_a_single_step_that_the_host_makes_long_is_not_its_idle_time() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 1000)
    in_flight(builder, 5, 795)
    builder.kernel(800, 200, launch=50)
    builder.call("cudaDeviceSynchronize", 100, 890)
    profile = profile_of(builder)
    assert found(profile) == WITHHELD
    assert profile.bound is None
    assert profile.doubts[0].what == "no launch of 795 µs of GPU work in the only step"


# ---------------------------------------------------------------- several steps


def steps(count: int, host: float, gpu: float, behind: float) -> TraceBuilder:
    """Return steps that the host launches in a time each, for which the GPU works as long each, so long behind it."""
    builder = TraceBuilder()
    for number in range(count):
        builder.step(number, host * number, host)
        builder.kernel(behind + max(host, gpu) * number, gpu, launch=host * number + 5)
    return builder


def test_a_training_whose_gpu_is_behind_is_bound_by_it_as_before() -> None:
    profile = profile_of(steps(5, host=50, gpu=700, behind=400))  # all is launched before the GPU begins
    assert not found(profile)
    assert profile.bound == "gpu"
    assert profile.steps.traced_ns == 700_000


def test_steps_of_a_host_that_is_slow_and_long_ahead_contradict_themselves() -> None:
    profile = profile_of(steps(4, host=1000, gpu=300, behind=5000))
    assert found(profile) == WITHHELD
    assert profile.bound is None


# ---------------------------------------------------------------- batches of a server


def test_replays_without_ops_are_work_of_the_batch_that_launches_them() -> None:
    builder = TraceBuilder()
    for number in range(5):
        builder.event("user_annotation", f"execute_context_0(0)_generation_{number}({number})", 1200 * number, 300)
        replay(builder, launch=1200 * number + 100, start=1200 * number + 130)
    trace = builder.read()
    profile = analyse(trace).profile
    assert trace.links.activity_step.tolist() == [step for step in range(5) for _ in range(10)]
    assert profile.steps.count == 4
    assert profile.steps.traced_ns == 1_200_000
    assert profile.steps.busy_ns == 1_000_000
    assert profile.bound == "host"  # 0.2 of 1.2 ms: the next batch comes late


def test_batches_one_ahead_of_the_gpu_are_bound_by_it() -> None:
    builder = TraceBuilder()
    in_flight(builder, 0, 1000)
    for number in range(5):
        builder.event("user_annotation", f"step[DECODE bs={8 + number}]", 1000 * number + 1, 300)
        replay(builder, launch=1000 * number + 100, start=1000 * (number + 1))
    profile = profile_of(builder)
    assert not found(profile)
    assert profile.bound == "gpu"
    assert profile.steps.traced_ns == profile.steps.busy_ns == 1_000_000


def test_graphs_of_other_sizes_are_not_taken_for_one_that_has_lost_work() -> None:
    builder = TraceBuilder()
    for number in range(6):
        builder.event("user_annotation", "execute_context_0(0)_generation_8(8)", 2000 * number, 300)
        replay(builder, launch=2000 * number + 100, start=2000 * number + 130, kernels=3 if number == 2 else 10)
    assert not {doubt.check for doubt in profile_of(builder).doubts} & {"lost_graph_work"}


def test_a_prefill_among_decodes_is_a_step_unlike_the_others() -> None:
    builder = TraceBuilder()
    for number in range(9):
        prefills = number == 4
        name = f"step[EXTEND bs=1 toks={4096}]" if prefills else "step[DECODE bs=8]"
        begin = 1200 * number + 9000 * (number > 4)
        builder.event("user_annotation", name, begin, 300)
        replay(builder, launch=begin + 100, start=begin + 130, lasting=1000 if prefills else 100)
    profile = profile_of(builder)
    assert profile.steps.count == 7  # of nine the last is not whole
    assert profile.steps.traced_ns == 1_200_000
    (doubt,) = (doubt for doubt in profile.doubts if doubt.check == "irregular_steps")
    assert "step 5 takes 10.2 ms instead of 1.20 ms" in doubt.what
    assert "the GPU has more to do there" in doubt.effect
