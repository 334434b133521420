"""pinprof's own tracks as trace events, to be put into the trace that they are about, for ui.perfetto.dev."""

from pinprof.report.perfetto.compose import CATEGORY, events, hidden_slices, notes

__all__ = ["CATEGORY", "events", "hidden_slices", "notes"]
