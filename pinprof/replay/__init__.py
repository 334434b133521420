"""The recorded program, run again without the profiler."""

from pinprof.replay.replay import Replay
from pinprof.replay.settings import StepEstimate

__all__ = ["Replay", "StepEstimate"]
