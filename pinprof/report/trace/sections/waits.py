"""The waits of the host: those of the recorded steps by site, and those seen in other steps."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.removal import VERDICTS
from pinprof.analyses.syncs.sites import BareSite, WaitCost
from pinprof.ground.units import counted, duration, how_many, listed, shortened
from pinprof.measurement.figures import BUBBLE_MS, STALL_MS
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.measurement.trust.doubt import given
from pinprof.report.html import Column, number_columns
from pinprof.report.view import Cell, CodeText, Fact, ReportTable, Section, Styled
from pinprof.report.words import NOTHING, not_shown, place, short_place, whole_place
from pinprof.rules.sums import LONGEST_NAMED_CHARS, at, idle_gpu, in_or_after, within
from pinprof.trace.lines import Place, SourceLine, WatchedWait, period

MIN_LISTED_SITES, MAX_SITES_OF_GROUP, MAX_LINES_ELSEWHERE = 10, 5, 10
"""The least sites that a terminal lists, the most of a group, and the most lines with waits in other steps."""
MAX_WAIT_ROWS = 100
MIN_SHARE_OF_WATCHED_STEPS = 0.05
"""The short report does not name waits in a smaller share of the steps."""
SEEN_OUTSIDE = "Waits seen outside of the recorded steps"
SEEN_IN_EVERY_STEP = "Waits seen in every step, at lines without a certain recorded wait"
MAX_WAITS_NAMED = 4
DIGITS_AS_TRACED = 2
"""Digits of times in the short report, which include the profiler's cost."""
WaitCells = Sequence[Cell]


class WaitPart(NamedTuple):
    """A part of a wait of the host, or the idle time after it."""

    key: str
    label: str
    """What the host waits for."""
    meaning: str
    time_ns: Callable[[WaitCost], int]


WAIT_PARTS = (
    WaitPart("drain", "for earlier work", "waiting for work that was queued before", lambda cost: cost.drain_ns),
    WaitPart("own", "for its own copy", "waiting for the call's own copy", lambda cost: cost.own_ns),
    WaitPart("rest", "in the call", "the call itself", lambda cost: cost.overhead_ns),
    WaitPart("idle", "GPU idle after", "until the GPU's next work", lambda cost: cost.idle_ns),
)


def group_waits(sites: Sequence[WaitSite]) -> list[list[WaitSite]]:
    """Return sites grouped by line, the longest idle time first, then the longest stall.

    Waits in libraries form groups, along with other waits at their line; any other site stands alone.
    """
    in_libraries = {site.place for site in sites if site.library} - {Place()}
    together: dict[object, list[WaitSite]] = defaultdict(list)
    for number, site in enumerate(sites):
        together[site.place if site.place in in_libraries else number].append(site)
    return sorted(together.values(), key=_rank)


def _rank(group: Sequence[WaitSite]) -> tuple[int, int]:
    costs = [cost for site in group if (cost := given(site.total_cost))]
    return -sum(cost.idle_ns for cost in costs), -sum(cost.stall_ns for cost in costs)


def cause_with_verdict(site: BareSite) -> str:
    """Return the cause of a site's waits in plain words, and whether the code asked for them."""
    verdict = VERDICTS[site.verdict]
    return WAITS[site.cause].label + (f" ({verdict})" if verdict else "")


def wait_sections(profile: Profile, *, rows: int | None) -> Iterator[Section]:
    """Yield the waits of the recorded steps, grouped by line, and those seen in other steps.

    A terminal has the first `rows`, None for all.
    """
    sites = [site for site in profile.sites if site.verdict != "profiler"]
    if sites:
        yield _recorded_waits(profile, sites, rows)
    elsewhere = seen_elsewhere(profile)
    for title, outside in ((SEEN_IN_EVERY_STEP, False), (SEEN_OUTSIDE, True)):
        if waits := [wait for wait in elsewhere if wait.is_outside == outside]:
            yield _elsewhere(title, waits, rows)


