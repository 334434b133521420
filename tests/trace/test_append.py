"""Events put into a trace file: its own bytes pass, whatever its form, and the result is whole."""

import gzip
import io
import json
from typing import Any

import pytest
from recordings import TRACES

from pinprof.trace.reader.append import with_events
from pinprof.trace.reader.unpack import Unpacked

RECORDED = sorted(TRACES.glob("*.json.gz"))[::5]
ADDED = {"ph": "C", "name": "added", "ts": 1}


def put_into(data: bytes) -> tuple[bytes, bool]:
    cuts: list[bool] = []
    text = b"".join(
        with_events(Unpacked(io.BytesIO(data)), [json.dumps(ADDED).encode()] * 2, lambda: cuts.append(True))
    )
    return text, bool(cuts)


def events_in(document: Any) -> list[Any]:
    return document if isinstance(document, list) else document["traceEvents"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents": []}',
        b"[]",
        b' [ {"name": "a", "ph": "X"} ] \n',
        b'[{"ph": "X"}]',
        b'\n{"a": [], "traceEvents": [ ], "b": [], "c": {"traceEvents": 1}}',
        b'{"traceEvents": [{"ph": "X", "args": {"x": "]}"}}\n] , "after": [1]}',
        b'{"traceEvents": [{"name": "first", "ph": "X"}], "same": [{"name": "first", "ph": "X"}]}',
        b'{"same": [{"name": "first", "ph": "X"}], "traceEvents": [{"name": "first", "ph": "X"}]}',
    ],
)
def test_every_form_of_a_file_is_kept(data: bytes) -> None:
    text, cut = put_into(data)
    before, after = json.loads(data), json.loads(text)
    assert not cut
    assert events_in(after) == [*events_in(before), ADDED, ADDED]
    if isinstance(after, dict):
        assert {**after, "traceEvents": 0} == {**before, "traceEvents": 0}


@pytest.mark.parametrize("begin", [b'{"schemaVersion": 1, "traceEvents": [', b"["])
@pytest.mark.parametrize("first", [b'{"ph": "X", "name": "a"}', b'{"name": "a", "ph": "X"}'])
@pytest.mark.parametrize("end", [b"", b",", b', {"ph": "X", "na', b'], "traceName": "/tm', b"]"])
def test_a_file_that_was_cut_off_is_closed(begin: bytes, first: bytes, end: bytes) -> None:
    text, cut = put_into(begin + first + end)
    document = json.loads(text)
    if end.startswith(b"], ") and begin == b"[":
        return  # what follows a list is not in it
    assert cut == (not end.startswith(b"]"))  # with all events nothing is lost that an export shows
    assert events_in(document) == [{"ph": "X", "name": "a"}, ADDED, ADDED]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.999])
def test_a_recording_that_was_cut_off_keeps_its_whole_events(share: float) -> None:
    data = gzip.decompress(RECORDED[0].read_bytes())
    text, cut = put_into(data[: int(len(data) * share)])
    events = json.loads(text)["traceEvents"]
    assert cut
    assert events[:-2] == json.loads(data)["traceEvents"][: len(events) - 2]
    assert events[-2:] == [ADDED, ADDED]
