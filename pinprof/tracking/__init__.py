"""Runs of the experiment trackers MLflow and Weights & Biases: how to find them, and to log a report to them.

Trackers are imported only if the program uses them.
"""

import sys
from collections.abc import Iterable
from typing import Any

from pinprof.tracking import mlflow, wandb
from pinprof.tracking.logged import Destination, Logged

__all__ = ["Destination", "Logged", "active_runs", "destinations"]


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
        return mlflow.run_of(run.run_id, run.experiment)
    if "WandbLogger" in kinds:
        return wandb.run_of(run.experiment)
    if maker == "mlflow" and hasattr(run, "info"):
        return mlflow.run_of(run.info.run_id)
    return wandb.run_of(run) if maker == "wandb" else None
