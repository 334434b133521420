"""The ranks of one job: who holds up the others, by how much, and with what."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from pinprof.analyses.communication import Communication, measure_communication
from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.parts import step_windows
from pinprof.intervals import Intervals, covered
from pinprof.measure import Profile, gaps_with_causes, measure, summary
from pinprof.rules import Finding, Findings, find
from pinprof.trace.clocks import Clocks, align_clocks
from pinprof.trace.collectives import Meeting, match_collectives
from pinprof.trace.tables import Trace
from pinprof.whatif import Model, Recorded
from pinprof.whatif.calibrate import expected
from pinprof.whatif.ranks import alone
from pinprof.whatif.replay import pace

SKEWED = 0.05
"""A rank that needs longer than the others by this share of their step holds them up: two runs of one program differ by
3 %, so ranks that do the same differ by less than twice that."""
OFTEN = 0.5
"""A rank that comes last to more than this share of the collectives comes last as a rule."""
COLLECTIVES_SHOWN = 10
Times = tuple[tuple[str, float], ...]
"""(cause, ns per step), the longest first."""
RANK_IN_NAME = tuple(re.compile(rf"(?<![a-z]){word}[-_.=]?(\d+)", re.IGNORECASE) for word in ("rank", "worker"))
"""How names of files and folders tell the rank: `trace_rank3.json`, `rank-3/trace.json`; users of
tensorboard_trace_handler often call it `worker3`."""


@dataclass(frozen=True)
class Pause:
    """The longest time per step in which the training threads ran no op and no call: Python code, or sleep."""

    time_ns: float
    """Median over the complete steps."""
    after: str
    """The op before it; empty at the beginning of the step."""
    before: str


@dataclass(frozen=True)
class RankPart:
    """What is kept of one rank: small, whatever its trace has."""

    profile: Profile
    """Its `summary`: no row of the trace is in it."""
    findings: Findings
    communication: Communication
    alone_ns: tuple[float, float] | None
    """The step that it would have, without profiler, if it waited for no other rank: the least that it may be, and what
    is expected; None if that cannot be told."""
    pause: Pause | None
    idle: Times | None = None
    """Why its busiest GPU was idle in the complete steps; None where that is not known."""


@dataclass(frozen=True)
class RankRow:
    """One rank in figures; times in ns per step."""

    rank: int
    path: str
    step_ns: float | None
    alone_ns: float | None
    """The step that it would have if it waited for no other rank."""
    surely_ns: float | None
    """The least that this may be, by what the profiler may have cost."""
    gpu_busy_ns: float | None
    exposed_copies_ns: float | None
    stall_ns: float | None
    """The host stands in calls that wait."""
    input_ns: float
    communication_ns: float
    exposed_communication_ns: float
    waited_ns: float
    """Its collectives' kernels waited for other ranks."""
    last: float
    """Share of the collectives to which it came last."""
    clock_ahead_ns: int
    """How far the clock of its machine is ahead of the first rank's."""
    steps_before: int | None
    """Steps of the program before those recorded; collectives match where this is the same on all ranks."""
    overlapped_communication_ns: float
    """Beside which another kernel runs; with the exposed part all of `communication_ns`."""
    pause_ns: float | None
    """The longest time in which its host ran no op and no call."""
    stalls: Times
    """By cause; they add up to `stall_ns`."""
    idle_ns: float | None
    """Its busiest GPU had no work, as traced."""
    idle: Times
    """By cause; they add up to `idle_ns`."""


@dataclass(frozen=True)
class CollectiveRow:
    """A collective of the step, in order; times in ns, means over the steps."""

    name: str
    group: str
    last_rank: int
    """The rank that came last most often."""
    last: float
    """In this share of the steps."""
    own_ns: float
    """What it takes once all have come."""
    waited_ns: float
    """The longest that a rank waited for the others."""


@dataclass(frozen=True)
class SharedFinding:
    """What one rule found in one place, on one or more ranks."""

    finding: Finding
    """As on the rank where it costs most."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job side by side."""

    rows: tuple[RankRow, ...]
    world_size: int | None
    collectives: tuple[CollectiveRow, ...]
    """The costliest, by waiting."""
    clocks_within_ns: float | None
    """How well the clocks of the ranks agree once aligned: the ends of nine in ten collectives, None if none tells."""
    slowest_rank: int | None
    """The rank that holds up the others; None if none does."""
    skew_ns: float
    """How much longer the slowest rank needs by itself than the median of the others."""
    reason: str | None
    """What the slowest rank does instead, in words."""
    findings: tuple[SharedFinding, ...] = ()
    """Those of the most ranks first, and of these the costliest."""

    @property
    def spread_ns(self) -> tuple[float, float, float] | None:
        """The shortest step, the median and the longest; None if no rank's step is known."""
        steps = [row.step_ns for row in self.rows if row.step_ns]
        return (min(steps), median(steps), max(steps)) if steps else None


