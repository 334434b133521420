"""Ops that launch nothing, though all others of their names do: the profiler has lost launches and kernels."""

import numpy as np

from pinprof.measurement.trust.doubt import MATTERS, STEP, Doubt, Seen, only_if
from pinprof.measurement.trust.launches import launching
from pinprof.measurement.trust.losses import AT_END, OF_COPIES, RECORD_AGAIN, at_start
from pinprof.trace.links import step_at
from pinprof.trace.tables import KERNEL, NONE, Int64s, Trace
from pinprof.units import counted, listed, percent, shortened

OFTEN = 3
"""Ops of a name that have to launch kernels elsewhere: of fewer it may be chance that others do not."""
SEVERAL = 2
"""Names of ops that launch nothing between two launches. An op computes on tensors of the host at times, but not
several in a row that otherwise launch: no whole recording has two, of 200 of this project and of others."""
MOST_NAMED = 3
"""Names of ops that a sentence holds."""
LONGEST_NAME = 40
"""Characters of the name of an op that are kept."""


def lost_calls(seen: Seen) -> Doubt | None:
    """Report ops in a row that seem to have lost launches and kernels: elsewhere, those of their names launch."""
    trace = seen.trace
    launched = _launched(trace)
    if not len(launched):
        return None
    silent = _silent(trace, launched)
    share = len(silent) / (len(silent) + len(launched))
    return _doubt(trace, silent, np.sort(trace.calls.start_ns[launched]), share) if share >= MATTERS else None


def _doubt(trace: Trace, silent: Int64s, launches_ns: Int64s, share: float) -> Doubt:
    ops = trace.ops
    names, count = np.unique(ops.name[silent], return_counts=True)
    named = [shortened(ops.names[names[at]], LONGEST_NAME) for at in np.argsort(-count, kind="stable")]
    where, remedy = "", RECORD_AGAIN
    if ops.start_ns[silent].max() < launches_ns[0]:
        where, remedy = " at the start of the recording", at_start(trace)
    elif ops.start_ns[silent].min() > launches_ns[-1]:
        where, remedy = " at the end of the recording", AT_END
    inside = trace.steps.holds(step_at(trace.steps, ops.start_ns[silent])).any()
    return Doubt(
        f"neither launch nor GPU work of {counted(len(silent), 'op')}{where} ({percent(share)}; "
        f"{listed(named, MOST_NAMED)})",
        "the GPU worked where it seems idle",
        remedy,
        frozenset(OF_COPIES) | only_if(inside, STEP),
    )


def _launched(trace: Trace) -> Int64s:
    """Return the calls within ops that launched kernels."""
    launch = trace.links.launch
    calls = np.unique(launch[(trace.gpu.category == KERNEL) & (launch != NONE)]).astype(np.int64)
    return calls[trace.links.op[calls] != NONE]


def _silent(trace: Trace, launched: Int64s) -> Int64s:
    """Return the ops that launch nothing, several in a row between two launches, while all others of their names do."""
    ops, size = trace.ops, len(trace.ops.names)
    has = np.zeros(len(ops), bool)
    has[trace.links.op[launched]] = True
    calling = np.zeros(len(ops), bool)  # with GPU work in the trace or without
    op = trace.links.op[launching(trace.calls)]
    calling[op[op != NONE]] = True
    there, launch = (np.bincount(ops.name[rows], minlength=size) for rows in (slice(None), has))
    usually = (launch >= OFTEN) & (2 * launch > there)
    silent = np.flatnonzero(usually[ops.name] & ~calling)
    between = np.searchsorted(np.sort(trace.calls.start_ns[launched]), ops.start_ns[silent])
    pairs = np.unique(between * size + ops.name[silent])
    names_there = np.bincount(pairs // size, minlength=len(launched) + 1)
    in_a_row = names_there[between] >= SEVERAL
    alone = np.zeros(size, bool)
    alone[ops.name[silent[~in_a_row]]] = True
    return silent[in_a_row & ~alone[ops.name[silent]]]
