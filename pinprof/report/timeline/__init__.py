"""The interactive timeline: some steps of a trace, host threads and GPU streams on one time axis."""

from pinprof.report.timeline.detail import MAX_EVENTS
from pinprof.report.timeline.drawing import arrange
from pinprof.report.timeline.fragment import Shared, Zero, beside, fragment
from pinprof.report.timeline.instances import zoom_attribute
from pinprof.report.timeline.lane import Drawing, Lane

__all__ = ["MAX_EVENTS", "Drawing", "Lane", "Shared", "Zero", "arrange", "beside", "fragment", "zoom_attribute"]
