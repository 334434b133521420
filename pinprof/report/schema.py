"""The JSON Schemas of the documents."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pinprof.documents.report import ReportJson
from pinprof.report.bench import BenchDocument
from pinprof.report.comparison.json import Compare, CompareBrief
from pinprof.report.trace.brief_json import ReportBrief
from pinprof.report.whatif import Verify, Whatif

DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "report": ReportJson,
    "report-brief": ReportBrief,
    "compare": Compare,
    "compare-brief": CompareBrief,
    "whatif": Whatif,
    "verify": Verify,
    "bench": BenchDocument,
}

JSON_SCHEMA_DRAFT = "https://json-schema.org/draft/2020-12/schema"
DEFINITIONS_POINTER = "#/$defs/"
REFERENCED_NAME = re.compile(rf'"{re.escape(DEFINITIONS_POINTER)}([^"]+)"')
FIELD_NOTES = ("unit", "forPeople")
"""Annotations that validators ignore. They stand in a field itself, not in the type of its items."""


def to_schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document; `unit` and `forPeople` are annotations that validators ignore."""
    schema = msgspec.json.schema(document)
    names = {name: _name(name, shape) for name, shape in schema["$defs"].items()}
    root = names[document.__name__]
    objects = {names[name]: _described(shape, names) for name, shape in schema["$defs"].items()}
    held = {name: objects[name] for name in _referenced(objects, root)}
    return {"$schema": JSON_SCHEMA_DRAFT, "title": root, **objects[root], "$defs": held}


def _name(name: str, shape: Mapping[str, Any]) -> str:
    """Return the name of an object in schemas: a document has that of its `schema`, others that of their class."""
    if "schema" in shape["properties"]:
        return str(shape["properties"]["schema"]["enum"][0].split("/")[0])
    return "".join(
        f"_{letter.lower()}" if letter.isupper() else letter for letter in name.removesuffix("Json")
    ).removeprefix("_")


def _described(shape: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of an object; a field is required unless it may be UNSET: only such fields have no default."""
    properties = shape["properties"]
    if "schema" in properties:
        properties["schema"]["description"] = "name and number of this schema"
    required = [name for name, field in properties.items() if name in shape["required"] or "default" in field]
    return {
        "description": shape["description"].split("\n\n")[0].removesuffix("."),
        "type": "object",
        "properties": {name: _property_of(field, names) for name, field in properties.items()},
        "required": required,
        "additionalProperties": False,
    }


def _property_of(field: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    shape = _shape_of(field, names, notes)
    return {"description": shape.pop("description"), **shape, **notes}


def _shape_of(shape: Mapping[str, Any], names: Mapping[str, str], notes: dict[str, Any]) -> dict[str, Any]:
    """Return a type in its shortest form, and move its notes to those of the field."""
    notes |= {name: shape[name] for name in FIELD_NOTES if name in shape}
    kept = {name: value for name, value in shape.items() if name not in (*FIELD_NOTES, "default")}
    if "$ref" in kept:
        kept["$ref"] = DEFINITIONS_POINTER + names[kept["$ref"].removeprefix(DEFINITIONS_POINTER)]
    for name in ("items", "additionalProperties"):
        if isinstance(kept.get(name), dict):
            kept[name] = _shape_of(kept[name], names, notes)
    if "anyOf" in kept:
        kind, *null = (_shape_of(choice, names, notes) for choice in kept.pop("anyOf"))
        return kept | (_or_null(kept | kind, null[0]) if null else kind)
    if "enum" in kept:
        kept.pop("type", None)
        if len(kept["enum"]) == 1:
            kept["const"] = kept.pop("enum")[0]
    return kept


def _or_null(shape: dict[str, Any], null: dict[str, Any]) -> dict[str, Any]:
    if "enum" in shape:
        return {"enum": [*shape["enum"], None]}
    if "type" in shape:
        return {**shape, "type": [shape["type"], "null"]}
    return {"anyOf": [{"$ref": shape["$ref"]}, null]}


def _referenced(objects: Mapping[str, Mapping[str, Any]], name: str) -> list[str]:
    names: dict[str, None] = {}

    def visit(name: str) -> None:
        for inner in REFERENCED_NAME.findall(json.dumps(objects[name])):
            if inner not in names:
                names[inner] = None
                visit(inner)

    visit(name)
    return list(names)
