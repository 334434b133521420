"""Worlds: choices of the few things that a trace cannot tell; and the step without the profiler, as known or estimated.

A trace does not tell what the profiler cost the host, how fast the host is without it, whether other ranks would come
as late, how much of a removed wait returns elsewhere, and by what two runs of a program differ. A world is one choice
of these. The step, the cost of a limit and the saving of a change are computed in each world. Shown are the value in
the expected world and the 10th and 90th percentile over all. So they fit each other: where the step is long, a limit
costs much, and its fix saves as much.

The worlds are a lattice of rank 1 (Sloan and Joe, *Lattice Methods for Multiple Integration*, 1994) around the expected
world: the same on every machine, and each choice is spread evenly over its distribution.

A setting is the program at a cost of the profiler and a pace of the host. A replay takes long, so it is made at few
settings, not in each world; a world lies between two of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.steps import StepTimes
from pinprof.details import Details
from pinprof.ground.units import NS_PER_MS
from pinprof.replay.calibration import Calibration
from pinprof.replay.machine import Pace, ProfilerCost
from pinprof.replay.program import Floats

RangeNs: TypeAlias = tuple[float, float]  # the 10th and the 90th percentile over the worlds

WORLD_COUNT: Final = 23  # worlds; the one in the middle is the expected one
_LOW, _HIGH = 0.1, 0.9


class Worlds(NamedTuple):
    """The choices of each world, one entry per world: normally distributed, 0 expected, 90th percentile 1."""

    host: Floats  # how slow the host is without the profiler, and so how little the profiler cost
    ranks: Floats  # how much of the waiting for other ranks the profiler caused; none where it is negative
    change: Floats  # how much of a change is realized
    drift: Floats  # by what a run after a change differs from the run before it


def _choices(generator: int) -> Floats:
    """Return a choice per world; all choices of a generator that shares no factor with `WORLD_COUNT` differ."""
    half = WORLD_COUNT // 2
    levels = (np.arange(-half, half + 1) * generator + half) % WORLD_COUNT
    normal = np.array([NormalDist().inv_cdf((level + 0.5) / WORLD_COUNT) for level in levels.tolist()])
    return normal / float(np.quantile(normal, _HIGH))


WORLDS: Final = Worlds(_choices(1), _choices(4), _choices(10), _choices(17))
"""Of all such generators, these have the least correlations: 0.23 at most."""


def middle(values: Floats) -> float:
    """Return the value in the expected world, in which each choice is its median."""
    return float(values[WORLD_COUNT // 2])


def range_of(values: Floats) -> RangeNs:
    """Return the 10th and the 90th percentile over the worlds, and no less than the value in the expected world."""
    low, high = np.quantile(values, (_LOW, _HIGH)).tolist()
    return min(low, middle(values)), max(high, middle(values))


SURE_RANGE_SHARE = 0.1


@dataclass(frozen=True)
class StepEstimate:
    """The step without the profiler, in ns; None where the trace does not show it."""

    step_ns: float | None
    source: str  # `measured` by pinprof in the recorded run, `given` by the user, or `estimated`
    range_ns: RangeNs | None
    """The range of the step. If it was measured, it holds the step with 95 % confidence (for a few steps it is their
    scatter). Otherwise it is its range over the worlds, within the GPU's own work and the traced step."""

    @property
    def is_sure(self) -> bool:
        """Whether the step is measured, or its range is narrow."""
        if self.step_ns is None or self.range_ns is None:
            return False
        return self.source != "estimated" or self.range_ns[1] - self.range_ns[0] <= SURE_RANGE_SHARE * self.step_ns


def measured_step(ranks: Sequence[Details]) -> StepEstimate | None:
    """Return the regular step that pinprof measured in the recorded run, the mean of all ranks; None if it did not."""
    measured = [step for step in map(_measured, ranks) if step is not None]
    if not measured:
        return None
    mean = sum(step for step, *_ in measured) / len(measured)
    return StepEstimate(mean, "measured", (min(low for _, low, _ in measured), max(high for *_, high in measured)))


def _measured(rank: Details) -> tuple[float, float, float] | None:
    """Return the measured step of a rank and the ends of its range, in ns; None if it was not measured.

    Recordings of old versions have the mean of all steps, and the scatter of single steps.
    """
    timed = rank.whole_run.timed if rank.whole_run else None
    if timed is not None and timed.range_ns is not None:
        return timed.step_ns, *timed.range_ns
    plain = rank.trace.info.plain_step
    if plain is None:
        return None
    mean = timed.step_ns if timed else plain.mean_ms * NS_PER_MS
    low, high = ((percentile_ms or plain.mean_ms) * NS_PER_MS for percentile_ms in (plain.p10_ms, plain.p90_ms))
    return mean, min(low, mean), max(high, mean)


