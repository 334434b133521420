"""pinprof's own tracks as trace events, to be put into the trace that they are about, for ui.perfetto.dev."""

from pinprof.report.perfetto.compose import CATEGORY, events
from pinprof.report.perfetto.hidden import hidden_slices
from pinprof.report.perfetto.notes import notes

__all__ = ["CATEGORY", "events", "hidden_slices", "notes"]
