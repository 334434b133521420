"""What the tools answer: the documents of `--json`, or parts of them, and what had no room."""

from typing import Any

from pinprof.report.schema import DOCUMENTS
from pinprof.report.schema.field import Field, Record, count, many, one, text, words

LEFT_OUT = Record(
    "left_out",
    "A list that has lost items at its end, so that the answer is no longer than it may be",
    {"list": text("a JSON Pointer into this answer; `others` for further lists"), "count": count("items left out")},
)
MOST_LISTS = 8
BESIDE = {
    "left_out": many("what had no room; the description of the tool says how to get it", LEFT_OUT),
    "notes": many("what the command said beside its result", words("")),
}


def answer_of(name: str) -> Record:
    """Return what a tool answers that gives a document."""
    document = DOCUMENTS[name]
    return Record(f"{document.name}_answer", document.meaning, {"document": one(document.meaning, document), **BESIDE})


ROW = Record(
    "row",
    "What an id names",
    {"id": text("the id"), "value": Field("what it names, as in the JSON of the command", {})},
)
EVIDENCE = Record("evidence_answer", "Rows of a whole document", {"rows": many("by id", ROW), **BESIDE})
EXPLAIN = Record(
    "explain_answer",
    "A text",
    {
        "text": words("lines of the text"),
        "first_line": count("the number of the first of them"),
        "more_lines": count("lines after the last of them; ask for them with first_line"),
    },
)


def listed(lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was lost in few entries."""
    rest = sum(each["count"] for each in lost[MOST_LISTS:])
    return [*lost[:MOST_LISTS], *([{"list": "others", "count": rest}] if rest else [])]