def waits_in_short(profile: Profile) -> str:
    """Return how long the host waits per step, as traced, and where longest; it is empty if that is not known."""
    count, stall_ns = profile.steps.count, given(STALL_MS.of(profile))
    if not count or stall_ns is None or profile.withheld.per_step:
        return ""
    sites = ((stalled.stall_ns, site) for site in profile.sites if site.is_wait and (stalled := given(site.in_steps)))
    waits = [wait for wait in sites if wait[0]]
    if not waits:
        return "Host waits: none in these steps" if profile.counts.get("cuda_runtime") else ""
    longest_ns, site = max(waits, key=lambda wait: wait[0])
    longest = "" if len(waits) == 1 else f"; longest {duration(longest_ns / count, DIGITS_AS_TRACED)}"
    at = str(site.place) if site.line is not None else place(site.place) or site.op or site.call
    where = f"{WAITS[site.cause].label}, {at}"
    return f"Host waits, as traced: {duration(stall_ns, DIGITS_AS_TRACED)} {profile.steps.per}{longest}: {where}"


def _recorded_waits(profile: Profile, sites: Sequence[WaitSite], rows: int | None) -> Section:
    inside = [site for site in sites if some_in_steps([site])]
    together = group_waits(inside)
    most = len(together) if rows is None else max(rows, MIN_LISTED_SITES)
    columns = [Column("wait"), Column("in"), Column("op or call")]
    columns += number_columns("count", "host waits", *(part.label for part in WAIT_PARTS))
    all_rows = [row for group in together for row in _site_rows(profile, group, len(sites))]
    some_rows = [row for group in together[:most] for row in _site_rows(profile, group, MAX_SITES_OF_GROUP)]
    outside, more = len(sites) - len(inside), sum(map(len, together[most:]))
    left_out = [f"and {counted(more, 'more site')}: --json"] if more else []
    if outside:
        left_out.append(f"{counted(outside, 'site')} outside of the complete steps: in the JSON and HTML reports")
    if reason := not_shown(profile.withheld.stalls, profile.withheld.per_step):
        how_long = f"{counted(len(inside), 'site')} of waits: {reason}"
        return Section(f"Waits of the host, {profile.steps.per} as traced", notes=[how_long], name="waits")
    caption = (
        "GPU idle after: until its next work. The host waits for work that was queued earlier, for the copy that the "
        "call itself makes, and in the call itself"
    )
    return Section(
        f"Waits of the host, {profile.steps.per} as traced",
        facts=list(_in_all(profile)),
        tables=[ReportTable(caption, columns, all_rows, all_rows if rows is None else some_rows, grid="waits")],
        notes=list(remarks(profile)),
        left_out=left_out,
        name="waits",
    )


def _site_rows(profile: Profile, group: Sequence[WaitSite], most: int) -> Iterator[WaitCells]:
    """Yield the row of a site, or of a group: the sum, up to `most` sites, and the sum of the other sites."""
    first, *others = group
    if not others:
        where = CodeText(whole_place(first) or NOTHING, first.place, first.stack)
        yield cause_with_verdict(first), where, first.op or first.call, *wait_cells(profile, first)
        return
    causes = {site.cause for site in group}
    cause = WAITS[first.cause].label if len(causes) == 1 else counted(len(causes), "cause")
    at = CodeText(place(first.place) or NOTHING, first.place)
    yield Styled(cause, "strong"), at, f"{len(group)} sites", *wait_cells(profile, *group)
    for site in group[:most]:
        inside = f"in {place(short_place(site.library))}" if site.library else "by itself"
        where = CodeText(f"  {inside}", site.place, site.stack)
        yield f"  {cause_with_verdict(site)}", where, site.op or site.call, *wait_cells(profile, site)
    if left_out := group[most:]:
        yield "  more", NOTHING, counted(len(left_out), "site"), *wait_cells(profile, *left_out)


