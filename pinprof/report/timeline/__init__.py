"""The interactive timeline: some steps of a trace, host threads and GPU streams on one time axis."""

from pinprof.report.timeline.fragment import SharedTimeline, Zero, fragment, framed
from pinprof.report.timeline.lane import Drawing, Lane
from pinprof.report.timeline.page_lanes import MAX_EVENTS
from pinprof.report.timeline.plotly_lanes import lanes_that_fit
from pinprof.report.timeline.worst_instance import zoom_attribute

__all__ = [
    "MAX_EVENTS",
    "Drawing",
    "Lane",
    "SharedTimeline",
    "Zero",
    "fragment",
    "framed",
    "lanes_that_fit",
    "zoom_attribute",
]
