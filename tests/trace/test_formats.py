"""What newer versions of Kineto write next to the work itself (libkineto/src/output_json.cpp): none of it is work."""

from collections.abc import Callable
from typing import Any

import pytest
from trace_builder import COMPUTE, SIDE, TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile

Addition = Callable[[TraceBuilder], None]


def training() -> TraceBuilder:
    """Return three steps of 1000 µs, each with a kernel, a copy partly under it, and two waits."""
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.op("aten::mm", start + 5, 40)
        builder.kernel(start + 100, 300, launch=start + 10)
        builder.copy("HtoD (Pinned -> Device)", start + 350, 100, launch=start + 20, stream=SIDE)
        builder.call("cudaStreamSynchronize", start + 60, 345, correlation=500 + start)
        builder.call("cudaStreamWaitEvent", start + 410, 2, correlation=501 + start)
        builder.call("cudaEventSynchronize", start + 420, 35, correlation=502 + start)
    return builder


def on_gpu(category: str, name: str, start: float, duration: float, row: int, **args: Any) -> Addition:
    """Return what adds an event on a row of the GPU to each step."""

    def add(builder: TraceBuilder) -> None:
        for step in (0, 1000, 2000):
            builder.event(category, name, step + start, duration, **args).update(pid=0, tid=row)

    return add


def sync(name: str, place: int, start: float, duration: float, *, row: int, stream: int, **args: Any) -> Addition:
    """Return what adds CUPTI's record of a wait to each step."""

    def add(builder: TraceBuilder) -> None:
        for step in (0, 1000, 2000):
            args.update(cuda_sync_kind=name, stream=stream, correlation=500 + place + step, device=0, context=1)
            builder.event("cuda_sync", name, step + start, duration, **args).update(pid=0, tid=row)

    return add


def counter(category: str, name: str, pid: Any, **values: float) -> Addition:
    def add(builder: TraceBuilder) -> None:
        for start in range(0, 3000, 100):
            at = builder.base_us + start
            event = {"ph": "C", "cat": category, "name": name, "pid": pid, "tid": 0, "ts": at, "args": values}
            builder.events.append(event)

    return add


def span(builder: TraceBuilder) -> None:
    event = builder.event("Trace", "PyTorch Profiler (0)", 0, 3000, **{"Op count": 0})
    event.update(pid="Spans", tid="PyTorch Profiler")
    ends = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": builder.base_us + 3000}
    builder.events += [{**ends, "name": "Iteration Start: PyTorch Profiler", "pid": "Traces"}, ends]


def names_of_rows(builder: TraceBuilder) -> None:
    rows = (
        ("process_name", 0, 0, {"name": "python"}),
        ("process_labels", 0, 0, {"labels": "GPU 0"}),
        ("process_sort_index", 0, 0, {"sort_index": 5_000_000}),
        ("process_name", -1, 0, {"name": "CUPTI Overhead"}),
        ("process_sort_index", -1, 0, {"sort_index": 0x100000A}),
        ("thread_name", 0, 1_000_007, {"name": "stream 7 (sync)"}),
        ("thread_sort_index", 0, 1_000_007, {"sort_index": 7}),
        ("process_sort_index", "Spans", 0, {"sort_index": 0x20000000}),
    )
    for name, pid, tid, args in rows:
        builder.events.append({"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": builder.base_us, "args": args})


def flows(builder: TraceBuilder) -> None:
    for event in list(builder.events):
        if event["cat"] in {"kernel", "gpu_memcpy", "cuda_runtime"}:
            end = event["cat"] != "cuda_runtime"
            flow = {"ph": "f" if end else "s", "id": event["args"]["correlation"], "cat": "ac2g", "name": "ac2g"}
            builder.events.append(flow | {key: event[key] for key in ("pid", "tid", "ts")})


def graph_ids(builder: TraceBuilder) -> None:
    newer: dict[str, Any] = {"graph id": 0, "graph node id": 2**63 + 5, "priority": 0, "channel": 8, "channel_type": 1}
    newer["occupancy"] = {"limitingFactors": "WARPS|REGS", "activeBlocksPerMultiprocessor": 2}
    for event in builder.events:
        if event["cat"] in {"kernel", "gpu_memcpy"}:
            event["args"] |= newer


