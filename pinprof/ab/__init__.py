"""Measures two versions of a program against each other, and finds the revision that made one slower."""

from pinprof.ab.measure import Measurement, Wishes, measure_versions
from pinprof.ab.recording import RecordedChanges, record
from pinprof.ab.sequential_test import Bounds, PairsProgress, SequentialTest
from pinprof.ab.statistics import CANNOT_TELL, FASTER, NO_DIFFERENCE, SLOWER, Judgement
from pinprof.ab.worker import ProgramVersion

__all__ = [
    "CANNOT_TELL",
    "FASTER",
    "NO_DIFFERENCE",
    "SLOWER",
    "Bounds",
    "Judgement",
    "Measurement",
    "PairsProgress",
    "ProgramVersion",
    "RecordedChanges",
    "SequentialTest",
    "Wishes",
    "measure_versions",
    "record",
]
