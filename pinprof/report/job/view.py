"""The sections on the ranks of a job, for the terminal and the page: who holds up the others, times, findings."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from pinprof.ground.units import NS_PER_MS, between, counted, duration, listed, percent, rate, shortened, size
from pinprof.ranks.compare import MIN_SHARE_EXPLAINED, MIN_SHARE_OF_REASON, MIN_SKEW_SHARE
from pinprof.ranks.rank import RankPart, RankRow, Ranks, SharedFinding, Turns, number_of
from pinprof.ranks.runs import MAX_RANKS_NAMED
from pinprof.report.findings.views import named
from pinprof.report.html import Column, number_columns
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.verdict import known_headline
from pinprof.report.view import Fact, ReportTable, Section
from pinprof.report.words import NOTHING, capitalized, effect_and_remedy, place, with_more_sites
from pinprof.verdict.step_limits import LIMITS

MAX_GROUP_CHARS = 32
MAX_RANK_ROWS = 32
"""The most ranks in the page's table; further ones are folded. Those that need longest alone come first."""
MAX_COLLECTIVES, MAX_FINDINGS = 5, 12
"""The most that a terminal lists."""
MAX_TRAFFIC = 3
NOBODY_HOLDS_UP, NOBODY_HAS_MORE_WORK = "no rank holds up the others", "no rank has more work than the others"
PACE_SHOWN = 1.1  # the least pace of a host, as a multiple of the others', that is shown
MEANING_OF_TIMES = (
    "Step: without the profiler. Alone: the same, by replay, if the rank waited for no other. Traced and all other "
    "times: per complete step, including the profiler's cost"
)
WAITING_IS_FREE = (
    "waiting costs a rank nothing if its own host would not be faster: compare the steps that each would need alone"
)


class RankTime(NamedTuple):
    """A time of each rank, in ns per step: a column of the table of ranks."""

    title: str
    of: Callable[[RankRow], float | None]


PAUSE_TITLE = "host runs no op"
STALL_TITLE, GPU_IDLE_TITLE = "stalls", "GPU idle"
RANK_TIMES = (
    RankTime("step", lambda row: row.step_ns),
    RankTime("alone", lambda row: row.alone_ns),
    RankTime("traced", lambda row: row.traced_ns),
    RankTime("GPU busy", lambda row: row.gpu_busy_ns),
    RankTime(GPU_IDLE_TITLE, lambda row: row.idle_ns),
    RankTime("copies exposed", lambda row: row.exposed_copies_ns),
    RankTime(STALL_TITLE, lambda row: row.stall_ns),
    RankTime("input", lambda row: row.input_ns),
    RankTime(PAUSE_TITLE, lambda row: row.pause_ns),
    RankTime("NCCL overlapped", lambda row: row.overlapped_communication_ns),
    RankTime("NCCL exposed", lambda row: row.exposed_communication_ns),
    RankTime("waited", lambda row: row.waited_ns),
)


def title(ranks: Ranks) -> str:
    """Return the number of ranks, and that of the whole job if larger."""
    if ranks.world_size and ranks.world_size != len(ranks.rows):
        return f"{len(ranks.rows)} of {counted(ranks.world_size, 'rank')} of one job"
    return f"{counted(len(ranks.rows), 'rank')} of one job"


def slowest_of(ranks: Ranks) -> RankRow | None:
    """Return the rank that holds up the others; None if none does."""
    return next((row for row in ranks.rows if row.rank == ranks.slowest_rank), None)


def headline(ranks: Ranks, parts: Sequence[RankPart]) -> str:
    """Return in at most fifteen words which rank holds up the others and by how much, or else what bounds the step."""
    who, _ = _who_and_why(ranks)
    shown = _shown_part(ranks, parts)
    cause = shown.findings.verdict.cause if shown and ranks.slowest_rank is None and not ranks.turns else None
    if shown is None or cause is None or not shown.profile.step_ns:
        return who
    return f"{LIMITS[cause].word}: {duration(shown.profile.step_ns)} per step, and {who[0].lower()}{who[1:]}"


def why(ranks: Ranks) -> str:
    """Return what the headline leaves out of the verdict: the reason and who comes last, or an empty text."""
    _, reason = _who_and_why(ranks)
    return capitalized(reason)


