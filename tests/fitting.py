"""Holds what pinprof writes as JSON to its schema, wherever a test reads it."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from pinprof.report.schema import DOCUMENTS, to_schema


@cache
def validator(name: str) -> Any:
    """Return what holds documents to a schema, by the command that writes them."""
    return Draft202012Validator(to_schema(DOCUMENTS[name]))


def fitting(text: str) -> Any:
    """Return the document that a command wrote, which must fit the schema of its kind."""
    document = json.loads(text)
    name = document["schema"].removeprefix("pinprof.").split("/")[0]
    errors = [f"{error.json_path}: {error.message[:200]}" for error in validator(name).iter_errors(document)]
    assert not errors, errors[:5]
    return document


def pointed_at(document: Any, pointer: str) -> Any:
    """Return what a JSON Pointer without escapes, such as `/traces/0/findings/1`, names in a document."""
    value = document
    for key in pointer.split("/")[1:]:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value
