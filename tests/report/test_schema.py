"""The schemas of the JSON documents."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from fitting import fitting, validator
from jsonschema import Draft202012Validator
from recordings import TRACES

from pinprof.bench.results import from_json
from pinprof.report.bench import bench_to_json
from pinprof.report.schema import DOCUMENTS, to_schema

each_document = pytest.mark.parametrize("name", DOCUMENTS)


def objects_of(name: str) -> dict[str, Any]:
    """Return the objects of a document as schemas by name, the document itself first."""
    schema = to_schema(DOCUMENTS[name])
    return {schema["title"]: schema, **schema["$defs"]}


@cache
def all_objects() -> dict[str, Any]:
    """Return all objects, each once, in the order of the documents that have them."""
    return {key: shape for name in DOCUMENTS for key, shape in objects_of(name).items()}


@each_document
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(to_schema(DOCUMENTS[name]))


@each_document
def test_a_document_with_another_field_or_without_one_does_not_fit(name: str) -> None:
    document = dict.fromkeys(to_schema(DOCUMENTS[name])["properties"]) | {"more": 1}
    del document["schema"]
    messages = [error.message for error in validator(name).iter_errors(document)]
    assert any("'more' was unexpected" in message for message in messages)
    assert "'schema' is a required property" in messages


@each_document
def test_objects_of_one_name_are_one(name: str) -> None:
    for key, shape in objects_of(name).items():
        assert all_objects()[key]["properties"] == shape["properties"]


def test_every_field_says_what_it_means_in_one_line() -> None:
    for key, shape in all_objects().items():
        for name, field in shape["properties"].items():
            assert field["description"], f"{key}.{name}"
            assert "\n" not in field["description"]
        assert shape["description"][0].isupper()


@pytest.mark.parametrize("path", sorted(TRACES.glob("bench*.json")), ids=lambda path: path.name)
def test_recorded_benches_fit(path: Path) -> None:
    fitting(bench_to_json(from_json(path.read_bytes(), path.name)))


# ---------------------------------------------------------------- the command


def test_the_schema_of_a_command_is_printed() -> None:
    schema = json.loads(invoke("schema", "report").stdout)
    assert schema == to_schema(DOCUMENTS["report"])
    assert schema["$defs"]["steps"]["properties"]["step_ms"]["unit"] == "ms"
