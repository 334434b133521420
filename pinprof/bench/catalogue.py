"""All seed experiments, in order: what each does, what its text claims, and what was published of it."""

from pinprof.bench.article import ARTICLES
from pinprof.bench.experiment import Experiment
from pinprof.bench.processes import OF_PROCESSES
from pinprof.bench.question import QUESTIONS
from pinprof.bench.tutorial import TUTORIALS
from pinprof.errors import PinprofError


class UnknownExperimentError(PinprofError, ValueError):
    """No experiment has this name or number."""


EXPERIMENTS = (
    *TUTORIALS,
    ARTICLES["E8"],
    ARTICLES["E9"],
    *QUESTIONS,
    OF_PROCESSES["E11"],
    OF_PROCESSES["E12"],
    OF_PROCESSES["E13"],
    ARTICLES["E14"],
    OF_PROCESSES["E15"],
)


def experiment(name: str) -> Experiment:
    """Return the experiment of this name or number, in capitals or not. Raises UnknownExperimentError."""
    for known in EXPERIMENTS:
        if name.strip().lower() in (known.name, known.number.lower()):
            return known
    names = ", ".join(f"{known.number} {known.name}" for known in EXPERIMENTS)
    raise UnknownExperimentError(f"no experiment is named {name!r}; there are {names}")
