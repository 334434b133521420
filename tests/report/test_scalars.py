"""What is logged of a report: named as in the JSON, told in the guide, and without what is withheld."""

import re
from typing import Any

import pytest
from blocks import GUIDES
from recordings import TRACES, analysis_of

from pinprof.documents.report import ReportJson
from pinprof.measurement.figures import FIGURES
from pinprof.report.scalars import ENDS, NUMBERS, OF_JOB, WORDS, WORDS_OF_JOB, to_logged
from pinprof.report.schema import to_schema
from pinprof.report.trace.json import traces_to_json

PATH = next(path for path in GUIDES if path.stem == "logging")
GUIDE = PATH.read_text()
BEGIN, END = "| figure | what it is |\n|---|---|\n", "\nWhat is predicted"
"""What stands before the table of figures in the guide, and behind it."""


SCHEMA = to_schema(ReportJson)


def properties(name: str) -> dict[str, Any]:
    """Return the fields of a record of the report."""
    return SCHEMA["$defs"][name]["properties"]


def field_of(name: str) -> dict[str, Any]:
    """Return what the schema says of a name."""
    record, field = "trace", None
    for key in name.split("/"):
        if field and key in ENDS:
            assert field["maxItems"] == 2
            return field
        field = properties(record)[key]
        record = field.get("$ref", field.get("anyOf", [field])[0].get("$ref", "")).split("/")[-1]
    assert field
    return field


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_stands_in_the_json_under_its_name(name: str) -> None:
    kinds = field_of(name)["type"]
    assert {"number", "integer", "array"} & {kinds if isinstance(kinds, str) else kinds[0]}


def test_words_stand_in_the_json_under_their_names() -> None:
    assert all(field_of(name) for name in WORDS)
    assert {*OF_JOB, *WORDS_OF_JOB} <= properties("ranks").keys()


def test_the_table_of_figures_in_the_guide_is_made_of_the_rows(*, pytestconfig: pytest.Config) -> None:
    rows = (f"| `{figure.path}` | {figure.meaning} |\n" for figure in FIGURES if figure.is_tracked)
    before, after = GUIDE.split(BEGIN)[0], GUIDE.split(END)[1]
    text = "".join((before, BEGIN, *rows, END, after))
    if pytestconfig.getoption("--update-golden"):
        PATH.write_text(text)
    assert PATH.read_text() == text


def test_the_guide_names_all_that_is_logged() -> None:
    names_in_guide = {
        name for row in re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE) for name in re.findall(r"`([\w/]+)`", row)
    }
    of_findings = {"findings/count", "findings/RULE/saving_ms", "findings/RULE/at_most_ms"}
    assert names_in_guide == {*NUMBERS, *of_findings, *(f"ranks/{name}" for name in OF_JOB)}
    assert all(f"`{name}`" in GUIDE for name in (*WORDS, *(f"ranks/{name}" for name in WORDS_OF_JOB)))


RECORDED = TRACES / "overlap_side_pinned.stack.json.gz"


def document() -> str:
    analysis = analysis_of(RECORDED)
    return traces_to_json([(analysis.profile, analysis.findings)])


def test_a_saving_that_no_replay_tells_is_not_zero() -> None:
    logged = to_logged(document(), None)
    (saving,) = (finding.saving for finding in analysis_of(RECORDED).findings if finding.rule.id == "PIN210")
    assert saving
    assert logged.numbers["pinprof/findings/PIN210/saving_ms"] == pytest.approx(saving.saving_ns / 1e6, abs=1e-5)
    assert "pinprof/findings/PIN701/saving_ms" not in logged.numbers
    assert logged.numbers["pinprof/findings/PIN701/at_most_ms"] > 0
    assert logged.numbers["pinprof/steps/busy_fraction"] == pytest.approx(0.725088 / 0.730712)
    assert logged.files.keys() == {"report.json"}
