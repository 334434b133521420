"""What the figures of a machine say of each claim of the texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinprof.bench.catalogue import EXPERIMENTS
from pinprof.bench.experiment import Claim, Experiment
from pinprof.bench.judging import Measured, Outcome, judged
from pinprof.bench.order import amount, shown, spread
from pinprof.bench.results import Bench, Figure
from pinprof.units import size

MOST_SHOWN = 8
"""A claim on more figures than these shows none beside its verdict: they stand in the experiment's own tables."""


@dataclass(frozen=True)
class Verdict:
    """What the figures of a machine say of a claim."""

    number: str
    """The experiment, `E1` to `E15`."""
    claim: str
    outcome: Outcome
    text: str
    """Why, with the figures."""
    sources: tuple[str, ...]
    """Who claims it, see `experiment.SOURCES`."""
    published: str
    """What the text gives for it, figures first; empty if nothing."""
    measured: str
    """The figures that decide, each with its spread; empty if none was measured."""
    differs: str
    """What the outcome turns on, where it is not what the text says."""


def verdicts(bench: Bench) -> list[Verdict]:
    """Return a verdict on each claim of the experiments, `unknown` where its figures were not measured."""
    return [_verdict(bench, known, claim) for known in EXPERIMENTS for claim in known.claims]


def _verdict(bench: Bench, known: Experiment, claim: Claim) -> Verdict:
    measured = Measured(bench, known.number)
    outcome, text = judged(measured, claim.judge)
    return Verdict(
        known.number,
        claim.text,
        outcome,
        text,
        claim.sources,
        "; ".join((*_published(known, measured.asked), *filter(None, (claim.said,)))),
        "; ".join(map(_with_spread, measured.asked)) if len(measured.asked) <= MOST_SHOWN else "",
        claim.differs if outcome in {"refuted", "depends"} else "",
    )


def _published(known: Experiment, asked: Sequence[Figure]) -> Iterator[str]:
    units = {(figure.name, figure.size): figure.unit for figure in asked}
    for each in known.published:
        unit = units.get((each.figure, each.size))
        if unit is not None:
            yield f"{each.figure}: {amount(unit, each.value)}"


def _with_spread(figure: Figure) -> str:
    at = f" at {size(figure.size)}" if figure.size is not None else ""
    between = f" ({spread(figure)})" if spread(figure) else ""
    return f"{figure.name}{at}: {shown(figure)}{between}"
