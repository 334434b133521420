"""The figures of a step, a row each, and their values in each step: documents, comparisons and checks take them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pinprof.analyses.copies import total_bytes
from pinprof.details import Details
from pinprof.ground.intervals import covered
from pinprof.measurement.profile import Profile, busiest
from pinprof.measurement.trust.doubt import FigureKind, Known, KnownOrWithheld, Withheld, given
from pinprof.trace.links import NO_WORK_NS, work_ends
from pinprof.trace.tables import NONE, PAGEABLE, Int32s, Int64s, Trace, rows_by

Floats = npt.NDArray[np.float64]

MIN_STEPS_WITH_SPREAD = 2


def sum_in_steps(trace: Trace, step: Int32s, weight: npt.NDArray[np.generic] | None = None) -> Floats:
    """Return the sum of the weights (or the number) of the rows of each complete step; `step` is that of each row."""
    inside = trace.steps.holds(step)
    weights = None if weight is None else weight[inside]
    return np.bincount(step[inside], weights, minlength=len(trace.steps)).astype(np.float64)[trace.steps.complete]


def with_work_after(trace: Trace, values: Floats) -> Floats:
    """Return the values of the complete steps without the last step of the trace, if two others are left.

    No work follows that step, so nothing overlaps a copy there, and a wait holds up nothing.
    """
    last = np.flatnonzero(trace.steps.complete)[-1:]
    is_cut = len(last) and trace.links.activity_step.max(initial=NONE) <= last[0]
    return values[:-1] if is_cut and len(values) > MIN_STEPS_WITH_SPREAD else values


def step_lengths(details: Details) -> Floats:
    """Return the lengths of the steps in the trace: those on the host or those on the GPU, whichever are longer."""
    steps = details.steps
    if steps.traced_ns == steps.host_ns:
        return steps.host_lengths_ns.astype(np.float64)
    ends = work_ends(details.trace)
    return np.diff(ends[details.trace.steps.complete & (ends != NO_WORK_NS)]).astype(np.float64)


def running_in_steps(trace: Trace, rows: Int64s) -> Floats:
    """Return for each complete step the time in ns during which one of these activities of a device runs.

    `rows` are of `Trace.gpu`, in order. If several run, the time belongs to the one that started first, so that the
    steps add up to the whole.
    """
    gpu, step = trace.gpu, trace.links.activity_step
    inside = rows[trace.steps.holds(step[rows])]
    own = np.zeros(len(inside), np.int64)
    for on_device in rows_by(gpu.device[inside]):
        chosen = inside[on_device]
        reach = np.maximum.accumulate(gpu.end_ns[chosen])
        free = np.concatenate((gpu.start_ns[chosen[:1]], reach[:-1]))
        own[on_device] = reach - np.maximum(gpu.start_ns[chosen], free)
    return sum_in_steps(trace, step[inside], own)


# Copies


def exposed_in_steps(details: Details) -> Floats:
    """Return how long the copies that count (`Overlap.counts`) are exposed in each complete step, in ns."""
    return _exposed_in_steps(details, details.overlap.exposed_ns * details.overlap.counts)


def _exposed_in_steps(details: Details, exposed_ns: Int64s) -> Floats:
    return sum_in_steps(details.trace, details.trace.links.activity_step[details.overlap.row], exposed_ns)


def overlapped_share_in_steps(details: Details) -> Floats:
    """Return the overlapped share of the copy time in each step that has such copies and is followed by work."""
    trace = details.trace
    copying = with_work_after(trace, running_in_steps(trace, np.flatnonzero(trace.gpu.is_transfer)))
    exposed = with_work_after(trace, _exposed_in_steps(details, details.overlap.exposed_ns))
    has_copies = copying > 0
    return np.clip(1 - exposed[has_copies] / copying[has_copies], 0.0, 1.0)


def pageable_bytes_in_steps(details: Details) -> Floats | None:
    """Return how much is copied from or to pageable memory in each complete step; None if a size is not recorded."""
    gpu = details.trace.gpu
    rows = np.flatnonzero(gpu.host_memory == PAGEABLE)
    if (gpu.bytes[rows] == NONE).any():
        return None
    return sum_in_steps(details.trace, details.trace.links.activity_step[rows], gpu.bytes[rows])


# Waits of the host


def waits_in_steps(details: Details, rows: Int64s) -> Floats:
    """Return how many waits each complete step has; several calls that wait for one copy are one wait."""
    syncs, steps = details.syncs, details.trace.steps
    inside = rows[steps.holds(syncs.stalls.call_step[rows])]
    weight = np.ones(len(inside), np.int64)
    copying = np.flatnonzero(syncs.stalls.copy[inside] != NONE)
    of_copy = syncs.site[inside[copying]] * len(details.trace.gpu) + syncs.stalls.copy[inside[copying]]
    weight[copying] = 0
    weight[copying[np.unique(of_copy, return_index=True)[1]]] = 1
    return sum_in_steps(details.trace, syncs.stalls.call_step[inside], weight)


def waited_in_steps(details: Details, rows: Int64s, times: Int64s) -> Floats:
    """Return the sum of `times` of the waits of each complete step; `times` is a column of `Syncs.stalls`."""
    return sum_in_steps(details.trace, details.syncs.stalls.call_step[rows], times[rows])


# The DataLoader


def loading_in_steps(details: Details) -> Floats:
    """Return how long the main thread waits for its DataLoader in each complete step, in ns."""
    steps = details.trace.steps
    return covered(details.loader.times, steps.start_ns, steps.end_ns)[steps.complete].astype(np.float64)


FigureUnit: TypeAlias = Literal["ns", "bytes", "count", "share"]

NO_COMPLETE_STEP = "no complete step"
NO_SIZES = "sizes of copies are not recorded"


@dataclass(frozen=True)
class TraceFigure:
    """A figure of the step, or of the whole trace.

    It is the sum of `in_steps` over the complete steps, or `total` where that differs, divided by the number of steps.
    A figure with a `value` is read from a `Profile` instead.
    """

    name: str  # as in `per_step` of the report's JSON and in comparisons; in JSON times are in ms
    meaning: str  # its description in the schema
    unit: FigureUnit
    withheld_by: tuple[FigureKind, ...]  # the kinds of figures with which it is withheld
    in_steps: Callable[[Details], Floats | None] | None = None
    """Its values in the complete steps, whose spread comparisons show. None if the trace lacks some."""
    total: Callable[[Details], float | None] | None = None
    """The sum over the complete steps, if it is not the sum of `in_steps`."""
    value: Callable[[Profile], float | None] | None = None
    place: str = ""  # where it is in the JSON of a trace, if not in `per_step`
    label: str = ""  # its name in comparisons; empty if they leave it out
    more_is_better: bool = False
    of_trace: bool = False  # whether it is a figure of the whole trace, not of a step
    depends_on_end: bool = False
    """Whether it depends on what follows the step: the last step of the trace, which nothing follows, has no typical
    value."""
    absent: str = NO_COMPLETE_STEP  # why a trace may lack it although nothing withholds it

    @property
    def path(self) -> str:
        """Where it is in the JSON of a trace."""
        return self.place or f"per_step/{self.name}"

    @property
    def is_sum(self) -> bool:
        """Whether it is measured as a sum over the complete steps, which `Profile.per_step` has."""
        return self.value is None

    def of(self, profile: Profile) -> KnownOrWithheld[float | None]:
        """Return the figure of a trace, with times in ns; None if the trace has none (no complete steps, for one)."""
        if self.value is None:
            return profile.per_step.get(self.name, Known(None))
        value, reason = self.value(profile), profile.withheld.reason(self.withheld_by)
        return Withheld(reason) if value is None and reason else Known(value)


def _busy_fraction(profile: Profile) -> float | None:
    """Return the share of the step in which the GPU works; at most 1: the whole holds all its work."""
    mean = busiest(profile)
    return mean.work_ns / mean.length_ns if mean and mean.length_ns and profile.estimate.step_ns else None


def _loader(profile: Profile) -> float | None:
    is_known = profile.steps.count and not profile.withheld.per_step
    return profile.loader.wait_in_steps_ns / profile.steps.count if is_known else None


def _pageable_bytes(details: Details) -> float | None:
    """Return the sum of the recorded sizes; None if there are copies, and none has a recorded size."""
    gpu, steps = details.trace.gpu, details.trace.steps
    chosen = steps.holds(details.trace.links.activity_step) & (gpu.host_memory == PAGEABLE)
    return total_bytes(gpu.bytes[chosen])[0]


STEP_MS = TraceFigure(
    "step_ms",
    "the step without the profiler",
    "ns",
    ("estimate", "step"),
    value=lambda profile: profile.estimate.step_ns,
    place="steps/step_ms",
    label="step without profiler",
)
EXPOSED_MS = TraceFigure(
    "exposed_ms",
    "copy time that no kernel hides",
    "ns",
    ("per_step", "overlap"),
    in_steps=exposed_in_steps,
    label="exposed copies",
    depends_on_end=True,
)
PAGEABLE_BYTES = TraceFigure(
    "pageable_bytes",
    "copied from or to pageable memory",
    "bytes",
    ("per_step", "copies"),
    in_steps=pageable_bytes_in_steps,
    total=_pageable_bytes,
    label="copied from or to pageable memory",
    absent=NO_SIZES,
)
HIDDEN_SYNCS = TraceFigure(
    "hidden_syncs",
    "waits that the code did not ask for",
    "count",
    ("per_step", "stalls"),
    in_steps=lambda details: waits_in_steps(details, details.syncs.hidden),
    label="hidden waits of the host",
)
HIDDEN_STALL_MS = TraceFigure(
    "hidden_stall_ms",
    "time in waits that the code did not ask for",
    "ns",
    ("per_step", "stalls"),
    in_steps=lambda details: waited_in_steps(details, details.syncs.hidden, details.syncs.stalls.stall_ns),
    label="host stalls in hidden waits",
)
SYNCS = TraceFigure(
    "syncs",
    "waits of the host, those that the code asks for among them; without the profiler's, and held up launches",
    "count",
    ("per_step", "stalls"),
    in_steps=lambda details: waits_in_steps(details, details.syncs.waits),
    place="syncs/per_step",
)
STALL_MS = TraceFigure(
    "stall_ms",
    "time in all waits but the profiler's, and launches that are held up: the launch queue is full, or code is loaded",
    "ns",
    ("per_step", "stalls"),
    in_steps=lambda details: waited_in_steps(details, details.syncs.waits, details.syncs.stalls.stall_ns),
    label="host stalls",
)
DRAIN_MS = TraceFigure(
    "drain_ms",
    "the part of that in which earlier work was still to be done",
    "ns",
    ("per_step", "stalls", "drain"),
    in_steps=lambda details: waited_in_steps(details, details.syncs.waits, details.syncs.stalls.drain_ns),
)
WORKED_MS = TraceFigure(
    "worked_ms",
    "the part of that in which the GPU works",
    "ns",
    ("per_step", "stalls", "drain"),
    in_steps=lambda details: waited_in_steps(details, details.syncs.waits, details.syncs.stalls.worked_ns),
)
BUBBLE_MS = TraceFigure(
    "bubble_ms",
    "GPU idle time that waits leave behind",
    "ns",
    ("per_step", "stalls", "drain"),
    in_steps=lambda details: waited_in_steps(details, details.syncs.waits, details.syncs.stalls.idle_ns),
    label="GPU idle after waits",
    depends_on_end=True,
)
OVERLAP_FRACTION = TraceFigure(
    "overlap_fraction",
    "share of the copy time that kernels hide",
    "share",
    ("copies", "overlap"),
    in_steps=overlapped_share_in_steps,
    value=lambda profile: overlap.fraction if (overlap := given(profile.overlap)) else None,
    place="overlap/fraction",
    label="overlapped copy time",
    more_is_better=True,
    of_trace=True,
    absent="no copies",
)
BUSY_MS = TraceFigure(
    "busy_ms",
    "time per step in which the busiest GPU works",
    "ns",
    ("per_step", "busy", "step", "overlap"),
    value=lambda profile: mean.work_ns if (mean := busiest(profile)) else None,
    place="steps/busy_ms",
)
BUSY_FRACTION = TraceFigure(
    "busy_fraction",
    "share of the step in which it works, at most 1",
    "share",
    ("per_step", "busy", "step", "overlap", "estimate"),
    value=_busy_fraction,
    place="steps/busy_fraction",
)
LOADER_MS = TraceFigure(
    "loader_ms",
    "the host waits for the DataLoader",
    "ns",
    ("per_step",),
    in_steps=loading_in_steps,
    value=_loader,
    place="loader/per_step_ms",
    label="wait for the DataLoader",
)
FIGURES = (
    STEP_MS,
    TraceFigure(
        "traced_ms",
        "the step in the trace",
        "ns",
        ("step",),
        in_steps=step_lengths,
        value=lambda profile: profile.steps.traced_ns,
        place="steps/traced_ms",
        label="step in the trace",
    ),
    BUSY_MS,
    BUSY_FRACTION,
    OVERLAP_FRACTION,
    EXPOSED_MS,
    PAGEABLE_BYTES,
    HIDDEN_SYNCS,
    HIDDEN_STALL_MS,
    SYNCS,
    STALL_MS,
    DRAIN_MS,
    WORKED_MS,
    BUBBLE_MS,
    TraceFigure(
        "launches",
        "launches of kernels",
        "count",
        ("step", "per_step"),
        value=lambda profile: profile.launches.per_step if profile.launches else None,
        place="launches/per_step",
    ),
    LOADER_MS,
)
"""All figures, in the order in which comparisons and JSON show them."""
