"""What is not to be seen in an exported trace, in sentences."""

from collections.abc import Sequence

import numpy as np

from pinprof.analyses.idle import IdleGaps
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURES
from pinprof.report.perfetto.gpu import SHORT_GAP_NS
from pinprof.report.perfetto.hidden import hidden_slices
from pinprof.trace.tables import Trace
from pinprof.units import counted, duration

WITHOUT = ("stalls", "drain", "busy", "causes", "overlap", "copies")
"""The figures that tracks and counters are made of."""


def notes(trace: Trace, profile: Profile, idle: Sequence[IdleGaps]) -> list[str]:
    """Return what is left out, and why: by pinprof, and by Perfetto of the trace itself."""
    found = [
        f"not shown: {FIGURES[figure]} ({profile.withheld[figure].what})"
        for figure in WITHOUT
        if figure in profile.withheld
    ]
    lasts = np.concatenate([gaps.times.end - gaps.times.start for gaps in idle] or [np.empty(0, np.int64)])
    short = lasts[lasts < SHORT_GAP_NS]
    if len(short) and "busy" not in profile.withheld:
        gaps = counted(len(short), "idle gap")
        found.append(f"not drawn: {gaps} shorter than {duration(SHORT_GAP_NS)}, {duration(int(short.sum()))} in all")
    hidden = hidden_slices(trace)
    if hidden:
        what = counted(hidden, "slice of the trace itself", "slices of the trace itself")
        found.append(f"Perfetto leaves out {what}: they begin in another one of their track and end behind it")
    broken = trace.repaired + trace.skipped.get("malformed", 0)
    if broken:
        are = counted(broken, "event of the trace is", "events of the trace are")
        found.append(f"{are} no JSON, and in the export as they were; Perfetto may stop there")
    return found
