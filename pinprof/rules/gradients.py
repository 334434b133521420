"""Collectives that add up the gradients of all ranks."""

import re
from typing import NamedTuple

import numpy as np

from pinprof.trace.collectives import MESSAGE, is_collective_kernel
from pinprof.trace.phases import FORWARD, phase_of_calls
from pinprof.trace.tables import NONE, Int64s, Trace

REDUCING = re.compile(r"(?i)all_?reduce|reduce_?scatter")
"""What names a collective that adds up, or the kernel of one."""


class Reductions(NamedTuple):
    """Collectives of complete steps that may add up gradients, in order of launch."""

    rows: Int64s
    """In `Trace.gpu`."""
    phase: Int64s
    """That of the work that was launched before each: an index into `PHASES`."""
    forward: Int64s
    """How much work of forward passes was launched before each: it tells their backward passes apart."""


def reductions_of(trace: Trace, least_elements: int = 0) -> Reductions:
    """Return the collectives that may add up gradients, by their names, and by their sizes as far as these are known.

    Those of a process group that also adds up in forward passes are left out: it is one of tensor-parallel layers.
    """
    phase, launch = phase_of_calls(trace), trace.links.launch
    rows = np.flatnonzero((launch != NONE) & is_collective_kernel(trace.gpu))
    others = trace.launches_work.copy()
    others[launch[rows]] = False
    rows = rows[trace.steps.holds(trace.links.activity_step[rows])]
    rows = rows[np.argsort(trace.launched_ns[rows], kind="stable")]
    rows = rows[[_adds_up(trace, row, least_elements) for row in rows.tolist()]]
    computing = np.flatnonzero(others)
    before = np.searchsorted(trace.calls.start_ns[computing], trace.launched_ns[rows]) - 1
    rows, computed = rows[before >= 0], phase[computing]
    behind, group = computed[before[before >= 0]], trace.gpu.group[rows]
    of_layers = group[(behind == FORWARD) & (group != NONE)]
    chosen = (behind != FORWARD) & ~np.isin(group, of_layers)
    forward = trace.calls.start_ns[computing[computed == FORWARD]]
    return Reductions(rows[chosen], behind[chosen], np.searchsorted(forward, trace.launched_ns[rows[chosen]]))


def _adds_up(trace: Trace, row: int, least_elements: int) -> bool:
    gpu, message = trace.gpu, trace.gpu.message[row]
    called = gpu.names[gpu.collective[row]] if gpu.collective[row] != NONE else gpu.name_of(row)
    match = MESSAGE.fullmatch(gpu.names[message]) if message != NONE else None
    return bool(REDUCING.search(called)) and (match is None or int(match[2]) >= least_elements)