def _who_and_why(ranks: Ranks) -> tuple[str, str]:
    who, _, reason = verdict_line(ranks).partition(": ")
    return who, reason


def verdict_line(ranks: Ranks) -> str:
    """Return which rank holds up the others, by how much and why, without the last full stop."""
    slowest = slowest_of(ranks)
    if slowest is not None:
        return f"Rank {slowest.rank} holds up the others by {duration(ranks.skew_ns)} per step: {ranks.reason}"
    if ranks.turns:
        return in_some_steps(ranks.turns)
    nobody = why_nobody(ranks)
    last = "" if nobody.startswith(NOBODY_HAS_MORE_WORK) else who_comes_last(ranks)  # the host's pace is why
    return ". ".join(map(capitalized, filter(None, (nobody, last))))


def in_some_steps(turns: Turns) -> str:
    """Return which ranks hold up the others, in how many steps, and by how much."""
    late = f"in {turns.held_up} of {turns.steps} steps by {duration(turns.late_ns)}"
    if len(turns.ranks) > 1:
        return f"The ranks take turns in holding up the others, {late}: {rank_numbers(turns.ranks, 0)}"
    own = "its host works, or pauses, that much longer than in its other steps"
    return f"Rank {turns.ranks[0]} holds up the others {late}: {own}"


def why_nobody(ranks: Ranks) -> str:
    """Return why no rank is named: none holds up the others, or that is not known."""
    alone = [row.alone_ns for row in ranks.rows if row.alone_ns]
    without = len(ranks.rows) - len(alone)
    if len(alone) <= 1:
        return "it is unknown who holds up the others: the traces do not show what each rank would need alone"
    longest = longest_alone_first(ranks.rows)[0]
    others = median(row.alone_ns for row in ranks.rows if row.alone_ns and row is not longest)
    alike = (1 + MIN_SKEW_SHARE) * (1 + ranks.unsure) * others
    if (longest.alone_ns or 0.0) <= alike:
        unknown = f"; unknown for {counted(without, 'other')}" if without else ""
        return (
            f"{NOBODY_HOLDS_UP}: each would need about the same step alone, {_range(min(alone), max(alone))}{unknown}"
        )
    needs = f"alone it would need {duration(longest.alone_ns or 0.0)}, the others {duration(others)}"
    if longest.explains is not None and longest.explains < MIN_SHARE_OF_REASON:
        why = "would need longest, but that does not explain their waits"
        return f"{NOBODY_HOLDS_UP}: rank {longest.rank} {why}; {needs}"
    return _who_may(ranks, longest, needs, is_surely_longer=(longest.surely_ns or 0.0) > alike)


def _who_may(ranks: Ranks, longest: RankRow, needs: str, *, is_surely_longer: bool) -> str:
    """Return whether the rank that needs longest may hold up the others, and why that is not sure."""
    may = f"rank {longest.rank} may hold up the others: {needs}"
    if not is_surely_longer:
        if ranks.is_reason_known:
            return f"{may}; allowing for the profiler's cost, it may need only {duration(longest.surely_ns or 0.0)}"
        pace = longest.host_pace or 1.0
        slower = f"{pace:.1f} times as slow" if pace > PACE_SHOWN else "a little slower"
        host = f"the host of rank {longest.rank} is {slower} at everything, which a profiler can cause"
        return f"{NOBODY_HAS_MORE_WORK}: {host}; {needs}"
    if longest.explains is not None and longest.explains < MIN_SHARE_EXPLAINED:
        return f"{may}; that explains {percent(longest.explains)} of their waits"
    known = (
        "the traces do not show that others wait for it" if ranks.is_reason_known else "nothing in its trace shows why"
    )
    return f"{may}; {known}"


def who_comes_last(ranks: Ranks) -> str:
    """Return which rank comes last though its own work does not explain it; empty if the others wait for none."""
    rank = ranks.latecomer
    if rank is None:
        return ""
    words = f"rank {rank.rank} comes last to {percent(rank.last)} of the collectives, and the others wait"
    words += f" {duration(rank.waited_ns)} per step for it"
    if rank.begins_later_ns >= MIN_SHARE_OF_REASON * rank.waited_ns:
        before = ", and what came before is not recorded" if rank.is_one_step else ""
        return f"{words}: it begins its step {duration(rank.begins_later_ns)} later than they do{before}"
    of_rank = next(row for row in ranks.rows if row.rank == rank.rank)
    return words + (", which its own work does not explain" if (of_rank.explains or 0.0) < MIN_SHARE_EXPLAINED else "")


