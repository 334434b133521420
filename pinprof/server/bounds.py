"""Answers of bounded length: lists lose whole items at their end, and the answer says how many."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pinprof.errors import PinprofError

MOST_CHARACTERS = 12_000
"""An answer has no more, as JSON: some 3,000 to 4,000 tokens of a language model."""
STEPS = (256, 128, 64, 32, 16, 8, 4, 2, 1, 0)
"""How many items lists keep: the first that fits is taken."""

Pointed: TypeAlias = tuple[str, list[Any]]


def length(value: Any) -> int:
    """Return how many characters a value has as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def shortened(value: Any, first: Sequence[str] = (), most: int = MOST_CHARACTERS) -> tuple[Any, list[dict[str, Any]]]:
    """Return a document that fits, and what it lost: the list and how many of its items.

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
    wanted = only is None or at in only
    return [_cut(item, f"{at}/{number}", keep, only) for number, item in enumerate(value[:keep] if wanted else value)]


def _is_one(items: list[Any]) -> bool:
    """Return whether a list is one figure: a range."""
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
