"""Compares the ranks of a job: which one holds up the others, by how much, and why."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from statistics import median
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from pinprof.analyses.launches import PAUSE_MEANING
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.sites import SiteIdentity
from pinprof.documents.findings import Collective, TrafficJson
from pinprof.ground.units import ms
from pinprof.measurement.figures import EXPOSED_MS
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.measurement.trust.doubt import given
from pinprof.ranks.rank import (
    Latecomer,
    RankPart,
    RankRow,
    Ranks,
    SharedFinding,
    SharedSite,
    Turns,
    longest_first,
    number_of,
)
from pinprof.rules.rule import Finding, FoundSite
from pinprof.rules.sums import within
from pinprof.trace.collectives import Meeting, RankClocks, align_clocks, match_collectives
from pinprof.trace.lines import Place
from pinprof.trace.tables import NONE

OfRank: TypeAlias = tuple[int, Finding]
OfOneRank = TypeVar("OfOneRank")

MIN_SKEW_SHARE = 0.05
"""A rank holds up the others if its step alone is longer by this share. Two runs of one program differ by 3 %, so ranks
that do the same work differ by less than twice that."""

MIN_SHARE_EXPLAINED = 0.8
"""A rank holds up the others if its extra work is at least this share of their wait."""
MIN_SHARE_WAITED = 0.5  # extra work explains a wait of at least this share of that work

MIN_STEPS_OF_TURNS = 3
MIN_LATE_SHARE_OF_STEP = 0.25
"""A rank is late in a step if its host works longer by this share of the step, or by a whole step if only one
is late: hosts are interrupted now and then."""

MAX_COLLECTIVES_SHOWN = 10
MIN_SHARE_OF_REASON = 0.5
"""A reason explains at least this share of a slow rank's extra time, or of a late rank's delay."""


def compare_ranks(parts: Sequence[RankPart], choice: Sequence[str] = ()) -> Ranks:
    """Return the ranks of a job side by side; each part must be of a different rank.

    `choice` has remarks on how these traces were chosen.
    """
    numbers = [number_of(part, index) for index, part in enumerate(parts)]
    tables = [part.profile.communication.collectives for part in parts]
    meetings = match_collectives(tables)
    clocks = align_clocks(tables, [part.profile.info.base_ns or 0 for part in parts], meetings)
    waits = _measure_waits(parts, meetings, clocks)
    rows = [_rank_row(parts, index, number, waits, clocks.ahead_ns[index]) for index, number in enumerate(numbers)]
    rows, unsure = _within_step(_in_lockstep(rows, parts, meetings), parts)
    longest, skew, is_longer = _longest(rows, unsure)
    reason = None if longest is None else _reason(parts, rows, longest)
    slowest = rows[longest].rank if longest is not None and is_longer and reason else None
    turns = _turns(parts, rows) if slowest is None and meetings else None
    return Ranks(
        tuple(sorted(rows, key=lambda row: row.rank)),
        next((part.profile.info.world_size for part in parts if part.profile.info.world_size), None),
        _longest_awaited(waits.meetings_of, numbers),
        clocks.within_ns,
        slowest,
        skew,
        None if slowest is None else reason,
        _shared_findings(parts, numbers),
        tuple(choice),
        _traffic(waits.meetings_of, next((part.profile.steps.divisor for part in parts), 1)),
        unsure,
        _latecomer(parts, rows, waits, clocks) if slowest is None and not turns else None,
        turns,
        reason is not None,
    )


def _in_lockstep(rows: Sequence[RankRow], parts: Sequence[RankPart], meetings: Sequence[Meeting]) -> list[RankRow]:
    """Return the rows with one step for all ranks that meet in collectives: that of the rank that sets the pace.

    In the trace of a waiting rank, the profiler's cost on the other ranks looks like work of its own GPU, and nothing
    shows how long the rank would wait without the profiler.
    """
    paced = list(rows)
    for together in _joined(meetings):
        known = [rows[index] for index in together if rows[index].alone_ns and rows[index].step_ns]
        if not known:
            continue
        pace = min(known, key=lambda row: (row.waited_ns, -(row.alone_ns or 0.0)))
        for index in together:
            if rows[index].step_ns and parts[index].profile.estimate.source != "measured":
                paced[index] = replace(rows[index], step_ns=pace.step_ns)
    return paced


def _within_step(rows: Sequence[RankRow], parts: Sequence[RankPart]) -> tuple[list[RankRow], float]:
    """Return the rows with times alone of at most the step, and the uncertainty of these times as a share.

    The profiler slows ranks differently. If a rank would need longer alone than its step measured without the profiler,
    the profiler cost this rank more than expected, and may have cost others as much more or less.
    """
    known = [
        row.alone_ns / row.step_ns - 1
        for row, part in zip(rows, parts, strict=True)
        if row.alone_ns and row.step_ns and part.profile.estimate.source != "estimated"
    ]
    unsure = max(known, default=0.0)
    bounded = [
        replace(row, alone_ns=min(row.alone_ns, row.step_ns), surely_ns=min(row.surely_ns, row.step_ns))
        if row.alone_ns and row.surely_ns and row.step_ns
        else row
        for row in rows
    ]
    return bounded, max(unsure, 0.0)


def _joined(meetings: Sequence[Meeting]) -> list[set[int]]:
    """Return the groups of ranks, by index, that meet each other directly or through others."""
    groups: list[set[int]] = []
    for members in {frozenset(meeting) for meeting in meetings}:
        separate = [group for group in groups if not group & members]
        groups = [*separate, set(members).union(*(group for group in groups if group & members))]
    return groups


def _shared_findings(parts: Sequence[RankPart], numbers: Sequence[int]) -> tuple[SharedFinding, ...]:
    """Return the findings of all ranks; findings of one rule with a common place become one."""
    of_rule: dict[str, list[tuple[set[Place], list[OfRank]]]] = defaultdict(list)
    for number, part in zip(numbers, parts, strict=True):
        for finding in part.findings:
            places = {site.evidence.place for site in finding.sites}
            group = next((group for group in of_rule[finding.rule.id] if group[0] & places), None)
            if group is None:
                of_rule[finding.rule.id].append(group := (set(), []))
            group[0].update(places)
            group[1].append((number, finding))
    shared = [_shared(members) for groups in of_rule.values() for _, members in groups]
    return tuple(sorted(shared, key=_urgency))


def _shared(members: Sequence[OfRank]) -> SharedFinding:
    """Return one finding of the given ranks, with its sites, the costliest first."""
    at: dict[tuple[Place, int], list[tuple[int, FoundSite]]] = defaultdict(list)
    for number, finding in members:
        count: Counter[Place] = Counter()
        for site in finding.sites:  # several sites of one line stay apart: different ops wait there
            place = site.evidence.place
            at[place, count[place]].append((number, site))
            count[place] += 1
    shown = _saves_least if "communication" in members[0][1].rule.answers else _cost
    sites = [SharedSite(max((site for _, site in same), key=shown), _ranks(same)) for same in at.values()]
    finding = max((finding for _, finding in members), key=shown)
    return SharedFinding(finding, _ranks(members), tuple(sorted(sites, key=lambda shared: -_cost(shared.site))))


def _saves_least(one: Finding | FoundSite) -> float:
    """Return a key that is largest on the rank that waits least: a wait in a removed collective moves to the next one.

    A change of collectives saves all ranks what it saves that rank, as a replay of all ranks together shows.
    """
    return -one.saving.saving_ns if one.saving else -inf


def _cost(one: Finding | FoundSite) -> float:
    return one.evidence.cost_ns


def _ranks(members: Iterable[tuple[int, object]]) -> tuple[int, ...]:
    return tuple(sorted({number for number, _ in members}))


def _urgency(shared: SharedFinding) -> tuple[float, ...]:
    saving = shared.finding.saving
    return -len(shared.ranks), -saving.saving_ns if saving else 0.0, -_cost(shared.finding)


def _rank_row(parts: Sequence[RankPart], index: int, rank: int, waits: "_Waits", clock_ahead_ns: int) -> RankRow:
    part = parts[index]
    profile, communication = part.profile, part.profile.communication
    steps = profile.steps.divisor
    others_gap_ns = _others_gap_ns(parts, index)
    is_stall_known = not (profile.withheld.stalls or profile.withheld.per_step)
    stalls: Counter[str] = Counter()
    for site in profile.sites if is_stall_known else ():
        stalls[site.cause] += _stalled(site) if site.is_wait else 0
    return RankRow(
        rank=rank,
        path=profile.path,
        step_ns=profile.step_ns,
        alone_ns=part.alone.usual_ns if part.alone else None,
        surely_ns=part.alone.at_pace_ns(others_gap_ns) if part.alone else None,
        traced_ns=profile.steps.traced_ns,
        gpu_busy_ns=profile.steps.busy_ns,
        exposed_copies_ns=given(EXPOSED_MS.of(profile)),
        stall_ns=stalls.total() / steps if is_stall_known else None,
        input_ns=profile.loader.wait_in_steps_ns / steps,
        communication_ns=communication.time_ns / steps,
        exposed_communication_ns=communication.exposed_ns / steps,
        waited_ns=waits.waited_ns[index],
        last=waits.last[index],
        explains=_explained(parts, index),
        host_pace=part.alone.call_gap_ns / others_gap_ns if part.alone and others_gap_ns else None,
        clock_ahead_ns=clock_ahead_ns,
        steps_before=profile.info.steps_before,
        overlapped_communication_ns=(communication.time_ns - communication.exposed_ns) / steps,
        pause_ns=profile.pause.time_ns if profile.pause else None,
        stalls=longest_first((cause, time / steps) for cause, time in stalls.items()),
        idle_ns=None if part.idle is None else sum(time for _, time in part.idle),
        work_ns=max((mean.work_ns for mean in profile.parts), default=None),
        idle=part.idle or (),
    )


def _others(of_ranks: Sequence[OfOneRank], index: int) -> list[OfOneRank]:
    """Return what there is of all ranks but one."""
    return [*of_ranks[:index], *of_ranks[index + 1 :]]


def _others_gap_ns(parts: Sequence[RankPart], index: int) -> float:
    """Return the median time of the other ranks' hosts from one call to the next; 0 if it is unknown."""
    return median([part.alone.call_gap_ns for part in _others(parts, index) if part.alone] or [0.0])


