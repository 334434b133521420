"""The tables of the page: all numbers that the charts are drawn from, and what each means."""

from collections.abc import Iterator, Sequence

from pinprof.analyses.host import HostSums
from pinprof.analyses.overlap import SENTENCES
from pinprof.analyses.parts import StepParts
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.phrases import EXPOSED, PARTS, WAITING, WAITS
from pinprof.phrases import IDLE as IDLE_NAMES
from pinprof.report.charts.steps import part_times
from pinprof.report.elements import Column, Markup, bold, details, number_columns, table, unbroken
from pinprof.report.sites import LIBRARY, LINE, Gathered, called_from_several, gather, inner_place
from pinprof.report.source import Quoting
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.trace.elsewhere import SeenWait
from pinprof.report.trace.host import WHAT_COUNTS, by_kind, called_cells, place_cells, precision
from pinprof.report.words import IDLE, NOTHING, copy_cells, exposed_rows, place, surprises, wait_cells, whole_place
from pinprof.trace.tables import Int64s
from pinprof.units import between, counted, duration, percent

OF_WHAT = {"step": "Per complete step", "trace": "In the whole trace"}
"""Of what figures are, by `StepTimes.whole`."""
FEW = 10
"""Of so many steps each length is said."""
INSIDE = "\N{BOX DRAWINGS LIGHT UP AND RIGHT}"
"""Before what belongs to the row above."""
MAX_ROWS = 100
"""A longer table helps nobody."""
MAX_HOST_ROWS = 20
"""Lines and functions of the host; what follows are single samples."""


def copies_table(profile: Profile) -> Markup:
    """Return the copies by direction and host memory."""
    if not profile.copies:
        return Markup()
    columns = [Column("direction"), Column("host memory")]
    columns += number_columns("count", "bytes", "time", "overlapped", "exposed", "rate", "host blocked")
    return table("In the whole trace, each copy counted by itself", columns, copy_cells(profile, ","))


def reasons_table(profile: Profile) -> Markup:
    """Return why copies are exposed; nothing where that is withheld."""
    columns = [Column("reason"), *number_columns("copies", "exposed"), Column("meaning")]
    cells = [
        (EXPOSED[reason], f"{count:,}", duration(time), SENTENCES[reason])
        for reason, count, time in exposed_rows(profile)
    ]
    return table("In the whole trace; the first reason that fits each copy", columns, cells) if cells else Markup()


def sites_table(profile: Profile, quoting: Quoting) -> Markup:
    """Return the waits of the host by site, and what is surprising about them."""
    made = _gathered_table(profile, LINE, quoting)
    if called_from_several(profile.sites):
        again = _gathered_table(profile, LIBRARY, quoting)
        made += Markup("<details><summary>The same by function of the libraries</summary>{}</details>").format(again)
    said = Markup().join(map(Markup("<li>{}.</li>").format, map(unbroken, surprises(profile)))) if made else ""
    return made + (Markup("<ul>{}</ul>").format(said) if said else "")


def _gathered_table(profile: Profile, by: str, quoting: Quoting) -> Markup:
    steps = profile.steps
    counts = ("per step", "in the trace") if steps.whole == "step" else ("in the trace",)
    columns = [Column("wait"), Column("where"), *number_columns("host waits", "GPU idle after", *PARTS.values())]
    columns += number_columns(*counts)
    caption = (
        f"{OF_WHAT[steps.whole]} as traced. GPU idle after: until its next work. The host waits for work that was "
        "queued earlier, for the copy that the call itself makes, and in the call itself"
    )
    rows = [row for gathered in gather(profile.sites, by) for row in _gathered_rows(profile, gathered, by, quoting)]
    return table(caption, columns, rows) if rows else Markup()


def _gathered_rows(profile: Profile, gathered: Gathered, by: str, quoting: Quoting) -> Iterator[tuple[str, ...]]:
    """Yield the row of a site; of several their sum, then each."""
    if len(gathered.sites) == 1:
        (site,) = gathered.sites
        yield _site_row(profile, site, quoting.linked(site.place, whole_place(site)) or NOTHING)
        return
    totals = [given(site.total) for site in gathered.sites]
    in_all = NOTHING if None in totals else f"{sum(total.count for total in totals if total):,}"
    yield (
        _wait(bold(gathered.cause), f"{len(gathered.sites)} sites"),
        bold(quoting.linked(gathered.at, place(gathered.at)) or NOTHING),
        *_wait_figures(profile, wait_cells(profile, *gathered.sites), in_all),
    )
    for site in gathered.sites:
        yield _site_row(profile, site, f"{INSIDE} {inner_place(site, by)}")


def _site_row(profile: Profile, site: WaitSite, where: str) -> tuple[str, ...]:
    by_profiler, total = site.verdict == "profiler", given(site.total)
    cells = wait_cells(profile, site)
    named = "the profiler's own, not counted" if by_profiler else WAITS[site.cause]
    return (
        _wait(named, "" if by_profiler else WAITING[site.verdict], site.op or site.call),
        details(where, site.stack) if site.stack else where,
        *_wait_figures(
            profile,
            (cells[0], *[NOTHING] * (len(cells) - 1)) if by_profiler else cells,
            f"{total.count:,}" if total else NOTHING,
        ),
    )


def _wait(cause: str, verdict: str, called: str = "") -> Markup:
    """Return what a wait is: its cause, and in small print the op or call and whether the code asks for it."""
    code = Markup("<code>{}</code>").format(called) if called else ""
    more = Markup(", ").join(filter(None, (code, verdict)))
    return Markup('{} <span class="what">{}</span>').format(unbroken(cause), more)


