import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.trace.reader.salvage import Salvaged, salvage, salvage_metadata


def event(name: str = "aten::add", **changes: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2, "ts": 1.5, "dur": 2, "args": {}} | changes


def listed(*events: str) -> bytes:
    return ",\n  ".join(events).encode()


def names(salvaged: Salvaged) -> list[str]:
    return [event.name for event in salvaged.events]


def test_whole_events_are_read_and_what_closes_the_list_is_left() -> None:
    text = listed(json.dumps(event("a")), json.dumps(event("b"))) + b'\n], "traceName": "x"}'
    salvaged = salvage(text, is_last=True)
    assert names(salvaged) == ["a", "b"]
    assert (salvaged.repaired, salvaged.malformed, salvaged.closed) == (0, 0, True)
    assert salvaged.rest == b'\n], "traceName": "x"}'


@pytest.mark.parametrize("kept", range(1, 90))
def test_an_event_that_is_cut_off_is_left_as_unfinished(kept: int) -> None:
    whole, cut = json.dumps(event("a")), json.dumps(event("b"))
    salvaged = salvage(listed(whole, cut[: min(kept, len(cut) - 1)]), is_last=True)
    assert names(salvaged) == ["a"]
    assert not salvaged.closed
    assert salvaged.malformed == 0


BROKEN = {
    "N/A": (json.dumps(event(args={"stream": 1})).replace('"stream": 1', '"stream": N/A'), "aten::add"),
    "NaN": (json.dumps(event(args={"x": float("nan"), "y": float("-inf")})), "aten::add"),
    "quotes": ('{"ph": "X", "name": "operator "" _s("x")", "pid": 1, "ts": 1, "dur": 2}', 'operator "" _s("x")'),
    "quotes at the end": ('{"ph": "X", "pid": 1, "ts": 1, "dur": 2, "name": "say "it""}', 'say "it"'),
    "backslash": (r'{"ph": "X", "name": "C:\work\train.py(3): step", "ts": 1}', r"C:\work\train.py(3): step"),
    "control": ('{"ph": "X", "name": "a\x01b\nc", "ts": 1}', "a b c"),
    "both": ('{"ph": "X", "name": "C:\\q "x"", "ts": N/A}', 'C:\\q "x"'),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_broken_event_is_repaired_and_counted(broken: str, place: int) -> None:
    text, name = BROKEN[broken]
    events = [json.dumps(event("a")), json.dumps(event("b"))]
    events.insert(place, text)
    salvaged = salvage(listed(*events) + b"]}", is_last=True)
    assert sorted(names(salvaged)) == sorted(["a", "b", name])
    assert (salvaged.repaired, salvaged.malformed) == (1, 0)
    assert salvaged.rest == b"]}"


def test_invalid_utf_8_is_shown_as_such() -> None:
    salvaged = salvage(b'{"ph": "X", "name": "a\xffb", "ts": 1},' + json.dumps(event()).encode(), is_last=True)
    assert names(salvaged) == ["a�b", "aten::add"]
    assert salvaged.repaired == 1


def test_what_cannot_be_repaired_is_counted() -> None:
    text = listed(json.dumps(event("a")), '{"ph": "X", "name": "b", "ts": [}', json.dumps(event("c"))) + b"]"
    salvaged = salvage(text, is_last=True)
    assert names(salvaged) == ["a", "c"]
    assert (salvaged.repaired, salvaged.malformed) == (0, 1)


def test_events_within_arguments_are_none() -> None:
    nested = event("outer", args={"list": [event("inner"), event("other")]})
    salvaged = salvage(listed(json.dumps(nested), json.dumps(event("next"))) + b"]", is_last=True)
    assert names(salvaged) == ["outer", "next"]
    salvaged = salvage(listed(json.dumps(event("before")), json.dumps(nested)), is_last=False)
    assert names(salvaged) == ["before", "outer"]


def test_a_text_in_the_middle_of_a_list_has_no_rest() -> None:
    salvaged = salvage(listed(json.dumps(event("a")), json.dumps(event("b"))) + b",\n  ", is_last=False)
    assert names(salvaged) == ["a", "b"]
    assert salvaged == Salvaged(salvaged.events, 0, 0, b"", closed=False)


def test_deep_nesting_is_malformed() -> None:
    deep = '{"ph": "X", "name": "a", "args": ' + "[" * 100_000 + "]" * 100_000 + "}"
    salvaged = salvage(listed(deep, json.dumps(event("b"))) + b"]", is_last=True)
    assert names(salvaged) == ["b"]
    assert salvaged.malformed == 1


@given(st.binary(max_size=400), st.booleans())
def test_anything_at_all_can_be_looked_at(text: bytes, is_last: bool) -> None:
    salvaged = salvage(b'{"ph": "X"}, {"ph": "X", ' + text, is_last=is_last)
    assert len(salvaged.events) >= 1


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), min_size=1))
def test_valid_events_come_back_whole(arguments: list[dict[str, Any]]) -> None:
    events = [event(str(number), args={"free": given_}) for number, given_ in enumerate(arguments)]
    salvaged = salvage(json.dumps(events)[1:].encode(), is_last=True)
    assert names(salvaged) == [str(number) for number in range(len(events))]
    assert (salvaged.repaired, salvaged.malformed, salvaged.rest) == (0, 0, b"]")


def test_metadata_is_read_key_by_key() -> None:
    around = b'{"schemaVersion": 1, , "distributedInfo": {"rank": 3}, "traceEvents": [], "pinprof": {"cut": '
    salvaged = salvage_metadata(around)
    assert msgspec.json.decode(salvaged.distributed) == {"rank": 3}
    assert bytes(salvaged.pinprof) == b""
