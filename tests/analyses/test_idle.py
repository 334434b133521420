import pytest
from trace_builder import SIDE, TraceBuilder
from trace_parts import Part, built, call, event, kernel, long_launch, op, step, work

from pinprof.details import Details, details_of


def measured(builder: TraceBuilder) -> Details:
    return details_of(builder.read())


def idle_of(builder: TraceBuilder) -> dict[str, int]:
    (device,) = measured(builder).devices
    assert device.busy_ns + device.idle_ns == device.span_ns
    assert sum(time for _, time in device.idle_by_cause) == device.idle_ns
    return dict(device.idle_by_cause)


FIRST = kernel(10, 90, launch=0)
LATE = kernel(160, 40, launch=150)
CAUSES: dict[str, tuple[list[Part], dict[str, int]]] = {
    "a late launch is the host's": ([FIRST, LATE], {"host_wait": 60_000}),
    "work that was queued waits for other work": ([FIRST, kernel(105, 40, launch=3)], {"kernel_wait": 5_000}),
    "so does work queued for most of a gap": ([FIRST, kernel(1100, 40, launch=300)], {"kernel_wait": 1_000_000}),
    "a launch that lasts is the host's": ([FIRST, long_launch(200, 890, kernel=1100)], {"host_wait": 1_000_000}),
    "a host in a collective waits for communication": (
        [FIRST, op("c10d::allreduce_", 100, 50), kernel(160, 40, launch=152)],
        {"communication_wait": 60_000},
    ),
    "without a launch the cause is not known": ([work(10, 90), work(160, 40)], {"other": 60_000}),
    "gaps between works in flight are not the host's": (
        [work(0, 90), work(100, 90), kernel(200, 40, launch=195)],
        {"kernel_wait": 10_000, "host_wait": 10_000},
    ),
    "in memory it did not wait for the GPU": ([FIRST, call("cudaHostAlloc", 90, 20), LATE], {"host_wait": 60_000}),
    "a host that had waited leaves a bubble": (
        [FIRST, call("cudaStreamSynchronize", 20, 85), LATE],
        {"sync_bubble": 60_000},
    ),
}


@pytest.mark.parametrize(("parts", "idle"), CAUSES.values(), ids=CAUSES)
def test_idle_time_has_its_cause(parts: list[Part], idle: dict[str, int]) -> None:
    assert idle_of(built(*parts)) == idle


@pytest.mark.parametrize(
    ("wait", "drain", "idle"),
    [
        (call("cudaStreamSynchronize", 20, 85), 80_000, 60_000),
        (call("cudaHostAlloc", 90, 20), 0, 10_000),  # of the 60 µs it explains the first 10
    ],
)
def test_a_wait_has_the_idle_time_that_it_explains(wait: Part, drain: int, idle: int) -> None:
    (site,) = measured(built(step(0, 0, 1000), FIRST, wait, LATE)).syncs.sites
    assert (site.total.drain_ns, site.total.idle_ns) == (drain, idle)


def test_most_of_the_gap_in_the_loader_is_a_wait_for_input() -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(10, 90, launch=0)
    builder.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 105, 40)
    builder.kernel(160, 40, launch=150)
    details = measured(builder)
    assert dict(details.devices[0].idle_by_cause) == {"input_wait": 60_000}
    assert (details.loader.waits, details.loader.wait_ns) == (1, 40_000)


@pytest.mark.parametrize(
    ("parts", "span", "busy", "kernels"),
    [
        (
            [
                FIRST,
                event("cuda_sync", "Context Sync", 100, 60, stream=7, device=0, correlation=77),
                event("gpu_user_annotation", "ProfilerStep#1", 0, 200, stream=7, device=0),
                LATE,
            ],
            *(190_000, 130_000, 130_000),
        ),
        (
            [  # programmatic dependent launch, and another stream
                *(kernel(0, 100, launch=0), kernel(50, 100, launch=3), kernel(80, 100, launch=6, stream=SIDE)),
                work(170, 30, category="gpu_memset"),
            ],
            *(200_000, 200_000, 180_000),
        ),
    ],
    ids=["records and annotations are no work", "what overlaps counts once"],
)
def test_busy_time_is_that_of_work(parts: list[Part], span: int, busy: int, kernels: int) -> None:
    (device,) = measured(built(*parts)).devices
    assert (device.span_ns, device.busy_ns, device.kernel_ns) == (span, busy, kernels)


def test_a_gap_that_begins_while_the_host_waits_for_another_gpu_is_a_bubble() -> None:
    waiting = built(
        *(kernel(10, 90, launch=0), kernel(12, 188, launch=2, device=1), call("cudaDeviceSynchronize", 20, 185)),
        kernel(300, 40, launch=290),
    )
    first, _ = measured(waiting).devices
    assert dict(first.idle_by_cause) == {"sync_bubble": 200_000}
