"""Runs of experiment trackers, MLflow and Weights & Biases: where they are found, and how a report gets into one."""

from pinprof.tracking.logged import Destination, Logged
from pinprof.tracking.runs import active_runs, destinations

__all__ = ["Destination", "Logged", "active_runs", "destinations"]
