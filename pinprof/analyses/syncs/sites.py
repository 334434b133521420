"""Stalls by site: those of one cause that one line of the user makes, through one function of a library if any."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from pinprof.analyses.syncs.causes import CAUSE_CODE, HELD_UP_LAUNCHES, SYNCHRONIZE_CAUSES, WAIT_CAUSES
from pinprof.analyses.syncs.lines.matching import lines_of_waits
from pinprof.analyses.syncs.naming import name_causes
from pinprof.analyses.syncs.removal import group_sites, guarded_copies, in_limiter, verdict_on
from pinprof.analyses.syncs.stalls import Stalls, measure_stalls
from pinprof.ground.intervals import distinct
from pinprof.trace import callers
from pinprof.trace.frames import frame
from pinprof.trace.lines import Place, Placed, SourceLine
from pinprof.trace.links import follow
from pinprof.trace.sources import Sources
from pinprof.trace.tables import DIRECTIONS, DTOH, NONE, Bools, Int32s, Int64s, Trace, rows_by

SiteIdentity: TypeAlias = tuple[str, str | None, str | None, str | None, str | None, str | None]
"""Cause, file, function and op; file and function of the library."""
Member = TypeVar("Member")


@dataclass(frozen=True)
class Stalled:
    """How many waits there are, and how long they take the host."""

    count: int  # the number of waits; the calls that make and await one copy are one wait
    stall_ns: int


@dataclass(frozen=True)
class WaitCost(Stalled):
    """What waits cost together; times in ns."""

    drain_ns: int
    worked_ns: int  # the part of the drain in which the GPU works: `Stalls.worked_ns`
    own_ns: int
    idle_ns: int  # how long the GPU is idle because of them: `Stalls.idle_ns`
    within_ns: int  # the part of the idle time within calls that await no work; the rest comes after the awaited work

    @classmethod
    def of(cls, costs: Iterable["WaitCost"]) -> "WaitCost":
        """Return what waits cost together."""
        listed = list(costs)
        return cls(*(sum(getattr(cost, column.name) for cost in listed) for column in fields(cls)))

    @property
    def overhead_ns(self) -> int:
        """The stall without drain and own: the call itself, staging of a copy, waking up."""
        return self.stall_ns - self.drain_ns - self.own_ns


@dataclass(frozen=True)
class BareSite(Placed):
    """Waits of one cause at one place, without what they cost."""

    cause: str
    op: str | None  # the outermost op around the call, as the user called it
    call: str  # the runtime call with most of the stall: a blocking copy has two, the copy and the synchronize after it
    file: str | None
    line: int | None
    """The line of the call in the user's own code, if pinprof recorded it or the source has only one such line."""
    function: str | None  # the innermost function of the user's own code around the call
    stack: tuple[str, ...]
    """`FILE:LINE:FUNCTION`, innermost first. If `line` was not recorded, lines are those at which functions begin."""
    devices: tuple[int, ...]
    """The GPUs that are idle because of these waits; if none is, the GPUs that the host waits for."""
    thread: str
    verdict: str  # `hidden`, `explicit`, `benign` or `profiler`
    group: int | None = None
    """The number of its group: if one site of a group is removed alone, its wait only moves to another one."""
    library: Place | None = None
    """The innermost function outside of torch around the call, with its line if that was recorded; None if that is the
    user's own function, or unknown. Files are named from the folder of installed libraries on."""
    path: tuple[str, ...] = ()
    """`FILE:LINE:FUNCTION` from the user's line to `library`, without the frames of torch and Python, as in `stack`."""
    guards: tuple[str, ...] = ()
    """Directions of asynchronous copies of pinned memory that these waits await besides their own copy: without the
    wait the host might read or write their memory too early."""

    @property
    def is_wait(self) -> bool:
        """Whether the host waits for the GPU here: not what the profiler does, nor a launch that was held up."""
        return self.verdict != "profiler" and self.cause not in HELD_UP_LAUNCHES

    @property
    def is_of_the_code(self) -> bool:
        """Whether the code makes the host wait: the wait is neither the profiler's nor benign."""
        return self.verdict in {"hidden", "explicit"}

    @property
    def is_kept(self) -> bool:
        """Whether it is a synchronize that guards a copy: another wait must replace it."""
        return bool(self.guards) and self.cause in SYNCHRONIZE_CAUSES

    @property
    def must_stay(self) -> bool:
        """Whether a replacement may take as long as the wait.

        It does not if a hidden wait guards only copies to the GPU: their memory is next written in the next step.
        """
        return self.is_kept or DIRECTIONS[DTOH] in self.guards

    @property
    def identity(self) -> SiteIdentity:
        """Identifies the site in another trace of the program; it has no line, as edits above would move that."""
        library = self.library or Place()
        return self.cause, self.file, self.function, self.op, library.file, library.function

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in options: `FILE:LINE` and `FILE:FUNCTION`, of the user's place and of the library's."""
        return (*self.place.names, *(self.library.names if self.library else ()))


def by_line(members: Iterable[Member], site_of: Callable[[Member], BareSite]) -> list[list[Member]]:
    """Group members in their order: those of library waits that one place of the user calls are one group."""
    groups: dict[object, list[Member]] = {}
    for number, member in enumerate(members):
        site = site_of(member)
        groups.setdefault(site.place if site.library and site.place != Place() else number, []).append(member)
    return list(groups.values())


@dataclass(frozen=True, kw_only=True)
class Site(BareSite):
    """Waits of one cause at one place, and what they cost."""

    total: WaitCost  # in the whole trace
    in_steps: WaitCost  # in the complete steps together


@dataclass(frozen=True)
class Syncs:
    """All waits of the host, singly and by site; sites with the longest idle time first."""

    stalls: Stalls
    cause: Int32s  # per stall: index into CAUSES
    lines: tuple[SourceLine | None, ...]  # per stall: the line of the user's code, None where none is certain
    sites: tuple[Site, ...]
    site: Int64s  # per stall: index into `sites`
    op: Int32s  # per stall: the outermost op around it, as a row of `Trace.ops`; -1 for none

    @cached_property
    def rows(self) -> list[Int64s]:
        """Per site: its stalls."""
        return rows_by(self.site)

    def at(self, sites: Iterable[int]) -> Int64s:
        """Return the waits at these sites, given by number, as rows of `stalls`, in order."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(self.rows[site] for site in sites)]))

    def has_cause(self, *names: str, rows: Int64s | slice = slice(None)) -> Bools:
        """Return whether each wait has one of these causes; `rows` are of `stalls`, by default all."""
        return np.isin(self.cause[rows], [CAUSE_CODE[name] for name in names])

    @cached_property
    def hidden(self) -> Int64s:
        """The waits at hidden sites, as rows of `stalls`."""
        return self.at(number for number, site in enumerate(self.sites) if site.verdict == "hidden")

    @cached_property
    def waits(self) -> Int64s:
        """The waits of the host for the GPU, as rows of `stalls`."""
        return self.at(number for number, site in enumerate(self.sites) if site.is_wait)

    def number(self, site: Site) -> int:
        """Return which of `sites` a site is."""
        return self._number_of[site]

    @cached_property
    def _number_of(self) -> dict[Site, int]:
        return {site: number for number, site in enumerate(self.sites)}


