"""Copies as torch's own CUPTI backend writes them: their arguments tell what they are, not their names."""

from typing import Any

from trace_builder import TraceBuilder

from pinprof.trace import Trace
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, MEMCPY


def kinds(trace: Trace) -> list[tuple[str, str]]:
    gpu = trace.gpu
    rows = [row for row in range(len(gpu)) if gpu.category[row] == MEMCPY]
    return [(DIRECTIONS[gpu.direction[row]], HOST_MEMORIES[gpu.host_memory[row]]) for row in rows]


def copy(builder: TraceBuilder, start: float, name: str = "Memcpy", **args: Any) -> None:
    correlation = builder.call("cudaMemcpyAsync", start, 2)
    args = {"device": 0, "context": 1, "stream": 7, "correlation": correlation, "bytes": 1000, **args}
    builder.event("gpu_memcpy", name, start + 5, 5, **args).update(pid=0, tid=args["stream"])


def of_kind(kind: object, source: object, target: object) -> dict[str, Any]:
    return {"copy kind": kind, "src kind": source, "dst kind": target}


def test_arguments_tell_direction_and_host_memory() -> None:
    builder = TraceBuilder()
    copy(builder, 0, **of_kind("HtoD", "pageable", "device"))
    copy(builder, 20, **of_kind("HtoD", "pinned", "device"))
    copy(builder, 40, **of_kind("DtoH", "device", "pinned"))
    copy(builder, 60, **of_kind("DtoD", "device", "device_static"))
    copy(builder, 80, **of_kind("HtoD", "managed", "device"))
    copy(builder, 100, **of_kind(9, "pinned", "pageable"))
    copy(builder, 120, **of_kind("htod", "PINNED", "device"))
    copy(builder, 140, **of_kind("AtoH", "array", "pinned"))
    copy(builder, 160)
    assert kinds(builder.read()) == [
        *(("HtoD", "pageable"), ("HtoD", "pinned"), ("DtoH", "pinned"), ("DtoD", "none"), ("HtoD", "unknown")),
        *(("HtoH", "unknown"), ("HtoD", "pinned"), ("other", "unknown"), ("other", "unknown")),
    ]


def test_work_of_a_graph_is_on_its_stream_wherever_it_is_drawn() -> None:
    builder = TraceBuilder()
    graph = builder.call("cudaGraphLaunch", 0, 5)
    for start, lane in ((10, 1_000), (30, 1_001), (50, 7)):
        drawn = {"original_stream": 7} if lane != 7 else {}
        event = builder.event("kernel", "k", start, 20, device=0, context=1, stream=lane, correlation=graph, **drawn)
        event.update(pid=0, tid=lane)
    for category in ("graph_event_node", "graph_host_node"):
        args = {"device": 0, "context": 1, "stream": 7, "correlation": graph}
        builder.event(category, "EventRecord", 60, 400, **args).update(pid=0, tid=7)
    for phase in ("s", "f"):
        builder.events.append(
            {"ph": phase, "id": 1 << 40, "pid": 0, "tid": 7, "ts": builder.base_us, "cat": "ac2g", "name": "ac2g"}
        )
    trace = builder.read()
    assert trace.gpu.stream.tolist() == [7, 7, 7]
    assert trace.links.launch.tolist() == [0, 0, 0]
    assert trace.counts["graph_host_node"] == 1
    assert len(trace.gpu) == 3  # nodes without work of the GPU are none
