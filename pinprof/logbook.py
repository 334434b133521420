"""`pinprof.log`: a report into the runs of MLflow and Weights & Biases that a program has open."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from pinprof.errors import PinprofError
from pinprof.notebook import JobReport, Report, analyze
from pinprof.report.scalars import to_logged
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.verdict import verdict_sentence
from pinprof.tracking import Logged, active_runs, destinations


def log(report: Report | JobReport | str | os.PathLike[str], *, to: Iterable[Any] | None = None) -> tuple[str, ...]:
    """Log a report, or the report on a trace, to the active runs of MLflow and W&B; return their names.

        with mlflow.start_run():
            pinprof.log("trace.json.gz")

    `to` names other runs: those of `mlflow.start_run()` and `wandb.init()`, and loggers of Lightning. A run gets the
    figures, named as in the JSON, and report.html and report.json as files (of a job without the page). It gets no
    figure that is withheld: `pinprof/withheld` says why.

    Raises PinprofError if no run is open, or if one cannot be written to; the others are written all the same.
    """
    runs = destinations(active_runs() if to is None else to)
    if not runs:
        raise PinprofError("no run is open to log to; call mlflow.start_run() or wandb.init() before")
    logged = _logged(report)
    with ExitStack() as stack:  # an error is raised when all runs have had their turn
        for run in runs:
            stack.callback(run.take, logged)
    return tuple(map(str, runs))


def verdict_of(path: str | os.PathLike[str]) -> str:
    """Return how long a step of a trace takes, and why."""
    analysis = analyze(path).analysis
    return verdict_sentence(analysis.profile, analysis.findings.verdict)


def _logged(report: Report | JobReport | str | os.PathLike[str]) -> Logged:
    if isinstance(report, JobReport):
        parts = [(part.profile, part.findings) for part in report.parts]
        return to_logged(traces_to_json(parts, report.ranks), None)
    whole = report if isinstance(report, Report) else analyze(report)
    return to_logged(traces_to_json([(whole.profile, whole.analysis.findings)]), to_html([whole.analysis]))
