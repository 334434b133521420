"""Runs of the experiment trackers MLflow and Weights & Biases: how to find them, and to log a report to them.

Trackers are imported only if the program uses them.
"""

import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from pinprof.errors import PinprofError

FOLDER = "pinprof"
"""The folder of the files among a run's artifacts, and the prefix of all names: trackers group by the part before /."""
PAGE, DOCUMENT = "report.html", "report.json"
ARTIFACT = "pinprof-report"
"""The type of the artifact in W&B."""

MLFLOW, WANDB = "MLflow", "W&B"
RUN_ID = "MLFLOW_RUN_ID"
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
FEW_RETRIES = "2"
"""By default MLflow tries 7 times to reach a server, which takes 4 minutes if there is none."""


@dataclass(frozen=True)
class Logged:
    """What a run stores of a report. The numbers do not include withheld figures."""

    numbers: Mapping[str, float]
    words: Mapping[str, str]
    files: Mapping[str, str]
    """The contents by name."""


@dataclass(frozen=True)
class Destination:
    """A run of a tracker."""

    tracker: str
    run: str
    """Its id."""
    write: Callable[[Logged], None]
    see: str = ""
    """The address of the run, or the command that shows it."""

    def __str__(self) -> str:
        return f"{self.tracker} run {self.run}"

    def take(self, logged: Logged) -> None:
        """Write to the run. Raises PinprofError with the tracker's reason if that fails."""
        try:
            self.write(logged)
        except Exception as error:
            raise PinprofError(f"{self}: cannot be written to ({_reason(error)})") from error


def active_runs() -> list[Any]:
    """Return the active runs of MLflow and W&B, if the program uses them."""
    active = getattr(sys.modules.get("mlflow"), "active_run", lambda: None)
    runs = [active(), getattr(sys.modules.get("wandb"), "run", None)]
    return [run for run in runs if run is not None]


def destinations(runs: Iterable[Any]) -> list[Destination]:
    """Return where to log to, each run once: runs of MLflow and W&B, and loggers of Lightning that have such a run.

    Others, such as a TensorBoardLogger or a disabled run, are left out.
    """
    known = [destination for run in runs if (destination := _destination_of(run)) is not None]
    return list({(destination.tracker, destination.run): destination for destination in known}.values())


def _destination_of(run: Any) -> Destination | None:
    """Return the run of an object, recognized by the names of its classes so that no library is imported."""
    kinds = {kind.__name__ for kind in type(run).__mro__}
    maker = type(run).__module__.partition(".")[0]
    if "MLFlowLogger" in kinds:
        return _mlflow_run(run.run_id, run.experiment)
    if "WandbLogger" in kinds:
        return _wandb_run(run.experiment)
    if maker == "mlflow" and hasattr(run, "info"):
        return _mlflow_run(run.info.run_id)
    return _wandb_run(run) if maker == "wandb" else None


def _reason(error: Exception) -> str:
    """Return the message of a tracker's error, as one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _library(module: str, name: str, install: str) -> Any:
    """Return the library of a tracker. Raises PinprofError with the command that installs it if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] != module:  # installed, but one of its own imports is missing
            raise PinprofError(f"{name} cannot be imported ({_reason(error)})") from error
        raise PinprofError(f"{name} is not installed: {install}") from error


# MLflow: a report as metrics, tags and artifacts of a run


def mlflow() -> Any:
    """Return MLflow. Raises PinprofError if it is not installed."""
    return _library("mlflow", MLFLOW, "pip install mlflow, or mlflow-skinny, which is enough for a tracking server")


