"""Bounded answers: whole items are left out at the end of lists, and counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.document import pointed_at
from pinprof.errors import PinprofError
from pinprof.server.answers import length, listed, shortened

ROWS = st.lists(st.fixed_dictionaries({"name": st.text(max_size=20), "rows": st.lists(st.integers(), max_size=30)}))


def test_what_fits_stays() -> None:
    document = {"a": [1, 2, 3], "b": "x"}
    assert shortened(document) == (document, [])


def test_the_lists_named_first_lose_their_items_before_others() -> None:
    document = {"patches": ["p" * 100] * 5, "refused": ["r" * 100] * 50}
    made, lost = shortened(document, ("/refused",), 1500)
    assert made["patches"] == document["patches"]
    assert lost == [{"list": "/refused", "count": 50 - len(made["refused"])}]
    made, lost = shortened(document, ("/refused",), 300)
    assert made == {"patches": ["p" * 100] * 2, "refused": []}
    assert lost == [{"list": "/patches", "count": 3}, {"list": "/refused", "count": 50}]


def test_ranges_stay_whole() -> None:
    document = {"rows": [{"range_ms": [1.5, 2.5], "pad": "x" * 50}] * 20}
    made, _ = shortened(document, (), 200)
    assert made["rows"]
    assert all(row["range_ms"] == [1.5, 2.5] for row in made["rows"])


def test_a_text_that_alone_is_too_long_is_an_error() -> None:
    with pytest.raises(PinprofError, match="no list that could be shorter"):
        shortened({"text": "x" * 500}, (), 100)


@given(ROWS, st.integers(60, 2000))
def test_what_is_left_and_what_is_counted_make_the_whole(rows: list[object], most: int) -> None:
    document = {"rows": rows}
    made, lost = shortened(document, (), most)
    assert length(made) <= most
    for entry in lost:
        assert len(pointed_at(document, entry["list"])) == len(pointed_at(made, entry["list"])) + entry["count"]
    assert json.dumps(made) == json.dumps(document) or lost


def test_many_lists_are_told_together() -> None:
    rows = listed([{"list": f"/{number}", "count": 2} for number in range(20)])
    assert len(rows) == 9
    assert rows[-1] == {"list": "others", "count": 24}
