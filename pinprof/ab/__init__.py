"""Measures two versions of a program against each other, and finds the revision that made one slower."""

from pinprof.ab.duel import Bounds, Duel, Progress
from pinprof.ab.program import Program
from pinprof.ab.recorded import Recorded, record
from pinprof.ab.verdict import CANNOT_TELL, FASTER, NO_DIFFERENCE, SLOWER, Judgement
from pinprof.ab.versions import Contest, Turns, Wishes, contest

__all__ = [
    "CANNOT_TELL",
    "FASTER",
    "NO_DIFFERENCE",
    "SLOWER",
    "Bounds",
    "Contest",
    "Duel",
    "Judgement",
    "Program",
    "Progress",
    "Recorded",
    "Turns",
    "Wishes",
    "contest",
    "record",
]