def measure_syncs(trace: Trace, sources: Sources | None = None) -> Syncs:
    """Return where the host waited for the GPU, for how long, and how long the GPU was idle because of it.

    Lines that were not recorded are looked up in `sources`, by default in the folder of the trace.
    """
    stalls = measure_stalls(trace)
    recorded = lines_of_waits(trace, stalls)
    places = callers.call_places(trace, stalls.call, sources or Sources(trace.path))
    looked_up = (place if place and place.line is not None else None for place in places)
    lines = [line or other for line, other in zip(recorded, looked_up, strict=True)]
    cause = name_causes(trace, stalls, lines)
    if len(cause) == 0:
        return Syncs(stalls, cause, (), (), stalls.call, stalls.copy)
    around = _around(trace, stalls.call, lines)
    site = np.unique(_keys(trace, stalls, cause, around), axis=1, return_inverse=True)[1].ravel()
    in_step = trace.steps.holds(stalls.call_step)
    groups, guarded = group_sites(trace, stalls, site), guarded_copies(trace, stalls)
    sites = []
    for number, rows in enumerate(rows_by(site)):
        ungrouped = _site(trace, stalls, WAIT_CAUSES[cause[rows[0]]], rows, in_step, around)
        copies = guarded.copy[np.isin(guarded.stall, rows)]
        guards = tuple(DIRECTIONS[code] for code in np.unique(trace.gpu.direction[copies]).tolist())
        sites.append(replace(ungrouped, group=groups.get(number), guards=guards))
    order = sorted(range(len(sites)), key=lambda number: (-sites[number].total.idle_ns, -sites[number].total.stall_ns))
    rank = np.empty(len(sites), np.int64)
    rank[order] = np.arange(len(sites))
    return Syncs(stalls, cause, tuple(lines), tuple(sites[number] for number in order), rank[site], around.op)


