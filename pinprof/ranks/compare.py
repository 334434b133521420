"""Compares the ranks of a job: which one holds up the others, by how much, and why."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeAlias

import numpy as np

from pinprof.analyses.pause import MEANING
from pinprof.measurement.figures import EXPOSED
from pinprof.measurement.known import given
from pinprof.measurement.profile import WaitSite
from pinprof.phrases import WAITS
from pinprof.ranks.rank import (
    CollectiveRow,
    RankPart,
    RankRow,
    Ranks,
    SharedFinding,
    SharedSite,
    longest_first,
    number_of,
)
from pinprof.rules import Finding, FoundSite
from pinprof.rules.sums import within
from pinprof.trace.clocks import Clocks, align_clocks
from pinprof.trace.collectives import Meeting, match_collectives
from pinprof.trace.lines import Place

OfRank: TypeAlias = tuple[int, Finding]
"""A finding, and the rank that has it."""

SKEWED = 0.05
"""A rank holds up the others if it needs longer by this share of their step. Two runs of one program differ by 3 %, so
ranks that do the same work differ by less than twice that."""

COLLECTIVES_SHOWN = 10
MOSTLY = 0.5
"""What explains a smaller share of the time by which a rank is longer is not its reason."""
BY_HOST = ("launch", "python", "host")
"""Verdicts of a rank whose host is late."""


def compare_ranks(parts: Sequence[RankPart], choice: Sequence[str] = ()) -> Ranks:
    """Return the ranks of a job side by side; each part must be of another rank.

    `choice` are the remarks on how these traces were chosen.
    """
    numbers = [number_of(part, place) for place, part in enumerate(parts)]
    tables = [part.profile.communication.collectives for part in parts]
    meetings = match_collectives(tables)
    clocks = align_clocks(tables, [part.profile.info.base_ns or 0 for part in parts], meetings)
    waited, last, collectives = _measure_waits(parts, numbers, meetings, clocks)
    rows = [
        _row(part, number, waited[place], last[place], clocks.ahead_ns[place])
        for place, (part, number) in enumerate(zip(parts, numbers, strict=True))
    ]
    rows = _in_lockstep(rows, parts, meetings)
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
        tuple(choice),
    )


def _in_lockstep(rows: Sequence[RankRow], parts: Sequence[RankPart], meetings: Sequence[Meeting]) -> list[RankRow]:
    """Return the rows, with one step for all ranks that meet in collectives: that of the rank that sets the pace.

    The trace of a rank that waits for others contains the profiler's cost on those ranks as work of its own GPU.
    Nothing in that trace tells how long the rank would wait without the profiler.
    """
    paced = list(rows)
    for together in _joined(meetings):
        pace = max((rows[place] for place in together), key=lambda row: row.alone_ns or 0.0)
        for place in together if pace.alone_ns and pace.step_ns else ():
            if rows[place].step_ns and parts[place].profile.estimate.source != "measured":
                paced[place] = replace(rows[place], step_ns=pace.step_ns)
    return paced


def _joined(meetings: Sequence[Meeting]) -> list[set[int]]:
    """Return the groups of ranks that meet each other, directly or through others, by their places."""
    groups: list[set[int]] = []
    for members in {frozenset(meeting) for meeting in meetings}:
        apart = [group for group in groups if not group & members]
        groups = [*apart, set(members).union(*(group for group in groups if group & members))]
    return groups


def _said_once(parts: Sequence[RankPart], numbers: Sequence[int]) -> tuple[SharedFinding, ...]:
    """Return the findings of all ranks, each once: those of one rule that have a place in common are one."""
    found: dict[str, list[tuple[set[Place], list[OfRank]]]] = defaultdict(list)
    for number, part in zip(numbers, parts, strict=True):
        for finding in part.findings:
            places = {site.evidence.place for site in finding.sites}
            known = next((group for group in found[finding.rule.id] if group[0] & places), None)
            if known is None:
                found[finding.rule.id].append(known := (set(), []))
            known[0].update(places)
            known[1].append((number, finding))
    shared = [_shared(members) for groups in found.values() for _, members in groups]
    return tuple(sorted(shared, key=_rank))


def _shared(members: Sequence[OfRank]) -> SharedFinding:
    """Return one finding of the given ranks."""
    costliest = max((finding for _, finding in members), key=lambda finding: finding.evidence.cost_ns)
    return SharedFinding(costliest, tuple(sorted({number for number, _ in members})), tuple(_shared_sites(members)))


def _shared_sites(members: Sequence[OfRank]) -> Iterator[SharedSite]:
    """Yield the sites of one finding of several ranks, the costliest first."""
    at: dict[tuple[Place, int], list[tuple[int, FoundSite]]] = defaultdict(list)
    for number, finding in members:
        seen: Counter[Place] = Counter()
        for site in finding.sites:  # of one line several may be left apart, as other ops wait there
            place = site.evidence.place
            at[place, seen[place]].append((number, site))
            seen[place] += 1
    sites = [
        SharedSite(
            max((site for _, site in same), key=lambda site: site.evidence.cost_ns),
            tuple(sorted({number for number, _ in same})),
        )
        for same in at.values()
    ]
    yield from sorted(sites, key=lambda each: -each.site.evidence.cost_ns)


def _rank(shared: SharedFinding) -> tuple[float, ...]:
    saving = shared.finding.saving
    return -len(shared.ranks), -saving.saving_ns if saving else 0.0, -shared.finding.evidence.cost_ns


def _row(part: RankPart, rank: int, waited_ns: float, last: float, clock_ahead_ns: int) -> RankRow:
    profile, steps = part.profile, part.profile.steps.divisor
    exposed = given(EXPOSED.of(profile))
    is_stall_known = not (profile.withheld.stalls or profile.withheld.per_step)
    stalls: Counter[str] = Counter()
    for site in profile.sites:
        cost = given(site.in_steps) if site.is_wait and is_stall_known else None
        stalls[site.cause] += cost.stall_ns if cost else 0
    return RankRow(
        rank=rank,
        path=profile.path,
        step_ns=profile.step_ns,
        alone_ns=part.alone_ns[1] if part.alone_ns else None,
        surely_ns=part.alone_ns[0] if part.alone_ns else None,
        traced_ns=profile.steps.traced_ns,
        gpu_busy_ns=profile.steps.busy_ns,
        exposed_copies_ns=exposed,
        stall_ns=stalls.total() / steps if is_stall_known else None,
        input_ns=profile.loader.wait_in_steps_ns / steps,
        communication_ns=part.profile.communication.time_ns / steps,
        exposed_communication_ns=part.profile.communication.exposed_ns / steps,
        waited_ns=waited_ns,
        last=last,
        clock_ahead_ns=clock_ahead_ns,
        steps_before=profile.info.steps_before,
        overlapped_communication_ns=(part.profile.communication.time_ns - part.profile.communication.exposed_ns)
        / steps,
        pause_ns=profile.pause.time_ns if profile.pause else None,
        stalls=longest_first((cause, time / steps) for cause, time in stalls.items()),
        idle_ns=None if part.idle is None else sum(time for _, time in part.idle),
        work_ns=max((mean.work_ns for mean in profile.parts), default=None),
        idle=part.idle or (),
    )


def _slowest(rows: Sequence[RankRow]) -> tuple[int | None, float]:
    """Return the rank that holds up the others, or None, and how much longer than their median the slowest one needs.

    A rank that comes last does not necessarily hold up the others: if all hosts run ahead of their GPUs, one of them is
    always last, and costs the others nothing. What counts is the step that each rank would have alone.
    """
    known = [(row.alone_ns, row.surely_ns, row.rank) for row in rows if row.alone_ns and row.surely_ns]
    if len(known) < 2:  # noqa: PLR2004  no other rank to compare with
        return None, 0.0
    longest, surely, rank = max(known)
    others = median(time for time, _, number in known if number != rank)
    return (rank if surely > (1 + SKEWED) * others else None), max(longest - others, 0.0)


# How long ranks wait for each other


def _measure_waits(
    parts: Sequence[RankPart], numbers: Sequence[int], meetings: Sequence[Meeting], clocks: Clocks
) -> tuple[list[float], list[float], tuple[CollectiveRow, ...]]:
    """Return per rank the time that its collectives waited per step and the share that it reached last, then rows.

    A collective's own time is its time on the last rank, which waits for no other. If the clocks are unknown, the last
    rank is the one with the shortest time, as if the collective ended on all ranks at once.
    """
    tables = [part.profile.communication.collectives for part in parts]
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
    steps = [part.profile.steps.divisor for part in parts]
    shares = [count / len(meetings) if meetings else 0.0 for count in last]
    costliest = sorted(rows, key=lambda row: -row.waited_ns)[:COLLECTIVES_SHOWN]
    return [time / count for time, count in zip(waited, steps, strict=True)], shares, tuple(costliest)


def _collective(
    name: str, group: str, found: Sequence[tuple[int, float, float]], numbers: Sequence[int]
) -> CollectiveRow:
    (rank, times), *_ = Counter(latest for latest, _, _ in found).most_common(1)
    own, waited = (float(np.mean([each[column] for each in found])) for column in (1, 2))
    return CollectiveRow(name, group, numbers[rank], times / len(found), own, waited)


# Why a rank is slow


def _reason(parts: Sequence[RankPart], rows: Sequence[RankRow], place: int) -> str:
    """Return in words where the slowest rank spends more time than the others."""
    mine, others = rows[place], [row for at, row in enumerate(rows) if at != place]
    input_more = mine.input_ns - median(row.input_ns for row in others)
    busy_more = _computing(mine) - median(_computing(row) for row in others)
    stalls = {site.identity: site for site in parts[place].profile.sites if site.is_wait}
    steps = parts[place].profile.steps.divisor
    stall_more = {
        identity: _stalled(site) / steps
        - median(_stall(part, identity) for at, part in enumerate(parts) if at != place)
        for identity, site in stalls.items()
    }
    pause = parts[place].profile.pause
    pauses = [row.pause_ns for row in others if row.pause_ns is not None]
    pause_more = pause.time_ns - (median(pauses) if pauses else 0.0) if pause else 0.0
    worst = max(stall_more, key=lambda identity: stall_more[identity], default=None)
    ways = [(input_more, "it waits for input"), (busy_more, "its GPU works longer")]
    if worst is not None:
        site = stalls[worst]
        where = (f" at {site.place}" if site.line is not None else f" in {site.op or site.call}") + within([site])
        ways.append((stall_more[worst], f"its host waits in {WAITS[site.cause]}{where}"))
    if pause:
        ways.append((pause_more, f"its host runs no op and no call, {pause.between}: {MEANING}"))
    most, reason = max(ways)
    longer = (mine.alone_ns or 0.0) - median(row.alone_ns or 0.0 for row in others)
    if most < MOSTLY * longer and parts[place].findings.verdict.cause in BY_HOST:
        return "its host launches later"
    return reason


def _computing(row: RankRow) -> float:
    """Return how long the GPU works for a step beside collectives."""
    return (row.gpu_busy_ns or 0.0) - row.exposed_communication_ns


def _stall(part: RankPart, identity: object) -> float:
    steps = part.profile.steps.divisor
    return sum(_stalled(site) for site in part.profile.sites if site.identity == identity) / steps


def _stalled(site: WaitSite) -> int:
    """Return how long the host waits in the complete steps; 0 if that is withheld."""
    cost = given(site.in_steps)
    return cost.stall_ns if cost else 0
