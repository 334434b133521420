"""The ranks of a job: which traces belong to one job, what is kept of each, and their comparison."""

from pinprof.ranks.compare import SKEWED, compare_ranks
from pinprof.ranks.rank import (
    CollectiveRow,
    RankPart,
    RankRow,
    Ranks,
    SharedFinding,
    TimesPerStep,
    measure_rank,
    number_of,
    rank_of,
)

__all__ = [
    "SKEWED",
    "CollectiveRow",
    "RankPart",
    "RankRow",
    "Ranks",
    "SharedFinding",
    "TimesPerStep",
    "compare_ranks",
    "measure_rank",
    "number_of",
    "rank_of",
]