class _Around(NamedTuple):
    """The code around each stall; -1 or None for none."""

    line: list[SourceLine | None]  # the line of the user's code, recorded or found in its source
    library: list[Place | None]  # the innermost function outside of torch, None where that is the user's own
    op: Int32s  # the outermost op
    function: Int32s  # the innermost function of the user's own code
    innermost: Int32s  # the innermost function of any code
    limited: Bools  # whether the stall is within one of `LIMITERS`


def _around(trace: Trace, call: Int64s, lines: list[SourceLine | None]) -> _Around:
    innermost = callers.calling_function(trace, call)
    return _Around(
        lines,
        _libraries(trace, lines, callers.library_function(trace, innermost)),
        callers.outermost_op(trace, call),
        callers.user_calls(trace, call).function,
        innermost,
        in_limiter(trace, call),
    )


def _libraries(trace: Trace, lines: list[SourceLine | None], functions: Int32s) -> list[Place | None]:
    """Return per stall the place in a library: by the stack of its line, otherwise by its Python function."""
    of_function = cache(callers.library_place)
    of_line = cache(lambda line: callers.call_path(line.stack, line.place, certain=line.line is not None).library)
    names = [trace.functions.name_of(row) if row != NONE else "" for row in functions.tolist()]
    return [
        of_line(line) if line and line.stack else of_function(name) for line, name in zip(lines, names, strict=True)
    ]


def _keys(trace: Trace, stalls: Stalls, cause: Int32s, around: _Around) -> np.ndarray:
    """Return the key of each stall's site, a column per stall: the source line if known, otherwise op and function.

    The library's place is part of the key, except where a launch was held up: that may happen to any launch.
    """
    roles = sorted({thread.role for thread in trace.threads})
    role = np.array([roles.index(thread.role) for thread in trace.threads], dtype=np.int32)
    line = _numbered([line.place if line else None for line in around.line])
    in_library = ~stalls.profiler & ~np.isin(cause, [CAUSE_CODE[name] for name in HELD_UP_LAUNCHES])
    return np.stack(
        (
            cause,
            line,
            np.where(line == NONE, follow(trace.ops.name, around.op), NONE),
            np.where(line == NONE, follow(trace.functions.name, around.function), NONE),
            np.where(in_library, _numbered(around.library), NONE),
            role[trace.calls.thread[stalls.call]],
            stalls.profiler,
        )
    )


def _numbered(places: list[Place | None]) -> Int32s:
    """Return a number for each place, equal ones for equal places, -1 for none."""
    index: dict[Place | None, int] = {None: NONE}
    return np.array([index.setdefault(place, len(index)) for place in places], dtype=np.int32)


def _site(trace: Trace, stalls: Stalls, cause: str, members: Int64s, in_step: np.ndarray, around: _Around) -> Site:
    longest = int(members[stalls.stall_ns[members].argmax()])
    call, op, line = int(stalls.call[longest]), int(around.op[longest]), around.line[longest]
    function = int(around.function[longest])
    named = frame(trace.functions.name_of(function)) if function != NONE and not line else None
    at = line.place if line else Place(named.file, None, named.function) if named else Place()
    recorded = line.stack if line else ()
    stack = recorded or callers.stack_of(trace, int(around.innermost[longest]))
    has_library = cause not in HELD_UP_LAUNCHES and not stalls.profiler[longest]
    library = around.library[longest] if has_library else None
    idle = members[stalls.idle_ns[members] > 0]
    return Site(
        cause=cause,
        op=trace.ops.name_of(op) if op != NONE else None,
        call=trace.calls.name_of(call),
        file=at.file,
        line=at.line,
        function=at.function,
        stack=stack,
        devices=tuple(np.unique(stalls.device[idle if len(idle) else members]).tolist()),
        thread=trace.threads[trace.calls.thread[call]].role,
        verdict=verdict_on(trace, stalls, members, cause, stack, around.limited),
        library=library,
        path=callers.call_path(stack, at, certain=bool(recorded)).path if library else (),
        total=_cost(stalls, members),
        in_steps=_cost(stalls, members[in_step[members]]),
    )


