import pytest
from trace_builder import AUTOGRAD, COMPUTE, SIDE, TraceBuilder
from trace_parts import Part, built, call, event, kernel, step

from pinprof.analyses.syncs.sites import Site, Syncs, measure_syncs
from pinprof.details import details_of

ITEM_COPY = "DtoH (Device -> Pinned)"


def syncs_of(builder: TraceBuilder) -> Syncs:
    return measure_syncs(builder.read())


def only_site(builder: TraceBuilder) -> Site:
    (site,) = syncs_of(builder).sites
    return site


def item(builder: TraceBuilder, start: float, *, kernel_end: float, stall_end: float) -> None:
    """`loss.item()` from `start`: its copy waits for the kernels, then takes 2 µs."""
    builder.op("aten::item", start, stall_end - start + 2)
    builder.op("aten::_local_scalar_dense", start + 1, stall_end - start)
    builder.copy(ITEM_COPY, kernel_end, 2, launch=start + 2, call=3, size=4)
    builder.call("cudaStreamSynchronize", start + 6, stall_end - start - 6)


def test_item_drains_the_stream_then_waits_for_its_own_copy() -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(20, 480, launch=10)
    item(builder, 100, kernel_end=500, stall_end=510)
    builder.kernel(530, 100, launch=520)
    site = only_site(builder)
    assert (site.cause, site.op, site.call, site.verdict) == ("item", "aten::item", "cudaStreamSynchronize", "hidden")
    cost = site.total
    assert cost.stall_ns == 404_000  # from 106 to 510
    assert cost.drain_ns == 394_000  # until the kernel ends at 500
    assert cost.own_ns == 2_000
    assert cost.idle_ns == 28_000  # from the copy's end at 502 to the next kernel at 530
    assert cost.count == site.in_steps.count == 1


def test_a_wait_that_leaves_the_gpu_busy_costs_no_bubble() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    builder.kernel(20, 2000, launch=12, stream=SIDE)  # goes on meanwhile
    item(builder, 100, kernel_end=500, stall_end=510)
    builder.kernel(530, 100, launch=520)
    cost = only_site(builder).total
    assert cost.drain_ns == 394_000
    assert cost.idle_ns == 0


FIRST = kernel(20, 80, launch=10)
BUBBLES: dict[str, tuple[list[Part], list[int], int]] = {
    "of a wait, within later calls of the allocator": (
        [
            *(kernel(20, 480, launch=10), call("cudaFree", 100, 410)),  # awaits the kernel: the GPU is idle from 500
            *(call("cudaFree", 520, 40), call("cudaMalloc", 570, 30), kernel(650, 100, launch=640)),
            call("cudaMalloc", 660, 30),  # the GPU works meanwhile
        ],
        *([80, 40, 30, 0], 150),
    ),
    "of calls of two threads": (
        [
            *(FIRST, call("cudaMalloc", 150, 50)),
            *(call("cudaHostAlloc", 160, 70, thread=AUTOGRAD), kernel(300, 100, launch=290)),  # from 200 on it is alone
        ],
        *([50, 30], 0),
    ),
    "none, where the next work was queued": (
        [FIRST, call("cudaFree", 50, 55), kernel(103, 50, launch=30, stream=SIDE)],
        *([0], 0),
    ),
}


@pytest.mark.parametrize(("parts", "idle_us", "bubble_us"), BUBBLES.values(), ids=BUBBLES)
def test_idle_time_is_of_one_wait(parts: list[Part], idle_us: list[int], bubble_us: int) -> None:
    stalls = syncs_of(built(*parts)).stalls
    assert stalls.idle_ns.tolist() == [1000 * us for us in idle_us]
    assert stalls.bubble_ns[0] == 1000 * bubble_us


def test_a_recording_that_begins_with_a_wait_for_work_in_flight_shows_what_it_cost() -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "gemm", 0, 6_000, correlation=7_001, device=0, stream=COMPUTE)  # launched before
    builder.activity("kernel", "gemm", 6_001, 7_732, correlation=7_002, device=0, stream=COMPUTE)
    builder.call("cudaDeviceSynchronize", 100, 13_640)
    builder.kernel(19_713, 1_000, launch=19_700)
    stalls = syncs_of(builder).stalls
    assert stalls.drain_ns.tolist() == [13_633_000]  # from 100 to the end of the kernel, 7 µs before it returns
    assert stalls.bubble_ns.tolist() == stalls.idle_ns.tolist() == [5_980_000]
    (device,) = details_of(builder.read()).devices
    assert dict(device.idle_by_cause) == {"sync_bubble": 5_980_000, "kernel_wait": 1_000}


