"""Why the step is as long as it is: what each cause costs it, and the one that costs most."""

from pinprof.verdict.costs import Cost, costs_of
from pinprof.verdict.limits import (
    AWAITED,
    BY_HOST,
    CAUSES,
    COMMUNICATION,
    COPY,
    GPU,
    HOST,
    IRREGULAR,
    LIMITS,
    CauseOfStep,
    Limit,
)
from pinprof.verdict.verdict import UNTOLD, Verdict, judge

__all__ = [
    "AWAITED",
    "BY_HOST",
    "CAUSES",
    "COMMUNICATION",
    "COPY",
    "GPU",
    "HOST",
    "IRREGULAR",
    "LIMITS",
    "UNTOLD",
    "CauseOfStep",
    "Cost",
    "Limit",
    "Verdict",
    "costs_of",
    "judge",
]
