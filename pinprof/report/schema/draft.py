"""Makes JSON Schemas, and the tables of the guides, of what documents are described as."""

from collections.abc import Iterable, Iterator
from typing import Any

from pinprof.report.schema.field import Field, Record

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def to_schema(document: Record) -> dict[str, Any]:
    """Return the JSON Schema of a document; `unit` and `forPeople` are annotations that validators pass over."""
    return {
        "$schema": DRAFT,
        "title": document.name,
        **_object(document),
        "$defs": {record.name: _object(record) for record in records_of(document)},
    }


def records_of(document: Record) -> list[Record]:
    """Return the records that a document holds, each once, in the order in which they are met."""
    found: dict[str, Record] = {}

    def visit(record: Record) -> None:
        for field in record.fields.values():
            if field.record and field.record.name not in found:
                found[field.record.name] = field.record
                visit(field.record)

    visit(document)
    return list(found.values())


def _object(record: Record) -> dict[str, Any]:
    return {
        "description": record.meaning,
        "type": "object",
        "properties": {name: _property(field) for name, field in record.fields.items()},
        "required": [name for name, field in record.fields.items() if not field.optional],
        "additionalProperties": False,
    }


def _property(field: Field) -> dict[str, Any]:
    noted: dict[str, Any] = {"unit": field.unit} if field.unit else {}
    if field.for_people:
        noted["forPeople"] = True
    return {"description": field.meaning, **field.shape, **noted}


def to_markdown(records: Iterable[Record]) -> str:
    """Return the fields of records as tables."""
    return "\n".join(line for record in records for line in _table(record))


def _table(record: Record) -> Iterator[str]:
    yield from (f"## {record.name}", "", f"{record.meaning}.", "", "| field | type | meaning |", "|---|---|---|")
    yield from (f"| `{name}` | {kind(field)} | {field.meaning} |" for name, field in record.fields.items())
    yield ""


def kind(field: Field) -> str:
    """Return the type of a field in words."""
    said = _shape(field.shape)
    if field.unit:
        said = said.replace("number", field.unit).replace("integer", f"{field.unit}, whole")
    if field.for_people:
        said = said.replace("string", "sentence")
    if field.optional:
        said += ", may be left out"
    return said


def _shape(shape: Any) -> str:
    if "anyOf" in shape:
        return f"{_shape(shape['anyOf'][0])} or null"
    if "$ref" in shape:
        return f"`{shape['$ref'].removeprefix('#/$defs/')}`"
    if "enum" in shape:
        return ", ".join(f"`{value}`" for value in shape["enum"] if value) + (" or null" * (None in shape["enum"]))
    if "const" in shape:
        return f"`{shape['const']}`"
    types = [shape["type"]] if isinstance(shape["type"], str) else shape["type"]
    said = types[0]
    if said == "array":
        said = "[low, high], number" if "maxItems" in shape else f"list of {_shape(shape['items'])}"
    if said == "object":
        said = f"by name: {_shape(shape['additionalProperties'])}"
    return said + (" or null" * ("null" in types))