# What the waits of the recorded steps cost


def remarks(profile: Profile) -> Iterator[str]:
    """Yield what of the idle time after waits is the profiler's, and which waits only move."""
    count, idle_ns = profile.steps.count, given(BUBBLE_MS.of(profile)) or 0.0
    if not count or not profile.step_ns:
        return
    idle = sum(mean.idle_ns for mean in profile.parts)
    if profile.parts and profile.estimate.step_ns and idle_ns > idle:
        yield (
            f"as traced, the GPU is idle for {duration(idle_ns)} after waits; without the profiler, which slows the "
            f"host, for {duration(idle)} of the whole {profile.steps.whole}"
        )
    groups: dict[int, list[tuple[WaitSite, WaitCost]]] = defaultdict(list)
    for site, cost in profile.waits:
        if site.group is not None:
            groups[site.group].append((site, cost))
    for _, members in sorted(groups.items()):
        if len(members) > 1:
            bubble = sum(cost.idle_ns for _, cost in members) / count
            names = listed([_wait_and_place(site) for site, _ in members], MAX_WAITS_NAMED)
            yield f"these waits share {duration(bubble)} of idle time; removing one only moves it: {names}"


def _wait_and_place(site: WaitSite) -> str:
    name, where = WAITS[site.cause].label, f"{at(site.place)}{within([site])}"
    return f"{name}{where}" if where else f"{name} ({shortened(site.op or site.call, LONGEST_NAMED_CHARS)})"


def _in_all(profile: Profile) -> Iterator[Fact]:
    waits = [site for site in profile.sites if site.is_wait]
    if waits:
        meaning = f"of host time in calls that can block; {_left_idle(profile, waits)}"
        stall_ns = given(STALL_MS.of(profile))
        yield Fact("waits", NOTHING if stall_ns is None else duration(stall_ns), meaning, is_named=False)
    for name, cause in WAITS.items():
        waiting = [site for site in profile.sites if site.cause == name and site.verdict != "profiler"]
        if waiting and cause.held_up:
            outside = "" if some_in_steps(waiting) else ", all outside of the complete steps"
            yield Fact("waits", _stall(profile, waiting), cause.held_up + outside, is_named=False)


def _left_idle(profile: Profile, waits: Sequence[WaitSite]) -> str:
    why = profile.withheld
    reason = not_shown(why.stalls, why.per_step, why.drain)
    if reason:
        return f"the GPU's idle time after them is {reason}"
    if not some_in_steps(waits):
        return "all of them lie outside of the complete steps"
    costs = [cost for site in waits if (cost := given(site.in_steps_cost))]
    which = idle_gpu(len(profile.gpus), [(site, cost) for site in waits if (cost := given(site.total_cost))])
    idle_ns = given(BUBBLE_MS.of(profile))
    return f"{which} idle for {duration(idle_ns or 0.0)} {in_or_after(costs)} them"


def some_in_steps(sites: Iterable[WaitSite]) -> bool:
    """Return whether some waits lie in complete steps, or may."""
    return any(cost is None or cost.count for cost in (given(site.in_steps) for site in sites))


def _stall(profile: Profile, sites: Iterable[WaitSite]) -> str:
    costs = [given(site.in_steps) for site in sites]
    if profile.withheld.per_step or None in costs:
        return NOTHING
    return duration(sum(cost.stall_ns for cost in costs if cost) / profile.steps.divisor)


def wait_cells(profile: Profile, *sites: WaitSite) -> tuple[str, ...]:
    """Return the sums of sites per step, as traced: count, stall, drain, own copy, rest, GPU idle after."""
    steps = profile.steps.divisor
    stalled = [cost for site in sites if (cost := given(site.in_steps))]
    if profile.withheld.per_step or len(stalled) < len(sites):
        return (NOTHING,) * 6
    costs = [cost for site in sites if (cost := given(site.in_steps_cost))]
    sums = WaitCost.of(costs) if len(costs) == len(sites) else None
    parts = (duration(part.time_ns(sums) / steps) if sums else NOTHING for part in WAIT_PARTS)
    count, stall_ns = sum(cost.count for cost in stalled), sum(cost.stall_ns for cost in stalled)
    return how_many(count / steps), duration(stall_ns / steps), *parts


