from pathlib import Path

import pytest
from trace_builder import AUTOGRAD, COMPUTE, SIDE, TraceBuilder

from pinprof.analyses.syncs import Site, Syncs, measure_syncs
from pinprof.details import details_of
from pinprof.trace import read_trace

ITEM_COPY = "DtoH (Device -> Pinned)"


def syncs_of(builder: TraceBuilder, folder: Path) -> Syncs:
    return measure_syncs(read_trace(builder.write(folder / "trace.json")))


def only_site(builder: TraceBuilder, folder: Path) -> Site:
    (site,) = syncs_of(builder, folder).sites
    return site


def item(builder: TraceBuilder, start: float, *, kernel_end: float, stall_end: float) -> None:
    """`loss.item()` from `start`: its copy waits for the kernels, then takes 2 µs."""
    builder.op("aten::item", start, stall_end - start + 2)
    builder.op("aten::_local_scalar_dense", start + 1, stall_end - start)
    builder.copy(ITEM_COPY, kernel_end, 2, launch=start + 2, call=3, size=4)
    builder.call("cudaStreamSynchronize", start + 6, stall_end - start - 6)


def test_item_drains_the_stream_then_waits_for_its_own_copy(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(20, 480, launch=10)
    item(builder, 100, kernel_end=500, stall_end=510)
    builder.kernel(530, 100, launch=520)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.op, site.call, site.verdict) == ("item", "aten::item", "cudaStreamSynchronize", "hidden")
    cost = site.total
    assert cost.stall_ns == 404_000  # from 106 to 510
    assert cost.drain_ns == 394_000  # until the kernel ends at 500
    assert cost.own_ns == 2_000
    assert cost.idle_ns == 28_000  # from the copy's end at 502 to the next kernel at 530
    assert cost.count == site.in_steps.count == 1