@contextmanager
def opened_in_mlflow(
    *,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    run_id: str | None = None,
    run_name: str | None = None,
) -> Iterator[Destination]:
    """Give the run to continue, `run_id`, or a new one, which ends with the block.

    None leaves the choice to MLflow and its environment variables. Raises PinprofError if MLflow fails.
    """
    library = mlflow()
    os.environ.setdefault(RETRIES, FEW_RETRIES)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    run_id = run_id or os.environ.get(RUN_ID)
    try:
        if tracking_uri:
            library.set_tracking_uri(tracking_uri)
        if run_id:
            run = library.MlflowClient().get_run(run_id)
        else:
            if experiment:
                library.set_experiment(experiment)
            run = library.start_run(run_name=run_name, log_system_metrics=False)
    except Exception as error:
        raise PinprofError(f"{MLFLOW}: {_reason(error)}") from error
    if run_id:
        yield _mlflow_run(run.info.run_id)
    else:
        with run:
            yield _mlflow_run(run.info.run_id)


def _mlflow_run(run_id: str, client: Any = None) -> Destination:
    """Return a run; `client` is an MlflowClient, by default one for the tracking URI of the program."""
    client = client or mlflow().MlflowClient()
    see = _server_of(mlflow().get_tracking_uri())
    return Destination(MLFLOW, run_id, lambda logged: _write_to_mlflow(client, run_id, logged), see)


def _server_of(uri: str) -> str:
    """Return the address of the server, or the command that serves a store."""
    if uri.startswith("http"):
        return uri
    return f"mlflow ui --backend-store-uri {shlex.quote(uri)}" if uri.startswith(("sqlite:", "file:")) else ""


def _write_to_mlflow(client: Any, run_id: str, logged: Logged) -> None:
    """Write through a client, by id: this works for a run that has ended, and does not change its status."""
    entities = mlflow().entities
    for name, text in logged.files.items():
        client.log_text(run_id, text, f"{FOLDER}/{name}")
    now = int(time.time() * 1000)
    metrics = [entities.Metric(name, value, now, 0) for name, value in logged.numbers.items()]
    tags = [entities.RunTag(name, text) for name, text in logged.words.items()]
    client.log_batch(run_id, metrics=metrics, tags=tags)


# Weights & Biases: a report in the summary of a run, and as an artifact


def wandb() -> Any:
    """Return W&B's library. Raises PinprofError if it is not installed."""
    return _library("wandb", WANDB, "pip install wandb")


@contextmanager
def opened_in_wandb(
    *,
    project: str | None = None,
    entity: str | None = None,
    offline: bool = False,
    run_id: str | None = None,
    run_name: str | None = None,
) -> Iterator[Destination]:
    """Give the run to continue, `run_id`, or a new one, which ends with the block.

    None leaves the choice to W&B and its environment variables. Raises PinprofError if W&B fails.
    """
    library = wandb()
    settings = library.Settings(silent=True, console="off", x_disable_stats=True, disable_job_creation=True)
    mode = {"mode": "offline"} if offline else {}
    continued = {"id": run_id} if run_id else {}
    if run_id and not offline:
        continued["resume"] = "must"
    try:
        run = library.init(project=project, entity=entity, name=run_name, settings=settings, **mode, **continued)
    except Exception as error:
        raise PinprofError(f"{WANDB}: {_reason(error)}") from error
    destination = _wandb_run(run)
    if destination is None:
        raise PinprofError(f"{WANDB} is disabled (WANDB_MODE=disabled); --offline logs without a network")
    with run:
        yield destination


def _wandb_run(run: Any) -> Destination | None:
    """Return a run as a destination; None if it is disabled."""
    if getattr(run, "disabled", False):
        return None
    see = f"wandb sync {shlex.quote(str(Path(run.dir).parent))}" if run.offline else run.url
    return Destination(WANDB, run.id, lambda logged: _write_to_wandb(run, logged), see or "")


def _write_to_wandb(run: Any, logged: Logged) -> None:
    """Write to the summary, since a row of the history would end the step that the program is logging."""
    library = wandb()
    panel = {}
    if PAGE in logged.files:
        panel = {f"{FOLDER}/page": library.Html(StringIO(logged.files[PAGE]), inject=False)}
    run.summary.update({**logged.numbers, **logged.words, **panel})
    artifact = library.Artifact(f"{FOLDER}-{run.id}", ARTIFACT)
    for name, text in logged.files.items():
        with artifact.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
    run.log_artifact(artifact)
