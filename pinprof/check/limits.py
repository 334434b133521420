"""The figures that can have limits, a row each, and those limits, also of pyproject.toml; it does without numpy."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pinprof.document import read_document
from pinprof.ground.errors import PinprofError
from pinprof.ground.units import NS_PER_MS, duration, how_many, size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pinprof.measurement.trust.doubt import FigureKind
    from pinprof.trace.tables import EventKind

MAX_DIGITS_IN_ERROR = 20


@dataclass(frozen=True)
class Unit:
    """The unit of a limit and of the figure that it limits."""

    name: str
    """Follows exact numbers, which are shown if `show` returns the same text for two different ones."""
    metavar: str
    show: Callable[[float], str]
    most: float
    """The largest possible figure; no trace could break a larger limit."""
    noise: float
    """Figures that differ by less count as equal."""
    times: float = 1.0
    """The measured unit times this number is one of these."""


WHOLE_SHARE = 1.0
UNIT_MS = Unit(
    "ms",
    "MS",
    lambda value: duration(value * NS_PER_MS),
    most=3_600_000.0,  # no step takes longer: NCCL gives up after 10 minutes, gloo after 30
    noise=0.02,  # 20 µs is the launch latency of a copy on a profiled host
    times=NS_PER_MS,
)
UNIT_COUNT = Unit(
    "",
    "N",
    how_many,
    most=1e9,  # more than a trace can hold
    noise=0.1,  # a wait in every tenth step or less may fall into one recording and not into another
)
UNIT_BYTES = Unit(
    "B",
    "N",
    size,
    most=1e15,  # more than the fastest link carries in an hour
    noise=4096.0,  # a page: scalars that are read back or set
)
UNIT_SHARE = Unit(
    "of 1",
    "SHARE",
    lambda value: f"{100 * value:.1f} %",
    most=WHOLE_SHARE,
    noise=0.01,  # more if the copies are so short that the noise of times is a larger share of them
)

Blamed: TypeAlias = Literal["hidden waits", "exposed copies", "pageable copies", "findings"]
"""The kind of places that a failure names."""


@dataclass(frozen=True)
class Quantity:
    """A figure that can have a limit."""

    key: str
    """With dashes the option and the key in pyproject.toml; `min_` begins that of a lower bound."""
    figure: str
    """The name of its `TraceFigure`."""
    unit: Unit
    help: str
    """The help of the option."""
    what: str
    """What the number says."""
    blames: Blamed
    made_of: "tuple[EventKind, ...]"
    """The events that it is made of. The op around a wait shows whether the wait is hidden; the launch of a copy shows
    its step."""
    rests_on: "tuple[FigureKind, ...]" = ()
    """Further kinds of figures without which it is unknown: rules on waits and copies need them (`Rule.rests_on`), and
    a limit is not kept if the rules were not checked."""

    @property
    def name(self) -> str:
        """The name of the limit as users write it."""
        return self.key.replace("_", "-")

    @property
    def at_least(self) -> bool:
        """Whether the limit is a lower bound."""
        return self.key.startswith("min_")

    def shown(self, value: float, other: float) -> tuple[str, str]:
        """Return two values as texts that differ if the values do."""
        texts = self.unit.show(value), self.unit.show(other)
        if texts[0] == texts[1] and value != other:
            return f"{value:.9g} {self.unit.name}".strip(), f"{other:.9g} {self.unit.name}".strip()
        return texts


QUANTITIES = {
    quantity.key: quantity
    for quantity in (
        Quantity(
            "max_hidden_syncs",
            "hidden_syncs",
            UNIT_COUNT,
            "Waits per step that the code does not ask for.",
            "hidden waits of the host per step",
            "hidden waits",
            ("wait", "op"),
            ("step", "drain"),
        ),
        Quantity(
            "max_stall_ms",
            "hidden_stall_ms",
            UNIT_MS,
            "Time per step that the host spends in hidden waits.",
            "stall in hidden waits per step",
            "hidden waits",
            ("wait", "op"),
            ("step", "drain"),
        ),
        Quantity(
            "max_exposed_ms",
            "exposed_ms",
            UNIT_MS,
            "Copy time per step during which no kernel runs.",
            "exposed copy time per step",
            "exposed copies",
            ("copy", "wait"),
            ("step", "busy"),
        ),
        Quantity(
            "min_overlap",
            "overlap_fraction",
            UNIT_SHARE,
            "Share of the copy time that kernels overlap, 0 to 1.",
            "overlapped share of the copy time",
            "exposed copies",
            ("copy",),
            ("busy",),
        ),
        Quantity(
            "max_pageable_bytes",
            "pageable_bytes",
            UNIT_BYTES,
            "Bytes per step copied from or to pageable memory.",
            "pageable memory copied per step",
            "pageable copies",
            ("copy", "wait"),
            ("step",),
        ),
        Quantity(
            "max_step_ms",
            "step_ms",
            UNIT_MS,
            "The step without the profiler; pinprof run measures it.",
            "step without the profiler",
            "findings",
            (),
        ),
    )
}


class Limits(dict[str, float]):
    """The limits of a check by the key of their quantity, each in the unit of its option."""

    def __init__(self, **limits: float) -> None:
        """Take limits, and raise PinprofError if one is impossible: no trace could break it."""
        super().__init__(limits)
        for key, limit in limits.items():
            _refuse_impossible(QUANTITIES[key], limit)


def _refuse_impossible(quantity: Quantity, limit: float) -> None:
    most = quantity.unit.most
    if 0 <= limit <= most:  # NaN is not
        return
    if quantity.unit is UNIT_SHARE and limit > most:
        raise PinprofError(f"{quantity.name} = {limit}: the share of overlapped copy time is at most 1 (0.9 is 90 %)")
    shown = f"{limit:.6g}" if isinstance(limit, float) else str(limit)[:MAX_DIGITS_IN_ERROR]
    allowed = f"a limit is a number from 0 to {most:.15g}; no trace breaks a larger one"
    raise PinprofError(f"{quantity.name} = {shown}: {allowed}")


PROJECT_FILE = "pyproject.toml"
TABLE_OF_LIMITS = "[tool.pinprof.check]"
KEYS_OF_LIMITS = tuple(quantity.name for quantity in QUANTITIES.values())


def find_config(folder: Path) -> tuple[Path | None, Limits | None]:
    """Return the nearest pyproject.toml with a table [tool.pinprof] up to the top of the repository, and its limits."""
    for above in (folder, *folder.parents):
        path = above / PROJECT_FILE
        if os.path.lexists(path):  # a link to nothing is an error, not the absence of limits
            limits = read_config(path)
            if limits is not None:
                return path, limits
        if (above / ".git").exists():  # a folder, or a file in worktrees and submodules
            break
    return None, None


def read_config(path: str | Path) -> Limits | None:
    """Return the limits of a TOML file, None without a table [tool.pinprof]. Raises PinprofError for a wrong one."""
    document = _document(path)
    try:
        own = _own(document)
        return None if own is None else _limits(own.get("check", {}))
    except PinprofError as exc:
        raise PinprofError(f"{path}: {exc}") from exc


def _document(path: str | Path) -> Mapping[str, Any]:
    try:
        data = read_document(path)
    except OSError as exc:
        raise PinprofError(f"{path}: cannot be read ({exc.strerror})") from exc
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as exc:  # also for numbers and lists beyond Python's bounds
        raise PinprofError(f"{path}: is not TOML ({exc})") from exc


def _own(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table [tool.pinprof] of a document, or None. Raises PinprofError if it holds anything but limits."""
    tools = document.get("tool")
    own = tools.get("pinprof") if isinstance(tools, Mapping) else None
    is_wrong = own is not None and (not isinstance(own, Mapping) or bool(own.keys() - {"check"}))
    if is_wrong or "pinprof" in document:
        raise PinprofError(f"pinprof reads no other table; put limits into {TABLE_OF_LIMITS}")
    return own


def _limits(table: object) -> Limits:
    if not isinstance(table, Mapping):
        raise PinprofError(f"{TABLE_OF_LIMITS} is not a table")
    values: dict[str, float] = {}
    for written, value in table.items():
        key = written.replace("_", "-")
        if key not in KEYS_OF_LIMITS:
            raise PinprofError(f"{TABLE_OF_LIMITS} {written}: unknown key; the keys are {', '.join(KEYS_OF_LIMITS)}")
        field = key.replace("-", "_")
        if field in values:
            raise PinprofError(f"{TABLE_OF_LIMITS} {written}: occurs twice, with dashes and with underscores")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PinprofError(f"{TABLE_OF_LIMITS} {written} = {value!r}: must be a number without a unit")
        values[field] = value
    try:
        return Limits(**values)
    except PinprofError as exc:
        raise PinprofError(f"{TABLE_OF_LIMITS} {exc}") from exc