def _longest(rows: Sequence[RankRow], unsure: float) -> tuple[int | None, float, bool]:
    """Return which rank needs longest alone, how much longer than the median of the others, and whether that is sure.

    A rank that comes last does not always hold up the others: if all hosts run ahead of their GPUs, one of them is
    last, at no cost; or the reason lies outside of the recorded steps. What counts is the step that each rank would
    need alone, if it explains the others' wait.
    """
    steps = [(row.alone_ns, row.rank, index) for index, row in enumerate(rows) if row.alone_ns and row.surely_ns]
    if len(steps) < 2:  # noqa: PLR2004  no other rank to compare with
        return None, 0.0, False
    longest, _, index = max(steps, key=lambda step: step[:2])
    others = median(time for time, _, other in steps if other != index)
    is_longer = (rows[index].surely_ns or 0.0) > (1 + MIN_SKEW_SHARE) * (1 + unsure) * others
    return index, max(longest - others, 0.0), is_longer and (rows[index].explains or 0.0) >= MIN_SHARE_EXPLAINED


def _turns(parts: Sequence[RankPart], rows: Sequence[RankRow]) -> Turns | None:
    """Return the ranks that are late in some steps only; None if that costs the job little.

    A rank's delay in a step is the extra work of its host, beyond that of the others' hosts.
    """
    delays = [part.delays_ns for part in parts]
    count, step_ns = len(delays[0]), max(row.traced_ns or 0.0 for row in rows)
    apart = len(set(map(len, delays))) > 1 or len({part.profile.info.steps_before for part in parts}) > 1
    if apart or count < MIN_STEPS_OF_TURNS:
        return None
    longest_last = np.sort(np.array(delays), axis=0)
    late_ns = longest_last[-1] - np.median(longest_last[:-1], axis=0)
    is_late = late_ns >= MIN_LATE_SHARE_OF_STEP * step_ns
    if is_late.sum() == 1:
        is_late = late_ns >= step_ns
    if late_ns[is_late].sum() / count < MIN_SKEW_SHARE * step_ns or not is_late.any():
        return None
    most_often = Counter(np.argmax(delays, axis=0)[is_late].tolist()).most_common()
    ranks = tuple(rows[index].rank for index, _ in most_often)
    return Turns(ranks, int(is_late.sum()), count, float(np.median(late_ns[is_late])))


