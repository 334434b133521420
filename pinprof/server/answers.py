"""Answers of the tools: their types, and how lists lose items at their end so that answers stay short."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import Struct, defstruct

from pinprof.document import Count, Document, Words, doc
from pinprof.errors import PinprofError
from pinprof.report.schema import DOCUMENTS

MOST_CHARACTERS = 12_000
"""The most characters of an answer as JSON: some 3,000 to 4,000 tokens of a language model."""
STEPS = (256, 128, 64, 32, 16, 8, 4, 2, 1, 0)
"""Numbers of items that lists keep: the first with which the answer is short enough."""
MOST_LISTS = 8


class LeftOut(Document):
    """A list that has lost items at its end, so that the answer is short enough."""

    list: Annotated[str, doc("a JSON Pointer into this answer; `others` for further lists")]
    count: Annotated[Count, doc("items left out")]


NoRoom: TypeAlias = Annotated[
    Sequence[LeftOut], doc("what had no room; the description of the tool says how to get it")
]
Remarks: TypeAlias = Annotated[Sequence[Words], doc("what the command said besides its result")]


def answer_of(name: str) -> type[Struct]:
    """Return the type of the answer of a tool that gives a document."""
    document = DOCUMENTS[name]
    about = str(document.__doc__)
    fields = [("document", Annotated[document, doc(about.removesuffix("."))]), ("left_out", NoRoom), ("notes", Remarks)]
    return defstruct(f"{document.__name__}Answer", fields, bases=(Document,), namespace={"__doc__": about})


class Row(Document):
    """What an id names."""

    id: Annotated[str, doc("the id")]
    value: Annotated[Any, doc("what it names, as in the JSON of the command")]


class EvidenceAnswer(Document):
    """Rows of a whole document."""

    rows: Annotated[Sequence[Row], doc("by id")]
    left_out: NoRoom
    notes: Remarks


class ExplainAnswer(Document):
    """A text."""

    text: Annotated[Words, doc("lines of the text")]
    first_line: Annotated[Count, doc("the number of the first of them")]
    more_lines: Annotated[Count, doc("lines after the last of them; ask for them with first_line")]


def listed(lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lists that lost items, in at most `MOST_LISTS` entries and one for all others."""
    rest = sum(loss["count"] for loss in lost[MOST_LISTS:])
    return [*lost[:MOST_LISTS], *([{"list": "others", "count": rest}] if rest else [])]


def length(value: Any) -> int:
    """Return the number of characters of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def shortened(value: Any, first: Sequence[str] = (), most: int = MOST_CHARACTERS) -> tuple[Any, list[dict[str, Any]]]:
    """Return a document of at most `most` characters, and the lists that lost items, with the numbers of these.

    Lists named in `first` by pointers are shortened before the others. Raises PinprofError if that is not enough.
    """
    shorter: Any = value
    for only in (*((name,) for name in first), None):
        for keep in (None, *STEPS):
            trial = shorter if keep is None else _cut(shorter, "", keep, only)
            if length(trial) <= most:
                return trial, list(_lost(value, trial, ""))
        shorter = trial
    raise PinprofError(f"the answer has more than {most} characters, and no list that could be shorter; use a terminal")


def _cut(value: Any, at: str, keep: int, only: Sequence[str] | None) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(inner, f"{at}/{name}", keep, only) for name, inner in value.items()}
    if not isinstance(value, list) or _is_one(value):
        return value
    asked = only is None or at in only
    return [_cut(item, f"{at}/{number}", keep, only) for number, item in enumerate(value[:keep] if asked else value)]


def _is_one(items: list[Any]) -> bool:
    """Return whether a list is the two ends of a range, which stay together."""
    return len(items) == 2 and all(isinstance(item, int | float) for item in items)  # noqa: PLR2004  low and high


def _lost(before: Any, after: Any, at: str) -> Iterator[dict[str, Any]]:
    if isinstance(before, Mapping):
        for name in before:
            yield from _lost(before[name], after[name], f"{at}/{name}")
    elif isinstance(before, list):
        if len(before) > len(after):
            yield {"list": at, "count": len(before) - len(after)}
        for number, item in enumerate(after):
            yield from _lost(before[number], item, f"{at}/{number}")
