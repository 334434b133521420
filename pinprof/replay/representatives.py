"""Finds a few of many steps that represent all: their replay gives the same as that of all."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from pinprof.replay.calibration import USUAL_NS, cost_of
from pinprof.replay.program import Floats, Program
from pinprof.trace.tables import Bools, Int64s

MAX_STEPS_ALL_REPLAYED = 15  # up to this number of steps, all are replayed
SAMPLE_SIZES = (8, 12, 16)
"""How many steps may represent all, if these are at least twice as many; the smallest balanced number is taken."""
BALANCED_SHARE_OF_STEP = 0.0007
"""Steps represent all if the means of all their times differ by at most this share of a step from those of all steps.
Then the replays differ by less than 0.002 of the step."""
MAX_EXCHANGES = 50
"""The search for balanced steps ends after this number of exchanges; a few suffice if there are such steps."""
COSTS_NS = (0.0, 0.5 * USUAL_NS, 2 * USUAL_NS, 4 * USUAL_NS)
"""Possible costs of a profiler per event. The host's time without the profiler, which has a floor in each call, is
balanced for each of them."""


def representatives(programs: Sequence[Program], steps: Sequence[Sequence[int]], phases: Sequence[Int64s]) -> list[int]:
    """Return the indices into `steps` of those that represent all, the same on all ranks.

    All are returned if they are few, or if none of `SAMPLE_SIZES` suffices. `programs` and `steps` are those of each
    rank, `phases` has the phase of each call of its program.
    """
    count = len(steps[0])
    if count <= MAX_STEPS_ALL_REPLAYED:
        return list(range(count))
    ranks = zip(programs, steps, phases, strict=True)
    columns = [times for program, of_rank, phase in ranks for times in _times(program, of_rank, phase)]
    return [int(index) for index in balanced(np.stack(columns, axis=1))]


def balanced(figures: Floats) -> Int64s:
    """Return the fewest rows whose mean differs from that of all rows by at most 1 in each column; otherwise all rows.

    The search begins with rows spread evenly over all, by the first column, and exchanges one at a time for a better
    one.
    """
    deviation = figures - figures.mean(axis=0)
    by_first = np.argsort(deviation[:, 0], kind="stable")
    for size in takewhile(lambda size: 2 * size <= len(deviation), SAMPLE_SIZES):
        chosen = by_first[((np.arange(size) + 0.5) * len(deviation) / size).astype(np.int64)]
        for _ in range(MAX_EXCHANGES):
            total = deviation[chosen].sum(axis=0)
            if np.abs(total).max() <= size:
                return np.sort(chosen)
            others = np.setdiff1d(np.arange(len(deviation)), chosen)
            squares = ((total - deviation[chosen][:, None] + deviation[others]) ** 2).sum(axis=-1)
            if squares.min() >= (total**2).sum():
                break
            removed, added = np.unravel_index(squares.argmin(), squares.shape)
            chosen[removed] = others[added]
    return np.arange(len(deviation))


def _times(program: Program, steps: Sequence[int], phase: Int64s) -> Iterator[Floats]:
    """Yield times of steps, those of the host first, divided by the largest difference that their means may have."""
    host, calls = program.host, program.calls
    step_of_call = np.searchsorted(steps, [call.step for call in calls])
    works = np.array([(work.engine, work.duration_ns) for call in calls for work in call.works]).reshape(-1, 2)
    step_of_work = np.repeat(step_of_call, [len(call.works) for call in calls])
    usual = cost_of(USUAL_NS)
    before, own = usual.before_ns(host), host.own - usual.saved_ns(host)
    unit = BALANCED_SHARE_OF_STEP * max(float((before + own).sum()) / len(steps), 1.0)

    def of_steps(times: Floats, rows: Bools | None = None, step_of_row: Int64s = step_of_call) -> Floats:
        of_rows = times if rows is None else np.where(rows, times, 0.0)
        return np.bincount(step_of_row, weights=of_rows / unit, minlength=len(steps)).astype(np.float64)

    events = np.full(len(calls), USUAL_NS)
    own_work = np.array([call.own_work_ns for call in calls], dtype=np.float64)
    yield of_steps(before + own)
    for cost in COSTS_NS:
        yield of_steps(cost_of(cost).before_ns(host))
    for times in (host.input, host.python, host.cost, own_work):
        yield of_steps(times)
    kinds = np.array([call.kind.value for call in calls])
    for column in (kinds, phase):
        for value in np.unique(column):
            for times in (before, own, events):
                yield of_steps(times, column == value)
    for engine in np.unique(works[:, 0]):
        yield of_steps(works[:, 1], works[:, 0] == engine, step_of_work)
