"""One of the two traces, and its figures in each complete step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison.figure import NO_STEPS, Floats, Value, over_steps
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt, Doubted
from pinprof.trace.links import NO_WORK, work_ends
from pinprof.trace.tables import NONE, Int32s, Int64s, Trace, rows_by

SPREAD = 2
"""The fewest steps that have a spread."""
NOT_STEPPED = "no step was found; call profiler.step() once per training step"
CopyKind = tuple[int, int]
"""Direction and host memory of copies, as in the tables."""


@dataclass(frozen=True)
class WaitValues:
    """What some waits cost per complete step; times in ns."""

    count: Value
    stall: Value
    bubble: Value


@dataclass(frozen=True)
class Side:
    """The measurements and findings of one of the traces."""

    analysis: Analysis
    is_stepped: bool = True
    """False for a trace without steps, if the other has steps: per step would mean the whole trace here."""

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def details(self) -> Details:
        """The measurements of its rows."""
        return self.analysis.details

    @property
    def profile(self) -> Profile:
        """Their sums."""
        return self.analysis.profile

    @property
    def withheld(self) -> Doubted:
        """Why figures are withheld."""
        return self.profile.withheld

    def why_not(self, *reasons: Doubt | None) -> str:
        """Return why the trace is not fit for figures, from the doubts that withhold them; empty if it is."""
        entry = next(filter(None, reasons), None)
        if entry:
            return f"{entry.what}; {entry.remedy}"
        return "" if self.profile.steps.count else NO_STEPS

    def why_not_stepped(self, *reasons: Doubt | None) -> str:
        """Return why the trace is not fit for figures per step; empty if it is."""
        if not any(reasons) and not self.is_stepped:
            return NOT_STEPPED
        return self.why_not(*reasons)

    def summed(self, step: Int32s, weight: np.ndarray | None = None) -> Floats:
        """Return the sum of the weights (or the number) of the rows of each complete step."""
        inside = self.trace.steps.holds(step)
        sums = np.bincount(
            step[inside], None if weight is None else weight[inside], minlength=len(self.trace.steps)
        ).astype(np.float64)
        return sums[self.trace.steps.complete]

    def covered(self, chosen: Int64s) -> Floats:
        """Return for each complete step the time in ns during which one of the chosen activities of a device runs.

        `chosen` are rows of `Trace.gpu`, in order. If several run, the time belongs to the one that started first, so
        that the steps add up to the whole.
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
        """Return a figure by its values in the complete steps, unless a reason withholds it.

        `at_the_end` is false for figures that the end of the trace changes: no work follows its last step, so nothing
        overlaps a copy there, and a wait holds up nothing. That step counts, as in the report, but not for the spread.
        """
        reason = self.why_not_stepped(self.withheld.per_step, *reasons)
        if reason:
            return Value(None, reason=reason)
        return over_steps(values) if at_the_end else over_steps(self.with_work_behind(values), float(values.mean()))

    def with_work_behind(self, values: Floats) -> Floats:
        """Return the values of the complete steps without the last step of the trace, if two others are left."""
        last = np.flatnonzero(self.trace.steps.complete)[-1:]
        is_cut = len(last) and self.trace.links.activity_step.max(initial=NONE) <= last[0]
        return values[:-1] if is_cut and len(values) > SPREAD else values

    @cached_property
    def work_ends(self) -> Int64s:
        """The last end of the GPU work of each complete step that launched some."""
        ends = work_ends(self.trace)
        return ends[self.trace.steps.complete & (ends != NO_WORK)]

    # Waits

    @cached_property
    def stall_weight(self) -> Int64s:
        """1 for the first call of each wait, 0 for further calls that wait for the same copy."""
        stalls, site = self.details.syncs.stalls, self.details.syncs.site
        weight = np.ones(len(stalls.call), np.int64)
        copying = np.flatnonzero(stalls.copy != NONE)
        _, first = np.unique(np.stack((site[copying], stalls.copy[copying])), axis=1, return_index=True)
        weight[copying] = 0
        weight[copying[first]] = 1
        return weight

    @cached_property
    def number_of(self) -> dict[int, int]:
        """The number of each site by its object's id, because two sites may be equal."""
        return {id(site): number for number, site in enumerate(self.details.syncs.sites)}

    def waits(self, sites: Sequence[int]) -> WaitValues:
        """Return the cost per step of the waits at these sites, given by their numbers."""
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
