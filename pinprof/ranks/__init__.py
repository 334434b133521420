"""The ranks of a job: which traces belong to one job, what is kept of each, and their comparison."""

from pinprof.ranks.compare import SKEWED, compare_ranks
from pinprof.ranks.part import RankPart, TimesPerStep, measure_rank, number_of, rank_of
from pinprof.ranks.table import CollectiveRow, RankRow, Ranks, SharedFinding

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
