"""What is not to be seen in an exported trace, in sentences."""

import numpy as np

from pinprof.analysis import Analysis
from pinprof.measurement.trust.doubt import BUSY, CAUSES, COPIES, DRAIN, FIGURES, OVERLAP, STALLS
from pinprof.report.perfetto.gpu import SHORT_GAP_NS
from pinprof.report.perfetto.hidden import hidden_slices
from pinprof.units import counted, duration


def notes(analysis: Analysis) -> list[str]:
    """Return what is left out, and why: by pinprof, and by Perfetto of the trace itself."""
    trace, why = analysis.trace, analysis.profile.withheld
    withheld = (
        (STALLS, why.stalls),
        (DRAIN, why.drain),
        (BUSY, why.busy),
        (CAUSES, why.causes),
        (OVERLAP, why.overlap),
        (COPIES, why.copies),
    )
    found = [f"not shown: {FIGURES[figure]} ({reason.what})" for figure, reason in withheld if reason]
    lasts = np.concatenate(
        [gaps.times.end - gaps.times.start for gaps in analysis.details.gaps] or [np.empty(0, np.int64)]
    )
    short = lasts[lasts < SHORT_GAP_NS]
    if len(short) and not analysis.profile.withheld.busy:
        gaps = counted(len(short), "idle gap")
        found.append(f"not drawn: {gaps} shorter than {duration(SHORT_GAP_NS)}, {duration(int(short.sum()))} in all")
    hidden = hidden_slices(trace)
    if hidden:
        what = counted(hidden, "slice of the trace itself", "slices of the trace itself")
        found.append(f"Perfetto leaves out {what}: they begin inside another slice of their track and end after it")
    broken = trace.repaired + trace.skipped.get("malformed", 0)
    if broken:
        are = counted(broken, "event of the trace is", "events of the trace are")
        found.append(f"{are} not valid JSON; the export keeps them, and Perfetto may stop there")
    return found
