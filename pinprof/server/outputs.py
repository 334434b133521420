"""What the tools answer: the documents of `--json`, or parts of them, and what had no room."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import Struct, defstruct

from pinprof.document import Count, Document, Words, doc
from pinprof.report.schema import DOCUMENTS

MOST_LISTS = 8


class LeftOut(Document):
    """A list that has lost items at its end, so that the answer is no longer than it may be."""

    list: Annotated[str, doc("a JSON Pointer into this answer; `others` for further lists")]
    count: Annotated[Count, doc("items left out")]


NoRoom: TypeAlias = Annotated[
    Sequence[LeftOut], doc("what had no room; the description of the tool says how to get it")
]
Notes: TypeAlias = Annotated[Sequence[Words], doc("what the command said beside its result")]


def answer_of(name: str) -> type[Struct]:
    """Return what a tool answers that gives a document."""
    document = DOCUMENTS[name]
    about = str(document.__doc__)
    fields = [("document", Annotated[document, doc(about.removesuffix("."))]), ("left_out", NoRoom), ("notes", Notes)]
    return defstruct(f"{document.__name__}Answer", fields, bases=(Document,), namespace={"__doc__": about})


class Row(Document):
    """What an id names."""

    id: Annotated[str, doc("the id")]
    value: Annotated[Any, doc("what it names, as in the JSON of the command")]


class EvidenceAnswer(Document):
    """Rows of a whole document."""

    rows: Annotated[Sequence[Row], doc("by id")]
    left_out: NoRoom
    notes: Notes


class ExplainAnswer(Document):
    """A text."""

    text: Annotated[Words, doc("lines of the text")]
    first_line: Annotated[Count, doc("the number of the first of them")]
    more_lines: Annotated[Count, doc("lines after the last of them; ask for them with first_line")]


def listed(lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was lost in few entries."""
    rest = sum(each["count"] for each in lost[MOST_LISTS:])
    return [*lost[:MOST_LISTS], *([{"list": "others", "count": rest}] if rest else [])]