def measure_rank(trace: Trace) -> RankPart:
    """Return what the report on a job needs of one rank."""
    profile = measure(trace)
    return RankPart(
        summary(profile),
        find(profile, trace).summary(),
        measure_communication(trace),
        _alone(trace, profile),
        _pause(trace),
        idle=_idle(trace, profile),
    )


def _idle(trace: Trace, profile: Profile) -> Times | None:
    if profile.withheld.keys() & {"step", "per_step", "busy", "causes"} or not profile.devices:
        return None
    busiest = max(profile.devices, key=lambda device: device.busy_ns).device
    _, start, end = step_windows(trace, np.flatnonzero(trace.gpu.device == busiest))
    if not len(start):
        return None
    gaps = next(each for each in gaps_with_causes(trace, profile.syncs, profile.loader) if each.device == busiest)
    times = []
    for code, cause in enumerate(IDLE_CAUSES):
        of_cause = gaps.cause == code
        idle = Intervals(gaps.times.start[of_cause], gaps.times.end[of_cause])
        times.append((cause, float(covered(idle, start, end).sum()) / len(start)))
    return _longest_first(times)


def _longest_first(times: Iterable[tuple[str, float]]) -> Times:
    return tuple(sorted(((cause, time) for cause, time in times if time), key=lambda each: -each[1]))


def _alone(trace: Trace, profile: Profile) -> tuple[float, float] | None:
    model = Model([Recorded(trace, profile.syncs, profile.steps, profile.loader)])
    if not model.runs:
        return None
    by_itself = alone(trace, model.programs[0], model.chosen[0])
    calibration = expected([by_itself], stacks=len(trace.functions) > 0)
    least, usual = (pace([by_itself], model.steps, cost).step_ns for cost in (calibration.high, calibration.cost))
    return (least, usual) if usual else None


def _pause(trace: Trace) -> Pause | None:
    """Return the usual longest pause of the training threads in a step, and between which ops it most often lies.

    Backward runs on the autograd threads, for which the main thread waits.
    """
    threads = [number for number, thread in enumerate(trace.threads) if thread.role in {"main", "autograd"}]
    steps = trace.steps
    if not threads or not steps.on_host or not steps.complete.any():
        return None
    tables = (trace.ops, trace.calls)
    chosen = [np.flatnonzero(np.isin(table.thread, threads)) for table in tables]
    start = np.concatenate([table.start_ns[rows] for table, rows in zip(tables, chosen, strict=True)])
    end = np.concatenate([table.end_ns[rows] for table, rows in zip(tables, chosen, strict=True)])
    names = [table.name_of(row) for table, rows in zip(tables, chosen, strict=True) for row in rows.tolist()]
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    longest: list[float] = []
    places: Counter[tuple[str, str]] = Counter()
    for begin, stop in zip(steps.start_ns[steps.complete], steps.end_ns[steps.complete], strict=True):
        first, last = np.searchsorted(start, [begin, stop])
        edges = np.concatenate(([begin], np.maximum(reached[first:last], begin)))
        gaps = np.concatenate((start[first:last], [stop])) - edges
        at = int(gaps.argmax())
        longest.append(float(gaps[at]))
        before = names[order[first + at]] if first + at < last else ""
        places[names[order[first + at - 1]] if at else "", before] += 1
    return Pause(median(longest), *places.most_common(1)[0][0])


def compare_ranks(parts: Sequence[RankPart]) -> Ranks:
    """Return the ranks of a job side by side; each part is of another rank."""
    numbers = [number_of(part, place) for place, part in enumerate(parts)]
    tables = [part.communication.collectives for part in parts]
    meetings = match_collectives(tables)
    clocks = align_clocks(tables, [part.profile.info.base_ns or 0 for part in parts], meetings)
    waited, last, collectives = _waits(parts, numbers, meetings, clocks)
    rows = [
        _row(part, number, waited[place], last[place], clocks.ahead_ns[place])
        for place, (part, number) in enumerate(zip(parts, numbers, strict=True))
    ]
    rows = _in_lockstep(rows, parts)
    slowest, skew = _slowest(rows)
    place = next((place for place, row in enumerate(rows) if row.rank == slowest), None)
    return Ranks(
        tuple(sorted(rows, key=lambda row: row.rank)),
        next((part.profile.info.world_size for part in parts if part.profile.info.world_size), None),
        collectives,
        clocks.within_ns,
        slowest,
        skew,
        None if place is None else _reason(parts, rows, place),
        _said_once(parts, numbers),
    )


