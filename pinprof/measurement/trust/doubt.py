"""Doubts about a trace, and figures that are known or withheld because of one: their type makes code check which."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pinprof.analyses.steps import IrregularStep, StepTimes
from pinprof.analyses.syncs.sites import Syncs
from pinprof.replay import StepEstimate
from pinprof.trace.tables import Trace

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FigureKind: TypeAlias = Literal[
    "step", "estimate", "per_step", "busy", "copies", "overlap", "causes", "stalls", "drain"
]
FIGURE_KINDS: dict[FigureKind, str] = {
    "step": "step time",
    "estimate": "step time without the profiler, savings",
    "per_step": "sums per step",
    "busy": "busy and idle time",
    "copies": "copies",
    "overlap": "overlap",
    "causes": "causes of idle and exposed time",
    "stalls": "length of waits",
    "drain": "idle time after waits",
}
"""The kinds of figures in words; a report gives or withholds each kind as a whole."""

MATTERING_SHARE = 0.02
"""If this share of events is lost or wrong, figures are withheld: they would be wrong by about this share. The rules
call a cost of less than 2 % of the step low."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to rely on some figures of a trace, with its effect and a remedy."""

    what: str
    effect: str
    remedy: str
    withholds: frozenset[FigureKind] = frozenset()
    """The kinds of figures that reports withhold because of it."""
    absent: bool = False
    """Whether something was merely not recorded: the figures are right without it."""
    check: str = ""
    """The name of the check that found it."""

    @property
    def level(self) -> str:
        """How grave it is: `invalid` (figures are not given), `unsure` (they are to be read with care), `absent`."""
        if self.withholds:
            return DOUBT_LEVELS[0]
        return DOUBT_LEVELS[2] if self.absent else DOUBT_LEVELS[1]


DOUBT_LEVELS = ("invalid", "unsure", "absent")
"""The gravest first."""


@dataclass(frozen=True)
class WithheldKinds:
    """The gravest doubt that withholds each kind of figure; None if the kind is given."""

    step: Doubt | None = None
    estimate: Doubt | None = None
    per_step: Doubt | None = None
    busy: Doubt | None = None
    copies: Doubt | None = None
    overlap: Doubt | None = None
    causes: Doubt | None = None
    stalls: Doubt | None = None
    drain: Doubt | None = None

    def reason(self, kinds: Iterable[FigureKind]) -> Doubt | None:
        """Return why a figure that needs all of these kinds is withheld: the doubt about the first withheld kind."""
        reasons: list[Doubt | None] = [getattr(self, kind) for kind in kinds]
        return next(filter(None, reasons), None)


def withheld_kinds(doubts: Iterable[Doubt]) -> WithheldKinds:
    """Return which kinds of figures are withheld; the doubts come with the gravest first."""
    reasons: dict[FigureKind, Doubt] = {}
    for doubt in doubts:
        for figure in doubt.withholds:
            reasons.setdefault(figure, doubt)
    return WithheldKinds(**reasons)


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


class TrustFacts(NamedTuple):
    """A trace, with the measurements that checks need."""

    trace: Trace
    times: StepTimes
    step: StepEstimate
    syncs: Syncs
    irregular: tuple[IrregularStep, ...] = ()
    by_workers: bool = False
    """Whether workers of a DataLoader make the batches."""


Check: TypeAlias = Callable[[TrustFacts], Doubt | None]


def figure_kinds(*figures: FigureKind) -> frozenset[FigureKind]:
    """Return these kinds of figures as a set."""
    return frozenset(figures)


def only_if(condition: object, *figures: FigureKind) -> frozenset[FigureKind]:
    """Return the kinds of figures if the condition holds, otherwise none."""
    return frozenset(figures if condition else ())