def _cost(stalls: Stalls, members: Int64s) -> WaitCost:
    copy = stalls.copy[members]
    return WaitCost(
        count=int((copy == NONE).sum()) + len(distinct(copy[copy != NONE])),
        stall_ns=int(stalls.stall_ns[members].sum()),
        drain_ns=int(stalls.drain_ns[members].sum()),
        worked_ns=int(stalls.worked_ns[members].sum()),
        own_ns=int(stalls.own_ns[members].sum()),
        idle_ns=int(stalls.idle_ns[members].sum()),
        within_ns=int(stalls.idle_ns[members[stalls.bubble_ns[members] == 0]].sum()),
    )


GONE_SHARE = 0.5
"""A wait was removed from the code if the trace after has at most this share of it per step: if it is left in every
third step, another place or another case makes it."""

SiteCount = tuple[Site, float]


@dataclass(frozen=True)
class Match:
    """Sites of two traces that are the same waits: either side may be empty, or several lines of a function."""

    before: tuple[SiteCount, ...]
    after: tuple[SiteCount, ...]
    moved: bool = False
    """Whether only cause and op are the same: as far as recorded, the wait is in another function now."""

    def gone(self) -> Iterator[Site]:
        """Yield the sites before that are missing, or much rarer, in the trace after."""
        return _without_counterpart(self.before, self.after)

    def new(self) -> Iterator[Site]:
        """Yield the sites after that are missing, or much rarer, in the trace before."""
        return _without_counterpart(self.after, self.before)


def _without_counterpart(sites: tuple[SiteCount, ...], others: tuple[SiteCount, ...]) -> Iterator[Site]:
    unmatched = sum(count for _, count in others)
    for site, count in sites:
        matched = min(unmatched, count)
        unmatched -= matched
        if matched <= GONE_SHARE * count:
            yield site


def _have_places(sites: tuple[SiteCount, ...]) -> bool:
    return any(site.function is not None for site, _ in sites)


def match_sites(before: Sequence[SiteCount], after: Sequence[SiteCount]) -> tuple[Match, ...]:
    """Return which sites of two traces are the same waits, each site in one match, in the order before, then after.

    Sites are the same if their whole identity is. A site without a counterpart, or with one of at most half as many
    waits, is then matched by cause and op with what is left on the other side: a change may move a wait to another
    function.
    """
    sides = [_by_identity(before), _by_identity(after)]
    matches = {
        identity: Match(tuple(sides[0].get(identity, ())), tuple(sides[1].get(identity, ())))
        for identity in (*sides[0], *(key for key in sides[1] if key not in sides[0]))
    }
    loose: dict[tuple[str, str | None], list[SiteIdentity]] = defaultdict(list)
    for identity, match in matches.items():
        if any(match.gone()) or any(match.new()):
            loose[identity[0], identity[3]].append(identity)
    for identities in loose.values():
        merged = [matches[identity] for identity in identities]
        old, new = (tuple(site for match in merged for site in getattr(match, side)) for side in ("before", "after"))
        alone_before = any(not match.after for match in merged)
        alone_after = any(not match.before for match in merged)
        needed_before = any(any(match.gone()) for match in merged)
        needed_after = any(any(match.new()) for match in merged)
        if (alone_after and needed_before) or (alone_before and needed_after):
            matches[identities[0]] = Match(old, new, moved=_have_places(old) and _have_places(new))
            for identity in identities[1:]:
                del matches[identity]
    return tuple(matches.values())


def _by_identity(sites: Sequence[SiteCount]) -> dict[SiteIdentity, list[SiteCount]]:
    grouped: dict[SiteIdentity, list[SiteCount]] = defaultdict(list)
    for site, count in sites:
        grouped[site.identity].append((site, count))
    return dict(grouped)
