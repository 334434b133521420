"""What the step is without the profiler, and what a change of the code would make of it, by replay."""

from pinprof.replay.step import StepEstimate
from pinprof.whatif.edits import Edits
from pinprof.whatif.predict import Model, Prediction, Recorded, model_of, predict, predict_edits
from pinprof.whatif.rates import PinnedRates
from pinprof.whatif.scenarios import Scenario

__all__ = [
    "Edits",
    "Model",
    "PinnedRates",
    "Prediction",
    "Recorded",
    "Scenario",
    "StepEstimate",
    "model_of",
    "predict",
    "predict_edits",
]