def _explained(parts: Sequence[RankPart], index: int) -> float | None:
    """Return the share of the others' wait that a rank's own extra work, as traced, explains; None if none waits.

    The others' wait is their traced step less what they need alone. Their kernels of collectives may wait longer, at no
    cost if a host is ahead of its GPU. Extra work that is much longer than the others' wait does not explain that wait:
    they wait elsewhere, or not for this rank.
    """
    alone, (usual, waited) = parts[index].alone, _others_waiting_ns(parts, index)
    if alone is None or waited in (0, inf):
        return None
    longer = max(alone.traced_ns - usual, 0.0)
    return min(longer / waited, 1.0) if waited >= MIN_SHARE_WAITED * longer else 0.0


def _others_waiting_ns(parts: Sequence[RankPart], index: int) -> tuple[float, float]:
    """Return what the other ranks need alone, as traced, and their extra step time; infinite if unknown."""
    others = [part for part in _others(parts, index) if part.alone]
    if not others:
        return 0.0, inf
    usual = median(part.alone.traced_ns for part in others if part.alone)
    return usual, max(median(part.profile.steps.traced_ns or 0.0 for part in others) - usual, 0.0)


def _latecomer(
    parts: Sequence[RankPart], rows: Sequence[RankRow], waits: "_Waits", clocks: RankClocks
) -> Latecomer | None:
    """Return the rank that the others wait for longest; None if the wait is short, or the clocks are unknown."""
    index, waited = max(enumerate(waits.caused_ns), key=lambda of_rank: of_rank[1], default=(0, 0.0))
    waited = min(waited, _others_waiting_ns(parts, index)[1])
    if clocks.within_ns is None or waited <= MIN_SKEW_SHARE * (rows[index].traced_ns or inf):
        return None
    begins = [part.profile.communication.steps_ns + add for part, add in zip(parts, clocks.add_ns, strict=True)]
    count = min(map(len, begins))
    own, others = begins[index][:count], [begin[:count] for begin in _others(begins, index)]
    later = float(np.median(own - np.median(others, axis=0))) if count and others else 0.0
    return Latecomer(rows[index].rank, rows[index].last, waited, max(later, 0.0), count == 1)


