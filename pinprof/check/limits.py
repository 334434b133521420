"""The quantities that can have limits, and the limits of a check."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from pinprof.errors import PinprofError
from pinprof.units import NS_PER_MS, duration, how_many, size

ALL = 1.0
"""A share of everything."""
MOST_MS = 3_600_000.0
"""No step takes longer: NCCL gives up after 10 minutes, gloo after 30."""
MOST_WAITS = 1e9
"""More waits of a step than a trace can hold."""
MOST_BYTES = 1e15
"""More than the fastest link carries in an hour."""
MOST = {
    "max_hidden_syncs": MOST_WAITS,
    "max_stall_ms": MOST_MS,
    "max_exposed_ms": MOST_MS,
    "min_overlap": ALL,
    "max_pageable_bytes": MOST_BYTES,
    "max_step_ms": MOST_MS,
}
"""The largest possible figure of each limit, in its unit; no trace could break a larger limit."""
MOST_DIGITS = 20
"""How many digits of a number an error shows."""
UNKNOWN = "unknown"
"""Replaces an unknown number."""


@dataclass(frozen=True)
class Limits:
    """The limits of a check, each in the unit of its option; None if not set."""

    max_hidden_syncs: float | None = None
    """Hidden waits of the host per step."""
    max_stall_ms: float | None = None
    """Stall in hidden waits per step, in ms."""
    max_exposed_ms: float | None = None
    """Exposed copy time per step, in ms."""
    min_overlap: float | None = None
    """Overlapped share of the copy time in the whole trace, from 0 to 1."""
    max_pageable_bytes: float | None = None
    """Bytes of copies from or to pageable memory per step."""
    max_step_ms: float | None = None
    """The step without profiler, in ms."""

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            if value is not None:
                _refuse_impossible(key, value)

    def of(self, key: str) -> float | None:
        """Return the limit of a quantity, by the quantity's key."""
        value: float | None = getattr(self, key)
        return value

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())


def _refuse_impossible(key: str, value: float) -> None:
    most = MOST[key]
    if 0 <= value <= most:  # NaN is not
        return
    name = key.replace("_", "-")
    if key == "min_overlap" and value > most:
        raise PinprofError(f"{name} = {value}: the share of overlapped copy time is at most 1 (0.9 is 90 %)")
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)[:MOST_DIGITS]
    raise PinprofError(f"{name} = {shown}: a limit is a number from 0 to {most:.15g}; no trace breaks a larger one")


def _count(value: float) -> str:
    return how_many(value)


def _ms(value: float) -> str:
    return duration(value * NS_PER_MS)


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


@dataclass(frozen=True)
class Quantity:
    """A figure that can have a limit."""

    key: str
    """The field of Limits; with dashes the option and the key in pyproject.toml."""
    what: str
    show: Callable[[float], str]
    unit: str
    """Follows exact numbers, which are needed if `show` gives two different ones the same text."""
    noun: str
    """Its name if the number is unknown."""
    at_least: bool = False
    """Whether the limit is a lower bound."""
    one: str = ""
    """Replaces `what` after the number 1, if it differs."""

    @property
    def name(self) -> str:
        """The name of the limit as users write it."""
        return self.key.replace("_", "-")

    def phrase(self, number: str) -> str:
        """Return a number, as text, with what it counts."""
        if number == UNKNOWN:
            return f"the {self.noun} is not known"
        return f"{number} {self.one if number == '1' and self.one else self.what}"

    def shown(self, value: float, beside: float) -> tuple[str, str]:
        """Return two values as texts that differ if the values do."""
        texts = self.show(value), self.show(beside)
        if texts[0] == texts[1] and value != beside:
            return f"{value:.9g} {self.unit}".strip(), f"{beside:.9g} {self.unit}".strip()
        return texts


QUANTITIES = (
    Quantity(
        "max_hidden_syncs",
        "hidden waits of the host per step",
        _count,
        "",
        "number of hidden waits of the host per step",
        one="hidden wait of the host per step",
    ),
    Quantity("max_stall_ms", "stall in hidden waits per step", _ms, "ms", "stall in hidden waits per step"),
    Quantity("max_exposed_ms", "exposed copy time per step", _ms, "ms", "exposed copy time per step"),
    Quantity(
        "min_overlap",
        "of the copy time is overlapped",
        _share,
        "of 1",
        "overlapped share of the copy time",
        at_least=True,
    ),
    Quantity(
        "max_pageable_bytes",
        "copied from or to pageable memory per step",
        size,
        "B",
        "size of copies from or to pageable memory per step",
    ),
    Quantity("max_step_ms", "per step without profiler", _ms, "ms", "step without profiler"),
)
