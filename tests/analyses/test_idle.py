from pathlib import Path

from trace_builder import SIDE, TraceBuilder

from pinprof.details import Details, details_of
from pinprof.trace import read_trace


def measured(builder: TraceBuilder, folder: Path) -> Details:
    return details_of(read_trace(builder.write(folder / "trace.json")))


def idle_of(builder: TraceBuilder, folder: Path) -> dict[str, int]:
    (device,) = measured(builder, folder).devices
    assert device.busy_ns + device.idle_ns == device.span_ns
    assert sum(time for _, time in device.idle_by_cause) == device.idle_ns
    return dict(device.idle_by_cause)


def test_a_late_launch_is_the_hosts(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.kernel(160, 40, launch=150)
    assert idle_of(builder, tmp_path) == {"host_wait": 60_000}


def test_work_that_was_queued_waits_for_other_work(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.kernel(105, 40, launch=3)
    assert idle_of(builder, tmp_path) == {"kernel_wait": 5_000}


def test_work_that_was_queued_for_most_of_a_gap_waits_for_other_work(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.kernel(1100, 40, launch=300)
    assert idle_of(builder, tmp_path) == {"kernel_wait": 1_000_000}


def test_a_launch_that_lasts_is_the_hosts(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    correlation = builder.call("cudaLaunchKernel", 200, 890)
    builder.activity("kernel", "gemm", 1100, 40, correlation=correlation, device=0, stream=7)
    assert idle_of(builder, tmp_path) == {"host_wait": 1_000_000}


def test_a_host_that_had_waited_leaves_a_bubble(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(10, 90, launch=0)
    builder.call("cudaStreamSynchronize", 20, 85)
    builder.kernel(160, 40, launch=150)
    assert idle_of(builder, tmp_path) == {"sync_bubble": 60_000}
    (site,) = measured(builder, tmp_path).syncs.sites
    assert site.total.idle_ns == 60_000


def test_a_host_that_only_gets_memory_did_not_wait_for_the_gpu(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(10, 90, launch=0)
    builder.call("cudaHostAlloc", 90, 20)  # of the 60 µs in which the GPU is idle it explains the first 10
    builder.kernel(160, 40, launch=150)
    assert idle_of(builder, tmp_path) == {"host_wait": 60_000}
    (site,) = measured(builder, tmp_path).syncs.sites
    assert (site.total.drain_ns, site.total.idle_ns) == (0, 10_000)


def test_most_of_the_gap_in_the_loader_is_a_wait_for_input(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(10, 90, launch=0)
    builder.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 105, 40)
    builder.kernel(160, 40, launch=150)
    details = measured(builder, tmp_path)
    assert dict(details.devices[0].idle_by_cause) == {"input_wait": 60_000}
    assert (details.loader.waits, details.loader.wait_ns) == (1, 40_000)


def test_a_host_in_a_collective_waits_for_communication(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.op("c10d::allreduce_", 100, 50)
    builder.kernel(160, 40, launch=152)
    assert idle_of(builder, tmp_path) == {"communication_wait": 60_000}


def test_without_a_launch_the_cause_is_not_known(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "k", 10, 90, correlation=0, device=0, stream=7)
    builder.activity("kernel", "k", 160, 40, correlation=0, device=0, stream=7)
    assert idle_of(builder, tmp_path) == {"other": 60_000}


def test_gaps_between_works_in_flight_are_not_the_hosts(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("kernel", "k", 0, 90, correlation=0, device=0, stream=7)
    builder.activity("kernel", "k", 100, 90, correlation=0, device=0, stream=7)
    builder.kernel(200, 40, launch=195)
    assert idle_of(builder, tmp_path) == {"kernel_wait": 10_000, "host_wait": 10_000}


def test_synchronization_records_and_gpu_annotations_are_not_gpu_work(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.event("cuda_sync", "Context Sync", 100, 60, stream=7, device=0, correlation=77)
    builder.event("gpu_user_annotation", "ProfilerStep#1", 0, 200, stream=7, device=0)
    builder.kernel(160, 40, launch=150)
    (device,) = measured(builder, tmp_path).devices
    assert (device.span_ns, device.busy_ns) == (190_000, 130_000)


def test_work_that_overlaps_on_one_or_several_streams_counts_once(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 100, launch=0)
    builder.kernel(50, 100, launch=3)  # the same stream: programmatic dependent launch
    builder.kernel(80, 100, launch=6, stream=SIDE)
    builder.activity("gpu_memset", "Memset (Device)", 170, 30, correlation=0, device=0, stream=7)
    (device,) = measured(builder, tmp_path).devices
    assert (device.busy_ns, device.kernel_ns, device.idle_ns) == (200_000, 180_000, 0)


def test_sub_microsecond_kernels_keep_their_length(tmp_path: Path) -> None:
    builder = TraceBuilder(base_us=4_458_676_416_788.0)
    builder.activity("kernel", "k", 0.066, 0.3, correlation=0, device=0, stream=0)
    builder.activity("kernel", "k", 0.866, 0.7, correlation=0, device=0, stream=0)
    (device,) = measured(builder, tmp_path).devices
    assert (device.busy_ns, device.span_ns) == (1_000, 1_500)


def test_each_device_has_its_own_idle_time(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 90, launch=0)
    builder.kernel(10, 290, launch=1, device=1)
    builder.kernel(160, 40, launch=150)
    assert [device.idle_ns for device in measured(builder, tmp_path).devices] == [60_000, 0]
