"""Where in the drawn part of the timeline a finding can be seen."""

import numpy as np

from pinprof.analyses.syncs import Stalls
from pinprof.report.timeline.window import choose_window
from pinprof.rules import Finding
from pinprof.trace.tables import Trace
from pinprof.units import NS_PER_MS

AROUND = 1.0
"""Part of its length that is shown before and after it."""


def view_of(finding: Finding, trace: Trace, stalls: Stalls) -> tuple[float, float] | None:
    """Return the part of the timeline in which one of the finding's events lies, in ms from the timeline's start.

    Of the events that are drawn the one in the middle is taken; None where none is drawn, or known.
    """
    edits, window = finding.evidence.edits, choose_window(trace)
    waits = np.array(sorted(edits.unwaited | edits.unblocked), dtype=np.int64)
    copies = np.array(sorted(edits.pinned | edits.ahead), dtype=np.int64)
    ops = np.array(sorted(edits.removed_ops), dtype=np.int64)
    for table, rows in ((trace.calls, stalls.call[waits]), (trace.gpu, copies), (trace.ops, ops)):
        start, end = table.start_ns[rows], table.end_ns[rows]
        drawn = np.flatnonzero((start >= window.start_ns) & (end <= window.end_ns))
        if len(drawn):
            chosen = drawn[np.argsort(start[drawn], kind="stable")[len(drawn) // 2]]
            margin = AROUND * float(end[chosen] - start[chosen])
            first = max(float(start[chosen]) - margin, window.start_ns) - window.start_ns
            last = min(float(end[chosen]) + margin, window.end_ns) - window.start_ns
            return first / NS_PER_MS, last / NS_PER_MS
    return None