# How long ranks wait for each other


class _Waits(NamedTuple):
    """How long ranks wait for each other, in ns per step by index of the rank, and all their meetings."""

    waited_ns: list[float]
    caused_ns: list[float]  # how long the median of the others waits for the rank, exposed
    last: list[float]  # the share of the collectives that it reached last
    meetings_of: "_Meetings"


def _measure_waits(parts: Sequence[RankPart], meetings: Sequence[Meeting], clocks: RankClocks) -> _Waits:
    """Return the waits of collectives.

    A collective's own time is its time on the last rank, which waits for no other. If the clocks are unknown, the last
    rank is the one with the shortest time, as if the collective ended on all ranks at once.
    """
    tables = [part.profile.communication.collectives for part in parts]
    times = [table.end_ns - table.start_ns for table in tables]
    comes = [
        -took if clocks.within_ns is None else table.start_ns + add
        for table, took, add in zip(tables, times, clocks.add_ns, strict=True)
    ]
    waited, caused, last = ([0.0] * len(parts) for _ in range(3))
    steps = [part.profile.steps.divisor for part in parts]
    meetings_of: _Meetings = defaultdict(list)
    count: Counter[tuple[int, int, str]] = Counter()
    for meeting in meetings:
        came = {rank: int(comes[rank][index]) for rank, index in meeting.items()}
        latest = max(came, key=lambda rank: came[rank])
        waits = {rank: min(came[latest] - came[rank], int(times[rank][index])) for rank, index in meeting.items()}
        costs = {rank: min(waits[rank], int(tables[rank].exposed_ns[index])) for rank, index in meeting.items()}
        for rank, time in waits.items():
            waited[rank] += time / steps[rank]
        caused[latest] += median(cost for rank, cost in costs.items() if rank != latest) / steps[latest]
        last[latest] += 1.0
        first, index = next(iter(meeting.items()))
        table = tables[first]
        in_step = (int(table.place[index]), first, table.group[index])
        own_ns = float(times[latest][meeting[latest]])
        meetings_of[table.name[index], table.group[index], count[in_step]].append(
            _Meeting(latest, own_ns, float(max(waits.values())), int(table.bytes[index]), int(table.bus_bytes[index]))
        )
        count[in_step] += 1
    return _Waits(waited, caused, [times / max(len(meetings), 1) for times in last], meetings_of)


class _Meeting(NamedTuple):
    """The last rank in a collective, how long the collective takes after that, and the longest wait; times in ns."""

    latest: int
    own_ns: float
    waited_ns: float
    bytes: int  # as in `Collectives`, as is the next
    bus_bytes: int


_Meetings: TypeAlias = dict[tuple[str, str, int], list[_Meeting]]
"""The meetings of each collective of the step: by its name, its group and its place in the group."""


def _longest_awaited(meetings_of: _Meetings, numbers: Sequence[int]) -> tuple[Collective, ...]:
    rows = [_collective(*key[:2], same, numbers) for key, same in meetings_of.items()]
    return tuple(sorted(rows, key=lambda row: -row.waited_ms)[:MAX_COLLECTIVES_SHOWN])