# Waits elsewhere


class SeenWait(NamedTuple):
    """Waits of one line over the watched steps, which the recorded steps do not have for certain."""

    at: SourceLine
    called: str | None
    """What the line called; None if that is not certain."""
    thread: str
    waits: int
    steps: int
    """Watched steps with such waits; 0 if it only waited after the last of them."""
    of: int
    """Watched steps."""
    every: int | None
    """The period in steps; None without one."""

    @property
    def place(self) -> Place:
        """Its place in the code."""
        return self.at.place

    @property
    def stack(self) -> tuple[str, ...]:
        """The frames around it, the innermost first."""
        return self.at.stack

    @property
    def is_outside(self) -> bool:
        """Whether it may be only in other steps: a wait of every step is also in the recorded ones."""
        return self.every != 1

    @property
    def how_often(self) -> str:
        """How often it waits, in words."""
        if not self.steps:
            return f"after {self.of} watched steps"
        if self.every is None:
            return f"in {self.steps} of {counted(self.of, 'step')}"
        return "every step" if self.every == 1 else f"every {self.every} steps"


def seen_elsewhere(profile: Profile) -> list[SeenWait]:
    """Return the watched waits at lines without a recorded wait, the most frequent first."""
    watched = profile.info.watched
    if watched is None:
        return []
    recorded = {(site.file, site.line) for site in profile.sites if site.line is not None}
    of_line: dict[tuple[object, ...], list[WatchedWait]] = {}
    for wait in watched.waits:
        if (wait.line.file, wait.line.line) not in recorded:
            of_line.setdefault((wait.line.place, wait.called, wait.thread), []).append(wait)
    of_lines = [_together(waits, watched.steps) for waits in of_line.values()]
    return sorted(of_lines, key=lambda wait: -wait.waits)


def _elsewhere(title: str, waits: Sequence[SeenWait], rows: int | None) -> Section:
    cells = [
        (
            CodeText(place(wait.place), wait.place, wait.stack),
            Styled(wait.called, "code") if wait.called else NOTHING,
            wait.how_often,
            f"{wait.waits:,}",
        )
        for wait in waits[:MAX_WAIT_ROWS]
    ]
    most = MAX_WAIT_ROWS if rows is None else max(rows, MAX_LINES_ELSEWHERE)
    left_out, first, more = len(waits) - most, waits[0], len(waits) - 1
    called = f"`{first.called}` at " if first.called else ""
    also = f", and at {counted(more, 'more line')} (--full)" if more else ""
    is_brief = first.is_outside and first.steps >= MIN_SHARE_OF_WATCHED_STEPS * first.of
    return Section(
        f"{title}, in {counted(waits[0].of, 'step')} without profiler",
        tables=[
            ReportTable(
                "Seen at lines that no recorded wait has",
                [Column("in"), Column("called"), Column("how often"), *number_columns("waits")],
                cells,
                cells[:most],
            )
        ],
        left_out=[f"and {counted(left_out, 'more line')}: --json"] if left_out > 0 else [],
        name="elsewhere",
        brief=[f"{title}: {called}{place(first.place)}, {first.how_often}{also}."] if is_brief else [],
    )


def _together(waits: Sequence[WatchedWait], of: int) -> SeenWait:
    """Return the sum of the waits of one line, which may be called from several others."""
    most = max(waits, key=lambda wait: wait.waits)
    steps = {step for wait in waits for step in wait.at if step < of}
    count = sum(wait.waits for wait in waits)
    return SeenWait(most.line, most.called, most.thread, count, len(steps), of, period(steps, of))
