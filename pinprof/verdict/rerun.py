"""Replays of the recorded step, each without one of its limits."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from pinprof.analyses.syncs.causes import ALLOCATION_CAUSES, WAITS_FOR_COPIES_TO_GPU
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import Edits
from pinprof.prediction.predict import paces_after
from pinprof.prediction.scenarios import Scenario, edits_of, without_waits
from pinprof.replay import Replay
from pinprof.replay.ranks import in_no_time
from pinprof.replay.replay import Paces
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.tables import DTOH, HTOD


@dataclass(frozen=True)
class Rerun:
    """The replay of a trace, to be run without one limit or another; steps in ns."""

    details: Details
    profile: Profile
    replay: Replay
    """Of this trace alone; it runs."""

    def edited(self, edits: Edits) -> Paces:
        """Return the pace after edits."""
        return paces_after(self.replay, [edits])

    def without_input(self) -> Paces:
        """Return the pace if batches were always ready."""
        programs = self.replay.programs
        if not self.replay.has_input:
            return self.replay.unchanged
        return self.replay.run(programs, lambda cost: replace(cost, input_speed=inf), batch_ns=0.0)

    def with_host_speeds(self, *, op_speed: float = 1.0, python_speed: float = 1.0) -> Paces:
        """Return the pace with a host of these speeds, as in `ProfilerCost`."""
        return self.replay.run(
            self.replay.programs, lambda cost: replace(cost, op_speed=op_speed, python_speed=python_speed)
        )

    def without_copies(self) -> Edits:
        """Return the edits that remove all copies between host and GPU, and the waits for those to the GPU."""
        copies = np.flatnonzero(np.isin(self.details.trace.gpu.direction, (HTOD, DTOH)))
        hidden = edits_of(self.details, Scenario(pin=True, non_blocking=True, overlap_copies=True))
        return hidden | Edits(removed_works=frozenset(copies.tolist()))

    def without_waits(self) -> Edits:
        """Return the edits that remove all waits of the code but those of copies to the GPU and of allocations."""
        sites = [
            number
            for number, site in enumerate(self.details.syncs.sites)
            if site.is_of_the_code and site.cause not in WAITS_FOR_COPIES_TO_GPU and site.cause not in ALLOCATION_CAUSES
        ]
        return without_waits(self.details.syncs, sites)

    @cached_property
    def collectives(self) -> frozenset[int]:
        """The rows of the kernels of collectives."""
        return frozenset(np.flatnonzero(is_collective_kernel(self.details.trace.gpu)).tolist())

    def without_collectives(self) -> Paces:
        """Return the pace with collectives that take no time."""
        (program,) = self.replay.programs
        return self.replay.run([in_no_time(program, self.collectives)])