def test_work_whose_launch_was_lost_is_awaited_only_if_it_had_ended() -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.activity("kernel", "gemm", 100, 50, correlation=7_001, device=0, stream=COMPUTE)
    builder.call("cudaDeviceSynchronize", 20, 135)
    builder.activity("kernel", "gemm", 300, 50, correlation=7_002, device=0, stream=COMPUTE)
    builder.kernel(400, 50, launch=290)
    stalls = syncs_of(builder).stalls
    assert stalls.drain_ns.tolist() == [130_000]  # from 20 to 150, not to 155
    assert stalls.bubble_ns.tolist() == [150_000]  # from 150 to 300


OTHER = kernel(20, 480, launch=12, stream=SIDE)
DRAINS: dict[str, tuple[list[Part], str, int]] = {
    "a device's wait, for all streams": ([call("cudaDeviceSynchronize", 50, 460)], "device_synchronize", 450),
    "a stream's, for the one that CUPTI names": (
        [
            call("cudaStreamSynchronize", 50, 55, correlation=99),
            event("cuda_sync", "Stream Sync", 50, 55, stream=7, correlation=99, device=0),
        ],
        *("stream_synchronize", 50),  # to 100, not to the clipped end at 105
    ),
    "an unnamed event's, for what had ended": ([call("cudaEventSynchronize", 50, 55)], "event_synchronize", 50),
    "release of memory, for what ended while it took": ([call("cudaFree", 50, 60)], "device_free", 50),
    "allocation": ([call("cudaMalloc", 50, 60)], "device_malloc", 50),
    "allocation of pinned memory, for nothing": ([call("cudaHostAlloc", 50, 60)], "host_alloc", 0),
}
"""Waits during two kernels, to 100 and to 500 µs on another stream, their cause and for how long they drain the GPU."""


@pytest.mark.parametrize(("wait", "cause", "drain_us"), DRAINS.values(), ids=DRAINS)
def test_a_wait_is_for_what_it_awaits(wait: list[Part], cause: str, drain_us: int) -> None:
    site = only_site(built(step(0, 0, 2000), FIRST, OTHER, *wait, kernel(600, 10, launch=590)))
    assert (site.cause, site.total.drain_ns) == (cause, 1000 * drain_us)


def test_a_blocking_pageable_copy_is_one_wait_of_two_calls() -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)
    builder.op("aten::to", 40, 400)
    builder.op("aten::copy_", 45, 390)
    builder.copy("HtoD (Pageable -> Device)", 110, 290, launch=50, call=340)  # the call returns at 390
    builder.call("cudaStreamSynchronize", 395, 10)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder)
    assert (site.cause, site.op, site.call) == ("blocking_copy_htod", "aten::to", "cudaMemcpyAsync")
    cost = site.total
    assert cost.count == 1
    assert cost.stall_ns == 350_000
    assert cost.drain_ns == 50_000  # 50 to 100
    assert cost.own_ns == 285_000  # 110 to 390 in the copy's call, 395 to 400 in the synchronize
    assert cost.idle_ns == 20_000  # 400 to 420, once


def test_waits_of_other_threads_and_functions_are_other_sites() -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    item(builder, 100, kernel_end=120, stall_end=130)
    item(builder, 200, kernel_end=220, stall_end=230)
    builder.op("autograd::engine::evaluate_function: MulBackward0", 300, 200, thread=AUTOGRAD)
    builder.on_thread(AUTOGRAD, "cpu_op", "aten::item", 310, 100)
    builder.call("cudaStreamSynchronize", 320, 50, thread=AUTOGRAD)
    builder.kernel(420, 10, launch=410)
    sites = syncs_of(builder).sites
    assert sorted((site.thread, site.total.count) for site in sites) == [("autograd", 1), ("main", 2)]


def test_the_site_with_most_idle_time_comes_first() -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    item(builder, 100, kernel_end=500, stall_end=510)  # 404 us of waiting, then 28 idle
    builder.kernel(530, 100, launch=520)
    builder.call("cudaDeviceSynchronize", 600, 35)
    builder.kernel(900, 10, launch=890)  # 270 idle
    assert [(site.cause, site.total.idle_ns // 1000) for site in syncs_of(builder).sites] == [
        ("device_synchronize", 270),
        ("item", 28),
    ]
