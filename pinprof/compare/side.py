"""One of the two traces, and what it has in each of its complete steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from pinprof.compare.figure import NO_STEPS, Floats, Value, over_steps
from pinprof.intervals import length, union
from pinprof.measure import Profile
from pinprof.rules import Findings
from pinprof.trace.tables import NONE, Int32s, Int64s, Trace

Kind = tuple[int, int]
"""Direction and host memory of copies, as numbered in the tables."""


@dataclass(frozen=True)
class WaitValues:
    """What some waits cost per complete step; times in ns."""

    count: Value
    stall: Value
    bubble: Value


@dataclass(frozen=True)
class Side:
    """A trace, its measurements, and what the rules found in it."""

    trace: Trace
    profile: Profile
    findings: Findings

    def why_not(self, *figures: str) -> str:
        """Return why the trace is not fit for figures, with the way out; nothing if it is."""
        withheld = self.profile.withheld
        entry = next((withheld[figure] for figure in figures if figure in withheld), None)
        if entry:
            return f"{entry.what}; {entry.remedy}"
        return "" if self.profile.steps.count else NO_STEPS

    def summed(self, step: Int32s, weight: np.ndarray | None = None) -> Floats:
        """Return the sums of weights (or the numbers of rows) by complete step, of rows in these steps."""
        inside = self.trace.steps.holds(step)
        sums = np.bincount(
            step[inside], None if weight is None else weight[inside], minlength=len(self.trace.steps)
        ).astype(np.float64)
        return sums[self.trace.steps.complete]

    def covered(self, rows: Int64s) -> Floats:
        """Return by complete step the time in which at least one of these activities runs, in ns."""
        gpu, step = self.trace.gpu, self.trace.links.activity_step[rows]
        order = np.argsort(step, kind="stable")
        edges = np.searchsorted(step[order], np.arange(len(self.trace.steps) + 1))
        groups = (rows[order[first:last]] for first, last in pairwise(edges))
        times = np.array([length(union(gpu.start_ns[mine], gpu.end_ns[mine])) for mine in groups], np.float64)
        return times[self.trace.steps.complete]

    def figure(self, values: Floats, *figures: str) -> Value:
        """Return a figure by its values in the complete steps, unless one that it rests on is withheld."""
        reason = self.why_not("per_step", *figures)
        return Value(None, reason=reason) if reason else over_steps(values)

    @cached_property
    def work_ends(self) -> Int64s:
        """The last end of GPU work that each complete step launched, without steps that launched none."""
        gpu, step = self.trace.gpu, self.trace.links.activity_step
        ends = np.full(len(self.trace.steps), np.iinfo(np.int64).min)
        np.maximum.at(ends, step[step != NONE], gpu.end_ns[step != NONE])
        return ends[self.trace.steps.complete & (ends > np.iinfo(np.int64).min)]

    # Waits

    @cached_property
    def stall_weight(self) -> Int64s:
        """1 for each stall that is a wait by itself, 0 for further calls of the wait for one copy."""
        stalls, site = self.profile.syncs.stalls, self.profile.syncs.site
        weight = np.ones(len(stalls.call), np.int64)
        copying = np.flatnonzero(stalls.copy != NONE)
        _, first = np.unique(np.stack((site[copying], stalls.copy[copying])), axis=1, return_index=True)
        weight[copying] = 0
        weight[copying[first]] = 1
        return weight

    def waits(self, sites: Sequence[int]) -> WaitValues:
        """Return what the waits at these sites, by their numbers, cost per step."""
        syncs = self.profile.syncs
        rows = np.flatnonzero(np.isin(syncs.site, np.array(sites, np.int64)))
        step = syncs.stalls.call_step[rows]
        return WaitValues(
            self.figure(self.summed(step, self.stall_weight[rows]), "stalls"),
            self.figure(self.summed(step, syncs.stalls.stall_ns[rows]), "stalls"),
            self.figure(self.summed(step, syncs.stalls.bubble_ns[rows]), "stalls", "drain"),
        )

    # Copies

    @cached_property
    def copy_kinds(self) -> dict[Kind, Int64s]:
        """The positions in `overlap.row` of the copies in complete steps, by kind."""
        gpu, rows = self.trace.gpu, self.profile.overlap.row
        inside = np.flatnonzero(self.trace.steps.holds(self.trace.links.activity_step[rows]))
        kinds = np.stack((gpu.direction[rows[inside]], gpu.host_memory[rows[inside]]))
        different, group = np.unique(kinds, axis=1, return_inverse=True)
        return {
            (int(kind[0]), int(kind[1])): inside[group.ravel() == number] for number, kind in enumerate(different.T)
        }
