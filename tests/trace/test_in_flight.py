from trace_builder import COMPUTE, SIDE, TraceBuilder

from pinprof.measurement.trust.doubt import TrustFacts
from pinprof.measurement.trust.losses import unlinked_activities
from pinprof.trace import Trace


def lost(builder: TraceBuilder, start: float, duration: float, *, stream: int = COMPUTE) -> None:
    """Add a kernel whose launch is not in the trace."""
    builder.activity("kernel", "k", start, duration, correlation=9_000, device=0, stream=stream)


def in_us(trace: Trace) -> list[float]:
    """Return when each activity was launched, since the first event."""
    return [(time - 1_000_000_000) / 1000 for time in trace.links.launched_ns.tolist()]


def test_what_a_stream_did_before_its_first_launch_was_queued_before_anything_recorded() -> None:
    builder = TraceBuilder()
    lost(builder, 5, 10)
    builder.call("cudaDeviceSynchronize", 10, 100)
    lost(builder, 20, 50)
    builder.kernel(130, 50, launch=120)
    trace = builder.read()
    assert trace.links.in_flight.tolist() == [True, True, False]
    assert in_us(trace) == [4.999, 4.999, 120]


def test_a_launch_lost_in_between_came_before_that_of_the_next_work_of_the_stream() -> None:
    builder = TraceBuilder()
    builder.kernel(10, 100, launch=0)
    lost(builder, 110, 100)
    builder.kernel(210, 100, launch=50)
    lost(builder, 400, 100)
    trace = builder.read()
    assert not trace.links.in_flight.any()
    assert in_us(trace) == [0, 50, 50, 400]  # the last began as soon as it was launched, for all that is known


def test_of_a_stream_without_any_launch_only_the_first_work_is_known_to_be_in_flight() -> None:
    builder = TraceBuilder()
    lost(builder, 0, 20, stream=SIDE)
    builder.kernel(20, 100, launch=10)
    lost(builder, 300, 20, stream=SIDE)
    trace = builder.read()
    assert trace.links.in_flight.tolist() == [True, False, False]
    assert in_us(trace) == [-0.001, 10, 300]


def test_replays_of_a_graph_are_launched_by_it_whatever_their_stream() -> None:
    builder = TraceBuilder()
    graph = builder.call("cudaGraphLaunch", 10, 5)
    for start, stream in ((20, COMPUTE), (40, COMPUTE), (40, SIDE)):
        builder.activity("kernel", "k", start, 20, correlation=graph, device=0, stream=stream)
    trace = builder.read()
    assert not trace.links.in_flight.any()
    assert in_us(trace) == [10, 10, 10]


def test_work_in_flight_is_not_reported_as_lost() -> None:
    builder = TraceBuilder()
    lost(builder, 0, 20, stream=SIDE)
    lost(builder, 5, 30)
    builder.kernel(50, 50, launch=10)
    trace = builder.read()
    assert unlinked_activities(TrustFacts(trace, None, None, None)) is None  # type: ignore[arg-type]  # only the trace is asked
    lost(builder, 200, 20)
    doubt = unlinked_activities(TrustFacts(builder.read(), None, None, None))  # type: ignore[arg-type]
    assert doubt
    assert doubt.what == "no launch of 1 of 4 GPU activities"
