"""Where the host waited for the GPU, why, and at what cost."""

from pinprof.analyses.syncs.causes import CAUSES
from pinprof.analyses.syncs.sites import Site, Syncs, measure_syncs
from pinprof.analyses.syncs.stalls import Stalls

__all__ = ["CAUSES", "Site", "Stalls", "Syncs", "measure_syncs"]
