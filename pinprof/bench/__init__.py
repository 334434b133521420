"""The experiments, each a module by the name of its subject, and what the figures of a machine say of their claims."""

from pinprof.bench.catalogue.bandwidth import BANDWIDTH
from pinprof.bench.catalogue.copy_overlap import COPY_OVERLAP
from pinprof.bench.catalogue.custom_batch import CUSTOM_BATCH
from pinprof.bench.catalogue.early_read import EARLY_READ
from pinprof.bench.catalogue.early_write import EARLY_WRITE
from pinprof.bench.catalogue.loader import TRAINING_ON_A_LOADER
from pinprof.bench.catalogue.pinned_in_object import PINNED_IN_OBJECT
from pinprof.bench.catalogue.pinned_limits import PINNED_LIMITS
from pinprof.bench.catalogue.pinning_cost import PINNING_COST
from pinprof.bench.catalogue.prefetching import PREFETCHING
from pinprof.bench.catalogue.processes import PROCESSES
from pinprof.bench.catalogue.six_strategies import SIX_STRATEGIES
from pinprof.bench.catalogue.small_tensors import SMALL_TENSORS
from pinprof.bench.catalogue.threaded_pinning import THREADED_PINNING
from pinprof.bench.catalogue.training_loop import TRAINING_LOOP
from pinprof.bench.experiment import Experiment
from pinprof.bench.judge import Claim, ClaimVerdict, Readings, judged
from pinprof.bench.results import Bench, Measured, amount, shown, spread
from pinprof.ground.errors import PinprofError
from pinprof.ground.units import size

EXPERIMENTS = (
    *(PINNING_COST, SMALL_TENSORS, SIX_STRATEGIES, COPY_OVERLAP, EARLY_READ, EARLY_WRITE, THREADED_PINNING),
    *(TRAINING_ON_A_LOADER, CUSTOM_BATCH, PREFETCHING, PROCESSES, PINNED_IN_OBJECT),
    *(BANDWIDTH, TRAINING_LOOP, PINNED_LIMITS),
)
MAX_FIGURES_PER_CLAIM = 8
"""A claim on more figures than these shows none with its verdict: they are in the experiment's own tables."""


class UnknownExperimentError(PinprofError, ValueError):
    """No experiment has this name or number."""


def experiment_of(name: str) -> Experiment:
    """Return the experiment of this name or number, in capitals or not. Raises UnknownExperimentError."""
    for candidate in EXPERIMENTS:
        if name.strip().lower() in (candidate.name, candidate.number.lower()):
            return candidate
    names = ", ".join(f"{candidate.number} {candidate.name}" for candidate in EXPERIMENTS)
    raise UnknownExperimentError(f"no experiment is named {name!r}; there are {names}")


def verdicts(bench: Bench) -> list[ClaimVerdict]:
    """Return a verdict on each claim: `unknown` where its figures were not measured or say nothing."""
    return [_verdict(bench, experiment, claim) for experiment in EXPERIMENTS for claim in experiment.claims]


def _verdict(bench: Bench, experiment: Experiment, claim: Claim) -> ClaimVerdict:
    read, result = Readings(bench), bench.result(experiment.number)
    outcome, text = judged(claim.holds, read)
    if outcome == "unknown":
        problem = f" ({result.problem})" if result and result.problem else ""
        text = f"{text}{problem}" if result else "the experiment did not run"
    published = experiment.published_at(result.sizes) if result else {}
    shows = [
        f"{cited.name}: {amount(cited.unit, published[cited.name, cited.size])}"
        for cited in read.cited
        if (cited.name, cited.size) in published
    ]
    return ClaimVerdict(
        experiment.number,
        claim.text,
        outcome,
        text,
        tuple(claim.sources.split("; ")),
        "; ".join(filter(None, (*shows, claim.shows))),
        "; ".join(map(_with_spread, read.cited)) if len(read.cited) <= MAX_FIGURES_PER_CLAIM else "",
        claim.differs if outcome in {"refuted", "depends"} else "",
    )


def _with_spread(measured: Measured) -> str:
    at = f" at {size(measured.size)}" if measured.size is not None else ""
    return f"{measured.name}{at}: {shown(measured)}" + (f" ({spread(measured)})" if spread(measured) else "")
