"""The args of single events, looked up in the file again."""

import gzip
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import TRACES
from trace_builder import SIDE, TraceBuilder

from pinprof.errors import TraceError
from pinprof.trace import read_trace
from pinprof.trace.reader.arguments import look_up
from pinprof.trace.reader.rows import TABLE_CATEGORIES
from pinprof.trace.tables import Trace

Told = dict[tuple[str, int], Any]


def all_rows(trace: Trace) -> dict[str, np.ndarray]:
    return {table: np.ones(len(getattr(trace, table)), bool) for table in TABLE_CATEGORIES}


def one_by_one(trace: Trace, wanted: dict[str, np.ndarray]) -> Iterator[tuple[tuple[str, int], bytes]]:
    """Yield the table and row of each wanted event, and its args as they stand in the file."""
    for events in look_up(trace, wanted):
        for row, args in zip(events.row.tolist(), events.args, strict=True):
            yield (events.table, row), bytes(args)


def told(trace: Trace) -> Told:
    """Return the args of all events, by table and row."""
    return {event: json.loads(args or b"null") for event, args in one_by_one(trace, all_rows(trace))}


def small() -> TraceBuilder:
    """Two ops, the second one in the first; a kernel and a copy, each with its call."""
    builder = TraceBuilder()
    builder.event("cpu_op", "aten::linear", 0, 50, **{"Input Dims": [[2, 3], [4, 3]], "Ev Idx": 0})
    builder.event("cpu_op", "aten::mm", 5, 20, **{"Input Dims": [[2, 3], [3, 4]], "Ev Idx": 1})
    builder.kernel(30, 10, launch=10)
    builder.events[-1]["args"]["grid"] = [4, 98, 1]
    builder.copy("DtoH (Device -> Pinned)", 45, 5, launch=20, stream=SIDE)
    return builder


def args_of(builder: TraceBuilder) -> Told:
    """Return what must be told of the events of `small`, whatever their order in the file."""
    return {
        ("ops", 0): {"Input Dims": [[2, 3], [4, 3]], "Ev Idx": 0},
        ("ops", 1): {"Input Dims": [[2, 3], [3, 4]], "Ev Idx": 1},
        ("calls", 0): {"correlation": 1},
        ("calls", 1): {"correlation": 2},
        ("gpu", 0): {"correlation": 1, "device": 0, "stream": 7, "grid": [4, 98, 1]},
        ("gpu", 1): next(event["args"] for event in builder.events if event["cat"] == "gpu_memcpy"),
    }


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_each_event_has_its_own_args_whatever_the_order_of_the_file(name: str, tmp_path: Path) -> None:
    builder = small()
    builder.events.reverse()
    assert told(read_trace(builder.write(tmp_path / name))) == args_of(builder)


def test_only_what_is_wanted_is_told() -> None:
    trace = small().read()
    wanted = {"ops": np.array([False, True]), "gpu": np.array([True, False])}
    assert {event for event, _ in one_by_one(trace, wanted)} == {("ops", 1), ("gpu", 0)}
    assert list(look_up(trace, {})) == []


def test_equal_events_keep_their_order() -> None:
    builder = TraceBuilder()
    for number in range(5):
        builder.event("cpu_op", "aten::add", 10, 5, number=number)
        builder.event("cpu_op", "aten::mul", 10, 5, number=10 + number)
    trace = builder.read()
    assert [told(trace)["ops", row]["number"] for row in range(10)] == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]
    wanted = {"ops": np.arange(10) == 6}
    assert [json.loads(args) for _, args in one_by_one(trace, wanted)] == [{"number": 3}]


def _in_one_piece(document: dict[str, Any]) -> bytes:
    return json.dumps([{"args": event.pop("args"), **event} for event in document["traceEvents"]]).encode()


def _with_unusual_event(document: dict[str, Any]) -> bytes:
    document["traceEvents"].insert(1, {"ph": "X", "name": 7, "args": []})
    return json.dumps(document).encode()


def _not_json(document: dict[str, Any]) -> bytes:
    """Return a trace with values that JSON has not; what is told of them is null."""
    document["traceEvents"][0]["args"]["rate"] = float("nan")
    return json.dumps(document).encode()


def _cut_off(document: dict[str, Any]) -> bytes:
    document["traceEvents"].append(document["traceEvents"][0] | {"name": "cut"})
    return json.dumps(document).encode()[:-30]


@pytest.mark.parametrize("form", [_in_one_piece, _with_unusual_event, _not_json, _cut_off])
def test_files_that_are_read_otherwise_tell_their_args_too(form: Any, tmp_path: Path) -> None:
    builder = small()
    file = tmp_path / "trace.json"
    file.write_bytes(form(json.loads(json.dumps(builder.document()))))
    read_args = told(read_trace(file))
    if form is _not_json:
        assert read_args["ops", 0].pop("rate") is None
    assert read_args == args_of(builder)


def test_bytes_that_are_not_text_break_nothing(tmp_path: Path) -> None:
    builder = small()
    builder.events[0]["args"]["path"] = "odd"
    file = tmp_path / "trace.json"
    file.write_bytes(json.dumps(builder.document()).encode().replace(b"odd", b"\xff\xfe"))
    read_args = told_raw(read_trace(file))
    assert b"Input Dims" in read_args["ops", 0]
    assert json.loads(read_args["gpu", 0])["grid"] == [4, 98, 1]


def told_raw(trace: Trace) -> dict[tuple[str, int], bytes]:
    return dict(one_by_one(trace, all_rows(trace)))


def test_a_trace_that_came_from_elsewhere_says_so() -> None:
    trace = small().read()
    for path, why in (("standard input", "pipe"), ("s3://bucket/trace.json", "URL"), ("gone.json", "gone")):
        with pytest.raises(TraceError, match=why):
            list(look_up(replace(trace, path=path), all_rows(trace)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe, data = tmp_path / "trace.json", json.dumps(small().document()).encode()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    trace = read_trace(pipe)
    writer.join()
    with pytest.raises(TraceError, match="pipe"):
        list(look_up(trace, all_rows(trace)))


def test_of_a_file_that_has_changed_no_args_are_told(tmp_path: Path) -> None:
    trace = read_trace(small().write(tmp_path / "trace.json"))
    other = small()
    other.base_us += 500
    other.write(tmp_path / "trace.json")
    with pytest.raises(TraceError, match="changed"):
        told(trace)


@pytest.mark.parametrize("name", ["loader_pinned.stack", "ranks/averaged_loss.rank0.before"])
def test_all_events_of_a_recording_are_found_with_their_own_args(name: str) -> None:
    path = TRACES / f"{name}.json.gz"
    trace = read_trace(path)
    read_args = told(trace)
    assert len(read_args) == sum(map(len, all_rows(trace).values()))
    for row, correlation in enumerate(trace.gpu.correlation.tolist()):
        assert read_args["gpu", row]["correlation"] == correlation
    for row, correlation in enumerate(trace.calls.correlation.tolist()):
        assert read_args["calls", row]["correlation"] == correlation
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    indices = {event["args"]["Ev Idx"] for event in events if event.get("cat") == "cpu_op"}
    assert {read_args["ops", row]["Ev Idx"] for row in range(len(trace.ops))} == indices
