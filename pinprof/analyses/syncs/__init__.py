"""Where the host waited for the GPU, why, and at what cost."""

from pinprof.analyses.syncs.causes import (
    ALLOCATIONS,
    BLOCKING_COPIES,
    CAUSES,
    OF_COPIES_TO_GPU,
    SYNCHRONIZES,
    WAITS,
    Cause,
    label_of,
)
from pinprof.analyses.syncs.naming import in_library
from pinprof.analyses.syncs.removal import VERDICTS
from pinprof.analyses.syncs.site_matches import GONE, Match, SiteCount, match_sites
from pinprof.analyses.syncs.sites import BareSite, Site, SiteIdentity, Stalled, Syncs, WaitCost, by_line, measure_syncs
from pinprof.analyses.syncs.stalls import Stalls, measure_stalls

__all__ = [
    "ALLOCATIONS",
    "BLOCKING_COPIES",
    "CAUSES",
    "GONE",
    "OF_COPIES_TO_GPU",
    "SYNCHRONIZES",
    "VERDICTS",
    "WAITS",
    "BareSite",
    "Cause",
    "Match",
    "Site",
    "SiteCount",
    "SiteIdentity",
    "Stalled",
    "Stalls",
    "Syncs",
    "WaitCost",
    "by_line",
    "in_library",
    "label_of",
    "match_sites",
    "measure_stalls",
    "measure_syncs",
]
