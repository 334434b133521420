"""Predicts the step after a change of the code, by replay."""

from pinprof.prediction.edits import Edits
from pinprof.prediction.pinning import PinnedRates
from pinprof.prediction.predict import Prediction, predict, predict_edits, predict_scenario, replay_of
from pinprof.prediction.scenarios import Scenario

__all__ = [
    "Edits",
    "PinnedRates",
    "Prediction",
    "Scenario",
    "predict",
    "predict_edits",
    "predict_scenario",
    "replay_of",
]