def why_long(ranks: Ranks, parts: Sequence[RankPart]) -> str | None:
    """Return why the step of the shown rank is as long as it is; None if that is not known."""
    of_shown = _shown_part(ranks, parts)
    reason = known_headline(first_screen(of_shown.profile, of_shown.findings)) if of_shown else None
    return f"on rank {ranks.shown_rank}, {reason}" if reason else None


def _shown_part(ranks: Ranks, parts: Sequence[RankPart]) -> RankPart | None:
    return next((part for number, part in enumerate(parts) if number_of(part, number) == ranks.shown_rank), None)


def shown_rank_line(ranks: Ranks) -> str:
    """Return a sentence that names the rank of the report below, and why."""
    why = "needs longest alone" if ranks.slowest_rank is None else "holds up the others"
    return f"Below: the report on rank {ranks.shown_rank}, which {why}, from its own trace"


def clocks_line(ranks: Ranks) -> str:
    """Return how closely the clocks of the ranks agree after alignment; empty if they were not aligned."""
    within = ranks.clocks_within_ns
    return "" if within is None else f"clocks agree within {duration(within)}, by the ends of collectives"


def longest_alone_first(rows: Sequence[RankRow]) -> list[RankRow]:
    """Return the ranks that need longest alone first, those for which it is not known last."""
    return sorted(rows, key=lambda row: (-(row.alone_ns or 0.0), row.rank))


def _range(least: float, most: float) -> str:
    return duration(most) if duration(least) == duration(most) else between(least, most)


def rank_numbers(ranks: Sequence[int], of: int) -> str:
    """Return ranks in words: "ranks 0, 1, 8"; `of` is the number of all ranks."""
    if len(ranks) == of > 1:
        return "all ranks"
    return f"rank{'s' * (len(ranks) > 1)} {listed(list(map(str, ranks)), MAX_RANKS_NAMED)}"


def doubts_by_rank(ranks: Ranks, parts: Sequence[RankPart]) -> list[str]:
    """Return why figures of some ranks are withheld or uncertain, each reason once with its ranks."""
    of_ranks: dict[str, list[int]] = defaultdict(list)
    texts: dict[str, str] = {}
    for position, part in enumerate(parts):
        for entry in part.profile.doubts:
            if entry.withholds or entry.check == "no_step_marks":
                of_ranks[entry.check].append(number_of(part, position))
                texts.setdefault(entry.check, f"{entry.what}: {effect_and_remedy(entry)}")
    doubts = [f"{rank_numbers(sorted(having), len(parts))}: {texts[check]}" for check, having in of_ranks.items()]
    unsure = _apart(ranks)
    return [f"{unsure}: how long each waited, and who came last, is uncertain", *doubts] if unsure else doubts


def _apart(ranks: Ranks) -> str | None:
    """Return in words the steps at which ranks were recorded; None if they are equal or unknown."""
    after: dict[int, list[int]] = defaultdict(list)
    for row in ranks.rows:
        if row.steps_before is not None:
            after[row.steps_before].append(row.rank)
    if len(after) <= 1:
        return None
    groups = sorted(after.items(), key=lambda group: -len(group[1]))[:MAX_RANKS_NAMED]
    apart = "; ".join(f"{rank_numbers(having, len(ranks.rows))} after {steps}" for steps, having in groups)
    return f"recorded at different steps ({apart}{' and more' * (len(after) > MAX_RANKS_NAMED)})"


# Sections


def doubts(ranks: Ranks, parts: Sequence[RankPart]) -> Section:
    """Return the section on why figures of some ranks are withheld or uncertain."""
    return Section("Before you trust these traces", notes=[f"{doubt}." for doubt in doubts_by_rank(ranks, parts)])


