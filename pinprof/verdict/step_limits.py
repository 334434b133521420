"""Why a step can be as long as it is: one row for each limit, with its words, the idle time that it explains, its cost.

A limit costs what a replay saves without it, as far as the step's division shows it. Removing one may also let others
overlap: a read that no longer waits lets the next batch be made during the GPU's work. That is what its fix brings, not
what it costs: no limit costs more than the parts of the step that it explains.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import ALLOCATION_CAUSES, WAITS_FOR_COPIES_TO_GPU
from pinprof.details import Details
from pinprof.measurement.profile import OUTSIDE_WORK, UNKNOWN_IDLE, Division, Profile, busiest, divide
from pinprof.prediction.edits import Edits
from pinprof.prediction.predict import paces_after
from pinprof.prediction.scenarios import Scenario, edits_of, without_waits
from pinprof.replay import Replay
from pinprof.replay.bound import BOUND_BY_INPUT as INPUT_BOUND
from pinprof.replay.program import Floats
from pinprof.replay.ranks import in_no_time
from pinprof.replay.replay import Paces
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.tables import DTOH, HTOD


@dataclass(frozen=True)
class Rerun:
    """The replay of a trace, to be run without one limit or another; steps in ns."""

    details: Details
    profile: Profile
    replay: Replay  # of this trace alone; it runs

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


LimitName: TypeAlias = Literal[
    "sync", "copy", "input", "allocation", "communication", "python", "launch", "host", "irregular", "gpu"
]
"""As JSON names it. `host` is `python` and `launch` together: each alone may leave the host as slow as the other
makes it. Limits that single lines cause come before those of the whole program: of two limits that cost alike,
the first is the one to report."""
CAUSES: Final[tuple[LimitName, ...]] = get_args(LimitName)
_, COPY, INPUT, _, COMMUNICATION, PYTHON, LAUNCH, HOST, IRREGULAR, GPU = CAUSES

LATE_HOST: Final = (*(name for name, cause in IDLE.items() if cause.bound == "host"), OUTSIDE_WORK)
"""Idle time that only a late host explains: the launches after a wait may be late."""
ONE_TIME_REASONS: Final = frozenset({"first", "compile"})
"""Reasons of irregular steps that a longer run does not repeat."""


CostOf: TypeAlias = Callable[[LimitName, Rerun], Floats]
"""Returns what the limit of this name costs in each world, in ns."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit of a step: what can make it long."""

    word: str  # what people call a step with this limit
    why: str  # why it makes the step long
    lost: str  # the same as a thing that costs time
    advice: str  # what to do first if no finding says more
    idle: tuple[str, ...]  # the idle time of the GPU that it may explain, by its cause
    cost: CostOf
    work: Callable[[Division], float] = lambda _: 0.0  # the time of the GPU's own work that it may explain, in ns
    by_host: bool = False  # whether it is work of the host


def without(paces_of: Callable[[Rerun], Paces]) -> CostOf:
    """Return the function that gives a limit's cost; without the limit, the program runs at these paces."""

    def cost(name: LimitName, rerun: Rerun) -> Floats:
        if name == COMMUNICATION and not rerun.collectives:
            return np.zeros(len(rerun.replay.in_worlds))
        saved = rerun.replay.in_worlds - rerun.replay.changed(paces_of(rerun))
        return np.clip(saved, 0.0, shown_of(rerun.profile, name))

    return cost


def shown_of(profile: Profile, name: LimitName) -> float:
    """Return how long the parts of the step are that a limit may explain, in ns; infinity where none are known."""
    mean = busiest(profile)
    if mean is None:
        return inf
    limit, division = LIMITS[name], divide(profile, mean)
    causes = {UNKNOWN_IDLE, *limit.idle}
    if name == INPUT and profile.bound == INPUT_BOUND:
        causes.update(LATE_HOST)  # the workers' queues were full while the recording began: something else held it up
    return limit.work(division) + sum(time for cause, time in division.idle_ns.items() if cause in causes)


def of_gpu_work(_: LimitName, rerun: Rerun) -> Floats:
    """Return what the GPU's own work costs: only less work, or a faster GPU, shortens it."""
    mean = busiest(rerun.profile)
    division = divide(rerun.profile, mean) if mean else None
    work = division.kernels_ns + division.memsets_ns if division else rerun.details.steps.busy_ns or 0.0
    return np.minimum(work, rerun.replay.in_worlds)


