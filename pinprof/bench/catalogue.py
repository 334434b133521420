"""All seed experiments, in order, and what the figures of a machine say of each claim of their texts."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from pinprof.bench.article import LOOPS
from pinprof.bench.experiment import Claim, Experiment
from pinprof.bench.figures import amount, shown, spread
from pinprof.bench.judging import ClaimOutcome, Measured, judged
from pinprof.bench.pinned_memory import PINNED_MEMORY
from pinprof.bench.processes import OF_PROCESSES
from pinprof.bench.results import Bench, Figure
from pinprof.bench.tutorial import TUTORIALS
from pinprof.document import Words, doc
from pinprof.errors import PinprofError
from pinprof.units import size


class UnknownExperimentError(PinprofError, ValueError):
    """No experiment has this name or number."""


EXPERIMENTS = (
    *TUTORIALS,
    LOOPS["E8"],
    LOOPS["E9"],
    LOOPS["E10"],
    OF_PROCESSES["E11"],
    OF_PROCESSES["E12"],
    OF_PROCESSES["E13"],
    LOOPS["E14"],
    PINNED_MEMORY,
)


def experiment_of(name: str) -> Experiment:
    """Return the experiment of this name or number, in capitals or not. Raises UnknownExperimentError."""
    for candidate in EXPERIMENTS:
        if name.strip().lower() in (candidate.name, candidate.number.lower()):
            return candidate
    names = ", ".join(f"{candidate.number} {candidate.name}" for candidate in EXPERIMENTS)
    raise UnknownExperimentError(f"no experiment is named {name!r}; there are {names}")


MOST_SHOWN = 8
"""A claim on more figures than these shows none with its verdict: they are in the experiment's own tables."""


class ClaimVerdict(Struct, frozen=True):
    """What the figures of a machine say of a claim."""

    number: Annotated[str, doc("the experiment, `E1` to `E15`")]
    claim: Annotated[Words, doc("what a text says")]
    outcome: Annotated[ClaimOutcome, doc("whether it holds here; `unjudged`: no figure of one machine decides")]
    text: Annotated[Words, doc("why, with figures")]
    sources: Annotated[tuple[str, ...], doc("who says it, as in `experiment.SOURCES`")]
    published: Annotated[Words, doc("what was published, figures first; empty where nothing was")]
    measured: Annotated[Words, doc("the figures that decide, with their spreads; empty where none was measured")]
    differs: Annotated[Words, doc("what the outcome turns on; empty where it is confirmed")]


def verdicts(bench: Bench) -> list[ClaimVerdict]:
    """Return a verdict on each claim: `unknown` where its figures were not measured or say nothing."""
    return [_verdict(bench, experiment, claim) for experiment in EXPERIMENTS for claim in experiment.claims]


def _verdict(bench: Bench, experiment: Experiment, claim: Claim) -> ClaimVerdict:
    measured = Measured(bench, experiment.number)
    outcome, text = judged(measured, claim.judge)
    return ClaimVerdict(
        experiment.number,
        claim.text,
        outcome,
        text,
        claim.sources,
        _published(bench, experiment, claim, measured.asked),
        "; ".join(map(_with_spread, measured.asked)) if len(measured.asked) <= MOST_SHOWN else "",
        claim.differs if outcome in {"refuted", "depends"} else "",
    )


def _published(bench: Bench, experiment: Experiment, claim: Claim, asked: Sequence[Figure]) -> str:
    units = {(figure.name, figure.size): figure.unit for figure in asked}
    figures = [
        f"{published.figure}: {amount(units[published.figure, published.size], published.value)}"
        for published in experiment.published
        if (published.figure, published.size) in units
    ]
    text = "; ".join((*figures, *filter(None, (claim.shows,))))
    result = bench.result(experiment.number)
    others = experiment.texts_sizes(result.sizes) if result and text else {}
    of_sizes = ", ".join(f"{name} {value:,}" for name, value in others.items())
    return f"{text} (for {of_sizes})" if of_sizes else text


def _with_spread(figure: Figure) -> str:
    at = f" at {size(figure.size)}" if figure.size is not None else ""
    between = f" ({spread(figure)})" if spread(figure) else ""
    return f"{figure.name}{at}: {shown(figure)}{between}"
