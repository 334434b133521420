"""The recorded program, run again without the profiler."""

from pinprof.replay.replay import Replay
from pinprof.replay.step_estimate import StepEstimate

__all__ = ["Replay", "StepEstimate"]