def _wait_figures(profile: Profile, cells: Sequence[str], in_all: str) -> tuple[str, ...]:
    """Return the figures of waits, those that decide first."""
    count, stall, drain, own, rest, idle = cells
    counts = (count, in_all) if profile.steps.whole == "step" else (in_all,)
    return stall, idle, drain, own, rest, *counts


def elsewhere_table(seen: Sequence[SeenWait]) -> Markup:
    """Return the waits that were seen without a recorded wait of their line."""
    columns = [Column("where"), Column("called"), Column("how often"), *number_columns("waits", "in each such step")]
    rows = [
        (
            details(place(wait.place), wait.stack) if wait.stack else place(wait.place),
            Markup("<code>{}</code>").format(wait.called) if wait.called else NOTHING,
            wait.how_often,
            f"{wait.waits:,}",
            f"{wait.per_step:.3g}",
        )
        for wait in seen[:MAX_ROWS]
    ]
    first = f"; the first {MAX_ROWS} of {len(seen)}" if len(seen) > MAX_ROWS else ""
    watched = counted(seen[0].of, "step")
    caption = f"Seen in {watched} without the profiler, at lines that the table above does not have{first}"
    return table(caption, columns, rows)


def called_table(profile: Profile, sums: HostSums) -> Markup:
    """Return the lines of the program by the time that the host spends in them and in what they call."""
    columns = [Column("your line"), *number_columns("of the time", "of the step", "samples"), Column("in")]
    rows = [called_cells(profile, sums, row) for row in sums.called[:MAX_HOST_ROWS]]
    left = f"; the first {MAX_HOST_ROWS} of {len(sums.called)} lines" if len(sums.called) > MAX_HOST_ROWS else ""
    caption = (
        f"The innermost of your lines, which add up to the time of the main thread: {by_kind(sums)}. {precision(sums)}"
    )
    return table(caption + left, columns, rows)


def functions_table(profile: Profile, sums: HostSums) -> Markup:
    """Return the functions of any code by their own time."""
    columns = [Column("function"), Column("of"), *number_columns("own time", "of the step", "samples", "with callees")]
    shown = [row for row in sums.functions if row.own][:MAX_HOST_ROWS]
    return table(f"Own time of functions; {WHAT_COUNTS}", columns, (place_cells(profile, sums, row) for row in shown))


def idle_table(profile: Profile) -> Markup:
    """Return the idle time of each GPU by cause; nothing where that is withheld."""
    columns = [Column("GPU"), Column("cause"), *number_columns("time", "of its span"), Column("meaning")]
    rows = [
        (str(gpu.device), IDLE_NAMES[cause], duration(idle), percent(idle / time.span_ns), IDLE[cause])
        for gpu in profile.gpus
        if (time := given(gpu.time))
        for cause, idle in given(gpu.idle_by_cause) or ()
    ]
    return table("As traced, between the first and the last work of each GPU", columns, rows) if rows else Markup()


def steps_table(profile: Profile) -> Markup:
    """Return how long the steps are, by each way to measure them."""
    steps = profile.steps
    worked = "time in which the busiest GPU worked, without copies of pageable memory"
    named = (
        (
            ("host", steps.host_ns, "median time between the starts of consecutive steps on the host"),
            ("GPU", steps.device_ns, "mean time between the ends of the GPU work of consecutive steps"),
            ("GPU work", steps.busy_ns, f"mean {worked}"),
        )
        if steps.count > 1
        else (
            ("host", steps.host_ns, "time from its start on the host to its end, or to the next step"),
            ("GPU", steps.device_ns, "time from its first work of a GPU to the end of its last"),
            ("GPU work", steps.busy_ns, worked),
        )
    )
    rows = [(name, duration(time), meaning) for name, time, meaning in named if time is not None]
    each = steps.each_ns.tolist()
    if len(each) > 1:
        lengths = ", ".join(duration(time) for time in each) if len(each) <= FEW else between(min(each), max(each))
        rows.append(("each", lengths, "from the start of one complete step to the next one's"))
    columns = [Column(steps.whole), *number_columns("time"), Column("meaning")]
    only = "The complete step" if steps.whole == "step" else "The whole trace"
    cost = "as traced, with the profiler's cost in"
    caption = f"Complete steps {cost} them" if steps.count > 1 else f"{only} {cost} it"
    return table(caption, columns, rows) if rows else Markup()


def parts_table(parts: StepParts, numbers: Int64s, whole: str = "step") -> Markup:
    """Return how the time of each step divides on a GPU; `numbers` are those of all steps.

    `whole` is what counts as a step: `StepTimes.whole`.
    """
    named = part_times(parts)
    columns = [Column(whole), *number_columns("length", *(KINDS[kind].label for kind in named))]
    times = (parts.length_ns, *named.values())
    rows = zip(numbers[parts.step].tolist(), *(time.tolist() for time in times), strict=True)
    cells = [(f"{step}", *(duration(time) for time in row)) for step, *row in list(rows)[:MAX_ROWS]]
    first = f", the first {MAX_ROWS} of {len(parts.step)}" if len(parts.step) > MAX_ROWS else ""
    each = "Each complete step" if whole == "step" else "The whole trace"
    return table(f"{each} on GPU {parts.device} as traced{first}; the parts add up to its length", columns, cells)