SHORT_OF_TRUTH = 0.03  # the traced step may be shorter than the step of another run by up to this share

MIN_SHARE_OF_GPU_BOUND = 0.98
"""The step without the profiler lies between the GPU's own work and the traced step. If these differ by at most two
percent, it is the traced step: the profiler only slows the host, and the host is not the limit."""

NOISE_SHARE_OF_STEP = 0.02
"""By this share of the step two runs of a program differ even if the host does not set the pace."""

SETTING_PLACES = (-1.0, 0.0, 1.0)  # where the settings of an estimate lie in `Worlds.host`


@dataclass(frozen=True)
class Setting:
    """What a replay assumes, and the step that the unchanged programs take then; in ns."""

    cost: ProfilerCost
    step_ns: float
    before: Pace  # the pace of the unchanged programs; the step may be longer or shorter
    waits_for_ranks: bool = True  # whether the only rank waits for others whose traces are not given
    gpu_speed: float = 1.0  # how many times as fast the GPU is as in the recording


PaceOf = Callable[[ProfilerCost, bool], Pace]  # returns the pace at a cost, and whether the only rank waits for others


def estimated_settings(
    times: Sequence[StepTimes], calibration: Calibration, pace_of: PaceOf, *, meets_others: bool, fed_by_workers: bool
) -> tuple[Setting, ...]:
    """Return the settings of a job whose step is not known: a fast, the expected and a slow host; () without a step.

    The step is never longer than the traced one, but for what runs differ by, nor shorter than the work of the only
    rank's GPU; with several ranks, they waited for each other in a part of that time. A profiler slows the workers of a
    DataLoader, too, so a fast host never waits for input. It slows the host more, so that workers seem to keep up: in a
    job that is `fed_by_workers`, the step of a slow host is the traced one.

    If a single rank waited for others whose traces are not given (`meets_others`), it is unknown how much of that the
    profiler caused: a fourth setting waits for nobody.
    """
    if (bounds := bounds_of(times)) is None:
        return ()
    expected, (least, traced_ns) = pace_of(calibration.cost, True), bounds
    longest = traced_ns * (1 + SHORT_OF_TRUTH)
    if len(times) > 1:
        least = min(expected.busy_ns, traced_ns)
    if least >= MIN_SHARE_OF_GPU_BOUND * traced_ns:
        return tuple(Setting(calibration.cost, step, expected) for step in (least, traced_ns, longest))
    if not expected.step_ns:
        return ()
    pace = 1 + calibration.unsure(max(traced_ns / expected.step_ns, 1.0) - 1)
    fast = replace(calibration.high, host_speed=pace, staging=1 / pace, input_speed=inf if fed_by_workers else pace)
    slow = replace(calibration.low, host_speed=1 / pace, staging=pace, input_speed=1 / pace)
    settings = [
        Setting(cost, min(max(run.step_ns * noise, least), most), run)
        for cost, run, noise, most in (
            (fast, pace_of(fast, True), 1 - NOISE_SHARE_OF_STEP, traced_ns),
            (calibration.cost, expected, 1.0, traced_ns),
            (slow, pace_of(slow, True), 1 + NOISE_SHARE_OF_STEP, longest),
        )
    ]
    if fed_by_workers:
        settings[-1] = replace(settings[-1], step_ns=longest)
    if meets_others:
        run = pace_of(fast, False)
        settings.append(Setting(fast, min(max(run.step_ns, run.busy_ns), settings[0].step_ns), run, False))
    return tuple(settings)


def bounds_of(times: Sequence[StepTimes]) -> RangeNs | None:
    """Return between what the step of ranks lies: the GPU's work and the traced step; None without one of them."""
    traced = [of_rank.traced_ns for of_rank in times if of_rank.traced_ns is not None]
    busy = [of_rank.busy_ns for of_rank in times if of_rank.busy_ns is not None]
    return (min(busy[0], max(traced)), max(traced)) if traced and busy else None


def across(values: Iterable[float]) -> Floats:
    """Return a figure in each world, from its values at the settings of a replay.

    Beyond the last setting of a host it stays as it is there: a single one holds in all worlds.
    """
    known = list(values)
    hosts = known[: len(SETTING_PLACES)]
    among = np.interp(WORLDS.host, SETTING_PLACES[: len(hosts)], hosts)
    caused = np.clip(WORLDS.ranks, 0.0, 1.0)
    return among + caused * (known[-1] - known[0]) if len(known) > len(hosts) else among