def of_irregular_steps(_: LimitName, rerun: Rerun) -> Floats:
    """Return the cost of steps that take longer than the others and will recur."""
    ns = sum(
        irregular.per_step_ns
        for irregular in rerun.profile.unlike
        if irregular.reason not in ONE_TIME_REASONS and (irregular.every is not None or irregular.count > 1)
    )
    return np.full(len(rerun.replay.in_worlds), ns)


LIMITS: Final[Mapping[LimitName, Limit]] = {
    "sync": Limit(
        word="Sync-bound",
        why="the GPU runs out of work while the host waits for it",
        lost="waits for the GPU",
        advice="make the host wait for the GPU less often",
        idle=LATE_HOST,
        cost=without(lambda rerun: rerun.edited(rerun.without_waits())),
    ),
    COPY: Limit(
        word="Copy-bound",
        why="copies keep the GPU from computing",
        lost="copies and waits for them",
        advice="copy one batch ahead, or copy less: uint8 or float16, converted on the GPU",
        idle=("sync_bubble", "kernel_wait"),
        cost=without(lambda rerun: rerun.edited(rerun.without_copies())),
        work=lambda division: division.copies_ns,
    ),
    INPUT: Limit(
        word="Input-bound",
        why="the step waits for the next batch",
        lost="waits for the next batch",
        advice="use more workers, persistent_workers=True, or less work per sample",
        idle=("input_wait", OUTSIDE_WORK),
        cost=without(Rerun.without_input),
    ),
    "allocation": Limit(
        word="Allocation-bound",
        why="the host waits while memory is allocated or freed",
        lost="allocating and freeing memory",
        advice="keep shapes constant, and free nothing in the loop",
        idle=LATE_HOST,
        cost=without(lambda rerun: rerun.edited(edits_of(rerun.details, Scenario(drop_allocs=True)))),
    ),
    COMMUNICATION: Limit(
        word="Communication-bound",
        why="collectives transfer, or wait for other ranks",
        lost="collectives",
        advice="let DistributedDataParallel or FSDP transfer them in buckets during backward",
        idle=("communication_wait", "kernel_wait", "sync_bubble"),
        cost=without(Rerun.without_collectives),
        work=lambda division: division.collectives_ns,
    ),
    PYTHON: Limit(
        word="Python-bound",
        why="the GPU waits for Python code",
        lost="Python code",
        advice="take what needs no GPU out of the loop, or do it in workers",
        idle=LATE_HOST,
        cost=without(lambda rerun: rerun.with_host_speeds(python_speed=inf)),
        by_host=True,
    ),
    LAUNCH: Limit(
        word="Launch-bound",
        why="the GPU waits for launches",
        lost="launches",
        advice="launch many kernels at once: torch.compile, CUDA graphs, or larger batches",
        idle=LATE_HOST,
        cost=without(lambda rerun: rerun.with_host_speeds(op_speed=inf)),
        by_host=True,
    ),
    HOST: Limit(
        word="Host-bound",
        why="the GPU waits for the host",
        lost="the host",
        advice="launch many kernels at once (torch.compile, CUDA graphs), and take what needs no GPU out of the loop",
        idle=LATE_HOST,
        cost=without(lambda rerun: rerun.with_host_speeds(op_speed=inf, python_speed=inf)),
        by_host=True,
    ),
    IRREGULAR: Limit(
        word="Irregular",
        why="some steps take longer than the others",
        lost="steps unlike the others",
        advice="do this work less often, or outside of the training loop",
        idle=(),
        cost=of_irregular_steps,
    ),
    GPU: Limit(
        word="GPU-bound",
        why="the GPU is the limit",
        lost="the GPU's work",
        advice="give the GPU less to do: lower precision, fused kernels (torch.compile), or a smaller model",
        idle=(),
        cost=of_gpu_work,
    ),
}
"""In the order of `CAUSES`."""
BY_HOST: Final = frozenset(name for name, limit in LIMITS.items() if limit.by_host)

AWAITED = "the GPU has no work while the host waits after {} to it"
"""Why the step is long if copies cost most by the idle time after the waits for them; {} is these copies."""
