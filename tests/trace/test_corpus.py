"""Real traces, ours and those of others, against a plain reading of their raw text."""

import gzip
import json
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recordings import CORPUS, OF_OTHERS, WORKLOADS, each_recording, trace_of

from pinprof.trace.tables import DIRECTIONS, GPU_CATEGORIES, HOST_MEMORIES, KERNEL, MEMCPY, NONE

NO_TRACES = sorted(CORPUS.glob("not_a_trace_*.json.gz"))

TABLES = {
    "cpu_op": "ops",
    "user_annotation": "annotations",
    "python_function": "functions",
    "cuda_runtime": "calls",
    "cuda_driver": "calls",
    "mtia_runtime": "calls",
    "kernel": "gpu",
    "gpu_memcpy": "gpu",
    "gpu_memset": "gpu",
    "cuda_sync": "syncs",
    "overhead": "overheads",
}
"""Table of each category."""

every_trace = pytest.mark.parametrize("path", each_recording([*WORKLOADS, *OF_OTHERS]))
with_the_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS.parent.name}/{CORPUS.name} is missing")


@cache
def raw(path: Path) -> list[dict[str, Any]]:
    """Return the duration events, with their times as decimals."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in events if event.get("ph") == "X"]


def in_ns(microseconds: Any) -> int:
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_UP))


@with_the_corpus
def test_the_corpus_is_whole() -> None:
    assert len(OF_OTHERS) == 15
    assert len(NO_TRACES) == 2


@every_trace
def test_every_duration_event_is_counted_by_category(path: Path) -> None:
    assert trace_of(path).counts == Counter(event.get("cat") or "" for event in raw(path))


@every_trace
def test_every_event_of_a_known_category_is_in_its_table_or_skipped(path: Path) -> None:
    read = trace_of(path)
    expected = Counter(TABLES[event["cat"]] for event in raw(path) if event.get("cat") in TABLES)
    in_tables = sum(len(getattr(read, table)) for table in set(TABLES.values()))
    assert in_tables + sum(read.skipped.values()) == sum(expected.values())
    for table, count in expected.items():
        assert len(getattr(read, table)) <= count


@every_trace
def test_recorded_files_lose_nothing(path: Path) -> None:
    assert trace_of(path).skipped == {}


@every_trace
def test_times_names_and_ids_of_gpu_work_are_those_of_the_text(path: Path) -> None:
    gpu = trace_of(path).gpu
    columns = (gpu.start_ns, gpu.end_ns, gpu.category, gpu.device, gpu.stream, gpu.correlation, gpu.bytes)
    rows = zip(*(column.tolist() for column in columns), map(gpu.name_of, range(len(gpu))), strict=True)
    expected = []
    for event in raw(path):
        if event.get("cat") in GPU_CATEGORIES:
            args = event["args"]
            start, duration = in_ns(event["ts"]), in_ns(event["dur"])
            ids = [int(str(args.get(key, NONE)), 0) for key in ("device", "stream", "correlation", "bytes")]
            expected.append((start, start + duration, GPU_CATEGORIES.index(event["cat"]), *ids, event["name"]))
    assert sorted(rows) == sorted(expected)


@every_trace
@pytest.mark.parametrize("table", ["ops", "annotations", "functions", "calls", "overheads"])
def test_times_names_and_threads_of_host_events_are_those_of_the_text(path: Path, table: str) -> None:
    read = trace_of(path)
    events = getattr(read, table)
    threads = [(thread.pid, thread.tid) for thread in read.threads]
    rows = Counter(
        (start, end, events.names[name], *threads[thread])
        for start, end, name, thread in zip(
            *(column.tolist() for column in (events.start_ns, events.end_ns, events.name, events.thread)), strict=True
        )
    )
    assert rows == Counter(
        (in_ns(event["ts"]), in_ns(event["ts"]) + in_ns(event["dur"]), event["name"], event["pid"], event["tid"])
        for event in raw(path)
        if TABLES.get(event.get("cat", "")) == table
    )


@every_trace
def test_tables_are_sorted_and_no_event_ends_before_it_starts(path: Path) -> None:
    for name in set(TABLES.values()):
        table = getattr(trace_of(path), name)
        assert (table.start_ns[1:] >= table.start_ns[:-1]).all()
        assert (table.end_ns >= table.start_ns).all()


@every_trace
def test_activities_are_linked_to_a_call_of_their_correlation_if_there_is_one(path: Path) -> None:
    read = trace_of(path)
    known = set(read.calls.correlation.tolist()) - {0, NONE}
    for launch, correlation in zip(read.links.launch.tolist(), read.gpu.correlation.tolist(), strict=True):
        assert (launch != NONE) == (correlation in known)
        assert launch == NONE or read.calls.correlation[launch] == correlation


@every_trace
def test_calls_lie_in_the_op_and_the_function_that_they_are_linked_to(path: Path) -> None:
    read = trace_of(path)
    for outer, link in ((read.ops, read.links.op), (read.functions, read.links.function)):
        linked = link != NONE
        calls, around = read.calls.start_ns[linked], link[linked]
        assert (outer.thread[around] == read.calls.thread[linked]).all()
        assert (outer.start_ns[around] <= calls).all()
        assert (outer.end_ns[around] >= calls).all()


@every_trace
def test_copies_have_a_direction_and_a_host_memory_and_nothing_else_has(path: Path) -> None:
    gpu = trace_of(path).gpu
    copies = gpu.category == MEMCPY
    assert (gpu.direction[~copies] == NONE).all()
    assert (gpu.host_memory[~copies] == NONE).all()
    for row in copies.nonzero()[0]:
        name, direction = gpu.name_of(row), DIRECTIONS[gpu.direction[row]]
        assert direction in name
        memory = HOST_MEMORIES[gpu.host_memory[row]]
        assert memory in name.lower() or (memory == "unknown") == ("Host" in name)


@every_trace
def test_steps_follow_each_other(path: Path) -> None:
    steps = trace_of(path).steps
    assert len(steps) >= 1
    assert (steps.end_ns > steps.start_ns).all()
    assert (steps.start_ns[1:] >= steps.end_ns[:-1]).all()


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_our_recordings_have_steps_metadata_and_sub_microsecond_times(path: Path) -> None:
    read = trace_of(path)
    assert read.steps.source == "profiler_step"
    assert read.steps.complete.all()
    assert len(read.steps) == (3 if ".stack" in path.name else 5)
    assert read.info.plain_step is not None
    assert read.info.torch_version is not None
    assert [device.index for device in read.info.devices] == [0]
    assert "H200" in (read.info.devices[0].name or "")
    assert (read.gpu.duration_ns[read.gpu.category == KERNEL] % 1000 != 0).any()
    assert (len(read.functions) > 0) == (".stack" in path.name)
