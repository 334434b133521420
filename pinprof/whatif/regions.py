"""Which calls of a step one CUDA graph could hold, and what forbids to capture it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from pinprof.analyses.syncs import Syncs
from pinprof.intervals import contains
from pinprof.trace.lines import Place
from pinprof.trace.phases import BACKWARD, FORWARD, OPTIMIZER, OTHER, optimizer_steps, phase_of_calls
from pinprof.trace.tables import KERNEL, NONE, Bools, Int64s, Trace

Region: TypeAlias = Literal["step", "model", "optimizer"]
"""The whole step, forward and backward, or the optimizer's."""
PHASES_OF: Final[dict[str, tuple[int, ...]]] = {
    "step": (FORWARD, BACKWARD, OPTIMIZER, OTHER),
    "model": (FORWARD, BACKWARD),
}
"""The optimizers' is not here: they are not all that lies between their first launch and their last."""


@dataclass(frozen=True)
class Blocker:
    """What forbids to capture a region as a graph."""

    what: str
    place: Place
    per_step: float
    """How often it comes; 0 for what is of the step as a whole."""


@dataclass(frozen=True, eq=False)
class Capture:
    """A region of the complete steps that may become a CUDA graph."""

    calls: Int64s
    """Its calls that a graph can hold: rows of `Trace.calls`."""
    launches: float
    """Of them, those that launch work, per step."""
    blockers: tuple[Blocker, ...]
    """The costliest first."""


def capture_of(trace: Trace, syncs: Syncs, region: Region) -> Capture:
    """Return what of a region a graph could hold; `_region` says how far it reaches."""
    inside = _region(trace, region)
    waits = np.zeros(len(trace.calls), bool)
    waits[syncs.stalls.call] = True
    launched = np.zeros(len(trace.calls), bool)
    launched[trace.links.launch[trace.links.launch != NONE]] = True
    uses = trace.calls.named(lambda name: "EventRecord" in name or "StreamWaitEvent" in name)
    held = inside & (launched | uses) & ~waits
    steps = max(int(trace.steps.complete.sum()), 1)
    blockers = (*_waiting(syncs, inside, steps), *_varying(trace, held & launched))
    return Capture(np.flatnonzero(held), float((held & launched).sum()) / steps, blockers)


def _region(trace: Trace, region: Region) -> Bools:
    """Return per call whether it lies between the first and the last launch of the region of its complete step.

    The optimizers' is whether it lies in a step of one of them. Those between the passes of several networks are not
    of the networks.
    """
    calls, step = trace.calls, trace.links.call_step
    phase, stepping = phase_of_calls(trace), contains(optimizer_steps(trace), calls.start_ns)
    if region == "optimizer":
        return stepping & (phase == OPTIMIZER) & trace.steps.holds(step)
    chosen = np.zeros(len(calls), bool)
    launch = trace.links.launch
    kernels = launch[(launch != NONE) & (trace.gpu.category == KERNEL)]
    chosen[kernels] = True
    chosen &= trace.steps.holds(step)
    chosen &= np.isin(phase, PHASES_OF[region])
    rows = np.flatnonzero(chosen)
    count = len(trace.steps)
    first, last = np.full(count + 1, np.iinfo(np.int64).max), np.full(count + 1, NONE, np.int64)
    np.minimum.at(first, step[rows], calls.start_ns[rows])
    np.maximum.at(last, step[rows], calls.start_ns[rows])
    threads = np.isin(calls.thread, np.unique(calls.thread[rows]))
    between = threads & (step != NONE) & (calls.start_ns >= first[step]) & (calls.start_ns <= last[step])
    return between & ~stepping if region == "model" else between


def _waiting(syncs: Syncs, inside: Bools, steps: int) -> Iterator[Blocker]:
    for number, site in enumerate(syncs.sites):
        count = int(inside[syncs.stalls.call[syncs.rows[number]]].sum())
        if count and site.is_of_the_code:
            yield Blocker(site.cause, site.place, count / steps)


def _varying(trace: Trace, launches: Bools) -> Iterator[Blocker]:
    """Yield that the steps do not launch the same kernels in the same order, if so."""
    launch = trace.links.launch
    rows = np.flatnonzero((launch != NONE) & (trace.gpu.category == KERNEL))
    rows = rows[launches[launch[rows]]]
    rows = rows[np.lexsort((rows, launch[rows]))]
    step = trace.links.activity_step[rows]
    sequences = {tuple(trace.gpu.name[rows[step == number]].tolist()) for number in np.unique(step).tolist()}
    if len(sequences) > 1:
        yield Blocker("the steps do not launch the same kernels", Place(), 0.0)
