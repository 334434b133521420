"""The course of a whole run: which steps were regular, what made others longer, and where the time went."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pinprof.step_statistics import (
    FEWEST_BLOCKS,
    Bools,
    Times,
    half_width,
    range_of_another,
    returning,
    unlike_others,
)
from pinprof.trace.lines import Place
from pinprof.trace.run import CHECKPOINT, COMPILE, EPOCH, EVALUATION, NOWHERE, PLAIN, PROFILED, RunLog

FIRST, LOGGING, OTHER = "first", "logging", "other"
"""Further reasons why a step is unlike the others; `logging` is any work that returns every so many steps."""

START_UP, REGULAR, INPUT, LATER, PINPROF, END = "start_up", "regular", "input", "later", "pinprof", "end"
"""The other rows of the ledger; `later` are steps that were only summed, `pinprof` what pinprof took itself."""

FIRST_STEPS = 10
"""A step among so many at the begin, unlike the others for no other reason, is one of the first: caches are cold."""
LEAST_PRECISION = 0.005
"""No mean is more certain than by this share: clocks of GPUs change, and the watch over the steps costs something."""
RARE, FEW, MUCH_LONGER = 0.05, 3, 3.0
"""Steps that are longer for no known reason are unlike the others if they are no more than this share, or so few, and
take more than so many times the usual one: on a busy machine, a host's steps of twice the usual length are common."""
FEWEST_GAPS = 2
"""Once between two is no rule."""
MOSTLY_SO = 0.8
"""The share of gaps that are of the usual length, where others are a multiple of it."""
QUICK = 25
"""Percentile of a step's time in a DataLoader."""
A_PART = 0.1
"""A reason for a smaller share of what makes a step longer is not named."""
PART_NS, FEWEST_IN_PART, FEWEST_PARTS = 250_000_000, 8, 3
"""Steps are looked at in parts, one after the other, of so many ns and steps at least, to see whether the machine's
speed changes: a thread loses its core for some milliseconds, and neighbours come and go in seconds."""


@dataclass(frozen=True)
class Irregular:
    """Steps that are unlike the others for one reason."""

    reason: str
    """`first`, `compile`, `evaluation`, `checkpoint`, `epoch_end`, `logging` or `other`."""
    count: int
    every: int | None
    """After how many steps it comes back; None where it does not do so regularly."""
    ns: int
    """What it adds to these steps together."""
    per_step_ns: float
    """That, divided by the number of all steps without profiler."""
    places: tuple[Place, ...]
    """Where the program calls such work, as far as it was noticed."""


@dataclass(frozen=True)
class Entry:
    """A row of the ledger."""

    what: str
    ns: int
    steps: int | None = None
    """How many steps it has a part of; None where it is not in steps."""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class RegularStep:
    """The regular step as it was timed without the profiler; times in ns."""

    steps: int
    """How many were timed."""
    step_ns: float
    """Their mean."""
    range_ns: tuple[float, float] | None
    """Where the mean of more steps would lie, with 95 % confidence; None for too few steps."""
    input_fraction: float
    """The share of their time in a DataLoader."""
    quick_input_ns: float
    """What a quarter of them are in a DataLoader at most: with workers, near to what a batch takes that is ready."""
    others: int = 0
    """How many steps were timed besides, and left out because they are unlike these."""
    other_ns: float = 0.0
    """The mean of the others."""
    parts_ns: tuple[float, float] | None = None
    """The shortest and the longest mean step of parts of the run; None for too few steps."""

    @property
    def input_ns(self) -> float:
        """The mean time in a DataLoader."""
        return self.input_fraction * self.step_ns

    @property
    def precision(self) -> float:
        """The share by which the mean is certain."""
        return (self.range_ns[1] - self.step_ns) / self.step_ns if self.range_ns else np.inf


@dataclass(frozen=True)
class Runs:
    """The regular step of several runs of a program, each in a fresh process; times in ns."""

    step_ns: tuple[float, ...]
    range_ns: tuple[float, float] | None
    """Where the step of one more run lies, with 95 % confidence; None for two runs, which do not tell."""


@dataclass(frozen=True)
class Course:
    """A run in sums; the ledger's times add up to `wall_ns`."""

    regular: int
    """The number of regular steps without profiler, timed or not."""
    timed: RegularStep | None
    irregular: tuple[Irregular, ...]
    """The largest sum first."""
    ledger: tuple[Entry, ...]
    wall_ns: int
    unavoidable: str | None
    """Why irregular work may be in the recorded steps although it was expected; None if none was."""
    runs: Runs | None = None
    """The other runs of the program; None where it ran once."""


