"""Compares two traces of one program: what a fix saved, and what the replay of the trace before it predicts."""

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from pinprof.analyses.by_name.kernels import SAME_KERNELS_SHARE, kernels_alike
from pinprof.analyses.syncs.causes import BLOCKING_COPY_CAUSES, WAITS_FOR_COPIES_TO_GPU
from pinprof.analyses.syncs.sites import GONE_SHARE, Site, SiteCount, match_sites
from pinprof.details import Details
from pinprof.ground.errors import TraceError
from pinprof.ground.intervals import Intervals, covered
from pinprof.measurement.profile import Profile
from pinprof.prediction import Edits, Prediction, Scenario, predict_edits
from pinprof.prediction.edits import NO_EDITS
from pinprof.prediction.scenarios import OptionChange, change_of, with_pinned, without_blocking, without_waits
from pinprof.replay import Replay
from pinprof.trace.calls import ALLOCATING
from pinprof.trace.tables import HTOD, KERNEL, MEMCPY, NONE, PAGEABLE, PINNED, Bools, Int64s, Trace

COPY_CAUSES = BLOCKING_COPY_CAUSES | WAITS_FOR_COPIES_TO_GPU
"""Causes of waits that disappear if their copies are made in another way."""

CopyKey = tuple[int, int]  # direction, and the number of bits of the size: batches have similar, not equal sizes


@dataclass(frozen=True)
class Verification:
    """The prediction from the trace before a fix, and the step in the trace after it; times in ns."""

    before: Profile
    after: Profile
    prediction: Prediction
    measured_ns: float
    measured_source: str  # `measured` (recorded by pinprof run) or `estimated`
    measured_range_ns: tuple[float, float]
    changes: tuple[OptionChange, ...]  # what the fix changed, as far as a replay can apply it
    new_waits: tuple[Site, ...]  # waits that only the trace after has; the prediction leaves them out
    kernels_alike: float  # share of the kernels per step that both traces have, by name

    @property
    def error(self) -> float:
        """How far the predicted step lies above the measured one, as a share of the latter."""
        return self.prediction.predicted_ns / self.measured_ns - 1

    @property
    def predicted_saving_ns(self) -> float:
        """How much the fix was predicted to save per step."""
        return self.prediction.baseline_ns - self.prediction.predicted_ns

    @property
    def measured_saving_ns(self) -> float:
        """How much the fix saved per step."""
        return self.prediction.baseline_ns - self.measured_ns

    @property
    def is_same_program(self) -> bool:
        """Whether the two traces seem to be of one program."""
        return self.kernels_alike >= SAME_KERNELS_SHARE


@dataclass(frozen=True)
class _Side:
    """One of the two traces."""

    details: Details
    profile: Profile

    @property
    def trace(self) -> Trace:
        return self.details.trace

    def per_step(self, count: float) -> float:
        return count / self.profile.steps.divisor


def verify(before: Details, before_profile: Profile, after: Details, after_profile: Profile) -> Verification:
    """Return how the step after a fix compares with the one predicted from the trace before it.

    The fix is inferred: it concerns waits, allocations and kinds of copies that the trace after lacks, or has at most
    half as often as the trace before. Raises TraceError if one of the traces has no step that could be compared.
    """
    old, new = _Side(before, before_profile), _Side(after, after_profile)
    measured = after_profile.estimate
    for side in (old, new):
        reason = side.profile.withheld.estimate
        if reason and len(side.trace.gpu):
            raise TraceError(f"{side.profile.path}: is not fit to compare ({reason.what}); {reason.remedy}")
        if not side.profile.estimate.step_ns or not len(side.trace.gpu):
            raise TraceError(
                f"{side.profile.path}: has no complete step with runtime calls and GPU activities to compare; record "
                "it with pinprof run, or with ProfilerActivity.CPU and CUDA and profiler.step() once per training step"
            )
    replay = Replay([before])
    if not replay.runs:
        raise TraceError(f"{before_profile.path}: has no runtime calls, so no change can be predicted from it")
    matches = match_sites(_waits_of_code(old), _waits_of_code(new))
    edits = _edits(old, new, {site for match in matches for site in match.gone()})
    step = measured.step_ns or 0.0
    return Verification(
        before=before_profile,
        after=after_profile,
        prediction=predict_edits(replay, [reduce(or_, edits.values(), NO_EDITS)], Scenario()),
        measured_ns=step,
        measured_source=measured.source,
        measured_range_ns=measured.range_ns or (step, step),
        changes=tuple(change_of(option, before, edit) for option, edit in edits.items() if edit),
        new_waits=tuple(site for match in matches for site in match.new()),
        kernels_alike=kernels_alike(before.trace, after.trace),
    )


