"""Why the step is as long as it is: what each cause costs it, and the one that costs most."""

from pinprof.verdict.costs import CAUSES, COMMUNICATION, COPY, GPU, IRREGULAR, CauseOfStep, Cost, costs_of
from pinprof.verdict.verdict import UNTOLD, Verdict, judge

__all__ = [
    "CAUSES",
    "COMMUNICATION",
    "COPY",
    "GPU",
    "IRREGULAR",
    "UNTOLD",
    "CauseOfStep",
    "Cost",
    "Verdict",
    "costs_of",
    "judge",
]