def _in_lockstep(rows: Sequence[RankRow], parts: Sequence[RankPart]) -> list[RankRow]:
    """Return the rows with the step of the rank that sets the pace as the most that the estimate of another may be.

    A rank that waits for others has what the profiler cost them in its own trace, as work of its GPU.
    """
    pace = max(rows, key=lambda row: row.alone_ns or 0.0, default=None)
    if pace is None or not pace.alone_ns or not pace.step_ns:
        return list(rows)
    return [
        replace(row, step_ns=min(row.step_ns, pace.step_ns))
        if row.step_ns and row.waited_ns and part.profile.step.source != "measured"
        else row
        for row, part in zip(rows, parts, strict=True)
    ]


def _said_once(parts: Sequence[RankPart], numbers: Sequence[int]) -> tuple[SharedFinding, ...]:
    """Return what the rules found, each rule and place once."""
    found: dict[object, list[tuple[int, Finding]]] = defaultdict(list)
    for number, part in zip(numbers, parts, strict=True):
        for finding in part.findings:
            at = finding.evidence
            found[finding.rule.id, at.file, at.line, at.function].append((number, finding))
    shared = [
        SharedFinding(
            max((finding for _, finding in members), key=lambda finding: finding.evidence.cost_ns),
            tuple(sorted({number for number, _ in members})),
        )
        for members in found.values()
    ]
    return tuple(sorted(shared, key=lambda each: (-len(each.ranks), -each.finding.evidence.cost_ns)))


def rank_of(part: RankPart) -> int | None:
    """Return the number of a rank: as recorded, else as the names of file and folders say; None if none does."""
    return rank_in_name(part.profile.path) if part.profile.info.rank is None else part.profile.info.rank


def rank_in_name(path: str) -> int | None:
    """Return the number of the rank in the names of a file and its folders, None if there is none."""
    found = (numbers[-1] for pattern in RANK_IN_NAME if (numbers := pattern.findall(path)))
    return next(map(int, found), None)


def why_no_job(parts: Sequence[RankPart]) -> str | None:
    """Return why traces are not the ranks of one job, in words; None if they are."""
    paths: dict[int, str] = {}
    for part in parts:
        rank = rank_of(part)
        if rank is None:
            return f"of {part.profile.path} nothing tells the rank"
        if rank in paths:
            return f"{paths[rank]} and {part.profile.path} are both of rank {rank}"
        paths[rank] = part.profile.path
    sizes = sorted({size for part in parts if (size := part.profile.info.world_size)})
    return f"they are of jobs of {' and '.join(map(str, sizes))} ranks" if len(sizes) > 1 else None


def number_of(part: RankPart, place: int) -> int:
    """Return the number of a rank, else its place among the traces."""
    rank = rank_of(part)
    return place if rank is None else rank


def _row(part: RankPart, rank: int, waited_ns: float, last: float, clock_ahead_ns: int) -> RankRow:
    profile, steps = part.profile, max(part.profile.steps.count, 1)
    is_stall_known = not profile.withheld.keys() & {"stalls", "per_step"}
    stalls: Counter[str] = Counter()
    for site in profile.syncs.sites:
        stalls[site.cause] += site.in_steps.stall_ns if site.is_wait and is_stall_known else 0
    return RankRow(
        rank=rank,
        path=profile.path,
        step_ns=profile.step.step_ns or profile.steps.traced_ns,
        alone_ns=part.alone_ns[1] if part.alone_ns else None,
        surely_ns=part.alone_ns[0] if part.alone_ns else None,
        gpu_busy_ns=profile.steps.busy_ns,
        exposed_copies_ns=profile.per_step.exposed_ns if profile.per_step else None,
        stall_ns=stalls.total() / steps if is_stall_known else None,
        input_ns=profile.loader.wait_in_steps_ns / steps,
        communication_ns=part.communication.time_ns / steps,
        exposed_communication_ns=part.communication.exposed_ns / steps,
        waited_ns=waited_ns,
        last=last,
        clock_ahead_ns=clock_ahead_ns,
        steps_before=profile.info.steps_before,
        overlapped_communication_ns=(part.communication.time_ns - part.communication.exposed_ns) / steps,
        pause_ns=part.pause.time_ns if part.pause else None,
        stalls=_longest_first((cause, time / steps) for cause, time in stalls.items()),
        idle_ns=None if part.idle is None else sum(time for _, time in part.idle),
        idle=part.idle or (),
    )