class Seen(NamedTuple):
    """Steps as they were noted, in columns."""

    number: Times
    """Its place among all steps."""
    time_ns: Times
    input_ns: Times
    """The part of each in a DataLoader."""
    epochs: Bools
    """Whether an epoch begins in it."""
    noted: Bools
    """Whether any irregular work was noted in it."""
    filling: Bools
    """Whether its batch is one of those that workers began at the start of a DataLoader."""

    def of(self, rows: Times) -> "Seen":
        """Return these steps alone."""
        return Seen(*(column[rows] for column in self))


def regular_steps(steps: Seen) -> Bools:
    """Return which steps are like the others, by their times and what is in them.

    Input that comes in bursts belongs to what a batch costs; what a new epoch waits for does not. Steps that are longer
    for no reason that was noted, and do not come regularly, show how the steps scatter if they are many, or not by much
    longer.
    """
    like = ~unlike_others(steps.time_ns, steps.noted, lambda: np.where(steps.epochs, 0, steps.input_ns))
    unnoted = np.flatnonzero(~like & ~steps.noted)
    if len(unnoted) and _every(steps.number[unnoted]) is None:
        many = len(unnoted) > max(RARE * len(like), FEW)
        like[unnoted[many | (steps.time_ns[unnoted] <= MUCH_LONGER * np.median(steps.time_ns))]] = True
    like[np.flatnonzero(like)[returning((steps.time_ns - steps.input_ns)[like], steps.number[like])]] = False
    return like


class Expected(NamedTuple):
    """Irregular work that will come again."""

    reason: str
    every: int
    """After so many steps."""
    ahead: int
    """So many steps come before it."""


def expected(log: RunLog) -> Expected | None:
    """Return which irregular work will come next, as far as it came regularly; None where none did."""
    coming = []
    for reason, ns_of in _by_reason(_noted(log), _steps_of(log, _seen(log))).items():
        steps = list(ns_of)
        every = None if reason in {FIRST, COMPILE, OTHER} else _every(steps)
        if every:
            coming.append(Expected(reason, every, (steps[-1] - len(log.step_ns)) % every))
    return min(coming, key=lambda each: each.ahead, default=None)


def regular_figure(log: RunLog) -> RegularStep | None:
    """Return the regular step as it was timed, None where it was not.

    Steps that were timed after the profiler had run count only if they agree with those before.
    """
    return _timed(log, _seen(log))


def _timed(log: RunLog, seen: Seen) -> RegularStep | None:
    before, after = _plain_windows(log)
    first = _figure(seen.of(before))
    if first is None or not len(after):
        return first
    second, all_steps = (_figure(seen.of(rows)) for rows in (after, np.concatenate((before, after))))
    return all_steps if second is None or _agree(first, second) else first


def regular_since(log: RunLog, first: int) -> Times:
    """Return which steps from this one on are regular, counted from it."""
    return np.flatnonzero(regular_steps(_seen(log).of(np.arange(first, len(log.step_ns)))))


def _plain_windows(log: RunLog) -> tuple[Times, Times]:
    """Return the steps of the plain window, and those of the others of this name."""
    begin, found = 0, []
    for name, count in log.windows:
        found += [np.arange(begin, begin + count)] * (name == PLAIN)
        begin += count
    none = np.arange(0)
    return found[0] if found else none, np.concatenate(found[1:]) if len(found) > 1 else none


def _figure(steps: Seen) -> RegularStep | None:
    regular = regular_steps(steps)
    settled = regular & ~steps.filling
    enough = settled.sum() >= max(FEWEST_BLOCKS, np.count_nonzero(regular) / 2)  # else they are a part of each epoch
    kept, others = steps.of(np.flatnonzero(settled if enough else regular)), steps.time_ns[~regular]
    if not kept.time_ns.sum():
        return None
    mean = float(kept.time_ns.mean())
    half = max(half_width(kept.time_ns), LEAST_PRECISION * mean)
    around = (max(mean - half, 0.0), mean + half) if half < np.inf else None
    fraction = min(float(kept.input_ns.sum() / kept.time_ns.sum()), 1.0)
    quick = min(float(np.percentile(kept.input_ns, QUICK)), fraction * mean)
    other = float(others.mean()) if len(others) else 0.0
    parts = _parts(kept.time_ns)
    return RegularStep(len(kept.time_ns), mean, around, fraction, quick, len(others), other, parts)


def _parts(times: Times) -> tuple[float, float] | None:
    """Return the shortest and the longest mean of parts of the steps, one after the other; None for too few parts."""
    means, begin, until_ns = [], 0, np.cumsum(times)
    for end in range(FEWEST_IN_PART, len(times) + 1):
        took_ns = float(until_ns[end - 1] - (until_ns[begin - 1] if begin else 0))
        if end - begin >= FEWEST_IN_PART and took_ns >= PART_NS:
            means.append(took_ns / (end - begin))
            begin = end
    return (min(means), max(means)) if len(means) >= FEWEST_PARTS else None


