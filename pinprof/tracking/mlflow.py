"""MLflow: a report as metrics, tags and artifacts of a run."""

import logging
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pinprof.errors import PinprofError
from pinprof.tracking.logged import FOLDER, Destination, Logged, library, reason

NAME = "MLflow"
INSTALL = "pip install mlflow, or mlflow-skinny, which is enough for a tracking server"
RUN_ID = "MLFLOW_RUN_ID"
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
FEW_RETRIES = "2"
"""By default MLflow tries 7 times to reach a server, which takes 4 minutes if there is none."""


@dataclass(frozen=True)
class MlflowOptions:
    """Where to log to; None leaves the choice to MLflow and its environment variables."""

    tracking_uri: str | None = None
    experiment: str | None = None
    run_id: str | None = None
    """A run to continue, instead of a new one."""
    run_name: str | None = None


def mlflow() -> Any:
    """Return MLflow. Raises PinprofError if it is not installed."""
    return library("mlflow", NAME, INSTALL)


def run_of(run_id: str, client: Any = None) -> Destination:
    """Return a run; `client` is an MlflowClient, by default one for the tracking URI of the program."""
    client = client or mlflow().MlflowClient()
    return Destination(NAME, run_id, lambda logged: _write(client, run_id, logged), _see(mlflow().get_tracking_uri()))


def _see(uri: str) -> str:
    """Return the address of the server, or the command that serves a store."""
    if uri.startswith("http"):
        return uri
    return f"mlflow ui --backend-store-uri {shlex.quote(uri)}" if uri.startswith(("sqlite:", "file:")) else ""


def _write(client: Any, run_id: str, logged: Logged) -> None:
    """Write through a client, by id: this works for a run that has ended, and does not change its status."""
    entities = mlflow().entities
    for name, text in logged.files.items():
        client.log_text(run_id, text, f"{FOLDER}/{name}")
    now = int(time.time() * 1000)
    metrics = [entities.Metric(name, value, now, 0) for name, value in logged.numbers.items()]
    tags = [entities.RunTag(name, text) for name, text in logged.words.items()]
    client.log_batch(run_id, metrics=metrics, tags=tags)


@contextmanager
def opened(options: MlflowOptions) -> Iterator[Destination]:
    """Give the run to continue, or a new one, which ends with the block. Raises PinprofError if MLflow fails."""
    library = mlflow()
    os.environ.setdefault(RETRIES, FEW_RETRIES)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    run_id = options.run_id or os.environ.get(RUN_ID)
    try:
        if options.tracking_uri:
            library.set_tracking_uri(options.tracking_uri)
        run = library.MlflowClient().get_run(run_id) if run_id else _started(library, options)
    except Exception as error:
        raise PinprofError(f"{NAME}: {reason(error)}") from error
    if run_id:
        yield run_of(run.info.run_id)
    else:
        with run:
            yield run_of(run.info.run_id)


def _started(library: Any, options: MlflowOptions) -> Any:
    if options.experiment:
        library.set_experiment(options.experiment)
    return library.start_run(run_name=options.run_name, log_system_metrics=False)