def _traffic(meetings_of: _Meetings, steps: int) -> tuple[TrafficJson, ...]:
    of_name: dict[str, list[_Meeting]] = defaultdict(list)
    for (name, *_), meetings in meetings_of.items():
        of_name[name] += [meeting for meeting in meetings if meeting.bus_bytes > 0]
    rows = [
        TrafficJson(
            name,
            len(meetings) / steps,
            sum(meeting.bytes for meeting in meetings) / steps,
            ms(sum(meeting.own_ns for meeting in meetings) / steps),
            rate,
        )
        for name, meetings in of_name.items()
        if (rate := _bus_gbps(meetings)) is not None
    ]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _bus_gbps(meetings: Sequence[_Meeting]) -> float | None:
    """Return the bus bandwidth of collectives: the load of a link divided by the time after the last rank's arrival."""
    load, time_ns = sum(meeting.bus_bytes for meeting in meetings), sum(meeting.own_ns for meeting in meetings)
    return load / time_ns if load > 0 and time_ns else None


def _collective(name: str, group: str, meetings: Sequence[_Meeting], numbers: Sequence[int]) -> Collective:
    (rank, times), *_ = Counter(meeting.latest for meeting in meetings).most_common(1)
    own_ms = ms(float(np.mean([meeting.own_ns for meeting in meetings])))
    waited_ms = ms(float(np.mean([meeting.waited_ns for meeting in meetings])))
    size = meetings[0].bytes if meetings[0].bytes != NONE else None
    return Collective(name, group, numbers[rank], times / len(meetings), own_ms, waited_ms, size, _bus_gbps(meetings))


# Why a rank is slow


def _reason(parts: Sequence[RankPart], rows: Sequence[RankRow], index: int) -> str | None:
    """Return in words where the slowest rank spends more time than the others; None if its trace does not show it."""
    slowest, others = rows[index], _others(rows, index)
    profile, profiles = parts[index].profile, [part.profile for part in _others(parts, index)]

    def excess(time: Callable[[RankRow], float]) -> float:
        return time(slowest) - median(time(row) for row in others)

    reasons = [(excess(lambda row: row.input_ns), "it waits for input")]
    if all(row.gpu_busy_ns is not None for row in rows):
        busy = excess(lambda row: (row.gpu_busy_ns or 0.0) - row.exposed_communication_ns)
        reasons.append((busy, "its GPU works longer"))
    reasons.append(
        (_longer_between_calls_ns(parts, index), "its host makes no call for longer: ops on the CPU, or Python")
    )
    for site in {site.identity: site for site in profile.sites if site.is_wait}.values():
        where = (f" at {site.place}" if site.line is not None else f" in {site.op or site.call}") + within([site])
        stall = _stall(profile, site.identity) - median(_stall(other, site.identity) for other in profiles)
        reasons.append((stall, f"its host waits in {WAITS[site.cause].label}{where}"))
    if profile.pause:
        pauses = [row.pause_ns for row in others if row.pause_ns is not None]
        longer = profile.pause.time_ns - (median(pauses) if pauses else 0.0)
        reasons.append((longer, f"its host runs no op and no call, {profile.pause.between}: {PAUSE_MEANING}"))
    most, reason = max(reasons, key=lambda known: known[0])
    return reason if most >= MIN_SHARE_OF_REASON * excess(lambda row: row.alone_ns or 0.0) else None


def _longer_between_calls_ns(parts: Sequence[RankPart], index: int) -> float:
    """Return how much longer than others a rank's host pauses in each step, without the profiler; 0 if unknown.

    The shortest pause counts: interruptions prolong only some.
    """
    alone = parts[index].alone
    if alone is None or not parts[index].between_calls_ns:
        return 0.0
    others = [float(np.mean(part.between_calls_ns or 0)) for part in _others(parts, index)]
    return (min(parts[index].between_calls_ns) - median(others)) * alone.usual_ns / alone.traced_ns


def _stall(profile: Profile, identity: SiteIdentity) -> float:
    """Return how long the host waits per step at the sites of an identity, in ns."""
    return sum(_stalled(site) for site in profile.sites if site.identity == identity) / profile.steps.divisor


def _stalled(site: WaitSite) -> int:
    """Return how long the host waits in the complete steps, in ns; 0 if that is withheld."""
    cost = given(site.in_steps)
    return cost.stall_ns if cost else 0
