"""What the fields of JSON documents are made of: units, places, savings; and how a document is written."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct

from pinprof.analyses.syncs import CAUSES
from pinprof.rules.rule import FAMILIES, Saving
from pinprof.trace.lines import Place
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES
from pinprof.units import ms
from pinprof.whatif import regions


def doc(meaning: str) -> Meta:
    """Return the description of a field."""
    return Meta(description=meaning)


def one_of(values: Iterable[str]) -> Meta:
    """Return the bound of a text to some words. Readers accept others, too: later versions may write more."""
    return Meta(extra_json_schema={"enum": list(values)})


def _in(unit: str) -> Meta:
    return Meta(extra_json_schema={"unit": unit})


NOT_IN_OLDER = Meta(extra_json_schema={"default": None})
"""Of a field that may be UNSET when it is read: documents of older versions lack it, this one writes it."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Size: TypeAlias = Annotated[int, Meta(ge=0, extra_json_schema={"unit": "bytes"})]
Bytes: TypeAlias = Annotated[float, _in("bytes")]
Ms: TypeAlias = Annotated[float, _in("ms")]
Us: TypeAlias = Annotated[float, _in("µs")]
Seconds: TypeAlias = Annotated[float, _in("s")]
Gbps: TypeAlias = Annotated[float, _in("GB/s")]
Share: TypeAlias = Annotated[float, _in("share")]
Range: TypeAlias = Annotated[Sequence[float], Meta(min_length=2, max_length=2)]
"""The low and the high end."""
RangeMs: TypeAlias = Annotated[Range, _in("ms")]
RangeShare: TypeAlias = Annotated[Range, _in("share")]
Words: TypeAlias = Annotated[str, Meta(extra_json_schema={"forPeople": True})]
"""A sentence, whose wording may change at any time."""

Source: TypeAlias = Annotated[str, one_of(("measured", "given", "estimated"))]
Bound: TypeAlias = Annotated[str, one_of(("host", "gpu", "input", "communication"))]
Direction: TypeAlias = Annotated[str, one_of(DIRECTIONS)]
Memory: TypeAlias = Annotated[str, one_of(HOST_MEMORIES[:-1])]
"""Null stands for copies without a host side."""
Thread: TypeAlias = Annotated[str, one_of(("main", "autograd", "pin_memory", "other"))]
WaitVerdict: TypeAlias = Annotated[str, one_of(("hidden", "explicit", "benign", "profiler"))]
WaitCause: TypeAlias = Annotated[str, one_of(CAUSES), doc("what made the host wait")]
Family: TypeAlias = Annotated[
    str, one_of(tuple(family.name for family in FAMILIES.values())), doc("what the rule is about")
]
Severity: TypeAlias = Annotated[str, one_of(("high", "medium", "low", "suspect"))]

Guards: TypeAlias = Annotated[
    Sequence[str],
    doc(
        "directions of the copies of pinned memory in flight that it awaits: without it, their memory is used too early"
    ),
]
Pointer: TypeAlias = Annotated[str, doc("its id: a JSON Pointer into the document without --brief")]
File: TypeAlias = Annotated[str | None, doc("the file of the code, as it was recorded")]
Line: TypeAlias = Annotated[Count | None, doc("its line; only where it is certain")]
Function: TypeAlias = Annotated[str | None, doc("the function around it")]


class PlaceFields(TypedDict):
    """A place in the code."""

    file: str | None
    line: int | None
    function: str | None


class SavingFields(TypedDict):
    """What a change saves; null where no replay tells."""

    saving_ms: float | None
    saving_fraction: float | None
    range_ms: list[float] | None


class Document(Struct):
    """A JSON object whose fields are known, part of what a command writes.

    A field that is added later gets a default, with which documents of older versions are read. Only fields that may be
    UNSET are left out of documents, unless they are `NOT_IN_OLDER`.
    """


class Placed(Document):
    """What has a place in the code."""

    file: File
    line: Line
    function: Function


class Library(Placed):
    """The innermost function outside of torch, in a library that your line calls."""


class Device(Document):
    """A GPU."""

    name: Annotated[str | None, doc("its name")]
    index: Annotated[Count, doc("its number in the process")]


class Blocker(Document):
    """What forbids to capture the step as one CUDA graph."""

    what: Annotated[str, doc("a cause of waits, or a sentence")]
    file: File
    line: Line
    function: Function
    per_step: Annotated[float, doc("how often; 0 for what is of the step as a whole")]


Filled = TypeVar("Filled", bound=Document)


def encoded(document: Document) -> str:
    """Return a document as JSON text. Raises ValueError if it holds NaN or an infinity, which JSON has not."""
    return json.dumps(msgspec.to_builtins(document), indent=2, allow_nan=False) + "\n"


def encoded_briefly(document: Document) -> str:
    """Return the same on one line, without escapes."""
    return json.dumps(msgspec.to_builtins(document), allow_nan=False, ensure_ascii=False) + "\n"


def maybe_ms(ns: float | None) -> float | None:
    """Return a time in milliseconds, if there is one."""
    return None if ns is None else ms(ns)


def range_ms(range_ns: Sequence[float] | None) -> list[float] | None:
    """Return a range in milliseconds, if there is one."""
    return None if range_ns is None else [ms(end) for end in range_ns]


def filled(document: type[Filled], source: object, **fields: Any) -> Filled:
    """Return a document of these fields; the others are what the source has under their names.

    `x_ms` is the source's `x_ns` in milliseconds, and file, line and function are those of its `place`. Without a
    source they are null.
    """
    others = (name for name in document.__struct_fields__ if name not in fields)
    return document(**fields, **{name: _found(source, name) for name in others})


def _found(source: object, name: str) -> Any:
    if source is None or hasattr(source, name):
        return getattr(source, name, None)
    if name in Place._fields and hasattr(source, "place"):
        return getattr(source.place, name)
    if not name.endswith("_ms"):
        raise AttributeError(f"{type(source).__name__} has no {name}")
    time = getattr(source, f"{name.removesuffix('_ms')}_ns")
    return range_ms(time) if isinstance(time, tuple) else maybe_ms(time)


def place_fields(place: Place) -> PlaceFields:
    """Return a place in fields."""
    return PlaceFields(file=place.file, line=place.line, function=place.function)


def library(place: Place | None) -> Library | None:
    """Return the place in a library, if there is one."""
    return None if place is None else Library(*place)


def blockers(found: Iterable[regions.Blocker]) -> list[Blocker]:
    """Return what forbids to capture a region as a CUDA graph."""
    return [Blocker(blocker.what, *blocker.place, blocker.per_step) for blocker in found]


def saving_fields(saving: Saving | None, step_ns: float | None) -> SavingFields:
    """Return what a change saves of a step of this length."""
    if saving is None:
        return SavingFields(saving_ms=None, saving_fraction=None, range_ms=None)
    return SavingFields(
        saving_ms=ms(saving.saving_ns),
        saving_fraction=saving.saving_ns / step_ns if step_ns else None,
        range_ms=range_ms(saving.range_ns),
    )
