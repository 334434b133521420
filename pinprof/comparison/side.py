"""One of the two traces, and what it has in each of its complete steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison.figure import NO_STEPS, Floats, Value, over_steps
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt, Doubted
from pinprof.trace.tables import NONE, Int32s, Int64s, Trace, rows_by

SPREAD = 2
"""Steps that have a spread."""
NOT_STEPPED = "no step was found; call profiler.step() once per training step"
CopyKind = tuple[int, int]
"""Direction and host memory of copies, as numbered in the tables."""


@dataclass(frozen=True)
class WaitValues:
    """What some waits cost per complete step; times in ns."""

    count: Value
    stall: Value
    bubble: Value


@dataclass(frozen=True)
class Side:
    """What was measured and found of one of the traces."""

    analysis: Analysis
    is_stepped: bool = True
    """False of a trace without steps beside one that has some: what is per step there is of the whole trace here."""

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def details(self) -> Details:
        """What was measured of its rows."""
        return self.analysis.details

    @property
    def profile(self) -> Profile:
        """The sums of that."""
        return self.analysis.profile

    @property
    def withheld(self) -> Doubted:
        """Why figures are not given."""
        return self.profile.withheld

    def why_not(self, *reasons: Doubt | None) -> str:
        """Return why the trace is not fit for figures, by what withholds them; nothing if it is."""
        entry = next(filter(None, reasons), None)
        if entry:
            return f"{entry.what}; {entry.remedy}"
        return "" if self.profile.steps.count else NO_STEPS

    def why_not_stepped(self, *reasons: Doubt | None) -> str:
        """Return why the trace is not fit for figures of its steps; nothing if it is."""
        if not any(reasons) and not self.is_stepped:
            return NOT_STEPPED
        return self.why_not(*reasons)

    def summed(self, step: Int32s, weight: np.ndarray | None = None) -> Floats:
        """Return the sums of weights (or the numbers of rows) by complete step, of rows in these steps."""
        inside = self.trace.steps.holds(step)
        sums = np.bincount(
            step[inside], None if weight is None else weight[inside], minlength=len(self.trace.steps)
        ).astype(np.float64)
        return sums[self.trace.steps.complete]

    def covered(self, chosen: Int64s) -> Floats:
        """Return by complete step the time in which at least one of the chosen activities of a device runs, in ns.

        `chosen` are rows of `Trace.gpu`, in order. A moment that several share belongs to the one that started first:
        the steps add up to the whole.
        """
        gpu, step = self.trace.gpu, self.trace.links.activity_step
        inside = chosen[self.trace.steps.holds(step[chosen])]
        own = np.zeros(len(inside), np.int64)
        for mine in rows_by(gpu.device[inside]):
            rows = inside[mine]
            reach = np.maximum.accumulate(gpu.end_ns[rows])
            free = np.concatenate((gpu.start_ns[rows[:1]], reach[:-1]))
            own[mine] = reach - np.maximum(gpu.start_ns[rows], free)
        return self.summed(step[inside], own)

    def figure(self, values: Floats, *reasons: Doubt | None, at_the_end: bool = True) -> Value:
        """Return a figure by its values in the complete steps, unless something withholds what it rests on.

        Not `at_the_end` is for what the end of the trace changes: behind its last step is no work that a copy could
        hide behind, or that a wait could hold up. That step counts, as it does in the report, but is no spread.
        """
        reason = self.why_not_stepped(self.withheld.per_step, *reasons)
        if reason:
            return Value(None, reason=reason)
        return over_steps(values) if at_the_end else over_steps(self.with_work_behind(values), float(values.mean()))

    def with_work_behind(self, values: Floats) -> Floats:
        """Return the values of the complete steps without that of the trace's last one, if two others are left."""
        last = np.flatnonzero(self.trace.steps.complete)[-1:]
        is_cut = len(last) and self.trace.links.activity_step.max(initial=NONE) <= last[0]
        return values[:-1] if is_cut and len(values) > SPREAD else values

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
        stalls, site = self.details.syncs.stalls, self.details.syncs.site
        weight = np.ones(len(stalls.call), np.int64)
        copying = np.flatnonzero(stalls.copy != NONE)
        _, first = np.unique(np.stack((site[copying], stalls.copy[copying])), axis=1, return_index=True)
        weight[copying] = 0
        weight[copying[first]] = 1
        return weight

    @cached_property
    def number_of(self) -> dict[int, int]:
        """Which site of the profile an object is, by its id: two sites may be equal."""
        return {id(site): number for number, site in enumerate(self.details.syncs.sites)}

    def waits(self, sites: Sequence[int]) -> WaitValues:
        """Return what the waits at these sites, by their numbers, cost per step."""
        syncs = self.details.syncs
        rows = np.sort(np.concatenate([np.empty(0, np.int64), *(syncs.rows[site] for site in sites)]))
        step = syncs.stalls.call_step[rows]
        return WaitValues(
            self.figure(self.summed(step, self.stall_weight[rows]), self.withheld.stalls),
            self.figure(self.summed(step, syncs.stalls.stall_ns[rows]), self.withheld.stalls),
            self.figure(
                self.summed(step, syncs.stalls.idle_ns[rows]),
                self.withheld.stalls,
                self.withheld.drain,
                at_the_end=False,
            ),
        )

    # Copies

    @cached_property
    def copy_kinds(self) -> dict[CopyKind, Int64s]:
        """The positions in `overlap.row` of the copies in complete steps, by kind."""
        gpu, rows = self.trace.gpu, self.details.overlap.row
        inside = np.flatnonzero(self.trace.steps.holds(self.trace.links.activity_step[rows]))
        kinds = np.stack((gpu.direction[rows[inside]], gpu.host_memory[rows[inside]]))
        different, group = np.unique(kinds, axis=1, return_inverse=True)
        return {
            (int(kind[0]), int(kind[1])): inside[group.ravel() == number] for number, kind in enumerate(different.T)
        }
