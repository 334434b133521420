"""How a document is filled and written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from json import loads
from typing import Annotated

import pytest
from msgspec import UNSET, UnsetType, json

from pinprof.document import Document, Ms, RangeMs, doc, encoded, encoded_briefly, filled, projection
from pinprof.documents.fields import PlacedJson
from pinprof.trace.lines import Place

PLACE = Place("train.py", 3, "train")


class Work(PlacedJson):
    """Some work."""

    name: Annotated[str, doc("its name")]
    time_ms: Annotated[Ms | None, doc("how long")]
    range_ms: Annotated[RangeMs | None, doc("where that lies")]
    note: Annotated[str | UnsetType, doc("what else")] = UNSET


@dataclass
class Measured:
    name: str
    time_ns: float | None
    range_ns: tuple[float, float] | None
    note: str = "long"
    place: Place = PLACE


class Day(Document, rename={"works": "tasks"}):
    """Some works."""

    works: Annotated[Sequence[Work], doc("all of them")]
    longest: Annotated[Work | None, doc("the longest")]
    place: Annotated[PlacedJson | UnsetType, doc("where they are")] = UNSET


@dataclass
class MeasuredDay:
    works: tuple[Measured, ...]
    longest: Measured | None
    place: Place = PLACE


def test_times_are_filled_in_ms_and_a_place_in_its_fields() -> None:
    work = filled(Work, Measured("add", 2_500_000, (2_000_000, 3_000_000)), note="short")
    assert work == Work("train.py", 3, "train", "add", 2.5, [2.0, 3.0], "short")
    unknown = filled(Work, Measured("add", None, None))
    assert (unknown.time_ms, unknown.range_ms, unknown.note) == (None, None, "long")


def test_a_field_comes_from_the_first_record_that_has_it() -> None:
    first, second = Place("train.py", 3, "train"), Measured("add", 1_234_567.8, None)
    assert filled(Work, first, second) == Work("train.py", 3, "train", "add", 1.234568, None, "long")
    assert filled(Work, first, None, name="add", note="none").time_ms is None


def test_a_time_is_rounded_to_the_nanosecond_though_the_record_also_has_it_in_ms() -> None:
    class InMs(Measured):
        @property
        def time_ms(self) -> float:
            return (self.time_ns or 0.0) / 1e6

    assert filled(Work, InMs("add", 1_234_567.8, None)).time_ms == 1.234568


def test_a_document_is_filled_from_another_by_name() -> None:
    work = Work("train.py", 3, "train", "add", 2.5, [2.0, 3.0])
    assert filled(Work, work, name="mul") == Work("train.py", 3, "train", "mul", 2.5, [2.0, 3.0])


def test_records_within_a_record_become_the_documents_of_their_fields() -> None:
    add, as_written = Measured("add", 2_500_000, None), Work("train.py", 3, "train", "add", 2.5, None, "long")
    place = PlacedJson("train.py", 3, "train")
    assert filled(Day, MeasuredDay((add, add), add)) == Day([as_written, as_written], as_written, place)
    assert filled(Day, MeasuredDay((), None)) == Day([], None, place)
    with_other_name = loads(encoded(filled(Day, MeasuredDay((add,), None))))
    assert [task["time_ms"] for task in with_other_name["tasks"]] == [2.5]


def test_a_document_within_another_is_kept_or_cut_to_the_fields_of_the_other() -> None:
    whole = Work("train.py", 3, "train", "add", 2.5, None)
    day = filled(Day, None, works=[], longest=whole, place=filled(PlacedJson, whole))
    again = filled(Day, day)
    assert again.longest is whole
    assert again.place == PlacedJson("train.py", 3, "train")


@projection(Work, "name hint time_ms")
class Brief(Document):
    """Some work in brief."""

    hint: Annotated[str, doc("what to do")]


def test_a_projection_has_fields_of_the_whole_document_with_their_meaning_and_its_own() -> None:
    shapes = json.schema(Brief)["$defs"]["Brief"]
    assert {name: field["description"] for name, field in shapes["properties"].items()} == {
        "name": "its name",
        "hint": "what to do",
        "time_ms": "how long",
    }
    assert shapes["description"] == "Some work in brief."
    whole = Work("train.py", 3, "train", "add", 2.5, None)
    assert loads(encoded(filled(Brief, whole, hint="fuse"))) == {"name": "add", "hint": "fuse", "time_ms": 2.5}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_not_written(value: float) -> None:
    for write in (encoded, encoded_briefly):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(Work(None, None, None, "add", value, None))
