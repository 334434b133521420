"""Why the step is as long as it is: what each limit costs it, and the one that costs most."""

from pinprof.verdict.step_limits import (
    AWAITED,
    BY_HOST,
    CAUSES,
    COMMUNICATION,
    COPY,
    GPU,
    HOST,
    INPUT,
    IRREGULAR,
    LIMITS,
    Limit,
    LimitCost,
    LimitName,
)
from pinprof.verdict.verdict import UNKNOWN_CAUSE, Verdict, judge

__all__ = [
    "AWAITED",
    "BY_HOST",
    "CAUSES",
    "COMMUNICATION",
    "COPY",
    "GPU",
    "HOST",
    "INPUT",
    "IRREGULAR",
    "LIMITS",
    "UNKNOWN_CAUSE",
    "Limit",
    "LimitCost",
    "LimitName",
    "Verdict",
    "judge",
]