def runs_of(step_ns: tuple[float, ...]) -> Runs | None:
    """Return the runs of a program with these steps; None where it ran once."""
    return Runs(step_ns, range_of_another(np.array(step_ns))) if len(step_ns) > 1 else None


def _agree(one: RegularStep, other: RegularStep) -> bool:
    if one.range_ns is None or other.range_ns is None:
        return True
    return one.range_ns[0] <= other.range_ns[1] and other.range_ns[0] <= one.range_ns[1]


def follow_course(log: RunLog, returning_waits: Iterable[tuple[Place, int]] = ()) -> Course:
    """Return the sums of a run; waits that come back after so many steps tell where such work is called."""
    seen = _seen(log)
    steps = _steps_of(log, seen)
    rows = [_placed(row, returning_waits) for row in _irregular(log, steps)]
    return Course(
        regular=int(steps.regular.sum()),
        timed=_timed(log, seen),
        irregular=tuple(sorted(rows, key=lambda row: -row.ns)),
        ledger=tuple(entry for entry in _ledger(log, steps, rows) if entry.ns),
        wall_ns=_wall(log),
        unavoidable=log.unavoidable,
        runs=runs_of(log.runs_ns),
    )


@dataclass(frozen=True, eq=False)
class _Steps:
    """The steps of a run, in columns."""

    profiled: Bools
    regular: Bools
    """Like the others; never one under the profiler."""
    input_ns: Times
    """In a DataLoader, without what an irregular step is longer by."""
    excess_ns: Times
    """By what an irregular step is longer; 0 for others."""


def _steps_of(log: RunLog, seen: Seen) -> _Steps:
    on_host = np.array(log.step_ns, dtype=np.int64)
    times, waited = seen.time_ns, seen.input_ns
    names, counts = zip(*log.windows, strict=True) if log.windows else ((), ())
    profiled = np.repeat(np.isin(names, PROFILED), counts)
    regular = np.zeros(len(on_host), bool)
    free = np.flatnonzero(~profiled)
    regular[free] = regular_steps(seen.of(free))
    usual = times[regular].mean() if regular.any() else 0.0
    irregular = ~profiled & ~regular
    excess = np.where(irregular, np.clip(times - usual, 0, on_host), 0).astype(np.int64)
    usual_wait = np.median(waited[regular]) if regular.any() else 0
    waited = np.where(profiled, 0, np.where(irregular, np.minimum(waited, usual_wait), waited)).astype(np.int64)
    return _Steps(profiled, regular, np.minimum(waited, on_host - excess), excess)


def _seen(log: RunLog) -> Seen:
    on_host, on_gpu = (np.array(each, dtype=np.int64) for each in (log.step_ns, log.gpu_ns))
    number = np.arange(len(on_host))
    step, epoch = (np.isin(number, found) for found in _steps_with_work(log))
    waited = np.minimum(np.array(log.input_ns, dtype=np.int64), on_host)
    if on_gpu.any():
        on_host = _without_lead(on_host, float(np.median(on_gpu[on_gpu > 0])))
    filling = np.isin(number, log.filling)
    return Seen(number, np.where(on_gpu > 0, on_gpu, on_host), waited, epoch, step, filling)


def _steps_with_work(log: RunLog) -> tuple[list[int], list[int]]:
    """Return the steps in which any irregular work was noted, and those in which an epoch begins."""
    return [each.step for each in log.unusual_work], [each.step for each in log.work if each.kind == EPOCH]


def _without_lead(on_host: Times, usual: float) -> Times:
    """Return how long steps take, by the host, that may run ahead of the GPU until it waits for it.

    What it was ahead by, in steps shorter than the usual one, is what it waits for later: no step is longer by that.
    """
    lead, times = 0.0, []
    for time in on_host.tolist():
        ahead = usual - time
        waits = min(lead, max(-ahead, 0.0))
        lead += max(ahead, 0.0) - waits
        times.append(max(time, usual) - waits)
    return np.array(times, dtype=np.int64)


def _irregular(log: RunLog, steps: _Steps) -> list[Irregular]:
    """Return what the irregular steps have more than the regular ones, by reason."""
    noted = _noted(log)
    free = max(int((~steps.profiled).sum()), 1)
    rows = []
    for reason, ns_of in _by_reason(noted, steps).items():
        at, ns = list(ns_of), sum(ns_of.values())
        rows.append(Irregular(reason, len(at), _every(at), ns, ns / free, _places(noted, reason, at)))
    return rows


