"""Parameters of a test: a few are quick to look at, the others are for runs that may be slow."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test; those that are not `quick` are marked `slow`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
