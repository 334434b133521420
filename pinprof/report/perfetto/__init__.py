"""pinprof's own tracks as trace events, which an export adds to a trace for ui.perfetto.dev."""

from pinprof.report.perfetto.compose import events, notes
from pinprof.report.perfetto.tracks import CATEGORY

__all__ = ["CATEGORY", "events", "notes"]