def _waits(
    parts: Sequence[RankPart], numbers: Sequence[int], meetings: Sequence[Meeting], clocks: Clocks
) -> tuple[list[float], list[float], tuple[CollectiveRow, ...]]:
    """Return per rank what its collectives waited per step and to which share it came last, and the collectives.

    What a collective takes by itself is what it takes on the rank that comes last, which waits for nobody. Where the
    clocks cannot be told, that is the one on which it takes least, as if it ended on all ranks at once.
    """
    tables = [part.communication.collectives for part in parts]
    times = [table.end_ns - table.start_ns for table in tables]
    comes = [
        -took if clocks.within_ns is None else table.start_ns + add
        for table, took, add in zip(tables, times, clocks.add_ns, strict=True)
    ]
    waited, last = [0.0] * len(parts), [0] * len(parts)
    of_place: dict[tuple[str, str, int], list[tuple[int, float, float]]] = defaultdict(list)
    seen: dict[tuple[int, int, str], int] = defaultdict(int)
    for meeting in meetings:
        came = {rank: int(comes[rank][index]) for rank, index in meeting.items()}
        latest = max(came, key=lambda rank: came[rank])
        waits = {rank: min(came[latest] - came[rank], int(times[rank][index])) for rank, index in meeting.items()}
        for rank, time in waits.items():
            waited[rank] += time
        last[latest] += 1
        first = next(iter(meeting))
        table, index = tables[first], meeting[first]
        step = int(table.place[index])
        key = (step, first, table.group[index])
        of_place[table.name[index], table.group[index], seen[key]].append(
            (latest, float(times[latest][meeting[latest]]), float(max(waits.values())))
        )
        seen[key] += 1
    rows = [_collective(*key[:2], found, numbers) for key, found in of_place.items()]
    steps = [max(part.profile.steps.count, 1) for part in parts]
    shares = [count / len(meetings) if meetings else 0.0 for count in last]
    costliest = sorted(rows, key=lambda row: -row.waited_ns)[:COLLECTIVES_SHOWN]
    return [time / count for time, count in zip(waited, steps, strict=True)], shares, tuple(costliest)


def _collective(
    name: str, group: str, found: Sequence[tuple[int, float, float]], numbers: Sequence[int]
) -> CollectiveRow:
    (rank, times), *_ = Counter(latest for latest, _, _ in found).most_common(1)
    own, waited = (float(np.mean([each[column] for each in found])) for column in (1, 2))
    return CollectiveRow(name, group, numbers[rank], times / len(found), own, waited)


def _slowest(rows: Sequence[RankRow]) -> tuple[int | None, float]:
    """Return the rank that holds up the others, None if none does, and how much longer it needs than their median.

    That a rank comes last tells nothing by itself: where all run ahead of their GPUs, one of them always is behind and
    costs the others nothing. What counts is the step that each would have alone.
    """
    known = [(row.alone_ns, row.surely_ns, row.rank) for row in rows if row.alone_ns and row.surely_ns]
    if len(known) < 2:  # noqa: PLR2004  nobody to compare with
        return None, 0.0
    longest, surely, rank = max(known)
    others = median(time for time, _, number in known if number != rank)
    return (rank if surely > (1 + SKEWED) * others else None), max(longest - others, 0.0)


def _reason(parts: Sequence[RankPart], rows: Sequence[RankRow], place: int) -> str:
    """Return on what the slowest rank spends more time than the others, in words."""
    mine, others = rows[place], [row for at, row in enumerate(rows) if at != place]
    input_more = mine.input_ns - median(row.input_ns for row in others)
    busy_more = (
        (mine.gpu_busy_ns or 0.0)
        - mine.communication_ns
        - median((row.gpu_busy_ns or 0.0) - row.communication_ns for row in others)
    )
    stalls = {site.identity: site for site in parts[place].profile.syncs.sites if site.is_wait}
    steps = max(parts[place].profile.steps.count, 1)
    stall_more = {
        identity: site.in_steps.stall_ns / steps
        - median(_stall(part, identity) for at, part in enumerate(parts) if at != place)
        for identity, site in stalls.items()
    }
    pause = parts[place].pause
    pauses = [part.pause.time_ns for at, part in enumerate(parts) if at != place and part.pause]
    pause_more = pause.time_ns - (median(pauses) if pauses else 0.0) if pause else 0.0
    worst = max(stall_more, key=lambda identity: stall_more[identity], default=None)
    ways = [(input_more, "it waits for input"), (busy_more, "its GPU works longer")]
    if worst is not None:
        site = stalls[worst]
        where = f" at {site.file}:{site.line}" if site.line is not None else f" in {site.op or site.call}"
        ways.append((stall_more[worst], f"its host waits in {site.cause}{where}"))
    if pause:
        between = f"after {pause.after or 'the beginning of the step'} and before {pause.before or 'its end'}"
        ways.append((pause_more, f"its host runs no op ({between})"))
    return max(ways)[1]


def _stall(part: RankPart, identity: object) -> float:
    steps = max(part.profile.steps.count, 1)
    return sum(site.in_steps.stall_ns for site in part.profile.syncs.sites if site.identity == identity) / steps