def _edits(old: _Side, new: _Side, missed: AbstractSet[Site]) -> dict[str, Edits]:
    """Return by option the edits that the fix made in the trace before; `missed` are the waits that only it has."""
    syncs, gpu = old.details.syncs, old.trace.gpu
    copies, stalls = _copies_in_steps(old), syncs.stalls
    pageable = _fewer(old, new, copies, lambda side, rows: side.trace.gpu.host_memory[rows] == PAGEABLE)
    pinned = _fewer(old, new, copies, lambda side, rows: side.trace.gpu.host_memory[rows] != PINNED)
    blocking = _fewer(old, new, copies, _blocks)
    newly_hidden = _fewer(old, new, copies, lambda side, rows: ~_is_hidden(side, rows))
    ahead = [row for row in newly_hidden if gpu.direction[row] == HTOD]
    numbers = [number for number, site in enumerate(syncs.sites) if site in missed]
    kept = _kept(old, new)
    of_kept_copies = {
        number
        for number in numbers
        if syncs.sites[number].cause in COPY_CAUSES
        and all(_key(old, int(copy)) in kept for copy in stalls.copy[syncs.rows[number]] if copy != NONE)
    }
    newly_pinned = frozenset(pageable) & frozenset(pinned)
    allocations = {number for number in numbers if np.isin(stalls.kind[syncs.rows[number]], ALLOCATING).any()}
    return {
        "drop_syncs": without_waits(syncs, sorted(set(numbers) - of_kept_copies - allocations)),
        "pin": Edits(pinned=newly_pinned)
        if new.details.loader.pins is False
        else with_pinned(old.details, newly_pinned),
        "non_blocking": without_blocking(old.details, frozenset(blocking)) if blocking else NO_EDITS,
        "overlap_copies": Edits(ahead=frozenset(ahead)),
        "drop_allocs": without_waits(syncs, sorted(allocations)),
    }


# Waits


def _waits_of_code(side: _Side) -> list[SiteCount]:
    """Return the sites that a fix can be about, each with its waits per step."""
    return [
        (site, side.per_step(site.in_steps.count))
        for site in side.details.syncs.sites
        if site.is_of_the_code and site.in_steps.count
    ]


# Copies


def _copies_in_steps(side: _Side) -> Int64s:
    trace = side.trace
    step = trace.links.activity_step
    return np.flatnonzero((trace.gpu.category == MEMCPY) & trace.steps.holds(step))


def _key(side: _Side, row: int) -> CopyKey:
    return int(side.trace.gpu.direction[row]), int(side.trace.gpu.bytes[row]).bit_length()


def _kept(old: _Side, new: _Side) -> set[CopyKey]:
    before, after = (Counter(_key(side, row) for row in _copies_in_steps(side).tolist()) for side in (old, new))
    return {key for key, count in before.items() if new.per_step(after[key]) > GONE_SHARE * old.per_step(count)}


def _fewer(old: _Side, new: _Side, rows: Int64s, has: Callable[[_Side, Int64s], Bools]) -> list[int]:
    """Return the copies before the fix that have a property which copies of their kind lack after it."""
    chosen = rows[has(old, rows)].tolist()
    others = _copies_in_steps(new)
    remaining = Counter(_key(new, row) for row in others[has(new, others)].tolist())
    before = Counter(_key(old, row) for row in chosen)
    kept = _kept(old, new)
    fixed = {
        key for key, count in before.items() if new.per_step(remaining[key]) <= GONE_SHARE * old.per_step(count)
    } & kept
    copies = np.flatnonzero(old.trace.gpu.category == MEMCPY)  # also those outside of complete steps
    return [row for row in copies[has(old, copies)].tolist() if _key(old, row) in fixed]


def _blocks(side: _Side, rows: Int64s) -> Bools:
    syncs = side.details.syncs
    of_copy = syncs.has_cause(*BLOCKING_COPY_CAUSES)
    return np.isin(rows, syncs.stalls.copy[of_copy])


def _is_hidden(side: _Side, rows: Int64s) -> Bools:
    """Return whether each copy is on another stream than most kernels, by time, and kernels hide most of it."""
    gpu = side.trace.gpu
    kernels = np.flatnonzero(gpu.category == KERNEL)
    result = np.zeros(len(rows), bool)
    for device in np.unique(gpu.device[rows]).tolist():
        on_device = kernels[gpu.device[kernels] == device]
        if not len(on_device):
            continue
        streams, index = np.unique(gpu.stream[on_device], return_inverse=True)
        compute = streams[np.bincount(index.ravel(), weights=gpu.duration_ns[on_device]).argmax()]
        busy: Intervals = gpu.times(on_device)
        is_hidden = covered(busy, gpu.start_ns[rows], gpu.end_ns[rows]) >= GONE_SHARE * gpu.duration_ns[rows]
        result |= (gpu.device[rows] == device) & (gpu.stream[rows] != compute) & is_hidden
    return result
