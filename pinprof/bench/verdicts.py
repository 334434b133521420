"""What the figures of a machine say of each claim of the texts."""

from collections.abc import Sequence
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
    """Return a verdict on each claim: `unknown` where its figures were not measured or say nothing."""
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
        _published(bench, known, claim, measured.asked),
        "; ".join(map(_with_spread, measured.asked)) if len(measured.asked) <= MOST_SHOWN else "",
        claim.differs if outcome in {"refuted", "depends"} else "",
    )


def _published(bench: Bench, known: Experiment, claim: Claim, asked: Sequence[Figure]) -> str:
    units = {(figure.name, figure.size): figure.unit for figure in asked}
    figures = [
        f"{each.figure}: {amount(units[each.figure, each.size], each.value)}"
        for each in known.published
        if (each.figure, each.size) in units
    ]
    text = "; ".join((*figures, *filter(None, (claim.said,))))
    result = bench.result(known.number)
    others = known.texts_sizes(result.sizes) if result and text else {}
    of_sizes = ", ".join(f"{name} {value:,}" for name, value in others.items())
    return f"{text} (for {of_sizes})" if of_sizes else text


def _with_spread(figure: Figure) -> str:
    at = f" at {size(figure.size)}" if figure.size is not None else ""
    between = f" ({spread(figure)})" if spread(figure) else ""
    return f"{figure.name}{at}: {shown(figure)}{between}"
