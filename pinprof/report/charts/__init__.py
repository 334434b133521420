"""Charts of a page: pure functions from what was measured to small figures, each with what it shows in words."""

from pinprof.report.charts.chart import Chart, Key, shown
from pinprof.report.charts.copies import copies_chart
from pinprof.report.charts.ranks import ranks_chart
from pinprof.report.charts.steps import idle_chart, outliers, overlap_chart, steps_chart, syncs_chart

__all__ = [
    "Chart",
    "Key",
    "copies_chart",
    "idle_chart",
    "outliers",
    "overlap_chart",
    "ranks_chart",
    "shown",
    "steps_chart",
    "syncs_chart",
]
