"""The recorded step, run again by a replay without one of the things that it owes its length to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from pinprof.analyses.syncs.causes import ALLOCATIONS, OF_COPIES_TO_GPU
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import Edits, edited
from pinprof.prediction.scenarios import Scenario, edits_of, without_waits
from pinprof.replay import Replay
from pinprof.replay.machine import Pace, ProfilerCost, pace
from pinprof.replay.program import Program
from pinprof.replay.ranks import in_no_time
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.tables import DTOH, HTOD

CALLS = 8_000
"""Calls of a replay: a third of what a prediction takes, since there are many limits."""


@dataclass(frozen=True)
class Rerun:
    """A trace whose programs run without one thing or another; steps in ns."""

    details: Details
    profile: Profile
    replay: Replay
    """Of this trace alone; it runs."""

    @cached_property
    def before(self) -> Pace:
        """The pace of the unchanged programs, from as many calls as that of the others."""
        return pace(self.replay.programs, self.replay.steps, self.replay.cost, calls=CALLS)

    def edited(self, edits: Edits) -> Pace:
        """Return the pace after edits."""
        if not edits:
            return Pace(self.replay.step_ns, self.replay.before.busy_ns)
        return self._ran([edited(self.replay.programs[0], self.details, edits)], self.replay.cost)

    def with_host(self, host: ProfilerCost) -> Pace:
        """Return the pace with a host of other speeds."""
        return self._ran(self.replay.programs, host)

    def _ran(self, programs: Sequence[Program], host: ProfilerCost) -> Pace:
        after = pace(programs, self.replay.steps, host, calls=CALLS)
        return self.replay.pace_after(after, self.before, batch_ns=inf if host.input_speed < inf else 0.0)

    def copies(self) -> Edits:
        """Return the change that takes out all copies between host and GPU, and the waits for those to the GPU."""
        copies = np.flatnonzero(np.isin(self.details.trace.gpu.direction, (HTOD, DTOH)))
        hidden = edits_of(self.details, Scenario(pin=True, non_blocking=True, overlap_copies=True))
        return hidden | Edits(removed_works=frozenset(copies.tolist()))

    def waits(self) -> Edits:
        """Return the change that takes out all waits of the code but those of copies to the GPU and of allocations."""
        sites = [
            number
            for number, site in enumerate(self.details.syncs.sites)
            if site.is_of_the_code and site.cause not in OF_COPIES_TO_GPU and site.cause not in ALLOCATIONS
        ]
        return without_waits(self.details.syncs, sites)

    @cached_property
    def collectives(self) -> frozenset[int]:
        """The rows of the kernels of collectives."""
        return frozenset(np.flatnonzero(is_collective_kernel(self.details.trace.gpu)).tolist())

    def without_collectives(self) -> Pace:
        """Return the pace with collectives that take no time."""
        (program,) = self.replay.programs
        return self._ran([in_no_time(program, self.collectives)], self.replay.cost)
