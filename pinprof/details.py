"""Measures a trace row by row: each wait of the host, each copy, each gap in the work of a GPU."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pinprof.analyses.by_name.ops import own_times
from pinprof.analyses.copies import Overlap, measure_overlap
from pinprof.analyses.hazards import Hazards, measure_hazards
from pinprof.analyses.host_samples import receiving_share
from pinprof.analyses.idle import DeviceTime, IdleGaps, device_time, idle_gaps
from pinprof.analyses.loader import LoaderWaits, measure_loader
from pinprof.analyses.serving import ServingPhase, measure_serving
from pinprof.analyses.step_parts import Communication, StepParts, measure_communication, measure_parts
from pinprof.analyses.steps import IrregularStep, StepTimes, irregular_steps, measure_steps, without_irregular
from pinprof.analyses.syncs.sites import Syncs, measure_syncs
from pinprof.analyses.whole_run import UNEXPLAINED, Irregular, WholeRun, sum_up_run
from pinprof.trace.callers import call_places
from pinprof.trace.lines import SourceLine
from pinprof.trace.sources import Sources
from pinprof.trace.tables import NONE, Int64s, Trace


@dataclass(frozen=True, eq=False)
class Details:
    """A trace and the results of the analyses, each computed on first use; nothing is withheld.

    A `Profile` has the sums, and withholds those that the recording cannot show.
    """

    trace: Trace  # its irregular steps count as not complete
    sources: Sources = field(repr=False)  # where the lines of the program are looked up
    irregular: tuple[IrregularStep, ...] = ()  # the steps that are unlike the others

    @cached_property
    def steps(self) -> StepTimes:
        """How long the steps take in the trace."""
        return measure_steps(self.trace)

    @cached_property
    def whole_run(self) -> WholeRun | None:
        """The sums of the whole run; None where pinprof did not record the trace."""
        return sum_up_run(self.trace.run) if self.trace.run else None

    @cached_property
    def receiving_share(self) -> float:
        """The largest share of the time in a DataLoader that goes to receiving batches, by the samples of the host."""
        return receiving_share(self.trace.info.host)

    @cached_property
    def op_own_ns(self) -> Int64s:
        """How long each op was the innermost one of its thread."""
        return own_times(self.trace.ops)

    @property
    def unlike(self) -> tuple[Irregular, ...]:
        """How much irregular steps add: those of the whole run if pinprof recorded it, otherwise those of the trace."""
        if self.whole_run:
            return self.whole_run.irregular
        more = round(sum(step.time_ns - step.usual_ns for step in self.irregular))
        steps = int(self.trace.steps.complete.sum()) + len(self.irregular)
        return (Irregular(UNEXPLAINED, len(self.irregular), None, more, more / steps, ()),) if more else ()

    @cached_property
    def syncs(self) -> Syncs:
        """The waits of the host."""
        return measure_syncs(self.trace, self.sources)

    @cached_property
    def loader(self) -> LoaderWaits:
        """The waits of the main thread for its DataLoader."""
        return measure_loader(self.trace)

    @cached_property
    def overlap(self) -> Overlap:
        """The copies, and the part of each that no kernel hides."""
        return measure_overlap(self.trace)

    @cached_property
    def copy_places(self) -> tuple[SourceLine | None, ...]:
        """Where each copy of `overlap.row` was launched; the line is None where only the function is certain.

        It is the recorded line of the wait for the copy, otherwise the line that the stack shows.
        """
        rows = self.overlap.row
        launch = self.trace.links.launch[rows]
        launched = np.flatnonzero(launch != NONE)
        places: list[SourceLine | None] = [None] * len(rows)
        called = call_places(self.trace, launch[launched].astype(np.int64), self.sources)
        for index, place in zip(launched.tolist(), called, strict=True):
            places[index] = place
        of_wait = {int(copy): line for copy, line in zip(self.syncs.stalls.copy, self.syncs.lines, strict=True) if line}
        return tuple(of_wait.get(int(row), place) for row, place in zip(rows.tolist(), places, strict=True))

    @cached_property
    def gaps(self) -> tuple[IdleGaps, ...]:
        """When each GPU was idle, and why."""
        stalls = self.syncs.stalls
        is_wait = np.array([site.is_wait for site in self.syncs.sites], dtype=bool)
        counted = stalls.call[is_wait[self.syncs.site] & (stalls.drain_ns + stalls.own_ns > 0)]
        return idle_gaps(
            self.trace,
            blocked=self.trace.calls.times(counted),
            released_ns=stalls.awaited_end_ns[stalls.bubble_ns > 0],
            waiting_for_input=self.loader.times,
        )

    @cached_property
    def devices(self) -> tuple[DeviceTime, ...]:
        """How long each GPU worked and was idle, in the whole trace."""
        return tuple(device_time(self.trace, gaps) for gaps in self.gaps)

    @cached_property
    def serving(self) -> tuple[ServingPhase, ...]:
        """The phases of a server's batches; none where the steps are no batches."""
        return measure_serving(self.trace, [gaps.times for gaps in self.gaps])

    @cached_property
    def parts(self) -> tuple[StepParts, ...]:
        """How each complete step divides on each GPU."""
        return measure_parts(self.trace)

    @cached_property
    def communication(self) -> Communication:
        """The time of collectives."""
        return measure_communication(self.trace)

    @cached_property
    def hazards(self) -> Hazards:
        """Copies whose memory the host may read or write before they have ended."""
        return measure_hazards(self.trace, self.loader.times)


def details_of(trace: Trace, sources: Sources | None = None) -> Details:
    """Return the details of a trace; lines are looked up in `sources`, by default in the folder of the trace."""
    irregular = irregular_steps(trace, lambda: measure_loader(trace).times)
    return Details(without_irregular(trace, irregular), sources or Sources(trace.path, trace.info.made), irregular)
