"""Parameters of a test: a few are looked at always, the others in runs that may be slow, or each night."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test; those that are not `quick` are marked `slow`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def nightly_but(always: Collection[str], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the rows as parameters of a test; those whose first value is not among `always` are for the night."""
    return [
        pytest.param(*row, id=str(row[0]), marks=() if row[0] in always else pytest.mark.recordings) for row in rows
    ]
