from trace_builder import AUTOGRAD, TraceBuilder
from trace_parts import long_launch

from pinprof.analyses.launches import Pause, SlowLaunches
from pinprof.measurement.measure import measure

MS = 1_000_000


def pause_of(builder: TraceBuilder) -> Pause | None:
    return measure(builder.read()).pause


def sleeping(sleeps: float) -> TraceBuilder:
    """Three steps of 10 ms: an op from 1 to 2 ms, nothing for N ms, an op and a call up to 9 ms."""
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000, length=10_000):
        builder.op("aten::mm", start + 1000, 1000)
        builder.op("aten::add", start + 2000 + sleeps, 7000 - sleeps)
        builder.call("cudaLaunchKernel", start + 8000, 10)
    return builder


def test_a_pause_lies_between_the_ops_around_it() -> None:
    pause = pause_of(sleeping(5000))
    assert pause == Pause(5 * MS, "aten::mm", "aten::add")
    assert pause.between == "after aten::mm and before aten::add"


def test_a_pause_may_reach_from_an_end_of_the_step_to_the_other() -> None:
    builder = TraceBuilder()
    for start in range(0, 3000, 1000):
        builder.step(start // 1000, start, 1000)
    builder.op("aten::mm", 3100, 10)
    assert pause_of(builder) == Pause(MS, "", "")


def test_backward_and_the_wait_for_a_batch_are_no_pause() -> None:
    builder = sleeping(5000)
    for start in range(0, 30_000, 10_000):
        builder.op("MmBackward0", start + 2500, 1500, thread=AUTOGRAD)
        builder.op("autograd::engine::evaluate_function: MmBackward0", start + 2400, 1700, thread=AUTOGRAD)
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        builder.event("user_annotation", name, start + 4200, 2000)
    # from 6.2 to 7 ms, but the longest is now before the first op and after the last
    assert pause_of(builder) == Pause(MS, "", "aten::mm")


def test_a_gap_inside_an_op_is_no_pause_wherever_the_op_began() -> None:
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000, length=10_000):
        # maps memory for 8 ms of it, which nothing shows, and runs on into the next step
        builder.op("aten::empty", start + 1500, 9000)
        builder.op("aten::add", start + 11_000, 100)
    # from 0.5 to 1 ms; from the second step on, 0.4 ms before and after aten::add at 1 ms
    assert pause_of(builder) == Pause(MS // 2, "aten::empty", "aten::add")


def test_launches_that_take_long_and_are_no_waits_are_counted_per_step() -> None:
    builder = TraceBuilder()
    for start in builder.steps(2, 10_000, length=10_000):
        long_launch(start + 100, 2000, kernel=start + 2500)(builder)
        builder.kernel(start + 3500, 10, launch=start + 3000)
        builder.copy("HtoD (Pageable -> Device)", start + 4100, 3000, launch=start + 4000, call=3200)  # a wait
    assert measure(builder.read()).slow_launches == SlowLaunches(1, 2 * MS)