def step_fact(ranks: Ranks) -> Iterator[Fact]:
    """Yield the step with its range over the ranks, if it is known."""
    steps = [row.step_ns for row in ranks.rows if row.step_ns]
    if steps:
        yield Fact("step", _range(min(steps), max(steps)), "per step, without the profiler")


def columns_of(ranks: Ranks) -> list[RankTime]:
    """Return the columns of the table of ranks: the times that are not 0 on all of them."""
    return [time for time in RANK_TIMES if any(map(time.of, ranks.rows))]


def notes_on(ranks: Ranks) -> list[str]:
    """Return the notes on the table of ranks."""
    shown = columns_of(ranks)
    nothing = [time.title for time in RANK_TIMES if time not in shown]
    notes = [MEANING_OF_TIMES, f"none on any rank: {', '.join(nothing)}" if nothing else ""]
    notes += [WAITING_IS_FREE] if ranks.slowest_rank is None and any(row.waited_ns for row in ranks.rows) else []
    return list(filter(None, notes))


def collectives(ranks: Ranks) -> Section:
    """Return the collectives that ranks wait for."""
    columns = [Column("collective"), Column("ranks"), Column("came last")]
    columns += number_columns("of the steps", "takes", "others waited", "size", "bus")
    rows = [
        (
            row.name,
            shortened(row.group or NOTHING, MAX_GROUP_CHARS),
            f"rank {row.last_rank}",
            percent(row.last),
            duration(row.own_ms * NS_PER_MS),
            duration(row.waited_ms * NS_PER_MS),
            NOTHING if row.bytes is None else size(row.bytes),
            NOTHING if row.bus_gbps is None else rate(row.bus_gbps),
        )
        for row in ranks.collectives
    ]
    caption = (
        "The longest waits; means over the steps. Came last: the rank that came last most often, and its share of the "
        "steps. Takes: how long it runs after the last rank has come. Others waited: the longest wait of a rank. "
        "Bus: the bandwidth of a rank's link in that time, as nccl-tests counts it"
    )
    return Section(
        "Collectives",
        tables=[ReportTable(caption, columns, rows, rows[:MAX_COLLECTIVES])] if rows else [],
        notes=[words for words in (traffic_line(ranks), clocks_line(ranks)) if words and rows],
        name="job-collectives",
    )


def traffic_line(ranks: Ranks) -> str:
    """Return how much of the communication is hidden, and the bus bandwidth; empty if neither is known."""
    time_ns = sum(row.communication_ns for row in ranks.rows)
    hidden = percent(sum(row.overlapped_communication_ns for row in ranks.rows) / time_ns) if time_ns else ""
    rates = [f"{row.name} {size(row.bytes)}, {rate(row.bus_gbps)} on the bus" for row in ranks.traffic[:MAX_TRAFFIC]]
    parts = [f"{hidden} of their time, waiting included, overlaps other kernels"] if hidden else []
    parts += [f"per step {' and '.join(rates)}"] if rates else []
    return f"collectives: {'; '.join(parts)}" if parts else ""


def finding_in(shared: SharedFinding) -> str:
    """Return the costliest place of a finding, and how many more sites it has; empty if it is not known."""
    return with_more_sites(place(shared.finding.evidence.place), len(shared.sites))


def findings(ranks: Ranks) -> Section:
    """Return each rule and place once, with the ranks that have it."""
    columns = [Column("ranks"), Column("finding"), Column("where")]
    columns += number_columns("cost per step", "fixing it saves")
    rows = [
        (
            rank_numbers(shared.ranks, len(ranks.rows)),
            named(shared.finding),
            finding_in(shared) or NOTHING,
            duration(shared.finding.evidence.cost_ns),
            duration(shared.finding.saving.saving_ns) if shared.finding.saving else NOTHING,
        )
        for shared in ranks.findings
    ]
    caption = (
        "Each rule and place once, with the figures of the rank where it costs most; each saving is of that fix alone"
    )
    more = len(rows) - MAX_FINDINGS
    return Section(
        "Findings by rank",
        tables=[ReportTable(caption, columns, rows, rows[:MAX_FINDINGS])] if rows else [],
        left_out=[f"and {more} more; the page and the JSON report have them"] if more > 0 else [],
        name="job-findings",
    )
