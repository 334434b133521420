"""Files that are not of torch.profiler: one line says what they are and the way out."""

import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from trace_builder import TraceBuilder

from pinprof.ground.errors import TraceError
from pinprof.trace import read_trace


def trace() -> bytes:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.op("aten::mm", start + 5, 40)
        builder.kernel(start + 100, 300, launch=start + 10)
    return json.dumps(builder.document()).encode()


def tar(count: int = 1) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for rank in range(count):
            member = tarfile.TarInfo(f"rank{rank}.json")
            member.size = len(trace())
            archive.addfile(member, io.BytesIO(trace()))
    return packed.getvalue()


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trace.json", trace())
    return packed.getvalue()


def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table kernels (name)")
        return connection.serialize() if hasattr(connection, "serialize") else b"SQLite format 3\x00" + bytes(100)


def refusal(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (tar(), "a tar archive; unpack it (tar xzf"),
        (gzip.compress(tar(3)), "a tar archive; unpack it (tar xzf"),
        (gzip.compress(tar(400)), "a tar archive; unpack it (tar xzf"),  # of more than what is looked at
        (zipped(), "a zip archive"),
        (gzip.compress(gzip.compress(trace())), "is packed twice; unpack it once first (gunzip)"),
        (trace().decode().encode("utf-16"), "text in UTF-16"),
        (pickle.dumps({"segments": []}, 2), "a pickle"),
        (pickle.dumps({"segments": []}), "a pickle"),
        (database(), "an SQLite database"),
        (b"\n\x9b\x01\x08\x00\x10\x01R\x10\x00\x00\x01" * 90, "a protobuf"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_another_format_is_refused_by_its_first_bytes(tmp_path: Path, data: bytes, what: str) -> None:
    assert what in refusal(tmp_path, data)


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 10.0, "dur": 5.0, **more}


@pytest.mark.parametrize(
    "document",
    [
        {"traceEvents": [event("fusion.0")], "metadata": {"highres-ticks": True}},
        [event("f (a.py:0)", cat="FEE"), event("viztracer", cat="FEE")],
        {"traceEvents": [event("RunTask", cat="devtools.timeline")] * 30},
    ],
)
def test_a_trace_of_another_profiler_is_refused(tmp_path: Path, document: Any) -> None:
    words = "is a trace of another program, without any event of torch.profiler; pinprof reads traces of torch.profiler"
    assert words in refusal(tmp_path, json.dumps(document).encode())


@pytest.mark.parametrize(
    "document",
    [
        {"traceEvents": [event("x", cat="my_category")], "schemaVersion": 1},
        {"traceEvents": [event("x", cat="my_category")], "deviceProperties": []},
        [event("x", cat="Operator")],
        [event("x", cat="xpu_runtime")],
        [event("x", cat="gpu_user_annotation")],
    ],
)
def test_what_torch_may_have_written_is_read(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    assert sum(read_trace(path).counts.values()) == 1