def _placed(row: Irregular, returning_waits: Iterable[tuple[Place, int]]) -> Irregular:
    """Return the row with the places of waits that come back as often, if nothing else tells where it is called."""
    if row.reason != LOGGING or row.places or row.every is None:
        return row
    return replace(row, places=tuple(dict.fromkeys(place for place, every in returning_waits if every == row.every)))


def _by_reason(noted: dict[int, "_Noted"], steps: _Steps) -> dict[str, dict[int, int]]:
    """Return by reason which steps it makes longer, in order, and by how many ns each."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for step in np.flatnonzero(steps.excess_ns).tolist():
        for reason, ns in _divided(int(steps.excess_ns[step]), noted[step], step):
            found[reason][step] = (
                found[reason].get(step, 0) + ns
            )  # a new epoch may be a part that was timed and the rest
    _name_what_returns(found)
    return {reason: dict(sorted(ns_of.items())) for reason, ns_of in found.items() if ns_of}


def _name_what_returns(found: dict[str, dict[int, int]]) -> None:
    """Take other work that returns after the same number of steps for logging, also among the first steps."""
    other, first = found[OTHER], found[FIRST]
    every = _every(list(other))
    if every is None:
        return
    begin = next(iter(other))
    early = [step for step in first if (begin - step) % every == 0]
    found[LOGGING] = {step: first.pop(step) for step in early} | found.pop(OTHER)


def _places(noted: dict[int, "_Noted"], reason: str, at: list[int]) -> tuple[Place, ...]:
    """Return where the program calls work of this kind in these steps, each place once."""
    return tuple(dict.fromkeys(place for step in at for place in noted[step].places.get(reason, ())))


class _Noted:
    """The work that was noted in one step."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}
        self.places: dict[str, list[Place]] = defaultdict(list)


def _noted(log: RunLog) -> dict[int, _Noted]:
    noted: dict[int, _Noted] = defaultdict(_Noted)
    for each in log.unusual_work:
        of_step = noted[each.step]
        of_step.ns[each.kind] = of_step.ns.get(each.kind, 0) + each.ns
        if each.place != NOWHERE:
            of_step.places[each.kind].append(log.places[each.place])
    return noted


def _divided(excess: int, noted: _Noted, step: int) -> Iterator[tuple[str, int]]:
    """Yield the reasons why a step is longer, with the part of each: what was timed, and the reason of the rest."""
    left, timed = excess, []
    for reason in (CHECKPOINT, EPOCH):
        part = min(noted.ns.get(reason, 0), left)
        if part >= A_PART * excess:
            timed.append((reason, part))
            left -= part
    if timed and left < A_PART * excess:
        reason, part = timed.pop()
        timed.append((reason, part + left))
    else:
        by_mark = (reason for reason in (COMPILE, EVALUATION, EPOCH) if reason in noted.ns)
        yield next(by_mark, FIRST if step < FIRST_STEPS else OTHER), left
    yield from timed


def _every(at: Sequence[int] | Times) -> int | None:
    """Return after how many steps these come back, None where they do so not or not regularly.

    Steps under the profiler are not told of: one of these may be missing.
    """
    gaps = np.diff(at)
    if len(gaps) < FEWEST_GAPS:
        return None
    every = int(np.median(gaps))
    if every == 1:  # one behind the other: from there on all steps are longer, as behind a profiler
        return None
    is_regular = gaps.max() - gaps.min() <= 1 or ((gaps % every == 0).all() and (gaps == every).mean() >= MOSTLY_SO)
    return every if is_regular else None


def _ledger(log: RunLog, steps: _Steps, rows: list[Irregular]) -> Iterator[Entry]:
    on_host = np.array(log.step_ns, dtype=np.int64)
    free, waited, excess = ~steps.profiled, int(steps.input_ns.sum()), int(steps.excess_ns.sum())
    yield Entry(START_UP, log.start_up_ns)
    yield Entry(REGULAR, int(on_host[free].sum()) - waited - excess, int(free.sum()))
    yield Entry(INPUT, waited + log.later.input_ns, int((steps.input_ns > 0).sum()))
    yield from (Entry(row.reason, row.ns, row.count, row.places) for row in rows)
    yield Entry(LATER, log.later.ns - log.later.input_ns, log.later.steps)
    own = sum(log.own_ns) + log.own_after_ns
    yield Entry(PINPROF, int(on_host[steps.profiled].sum()) + own, int(steps.profiled.sum()))
    yield Entry(END, log.after_ns)


def _wall(log: RunLog) -> int:
    return sum((log.start_up_ns, *log.step_ns, *log.own_ns, log.later.ns, log.after_ns, log.own_after_ns))
