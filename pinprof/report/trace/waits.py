"""The waits of the host: those of the recorded steps by site, and those that were seen elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pinprof.measurement.profile import Profile, WaitSite
from pinprof.report.elements import Column, number_columns
from pinprof.report.sites import LIBRARY, LINE, Gathered, called_from_several, cause_of, gather, inner_place
from pinprof.report.view import Cell, Fact, Section, Sited, Styled, Table
from pinprof.report.words import (
    NOTHING,
    PARTS,
    in_short,
    place,
    some_in_steps,
    surprises,
    wait_cells,
    waits_in_all,
    whole_place,
)
from pinprof.trace.lines import Placed, WatchedWait, period
from pinprof.units import counted

MAX_SITES, MAX_WITHIN, MAX_SEEN = 10, 5, 10
"""More sites, sites below a line, or lines with waits elsewhere are counted in a terminal, not listed."""
MAX_ROWS = 100
"""A longer table helps nobody."""
BY_LIBRARY = "some library functions wait for several of these lines: pinprof report --waits-by library adds them up"
OUTSIDE = "Waits seen outside of the recorded steps"
NOT_JOINED = "Waits seen in every step, at lines that no recorded wait is certain to have"
Row = Sequence[Cell]


def wait_sections(profile: Profile, by: str, *, full: bool) -> Iterator[Section]:
    """Yield the waits of the recorded steps, gathered by `line` or `library`, and those seen elsewhere.

    With `full` a terminal has all rows of the first.
    """
    sites = [site for site in profile.sites if site.verdict != "profiler"]
    if sites:
        yield _recorded(profile, sites, by, full=full)
    for title, waits in _by_title(profile):
        yield _elsewhere(title, waits)


def _recorded(profile: Profile, sites: Sequence[WaitSite], by: str, *, full: bool) -> Section:
    listed = [site for site in sites if some_in_steps([site])]
    together = gather(listed, by)
    most = len(together) if full else MAX_SITES
    columns = [Column("wait"), Column("in"), Column("op or call")]
    columns += number_columns("count", "host waits", *PARTS.values(), "GPU idle after")
    all_rows = [row for gathered in together for row in _rows(profile, gathered, by, len(sites))]
    short = None if full else [row for one in together[:most] for row in _rows(profile, one, by, MAX_WITHIN)]
    outside, left = len(sites) - len(listed), sum(len(gathered.sites) for gathered in together[most:])
    left_out = [f"and {counted(left, 'more site')}, all in the JSON and HTML reports"] if left else []
    if by == LINE and called_from_several(listed):
        left_out.append(BY_LIBRARY)
    if outside:
        left_out.append(f"{counted(outside, 'site')} outside of the complete steps: in the JSON and HTML reports")
    caption = (
        "GPU idle after: until its next work. The host waits for work that was queued earlier, for the copy that the "
        "call itself makes, and in the call itself"
    )
    return Section(
        f"Waits of the host, {profile.steps.per} as traced",
        facts=[Fact("waits", number, meaning, is_named=False) for number, meaning in waits_in_all(profile)],
        tables=[Table(caption, columns, all_rows, short, grid="waits")],
        notes=list(surprises(profile)),
        left_out=left_out,
        name="waits",
    )


def _rows(profile: Profile, gathered: Gathered, by: str, most: int) -> Iterator[Row]:
    """Yield the row of a site; of several their sum, then so many of the costliest, then what is left of them."""
    first, *others = gathered.sites
    if not others:
        where = Sited(whole_place(first) or NOTHING, first.place, first.stack)
        yield cause_of(first), where, first.op or first.call, *wait_cells(profile, first)
        return
    yield (
        Styled(gathered.cause, "strong"),
        Sited(place(in_short(gathered.at) if by == LIBRARY else gathered.at) or NOTHING, gathered.at),
        f"{len(gathered.sites)} sites",
        *wait_cells(profile, *gathered.sites),
    )
    for site in gathered.sites[:most]:
        where = Sited(f"  {inner_place(site, by)}", site.place, site.stack)
        yield f"  {cause_of(site)}", where, site.op or site.call, *wait_cells(profile, site)
    if left := gathered.sites[most:]:
        yield "  more", NOTHING, counted(len(left), "site"), *wait_cells(profile, *left)


@dataclass(frozen=True)
class SeenWait(Placed):
    """Waits of one line that no wait of the recorded steps is known to have, over the watched steps."""

    file: str
    line: int | None
    function: str
    stack: tuple[str, ...]
    called: str | None
    """What the line called; None where that is not certain."""
    thread: str
    waits: int
    steps: int
    """Watched steps with such waits; 0 if it only waited after the last of them."""
    of: int
    """Watched steps."""
    every: int | None
    """The period in steps; None without one."""

    @property
    def is_outside(self) -> bool:
        """Whether it is outside of the recorded steps: what waits in every step waits in these, too."""
        return self.every != 1

    @property
    def how_often(self) -> str:
        """How often it waits, in words."""
        if not self.steps:
            return f"after {self.of} watched steps"
        if self.every == 1:
            return "every step"
        if self.every is not None:
            return f"every {self.every} steps"
        return f"in {self.steps} of {counted(self.of, 'step')}"

    @property
    def per_step(self) -> float:
        """Waits in each step that has some."""
        return self.waits / max(self.steps, 1)


def seen_elsewhere(profile: Profile) -> list[SeenWait]:
    """Return the watched waits at lines where no recorded wait is known to be, the most frequent first."""
    watched = profile.info.watched
    if watched is None:
        return []
    recorded = {(site.file, site.line) for site in profile.sites if site.line is not None}
    by_line: dict[tuple[object, ...], list[WatchedWait]] = {}
    for wait in watched.waits:
        if (wait.line.file, wait.line.line) not in recorded:
            by_line.setdefault((wait.line.place, wait.called, wait.thread), []).append(wait)
    of_lines = [_together(waits, watched.steps) for waits in by_line.values()]
    return sorted(of_lines, key=lambda wait: -wait.waits)


def _by_title(profile: Profile) -> Iterator[tuple[str, list[SeenWait]]]:
    """Yield the watched waits without a recorded wait of their line, under the title that is true of them."""
    waits_elsewhere = seen_elsewhere(profile)
    for title, outside in ((NOT_JOINED, False), (OUTSIDE, True)):
        if waits := [wait for wait in waits_elsewhere if wait.is_outside == outside]:
            yield title, waits


def _elsewhere(title: str, waits: Sequence[SeenWait]) -> Section:
    rows = [
        (
            Sited(place(wait.place), wait.place, wait.stack),
            Styled(wait.called, "code") if wait.called else NOTHING,
            wait.how_often,
            f"{wait.waits:,}",
        )
        for wait in waits[:MAX_ROWS]
    ]
    left, first, more = len(waits) - MAX_SEEN, waits[0], len(waits) - 1
    called = f"`{first.called}` at " if first.called else ""
    also = f", and at {counted(more, 'more line')} (--full)" if more else ""
    return Section(
        f"{title}, in {counted(waits[0].of, 'step')} without profiler",
        tables=[
            Table(
                "Seen at lines that no recorded wait has",
                [Column("in"), Column("called"), Column("how often"), *number_columns("waits")],
                rows,
                rows[:MAX_SEEN],
            )
        ],
        left_out=[f"and {counted(left, 'more line')}, all in the JSON and HTML reports"] if left > 0 else [],
        brief=[f"{title}: {called}{place(first.place)}, {first.how_often}{also}."] if first.is_outside else [],
    )


def _together(waits: Iterable[WatchedWait], of: int) -> SeenWait:
    """Return the waits of one line, which may be called from several others."""
    all_waits = list(waits)
    often = max(all_waits, key=lambda wait: wait.waits)
    at = {step for wait in all_waits for step in wait.at if step < of}
    return SeenWait(
        file=often.line.file,
        line=often.line.line,
        function=often.line.function,
        stack=often.line.stack,
        called=often.called,
        thread=often.thread,
        waits=sum(wait.waits for wait in all_waits),
        steps=len(at),
        of=of,
        every=period(at, of),
    )
