"""The words in which JSON documents are described: fields with their type, unit and meaning, and records of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

MS, US, BYTES, GBPS, SHARE, PERCENT = "ms", "µs", "bytes", "GB/s", "share", "%"


@dataclass(frozen=True)
class Field:
    """A field of a document."""

    meaning: str
    shape: Mapping[str, Any]
    """Its JSON Schema, without the meaning."""
    unit: str | None = None
    for_people: bool = False
    """A sentence, whose wording may change at any time."""
    record: "Record | None" = None
    """What it holds one or many of."""
    optional: bool = False
    """Whether documents may lack it."""


Fields: TypeAlias = Mapping[str, Field]


@dataclass(frozen=True)
class Record:
    """An object whose fields are known."""

    name: str
    """The same in all schemas that hold it."""
    meaning: str
    fields: Fields


def text(meaning: str) -> Field:
    """Return a field of text that programs may rely on."""
    return Field(meaning, {"type": "string"})


def words(meaning: str) -> Field:
    """Return a field of text for people."""
    return Field(meaning, {"type": "string"}, for_people=True)


def flag(meaning: str) -> Field:
    """Return a field that is true or false."""
    return Field(meaning, {"type": "boolean"})


def count(meaning: str, unit: str | None = None) -> Field:
    """Return a field with a whole number from 0 on."""
    return Field(meaning, {"type": "integer", "minimum": 0}, unit)


def whole(meaning: str) -> Field:
    """Return a field with a whole number."""
    return Field(meaning, {"type": "integer"})


def number(meaning: str, unit: str | None = None) -> Field:
    """Return a field with a number."""
    return Field(meaning, {"type": "number"}, unit)


def ms(meaning: str) -> Field:
    """Return a field with a time in milliseconds."""
    return number(meaning, MS)


def share(meaning: str) -> Field:
    """Return a field with a share of 1."""
    return number(meaning, SHARE)


def span(meaning: str, unit: str = MS) -> Field:
    """Return a field with a range: its low and its high end."""
    return Field(meaning, {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, unit)


def one_of(meaning: str, values: Sequence[str]) -> Field:
    """Return a field with one of several words."""
    return Field(meaning, {"enum": list(values)})


def always(meaning: str, value: str) -> Field:
    """Return a field with one value."""
    return Field(meaning, {"const": value})


def one(meaning: str, record: Record) -> Field:
    """Return a field with a record."""
    return Field(meaning, {"$ref": f"#/$defs/{record.name}"}, record=record)


def many(meaning: str, of: Record | Field) -> Field:
    """Return a field with a list."""
    if isinstance(of, Field):
        return replace(of, meaning=meaning, shape={"type": "array", "items": of.shape})
    return Field(meaning, {"type": "array", "items": {"$ref": f"#/$defs/{of.name}"}}, record=of)


def by_name(meaning: str, of: Field) -> Field:
    """Return a field with an object whose names are data."""
    return replace(of, meaning=meaning, shape={"type": "object", "additionalProperties": of.shape})


def maybe(field: Field) -> Field:
    """Return the same field, which may be null."""
    shape = field.shape
    if "enum" in shape:
        nullable: dict[str, Any] = {"enum": [*shape["enum"], None]}
    elif "type" in shape:
        nullable = {**shape, "type": [shape["type"], "null"]}
    else:
        nullable = {"anyOf": [shape, {"type": "null"}]}
    return replace(field, shape=nullable)


def optional(field: Field) -> Field:
    """Return the same field, which documents may lack."""
    return replace(field, optional=True)
