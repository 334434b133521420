"""The interactive timeline: some steps of a trace, host threads and GPU streams on one time axis."""

from pinprof.report.timeline.draw import figure
from pinprof.report.timeline.fragment import fragment
from pinprof.report.timeline.lanes import Lane
from pinprof.report.timeline.thin import MAX_RECTANGLES, Drawing, arrange

__all__ = ["MAX_RECTANGLES", "Drawing", "Lane", "arrange", "figure", "fragment"]