def test_a_wait_that_leaves_the_gpu_busy_costs_no_bubble(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    builder.kernel(20, 2000, launch=12, stream=SIDE)  # goes on meanwhile
    item(builder, 100, kernel_end=500, stall_end=510)
    builder.kernel(530, 100, launch=520)
    cost = only_site(builder, tmp_path).total
    assert cost.drain_ns == 394_000
    assert cost.idle_ns == 0


def test_idle_time_within_later_calls_of_the_allocator_is_theirs_and_not_also_that_of_the_wait(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    builder.call("cudaFree", 100, 410)  # awaits the kernel
    builder.call("cudaFree", 520, 40)
    builder.call("cudaMalloc", 570, 30)
    builder.kernel(650, 100, launch=640)
    builder.call("cudaMalloc", 660, 30)  # the GPU works meanwhile
    stalls = syncs_of(builder, tmp_path).stalls
    assert stalls.bubble_ns.tolist() == [150_000, 0, 0, 0]  # from 500 to 650
    assert stalls.idle_ns.tolist() == [80_000, 40_000, 30_000, 0]  # the same 150 µs


def test_calls_of_the_allocator_on_two_threads_share_no_idle_time(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 80, launch=10)
    builder.call("cudaMalloc", 150, 50)
    builder.call("cudaHostAlloc", 160, 70, thread=AUTOGRAD)  # from 200 on it is alone
    builder.kernel(300, 100, launch=290)
    assert syncs_of(builder, tmp_path).stalls.idle_ns.tolist() == [50_000, 30_000]


def test_a_recording_that_begins_with_a_wait_for_work_in_flight_shows_what_it_cost(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "gemm", 0, 6_000, correlation=7_001, device=0, stream=COMPUTE)  # launched before
    builder.activity("kernel", "gemm", 6_001, 7_732, correlation=7_002, device=0, stream=COMPUTE)
    builder.call("cudaDeviceSynchronize", 100, 13_640)
    builder.kernel(19_713, 1_000, launch=19_700)
    stalls = syncs_of(builder, tmp_path).stalls
    assert stalls.drain_ns.tolist() == [13_633_000]  # from 100 to the end of the kernel, 7 µs before it returns
    assert stalls.bubble_ns.tolist() == stalls.idle_ns.tolist() == [5_980_000]
    (device,) = details_of(read_trace(tmp_path / "trace.json")).devices
    assert dict(device.idle_by_cause) == {"sync_bubble": 5_980_000, "kernel_wait": 1_000}


def test_work_whose_launch_was_lost_is_awaited_only_if_it_had_ended(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.activity("kernel", "gemm", 100, 50, correlation=7_001, device=0, stream=COMPUTE)
    builder.call("cudaDeviceSynchronize", 20, 135)
    builder.activity("kernel", "gemm", 300, 50, correlation=7_002, device=0, stream=COMPUTE)
    builder.kernel(400, 50, launch=290)
    stalls = syncs_of(builder, tmp_path).stalls
    assert stalls.drain_ns.tolist() == [130_000]  # from 20 to 150, not to 155
    assert stalls.bubble_ns.tolist() == [150_000]  # from 150 to 300


def test_a_wait_leaves_no_bubble_where_the_next_work_was_queued(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 80, launch=10)
    builder.call("cudaFree", 50, 55)
    builder.kernel(103, 50, launch=30, stream=SIDE)  # waited for other work
    assert syncs_of(builder, tmp_path).stalls.bubble_ns.tolist() == [0]


def test_a_device_synchronize_waits_for_all_streams(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)
    builder.kernel(20, 480, launch=12, stream=SIDE)
    builder.call("cudaDeviceSynchronize", 50, 460)
    builder.kernel(600, 10, launch=590)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.verdict) == ("device_synchronize", "explicit")
    assert (site.total.drain_ns, site.total.own_ns, site.total.idle_ns) == (450_000, 0, 100_000)


def test_a_stream_synchronize_waits_for_the_stream_that_cupti_names(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)
    builder.kernel(20, 480, launch=12, stream=SIDE)
    builder.call("cudaStreamSynchronize", 50, 55, correlation=99)
    builder.event("cuda_sync", "Stream Sync", 50, 55, stream=7, correlation=99, device=0)
    builder.kernel(600, 10, launch=590)
    assert only_site(builder, tmp_path).total.drain_ns == 50_000  # to 100, not to the clipped end at 105


def test_a_wait_for_an_unnamed_event_awaits_what_ended_before_it_returned(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)  # ends at 100
    builder.kernel(20, 480, launch=12, stream=SIDE)  # not awaited: ends after the call
    builder.call("cudaEventSynchronize", 50, 55)
    builder.kernel(600, 10, launch=590)
    site = only_site(builder, tmp_path)
    assert site.cause == "event_synchronize"
    assert site.total.drain_ns == 50_000


def test_a_blocking_pageable_copy_is_one_wait_of_two_calls(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)
    builder.op("aten::to", 40, 400)
    builder.op("aten::copy_", 45, 390)
    builder.copy("HtoD (Pageable -> Device)", 110, 290, launch=50, call=340)  # the call returns at 390
    builder.call("cudaStreamSynchronize", 395, 10)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.op, site.call) == ("blocking_copy_htod", "aten::to", "cudaMemcpyAsync")
    cost = site.total
    assert cost.count == 1
    assert cost.stall_ns == 350_000
    assert cost.drain_ns == 50_000  # 50 to 100
    assert cost.own_ns == 285_000  # 110 to 390 in the copy's call, 395 to 400 in the synchronize
    assert cost.idle_ns == 20_000  # 400 to 420, once


def test_a_pageable_copy_blocks_although_asynchronous(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.op("aten::copy_", 45, 350)
    builder.copy("HtoD (Pageable -> Device)", 60, 300, launch=50, call=290)
    builder.kernel(420, 10, launch=410)
    assert only_site(builder, tmp_path).cause == "pageable_copy"


@pytest.mark.parametrize(
    ("kind", "size"),
    [("HtoD (Pinned -> Device)", 10**6), ("HtoD (Pageable -> Device)", 64 * 1024), (ITEM_COPY, 10**6)],
)
def test_copies_that_do_not_block_are_no_stalls(tmp_path: Path, kind: str, size: int) -> None:
    builder = TraceBuilder()
    builder.op("aten::copy_", 45, 50)
    builder.copy(kind, 60, 300, launch=50, size=size)
    builder.kernel(420, 10, launch=410)
    assert syncs_of(builder, tmp_path).sites == ()


def test_a_synchronizing_copy_is_its_own_wait(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    correlation = builder.call("hipMemcpyWithStream", 50, 100)
    name = "Memcpy HtoD (Host -> Device)"
    builder.activity("gpu_memcpy", name, 60, 80, correlation=correlation, device=0, stream=0)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.total.own_ns) == ("blocking_copy_htod", 80_000)


@pytest.mark.parametrize(
    ("call", "cause", "drain"),
    [("cudaFree", "device_free", 50_000), ("cudaMalloc", "device_malloc", 50_000), ("cudaHostAlloc", "host_alloc", 0)],
)
def test_allocation_awaits_what_ended_while_it_took(tmp_path: Path, call: str, cause: str, drain: int) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    builder.kernel(20, 80, launch=10)
    builder.kernel(20, 480, launch=12, stream=SIDE)
    builder.call(call, 50, 60)
    builder.kernel(600, 10, launch=590)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.verdict, site.total.drain_ns) == (cause, "hidden", drain)


def test_the_profilers_own_synchronize_is_marked(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100)
    builder.kernel(20, 480, launch=10)
    builder.call("cudaDeviceSynchronize", 150, 355)
    site = only_site(builder, tmp_path)
    assert (site.verdict, site.total.idle_ns) == ("profiler", 0)


def test_a_synchronize_at_the_end_of_the_last_step_is_the_users(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 600)
    builder.kernel(20, 480, launch=10)
    builder.call("cudaDeviceSynchronize", 50, 455)
    builder.call("cudaDeviceSynchronize", 650, 5)
    assert [site.verdict for site in syncs_of(builder, tmp_path).sites] == ["explicit", "profiler"]


@pytest.mark.parametrize(
    ("ops", "cause"),
    [
        (["aten::item"], "item"),
        (["aten::is_nonzero", "aten::item"], "bool"),
        (["aten::nonzero"], "nonzero"),
        (["aten::index", "aten::nonzero"], "mask_index"),
        (["aten::index_put_", "aten::_index_put_impl_", "aten::nonzero"], "mask_index"),
        (["aten::masked_select", "aten::nonzero"], "masked_select"),
        (["aten::_unique2", "aten::item"], "unique"),
        (["aten::repeat_interleave", "aten::item"], "repeat_interleave"),
        (["aten::equal", "aten::item"], "equal"),
        (["aten::to", "aten::_to_copy", "aten::copy_"], "to_cpu"),
        (["aten::copy_"], "blocking_copy_dtoh"),
        (["autograd::engine::evaluate_function: IndexBackward0", "aten::item"], "item"),
    ],
)
def test_the_ops_around_a_wait_name_its_cause(tmp_path: Path, ops: list[str], cause: str) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    for depth, op in enumerate(ops):
        builder.op(op, 100 + depth, 100 - 2 * depth)
    builder.copy(ITEM_COPY, 120, 2, launch=115, size=4)
    builder.call("cudaStreamSynchronize", 118, 10)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder, tmp_path)
    assert site.cause == cause
    assert site.op == next(op for op in ops if not op.startswith("autograd::"))


