"""All seed experiments, in order: what each does, what its text claims, and what was published of it."""

from pinprof.bench.article import LOOPS
from pinprof.bench.experiment import Experiment
from pinprof.bench.limits import LIMITS
from pinprof.bench.processes import OF_PROCESSES
from pinprof.bench.tutorial import TUTORIALS
from pinprof.errors import PinprofError


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
    LIMITS,
)


def experiment(name: str) -> Experiment:
    """Return the experiment of this name or number, in capitals or not. Raises UnknownExperimentError."""
    for known in EXPERIMENTS:
        if name.strip().lower() in (known.name, known.number.lower()):
            return known
    names = ", ".join(f"{known.number} {known.name}" for known in EXPERIMENTS)
    raise UnknownExperimentError(f"no experiment is named {name!r}; there are {names}")
