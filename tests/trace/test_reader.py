"""What the reader makes of files: good ones, old ones, odd ones and broken ones."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from trace_builder import COMPUTE, TraceBuilder

from pinprof.ground.errors import TraceError
from pinprof.trace import Trace, read_trace
from pinprof.trace.metadata.info import Device
from pinprof.trace.tables import DIRECTIONS, GPU_CATEGORIES, HOST_MEMORIES, NONE

Read = Callable[[Any], Trace]
"""Reads bytes, or a document that is written as JSON first."""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_back(document: Any) -> Trace:
        path = tmp_path / "trace.json"
        path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        return read_trace(path)

    return read_back


MISSING = object()


def event(**changes: Any) -> dict[str, Any]:
    """Return a kernel of 1.5 µs."""
    args = {"device": 0, "stream": COMPUTE, "correlation": 3}
    usual = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": COMPUTE, "ts": 5.25, "dur": 1.5, "args": args}
    return usual | changes


def document(*events: Any, **metadata: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, **metadata, "traceEvents": list(events)}


def small() -> TraceBuilder:
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": 1, "world_size": 2}
    builder.op("aten::mm", 0, 20)
    builder.function("train.py(3): train", 0, 30)
    builder.kernel(40, 10, launch=5)
    builder.copy("HtoD (Pageable -> Device)", 60, 5, launch=25)
    return builder


# ---------------------------------------------------------------- containers


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace", "trace.txt"])
@pytest.mark.parametrize("compressed", [False, True])
def test_gzip_is_told_by_content_not_by_name(tmp_path: Path, name: str, *, compressed: bool) -> None:
    data = json.dumps(small().document()).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if compressed else data)
    trace = read_trace(tmp_path / name)
    assert len(trace.gpu) == 2
    assert trace.path == str(tmp_path / name)


@pytest.mark.parametrize("written", [document(event()), [event()]])
@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\r\n\t "])
def test_a_byte_order_mark_and_white_space_are_passed_over(read: Read, before: bytes, written: Any) -> None:
    assert len(read(before + json.dumps(written).encode() + b"\n\n").gpu) == 1


# ---------------------------------------------------------------- categories


@pytest.mark.parametrize("written", ["Kernel", "kernel", "KERNEL", "Memcpy", "Memset", "gpu_memcpy", "Gpu_Memset"])
def test_gpu_categories_are_known_by_their_old_names_and_in_any_case(read: Read, written: str) -> None:
    trace = read(document(event(cat=written)))
    category = GPU_CATEGORIES[trace.gpu.category[0]]
    assert category.removeprefix("gpu_") == written.lower().removeprefix("gpu_")
    assert trace.counts == {category: 1}


@pytest.mark.parametrize("category", ["gpu_user_annotation", "cuda_sync", "cuda_event", "Trace"])
def test_what_only_looks_like_gpu_work_is_none(read: Read, category: str) -> None:
    assert len(read(document(event(cat=category))).gpu) == 0


# ---------------------------------------------------------------- ids and arguments


P2P = {"fromDevice": 2, "inDevice": 0, "toDevice": 1, "stream": 7, "correlation": 1, "bytes": 8}


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"args": {"device": "2", "stream": "0x0", "correlation": "17", "bytes": "9216"}}, (2, 0, 17, 9216)),
        ({"args": {"device": 1.0, "stream": 7.0, "correlation": 3e2, "bytes": 1.5e9}}, (1, 7, 300, 1_500_000_000)),
        *(
            ({"pid": 3, "tid": 20, "args": args}, (3, 20, NONE, NONE))  # of the track
            for args in ({}, None, {"device": None, "stream": None, "correlation": None})
        ),
        *(({"pid": pid, "tid": pid, "args": {}}, (3, 3, NONE, NONE)) for pid in (3, 3.0, "3")),
        *(
            ({"pid": pid, "args": {}}, (NONE, COMPUTE, NONE, NONE))
            for pid in ("GPU 3", "", None, 2**40, 2**70, -(2**70))
        ),
        ({"args": {"device": 2**32 + 1}}, (NONE, COMPUTE, NONE, NONE)),
        *(({"tid": -tid, "args": {"device": 0}}, (0, tid, NONE, NONE)) for tid in (20, 1)),  # of old tracks
        ({"tid": 9, "args": {"device": 0, "stream": 0}}, (0, 0, NONE, NONE)),
        ({"name": "Memcpy PtoP (Device -> Device)", "args": P2P}, (2, 7, 1, 8)),  # its source's
    ],
)
def test_ids_are_numbers_in_any_notation_and_those_of_the_track_where_the_arguments_lack_them(
    read: Read, changes: dict[str, Any], ids: tuple[int, ...]
) -> None:
    gpu = read(document(event(cat="gpu_memcpy", **changes))).gpu
    assert (gpu.device[0], gpu.stream[0], gpu.correlation[0], gpu.bytes[0]) == ids


# ---------------------------------------------------------------- time


def test_times_are_exact_at_absolute_epoch_microseconds(read: Read) -> None:
    text = (
        json.dumps(document(event(ts="TS", dur="DUR")))
        .replace('"TS"', "1754000000123456.789")
        .replace('"DUR"', "0.416")
    )
    gpu = read(text.encode()).gpu
    assert gpu.start_ns.tolist() == [1_754_000_000_123_456_789]
    assert gpu.end_ns.tolist() == [1_754_000_000_123_457_205]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dur": -1}, "negative_duration"),
        ({"dur": -0.001}, "negative_duration"),
        ({"ts": 0}, "gpu_time_lost"),
        ({"ts": 0.0}, "gpu_time_lost"),
        ({"ts": 9e13}, "absurd_time"),
        ({"ts": -9e13}, "absurd_time"),
        ({"dur": 9e13}, "absurd_time"),
        ({"ts": 1e40}, "no_time"),
        *(({key: value}, "no_time") for key in ("ts", "dur") for value in (None, MISSING)),
        ({"ts": "soon"}, "no_time"),
        ({"dur": {}}, "no_time"),
    ],
)
def test_events_without_a_usable_time_are_skipped_and_counted(read: Read, changes: Any, reason: str) -> None:
    changed = {key: value for key, value in event(**changes).items() if value is not MISSING}
    trace = read(document(event(), changed, event(ts=8)))
    assert trace.skipped == {reason: 1}
    assert trace.gpu.start_ns.tolist() == [5250, 8000]
    assert trace.counts == {"kernel": 3}


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned"),
        ("Memcpy HtoD (Unknown -> Device)", "HtoD", "unknown"),
        ("Memcpy HtoD (Managed -> Device Static)", "HtoD", "unknown"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "none"),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "none"),
        ("Memcpy HtoH (Pageable -> Pinned)", "HtoH", "unknown"),
        ("Memcpy HtoD (Host -> Device)", "HtoD", "unknown"),
        ("Memcpy DtoH (Device -> Host)", "DtoH", "unknown"),
        ("Memcpy HtoD", "HtoD", "unknown"),
        ("Memcpy HtoA (Pinned -> Array)", "other", "unknown"),
        ("Memcpy <unknown> (Device -> Pageable)", "other", "unknown"),
        ("CopyHostToDevice", "other", "unknown"),
        ("", "other", "unknown"),
    ],
)
def test_copy_names_tell_direction_and_host_memory(read: Read, name: str, direction: str, memory: str) -> None:
    gpu = read(document(event(cat="gpu_memcpy", name=name))).gpu
    assert DIRECTIONS[gpu.direction[0]] == direction
    assert HOST_MEMORIES[gpu.host_memory[0]] == memory


@pytest.mark.parametrize("category", ["kernel", "gpu_memset"])
def test_other_activities_have_no_copy_kind_whatever_their_name(read: Read, category: str) -> None:
    gpu = read(document(event(cat=category, name="Memcpy HtoD (Pinned -> Device)"))).gpu
    assert (gpu.direction[0], gpu.host_memory[0]) == (NONE, NONE)


# ---------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    "broken",
    [
        *("null", "[]", "3", '"x"', "{}", '{"plain": null}', '{"plain": {"steps": 1}}', '{"plain": {"steps": "many"}}'),
        '{"plain": {"steps": 3, "mean_ms": 1e400}}',
        '{"torch_version": null}',
        '{"torch_version": 2}',
    ],
)
def test_broken_metadata_is_ignored(read: Read, broken: str) -> None:
    for key in ("pinprof", "distributedInfo", "deviceProperties"):
        trace = read(f'{{"{key}": {broken}, "traceEvents": [{json.dumps(event())}]}}'.encode())
        assert trace.info.devices == (Device(0, None),)
        assert (trace.info.plain_step, trace.info.torch_version, trace.info.rank) == (None, None, None)


@pytest.mark.parametrize("rank", [True, "1", 1.5, None, [1]])
def test_a_rank_that_is_no_integer_is_unknown(read: Read, rank: Any) -> None:
    assert read(document(event(), distributedInfo={"rank": rank})).info.rank is None


# ---------------------------------------------------------------- refusals


def error_of(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def refusal(folder: Path, data: bytes) -> str:
    (folder / "trace.json").write_bytes(data)
    return error_of(folder / "trace.json")


GRAPH = {"schema": "1.0.1", "pid": 7, "nodes": [{"name": "[pytorch|profiler]", "id": 1}]}
TIMELINE = [[1, 2, 3], [[0, 0, 10], [0, 5, 10], [0, 5, 0]]]
REFUSED = {
    "is empty": (b"", b" \n\t", gzip.compress(b"", mtime=0), gzip.compress(b"\n", mtime=0)),
    "looks like an execution graph": (json.dumps(GRAPH).encode(),),
    "looks like a memory timeline": (json.dumps(TIMELINE).encode(),),
    "no trace": (
        *(b"{}", b"null", b"3", b'"trace"', b"true", b"[1, 2]", b'{"traceEvents": null}', b'{"traceEvents": {}}'),
        *(b'{"traceEvents": [1]}', b'{"traceEvents": [null, null]}', b'[{"id": 1, "name": "pinprof"}]', b"[{}]"),
        *(b'{"traceEvents": [{"a": 1}, 3]}', b'{"results": []}'),
    ),
    "is not JSON": (
        *(b"<!DOCTYPE html><html>", b"PK\x03\x04zip", b"\x00" * 40, b"ts,dur\n1,2\n"),
        '{"traceEvents":[]}'.encode("utf-16"),
    ),
    "trailing": (b'{"traceEvents": []} {"traceEvents": []}',),
    "has no duration events: nothing was recorded": (
        *(b"[]", b'{"traceEvents": []}', b'{"schemaVersion": 1, "traceEvents": [ ]}'),
        b'[{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}}]',
    ),
    "": (  # invalid UTF-8 all through
        *(b'{"\xff": 3}', b'["\xff"]', b'[["\xff"]]', b'{"traceEvents": [{"ph": "X", "name": "\xff"}]}', b"\xff{}"),
        b'"\xff"',
    ),
}


@pytest.mark.parametrize(("why", "data"), [(why, data) for why, files in REFUSED.items() for data in files])
def test_what_is_no_trace_is_refused_by_what_it_is(tmp_path: Path, why: str, data: bytes) -> None:
    assert why in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"traceEvents":' + b"[" * 100_000,
        b'{"traceEvents":[{"args":' + b'{"x":' * 100_000,
        b'{"traceEvents":[],"pinprof":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_deeply_nested_json_is_refused(tmp_path: Path, data: bytes) -> None:
    refused = refusal(tmp_path, data)  # Python 3.14 nests deeper before it gives up
    assert any(why in refused for why in ("JSON is broken", "ends too early", "no duration events"))


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"N/A", b'"C:\\Qx"', b'"tab\there"'])
@pytest.mark.parametrize("after", [b"", b',{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":9,"dur":1}'])
def test_json_that_breaks_its_rules_is_repaired_and_counted(tmp_path: Path, value: bytes, after: bytes) -> None:
    event = (
        b'{"ph":"X","cat":"cuda_runtime","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":%s}}' % value
    )
    (tmp_path / "trace.json").write_bytes(b'{"traceEvents":[%s%s],"distributedInfo":{"rank":3}}' % (event, after))
    trace = read_trace(tmp_path / "trace.json")
    assert trace.calls.correlation.tolist() == [-1]
    assert len(trace.ops) == bool(after)
    assert (trace.repaired, trace.cut, trace.info.rank) == (1, None, 3)


def test_an_event_that_cannot_be_repaired_is_left_out_and_counted(tmp_path: Path) -> None:
    events = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},{"ph":"X","name":1,},{"ph":"M"}'
    (tmp_path / "trace.json").write_bytes(b'{"traceEvents":[%s]}' % events)
    trace = read_trace(tmp_path / "trace.json")
    assert len(trace.ops) == 1
    assert trace.skipped == {"malformed": 1}


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 2])
def test_a_cut_anywhere_in_a_trace_leaves_its_whole_events(tmp_path: Path, indent: int | None) -> None:
    document = small().document()
    data = json.dumps(document, indent=indent).encode()
    whole = read_trace(small().write(tmp_path / "whole.json"))
    path = tmp_path / "trace.json"
    read = 0
    for size in range(1, len(data), 3):
        path.write_bytes(data[:size])
        try:
            trace = read_trace(path)
        except TraceError as error:
            assert "truncated" in str(error) or "broken" in str(error)  # noqa: PT017
            assert data[:size].count(b'"ph"') <= 1
            continue
        read += 1
        assert (trace.cut is None) == data[:size].rstrip().endswith(b"]")
        for name in ("ops", "calls", "gpu"):
            rows = len(getattr(trace, name))
            assert set(getattr(trace, name).start_ns) <= set(getattr(whole, name).start_ns)
            assert rows <= len(getattr(whole, name))
    assert read > len(data) / 6


def test_steps_behind_the_end_of_a_cut_file_are_not_complete(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number in range(4):
        builder.step(number, 1000 * number, 990)
    for number in range(4):
        builder.kernel(1000 * number + 50, 100, launch=1000 * number + 10)
        builder.kernel(1000 * number + 250, 100, launch=1000 * number + 210)
    text = json.dumps(builder.document())
    (tmp_path / "trace.json").write_text(text[: text.rindex("gemm")])  # the last kernel is cut off, not its launch
    trace = read_trace(tmp_path / "trace.json")
    assert trace.steps.complete.tolist() == [True, True, True, False]
    assert trace.cut is not None
    assert trace.cut.last_ns == trace.calls.start_ns.max()


# ---------------------------------------------------------------- tables


def test_long_ops_keep_the_sizes_of_their_own_inputs(read: Read) -> None:
    builder = TraceBuilder()
    recorded: list[dict[str, Any]] = [
        {"Input Dims": [[2, 3], [], [[4], [5]]], "Input type": ["float", "Scalar", "TensorList"]},
        {"Input Dims": [[10], [7]], "Input type": ["c10::BFloat16", "odd"]},
        {"Input Dims": [[2], ["x"], 5, [1] * 65], "Input type": ["bool"] * 4},
        {"Input Dims": [[2]]},
        {"Input Dims": []},
        {"Input Dims": [[2]], "Input type": [["float"]]},
        {"Input Dims": "no"},
        {},
    ]
    for number, args in enumerate(recorded):
        builder.event("cpu_op", "aten::add", 1000 * number, 500, **args)
        builder.event("cpu_op", "aten::add", 1000 * number + 600, 300, **recorded[0])  # short
    builder.events.reverse()
    sizes = {0: frozenset({24}), 2: frozenset({20}), 4: frozenset({2}), 6: frozenset()}
    for form in (builder.document(), builder.document()["traceEvents"]):  # in blocks, and in one piece
        assert read(form).input_sizes == sizes


def test_pandas_has_one_column_per_field_with_texts_as_categoricals(read: Read) -> None:
    trace = read(small().document())
    frame = trace.gpu.to_pandas()
    assert list(frame.columns) == [
        *("start_ns", "end_ns", "name", "category", "device", "stream", "correlation", "bytes", "direction"),
        *("host_memory", "collective", "group", "message"),
    ]
    assert frame["start_ns"].dtype == frame["end_ns"].dtype == np.int64
    for column in ("name", "category", "direction", "host_memory"):
        assert isinstance(frame[column].dtype, pd.CategoricalDtype)
    assert list(frame["name"]) == ["gemm", "Memcpy HtoD (Pageable -> Device)"]
    assert list(frame["category"]) == ["kernel", "gpu_memcpy"]
    assert frame["direction"].isna().tolist() == [True, False]
    assert frame["host_memory"].iloc[1] == "pageable"
    assert list(trace.calls.to_pandas().columns) == ["start_ns", "end_ns", "name", "thread", "correlation"]
    assert len(trace.syncs.to_pandas()) == 0
