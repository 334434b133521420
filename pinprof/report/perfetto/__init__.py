"""pinprof's own tracks as trace events, to be put into the trace that they are about, for ui.perfetto.dev."""

from pinprof.report.perfetto.compose import events, notes
from pinprof.report.perfetto.tracks import CATEGORY

__all__ = ["CATEGORY", "events", "notes"]
