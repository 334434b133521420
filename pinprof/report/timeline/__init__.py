"""The interactive timeline: some steps of a trace, host threads and GPU streams on one time axis."""

from pinprof.report.timeline.fragment import TimelineGroup, Zero, beside, fragment
from pinprof.report.timeline.lane import Drawing, Lane
from pinprof.report.timeline.page_lanes import MAX_EVENTS
from pinprof.report.timeline.plotly_lanes import arrange
from pinprof.report.timeline.worst_instance import zoom_attribute

__all__ = ["MAX_EVENTS", "Drawing", "Lane", "TimelineGroup", "Zero", "arrange", "beside", "fragment", "zoom_attribute"]
