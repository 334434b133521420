"""Figures of the complete steps that several rules need, and their places."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pinprof.analyses.copies import total_bytes
from pinprof.analyses.syncs.sites import BareSite, Site, WaitCost
from pinprof.details import Details
from pinprof.ground.intervals import covered, subtract, union
from pinprof.ground.units import counted, duration, how_many, listed, shortened, sizes
from pinprof.measurement.profile import Profile
from pinprof.trace.lines import Place
from pinprof.trace.links import outermost, step_at
from pinprof.trace.tables import KERNEL, MEMSET, NONE, Bools, Int64s, Trace


class Copies(NamedTuple):
    """Some copies of the complete steps that were launched at one place; figures per step."""

    place: Place
    rows: Int64s  # in `Trace.gpu`
    per: str  # what the figures are divided by, in words: `StepTimes.per`
    per_step: float
    bytes: float | None  # of the copies with a recorded size; None if none has one
    unsized: int  # copies of unknown size in all steps
    time_ns: float
    exposed_ns: float
    blocked_ns: float  # how long the host was blocked in calls that made or awaited them
    bubble_ns: float  # how long the GPU was idle after those that were meant to be asynchronous, but blocked
    sites: int = 1  # at how many places they were launched

    @property
    def amount(self) -> str:
        """Their size together, as far as it is known."""
        return sizes(self.bytes, self.unsized)

    def named(self, what: str) -> str:
        """Return the number per step and the place, in words; `what` is a plural noun such as "pageable copies"."""
        where = f" at {self.sites} sites" if self.sites > 1 else at(self.place)
        return f"{counted(self.per_step, what.replace('copies', 'copy'), what)} {self.per}{where}"

    @property
    def figures(self) -> str:
        """The number, size and exposed time in words, for a text that has named the place already."""
        exposed = f"exposed for {duration(self.exposed_ns)} of {duration(self.time_ns)}"
        return f"{how_many(self.per_step)} {self.per}, {self.amount}, {exposed}"


def of_all(parts: Sequence[Copies]) -> Copies:
    """Return the sum over several places; the sum of more than one has no place."""
    if len(parts) == 1:
        return parts[0]
    recorded = [copies.bytes for copies in parts if copies.bytes is not None]
    return Copies(
        Place(),
        np.concatenate([copies.rows for copies in parts]),
        parts[0].per,
        sum(copies.per_step for copies in parts),
        sum(recorded) if recorded else None,
        sum(copies.unsized for copies in parts),
        sum(copies.time_ns for copies in parts),
        sum(copies.exposed_ns for copies in parts),
        sum(copies.blocked_ns for copies in parts),
        sum(copies.bubble_ns for copies in parts),
        len(parts),
    )


def copies_in_steps(details: Details, profile: Profile, chosen: Bools) -> Iterator[Copies]:
    """Yield the chosen copies (of `details.overlap.row`) of the complete steps, gathered by where they were made."""
    step = details.trace.links.activity_step[details.overlap.row]
    yield from copies_by_place(
        details, chosen & details.trace.steps.holds(step), profile.steps.count, profile.steps.per
    )


def copies_by_place(details: Details, chosen: Bools, steps: int, per: str) -> Iterator[Copies]:
    """Yield the chosen copies (of `details.overlap.row`), gathered by where they were made; `per` names the steps."""
    overlap, gpu, stalls = details.overlap, details.trace.gpu, details.syncs.stalls
    places: dict[Place, list[int]] = {}
    for index in np.flatnonzero(chosen).tolist():
        line = details.copy_places[index]
        places.setdefault(line.place if line else Place(), []).append(index)
    staged = details.syncs.has_cause("pageable_copy")
    for place, indices in places.items():
        rows = overlap.row[indices]
        size, unsized = total_bytes(gpu.bytes[rows])
        waits = stalls.of_copies(rows)
        yield Copies(
            place,
            rows,
            per,
            len(rows) / steps,
            None if size is None else size / steps,
            unsized,
            float(gpu.duration_ns[rows].sum()) / steps,
            float(overlap.exposed_ns[indices].sum()) / steps,
            float(stalls.stall_ns[waits].sum()) / steps,
            float(stalls.idle_ns[waits[staged[waits]]].sum()) / steps,
        )


LONGEST_NAMED_CHARS = 200
MAX_THINGS_NAMED = 4


def at(place: Place) -> str:
    """Return " at FILE:LINE" or " in FUNCTION()", to append to a noun; empty if the place is unknown."""
    name = shortened(str(place), LONGEST_NAMED_CHARS)
    if place.line is not None:
        return f" at {name}"
    return f" in {name}()" if name else ""


def within(sites: Iterable[BareSite]) -> str:
    """Return " within ..." with the functions of libraries in which sites wait; empty if they wait in none."""
    libraries = dict.fromkeys(site.library for site in sites if site.library)
    files = [f"{library.file}{'' if library.line is None else f':{library.line}'}" for library in libraries]
    named = zip(libraries, files, strict=True)
    names = [f"{library.function} ({shortened(file, LONGEST_NAMED_CHARS)})" for library, file in named]
    return f" within {listed(names, MAX_THINGS_NAMED)}" if names else ""


def ops_of(sites: Iterable[BareSite]) -> str:
    """Return the ops in which sites wait, or the calls where no op surrounds them."""
    return listed(
        list(dict.fromkeys(shortened(site.op or site.call, LONGEST_NAMED_CHARS) for site in sites)), MAX_THINGS_NAMED
    )


def idle_gpu(gpus: int, sites: Sequence[tuple[BareSite, WaitCost]]) -> str:
    """Return the subject and verb of a sentence on idle time after waits: "the GPU is", "GPUs 0, 1 together are".

    With several GPUs these are the ones that are idle, otherwise the awaited ones. `sites` come with their costs in the
    whole trace.
    """
    if gpus < 2 or not sites:  # noqa: PLR2004
        return "the GPU is"
    idle = [site for site, total in sites if total.idle_ns] or [site for site, _ in sites]
    named = [str(device) for device in sorted({device for site in idle for device in site.devices})]
    return f"GPU {named[0]} is" if len(named) == 1 else f"GPUs {', '.join(named)} together are"


def in_or_after(costs: Iterable[WaitCost]) -> str:
    """Return when the GPU is idle because of waits: "after" them, or "in" calls that get memory and await no work."""
    idle, within = (sum(times) for times in zip(*((cost.idle_ns, cost.within_ns) for cost in costs), strict=True))
    return "after" if not within else "in" if within == idle else "in and after"


def cost_of_waits(details: Details, sites: Sequence[Site]) -> str:
    """Return how many waits of these sites there are, how long the host waits and which GPU is idle, per step."""
    cost, steps = WaitCost.of(site.in_steps for site in sites), details.steps.divisor
    which = idle_gpu(len(details.devices), [(site, site.total) for site in sites])
    waits = "it" if len(sites) == 1 and cost.count <= steps else "them"
    return (
        f"{how_many(cost.count / steps)} {details.steps.per}; as traced, the host waits "
        f"{duration(cost.stall_ns / steps)} and {which} idle for {duration(cost.idle_ns / steps)} "
        f"{in_or_after([cost])} {waits}"
    )


def idle_within(details: Details, profile: Profile, start: Int64s, end: Int64s) -> float:
    """Return how long the busiest GPU was idle within times of the host that began in complete steps, per step.

    If there is only one step, the GPU also counts as idle before its first work and after its last.
    """
    busiest = max(details.devices, key=lambda device: device.busy_ns, default=None)
    if busiest is None or not profile.steps.count:
        return 0.0
    idle = next(gaps.times for gaps in details.gaps if gaps.device == busiest.device)
    inside = in_complete_steps(details.trace, start)
    times = union(start[inside], end[inside])
    if profile.steps.count == 1:
        gpu, steps = details.trace.gpu, details.trace.steps
        working = gpu.times(gpu.of_device[busiest.device])
        idle = subtract(union(steps.start_ns[steps.complete], steps.end_ns[steps.complete]), working)
    return float(covered(idle, times.start, times.end).sum()) / profile.steps.count


def in_complete_steps(trace: Trace, time: Int64s) -> Bools:
    """Return for each time of the host whether it lies in a complete step."""
    if not trace.steps.on_host:
        return np.zeros(len(time), bool)
    return trace.steps.holds(step_at(trace.steps, time))


MIN_SHARE_IF_GPU_BOUND, MIN_SHARE_OF_KERNELS = 0.02, 0.1
"""The least share of the step that a finding on kernels needs: if the GPU limits the step, and otherwise, as an idle
GPU gains little from shorter kernels."""


def kernels_in_steps(trace: Trace) -> Int64s:
    """Return the kernels of the complete steps: rows of `Trace.gpu`."""
    return np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))


def launched_kernels(trace: Trace) -> Int64s:
    """Return the kernels of the complete steps whose launch is known: rows of `Trace.gpu`."""
    rows = kernels_in_steps(trace)
    return rows[trace.links.launch[rows] != NONE]


def matters(profile: Profile, time_ns: float) -> bool:
    """Return whether kernels that take so long per step are worth a finding."""
    step = profile.step_ns
    return bool(step) and time_ns >= (MIN_SHARE_IF_GPU_BOUND if profile.bound == "gpu" else MIN_SHARE_OF_KERNELS) * (
        step or 0.0
    )


def per_step(trace: Trace, profile: Profile, rows: Int64s) -> float:
    """Return how long kernels run per step, in ns."""
    return float(trace.gpu.duration_ns[rows].sum()) / profile.steps.divisor


def aten(names: str) -> frozenset[str]:
    """Return the names of ops of torch's own library, given without their prefix."""
    return frozenset(f"aten::{name}" for name in names.split())


def times_of_ops(trace: Trace, ops: Int64s) -> tuple[float, float]:
    """Return the host's time in ops, and the GPU's time in the kernels and memsets that they launch; both in ns.

    None of the ops may be within another, or its time counts twice.
    """
    chosen = np.zeros(len(trace.ops), bool)
    chosen[ops] = True
    launch = trace.links.launch
    rows = np.flatnonzero(np.isin(trace.gpu.category, (KERNEL, MEMSET)) & (launch != NONE))
    launched = outermost(chosen, trace.links.op[launch[rows]], trace.links.op_parent) != NONE
    return float(trace.ops.duration_ns[ops].sum()), float(trace.gpu.duration_ns[rows[launched]].sum())


def named(trace: Trace, rows: Int64s, flagged: Bools) -> list[str]:
    """Return the names of those kernels among `rows` that are flagged, the name with most time first."""
    names, which = np.unique(trace.gpu.name[rows[flagged]], return_inverse=True)
    time = np.bincount(which, trace.gpu.duration_ns[rows[flagged]], minlength=len(names))
    return [trace.gpu.names[name] for name in names[np.argsort(-time, kind="stable")].tolist()]
