"""A figure that is known, or withheld with the reason: its type makes code check which."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from pinprof.measurement.trust.doubt import Doubt

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Known(Generic[T_co]):
    """A figure that the recording allows."""

    value: T_co


@dataclass(frozen=True)
class Withheld:
    """A figure that the recording does not allow."""

    reason: Doubt


KnownOrWithheld: TypeAlias = Known[T] | Withheld
"""A figure of this type, or why it is withheld."""


def given(figure: KnownOrWithheld[T]) -> T | None:
    """Return a figure if it is known, otherwise None."""
    return figure.value if isinstance(figure, Known) else None