@pytest.mark.parametrize(
    ("functions", "cause"),
    [
        (["train.py(3): train", "<built-in method tolist of Tensor object at 0x7f>"], "tolist"),
        (["train.py(3): train", "<built-in method cpu of Tensor object at 0x7f>"], "to_cpu"),
        (["train.py(3): train", "<built-in function print>", "torch/_tensor_str.py(708): _str"], "print"),
        (["train.py(3): train", "<built-in method tensor of type object at 0x7f>"], "tensor_from_host"),
    ],
)
def test_the_python_function_says_more_than_the_op(tmp_path: Path, functions: list[str], cause: str) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    for depth, function in enumerate(functions):
        builder.function(function, 90 + depth, 150 - 2 * depth)
    builder.op("aten::item", 100, 100)
    builder.copy(ITEM_COPY, 120, 2, launch=115, size=4)
    builder.call("cudaStreamSynchronize", 118, 10)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder, tmp_path)
    assert (site.cause, site.file, site.function) == (cause, "train.py", "train")


def test_the_users_innermost_function_names_the_place_and_the_stack_has_all(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    frames = ("train.py(1): <module>", "src/loss.py(7): compute", "torch/nn/functional.py(99): f", "nn.Module: Loss_0")
    for depth, function in enumerate(frames):
        builder.function(function, 50 + depth, 300 - 2 * depth)
    item(builder, 100, kernel_end=120, stall_end=130)
    builder.kernel(420, 10, launch=410)
    site = only_site(builder, tmp_path)
    assert (site.file, site.function) == ("src/loss.py", "compute")
    assert site.stack == (
        "nn.Module: Loss_0",
        "torch/nn/functional.py:99:f",
        "src/loss.py:7:compute",
        "train.py:1:<module>",
    )


def test_waits_of_other_threads_and_functions_are_other_sites(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    item(builder, 100, kernel_end=120, stall_end=130)
    item(builder, 200, kernel_end=220, stall_end=230)
    builder.op("autograd::engine::evaluate_function: MulBackward0", 300, 200, thread=AUTOGRAD)
    builder.on_thread(AUTOGRAD, "cpu_op", "aten::item", 310, 100)
    builder.call("cudaStreamSynchronize", 320, 50, thread=AUTOGRAD)
    builder.kernel(420, 10, launch=410)
    sites = syncs_of(builder, tmp_path).sites
    assert sorted((site.thread, site.total.count) for site in sites) == [("autograd", 1), ("main", 2)]


def test_the_parts_of_every_stall_add_up(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    item(builder, 100, kernel_end=500, stall_end=510)
    builder.call("cudaFree", 520, 30)
    stalls = syncs_of(builder, tmp_path).stalls
    assert (stalls.stall_ns == stalls.drain_ns + stalls.own_ns + stalls.overhead_ns).all()
    assert (stalls.overhead_ns >= 0).all()


def test_a_trace_without_gpu_activities_has_stalls_that_await_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.call("cudaMalloc", 0, 30)
    builder.call("cudaStreamSynchronize", 50, 30)
    assert {site.total.drain_ns for site in syncs_of(builder, tmp_path).sites} == {0}