def in_nanoseconds(builder: TraceBuilder) -> None:
    builder.metadata |= {"displayTimeUnit": "ns", "baseTimeNanoseconds": 1_700_000_000_000_000_000}


def overheads(builder: TraceBuilder) -> None:
    for name, start in (("Buffer Flush", 600), ("Instrumentation", 640), ("Activity Buffer Request", 680)):
        builder.overhead(name, start, 20)


UNKNOWN = 2**32 - 1
"""CUPTI's number for no stream, CUPTI_SYNCHRONIZATION_INVALID_VALUE."""
AWAITED = {"wait_on_stream": 7, "wait_on_cuda_event_id": 3, "wait_on_cuda_event_record_corr_id": 1}

ADDITIONS = {
    "Stream Sync on the stream": sync("Stream Sync", 0, 60, 345, row=COMPUTE, stream=COMPUTE),
    "Stream Sync on a row of its own": sync("Stream Sync", 0, 60, 345, row=1_000_007, stream=COMPUTE),
    "Stream Wait Event": sync("Stream Wait Event", 1, 410, 2, row=SIDE, stream=SIDE, **AWAITED),
    "Event Sync": sync("Event Sync", 2, 420, 35, row=1, stream=-1, **AWAITED),
    "Event Sync, unsigned": sync("Event Sync", 2, 420, 35, row=1, stream=UNKNOWN, **AWAITED),
    "cudaEvent": on_gpu("cuda_event", "cudaEvent", 405, 0.001, SIDE, event_id=3, stream=SIDE, correlation=1, device=0),
    "gpu_user_annotation": on_gpu("gpu_user_annotation", "forward", 99.999, 300.002, COMPUTE),
    "ProfilerStep on the GPU": on_gpu("gpu_user_annotation", "ProfilerStep#0", 99.999, 350.002, COMPUTE),
    "CUPTI ranges": on_gpu("cuda_profiler_range", "gemm", 100, 300, COMPUTE, smsp__inst_executed=5.5),
    "MTIA": on_gpu("mtia_ccp_events", "hccl::all_reduce", 500, 200, 3, **{"Collective name": "allreduce"}),
    "MTIA insight": on_gpu("mtia_insight", "insight", 500, 200, 3),
    "XPU": on_gpu("xpu_sync", "GPU_BARRIER_EXECUTION", 500, 200, 3),
    "HPU": on_gpu("hpu_op", "matmul", 500, 200, 3),
    "custom backend": on_gpu("privateuse1_runtime", "launch", 500, 200, 3, correlation=1),
    "XCCL": on_gpu("collective_comm", "xccl::allreduce", 500, 200, 3),
    "PM sampling": counter("hardware_counters", "sm__cycles_active.avg", "GPU 0 Counters", **{"": 41.5}),
    "MTIA counters": counter("mtia_counters", "HBM", 0, read=1.0, stream=7, correlation=1),
    "XPU scopes": counter("xpu_scope_profiler", "GpuTime", 0, bytes=10.0),
    "spans": span,
    "names of rows": names_of_rows,
    "flows": flows,
    "graph ids": graph_ids,
    "nanoseconds": in_nanoseconds,
    "overheads": overheads,
}


def profile_of(builder: TraceBuilder) -> Profile:
    """Return what is measured of a trace that holds six pieces of work and nothing odd."""
    trace = builder.read()
    assert (len(trace.gpu), trace.skipped, trace.repaired) == (6, {}, 0)
    return measure(trace)


@pytest.mark.parametrize("addition", ADDITIONS.values(), ids=ADDITIONS)
def test_what_is_no_work_changes_no_figure(addition: Addition) -> None:
    plain, other = training(), training()
    addition(other)
    expected, measured = profile_of(plain), profile_of(other)
    assert measured.gpus == expected.gpus
    assert (measured.overlap, measured.copies) == (expected.overlap, expected.copies)
    assert [site.total_cost for site in measured.sites] == [site.total_cost for site in expected.sites]
