"""The report for the terminal in full: the verdict, what to do, then all tables."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.analyses.course import Course
from pinprof.analyses.overlap import SENTENCES
from pinprof.analyses.parts import MeanStep
from pinprof.measurement.division import busiest, idle_outside
from pinprof.measurement.known import Withheld, given
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import Doubt
from pinprof.phrases import PARTS
from pinprof.report.layout import bullet, fact, laid_out, section, table, unbroken
from pinprof.report.sites import LIBRARY, LINE, Gathered, called_from_several, cause_of, gather, inner_place
from pinprof.report.trace.course import ledger, regular, unlike
from pinprof.report.trace.elsewhere import MAX_SEEN, SeenWait, by_title
from pinprof.report.trace.headline import nothing_found
from pinprof.report.trace.host import TITLE, by_kind, called_cells, matters, not_sampled, precision
from pinprof.report.trace.spent_text import kernels_section, ops_section
from pinprof.report.trace.step import AS_TRACED, bound, of_step, of_what, step, where_it_goes
from pinprof.report.trace.verdict import told
from pinprof.report.trace.where import step_bar
from pinprof.report.words import (
    ABSENT,
    DISTRUST,
    IDLE,
    MAX_CELL,
    NOTHING,
    absences,
    consequence,
    copy_cells,
    cut,
    doubts,
    exposed_rows,
    in_short,
    joint_worth,
    place,
    printable,
    rates_of,
    site_line,
    some_in_steps,
    steps,
    surprises,
    then_worth,
    wait_cells,
    waits_in_all,
    whole_place,
    why_not,
    worth,
)
from pinprof.rules import Finding, Findings, unsearched
from pinprof.units import counted, duration, percent

MAX_SITES, MAX_WITHIN, MAX_DEVICES = 10, 5, 16
"""More sites, sites below a line, or GPUs than this are counted, not listed."""

MAX_FOUND = 5
"""Sites of a finding that are listed."""

MAX_LINES = 5
"""Lines of the host that are listed; the page has more."""

SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}


def to_text(
    profile: Profile,
    findings: Findings,
    *,
    width: int = 100,
    color: bool = False,
    waits_by: str = LINE,
    full: bool = False,
) -> str:
    """Return the full report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    Waits in libraries are gathered by the user's `line` that calls them, or by the `library`'s function. With `full`
    the tables of waits, kernels and ops have all rows.
    """
    return laid_out(_parts(profile, findings, waits_by, width, full=full), width=width, color=color)


def _parts(profile: Profile, findings: Findings, waits_by: str, width: int, *, full: bool) -> Iterable[RenderableType]:
    yield from _heading(profile)
    yield from _verdict(profile, findings)
    yield from _bar(profile, findings, width)
    if profile.gpus:
        yield from _findings(profile, findings)
    yield from _missing(DISTRUST, doubts(profile))
    yield from _summary(profile)
    if profile.course:
        yield from _course(profile.course)
    if profile.copies:
        yield from _copies(profile)
    if any(site.verdict != "profiler" for site in profile.sites):
        yield from _waits(profile, waits_by, full=full)
    for title, seen in by_title(profile):
        yield from _elsewhere(title, seen)
    if profile.loader.waits:
        yield from _input(profile)
    if matters(profile):
        yield from _host(profile)
    if profile.gpus:
        yield from _idle(profile)
        yield from kernels_section(profile, full=full)
    if profile.counts.get("cpu_op"):
        yield from ops_section(profile, full=full)
    yield from _missing(ABSENT, absences(profile))


def _verdict(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    verdict = told(profile, findings)
    if verdict is None:
        return
    yield section("Why the step takes so long")
    yield Padding(Text(f"{verdict.headline}.", "bold"), (0, 0, 0, 2))
    yield from (bullet(f"{line}.") for line in verdict.evidence)
    yield bullet(f"to do about it: {verdict.do}.")


def _bar(profile: Profile, findings: Findings, width: int) -> Iterable[RenderableType]:
    bar = list(step_bar(profile, width, findings.verdict.cause))
    if bar:
        yield Text("")
    yield from bar


def _missing(title: str, entries: Sequence[Doubt]) -> Iterable[RenderableType]:
    if entries:
        yield section(title)
        for entry in entries:
            yield bullet(f"{entry.what}: {consequence(entry)}.")


def _heading(profile: Profile) -> Iterable[RenderableType]:
    gpus = ", ".join(sorted({device.name or f"device {device.index}" for device in profile.info.devices}))
    torch = f"torch {profile.info.torch_version}" if profile.info.torch_version else ""
    yield unbroken(profile.path, "bold")
    yield Text(" · ".join(printable(part) for part in (gpus, torch, steps(profile)) if part))


def _summary(profile: Profile) -> Iterable[RenderableType]:
    yield section("Step")
    times, length = profile.steps, step(profile)
    if length.meaning != AS_TRACED:
        yield fact(length.number, length.meaning)
    for _, number, meaning in regular(profile.course) if profile.course else ():
        yield fact(number, meaning)
    if times.traced_ns is not None:
        parts = [
            f"{name} {duration(time)}"
            for name, time in (("host", times.host_ns), ("GPU", times.device_ns))
            if time is not None
        ]
        where = "the whole trace" if times.whole == "trace" else "in the trace"
        yield fact(duration(times.traced_ns), f"{where}, with the profiler's cost in it ({', '.join(parts)})")
    elif profile.withheld.step:
        yield fact(NOTHING, f"the step in the trace: {why_not(profile.withheld.step)}")
    limit = bound(profile)
    if limit:
        yield fact(limit.number, limit.meaning)
    yield from _division(profile)


def _course(course: Course) -> Iterable[RenderableType]:
    irregular = list(unlike(course))
    if irregular:
        yield section("Steps unlike the others, which the step leaves out")
    for _, number, meaning in irregular:
        yield fact(number, meaning)
    yield section(f"Where the run's {duration(course.wall_ns)} went")
    for _, number, meaning in ledger(course):
        yield fact(number, meaning)


def _division(profile: Profile) -> Iterable[RenderableType]:
    shown = busiest(profile)
    if shown:
        yield section(of_what(profile, shown))
    for name, number, meaning in where_it_goes(profile):
        yield fact(number, f"{name}: {meaning}")
    others = [mean for mean in profile.parts if mean is not shown]
    for mean in others[:MAX_DEVICES]:
        yield fact(f"GPU {mean.device}", _in_short(mean))
    yield from _more(len(others))


def _more(devices: int) -> Iterable[RenderableType]:
    if devices > MAX_DEVICES:
        yield bullet(f"and {devices - MAX_DEVICES} more GPUs, all in the JSON report")


def _in_short(mean: MeanStep) -> str:
    kernels, exposed, idle = (
        of_step(time, mean) for time in (mean.compute_ns + mean.both_ns, mean.copy_ns, mean.idle_ns)
    )
    return f"kernels {kernels}, exposed copies {exposed}, idle {idle} of it"


def _copies(profile: Profile) -> Iterable[RenderableType]:
    overlap, why = profile.overlap, profile.withheld
    yield section("Copies, in the whole trace")
    if isinstance(overlap, Withheld):
        yield fact(NOTHING, f"of the copy time is overlapped: {why_not(overlap.reason)}")
    elif overlap.value.fraction is None:
        yield fact(NOTHING, "of the copy time is overlapped: unknown for these copies")
    else:
        known = duration(overlap.value.known_ns)
        yield fact(percent(overlap.value.fraction), f"of {known} copy time is overlapped: kernels run beside it")
    rows = table("copy", "host memory", "count", "bytes", "time", "overlapped", "exposed", "rate", "host blocked")
    for cells in copy_cells(profile):
        rows.add_row(*cells)
    yield rows
    if why.overlap or why.causes:
        yield bullet(f"why copies are exposed: {why_not(why.overlap, why.causes)}")
        return
    times = [copied.time_ns for group in profile.copies if (copied := given(group.copied))]
    twice = sum(times) - (given(profile.copy_ns) or 0)
    if twice:
        yield bullet(
            f"copies run beside each other for {duration(twice)}: this counts once here, and for each copy in the table"
        )
    for reason, count, exposed in exposed_rows(profile):
        yield bullet(f"{duration(exposed)} exposed in {counted(count, 'copy', 'copies')}: {SENTENCES[reason]}")


def _waits(profile: Profile, waits_by: str, *, full: bool) -> Iterable[RenderableType]:
    sites = [site for site in profile.sites if site.verdict != "profiler"]
    listed = [site for site in sites if some_in_steps([site])]
    yield section(f"Waits of the host, {profile.steps.per} as traced")
    for number, meaning in waits_in_all(profile):
        yield fact(number, meaning)
    rows = table("wait", "in", "op or call", "count", "host waits", *PARTS.values(), "GPU idle after", text_columns=3)
    together = gather(listed, waits_by)
    most, within = (len(sites), len(sites)) if full else (MAX_SITES, MAX_WITHIN)
    for gathered in together[:most]:
        for row in _gathered_rows(profile, gathered, waits_by, within):
            rows.add_row(*(cut(cell, MAX_CELL) for cell in row))
    if listed:
        yield rows
    if left := sum(len(gathered.sites) for gathered in together[most:]):
        yield bullet(f"and {counted(left, 'more site')}, all in the JSON and HTML reports")
    if waits_by == LINE and called_from_several(listed):
        yield bullet(
            "some library functions wait for several of these lines: pinprof report --waits-by library adds them up"
        )
    if len(sites) > len(listed):
        yield bullet(
            f"{counted(len(sites) - len(listed), 'site')} outside of the complete steps: in the JSON and HTML reports"
        )
    for sentence in surprises(profile):
        yield bullet(sentence)


def _elsewhere(title: str, seen: Sequence[SeenWait]) -> Iterable[RenderableType]:
    yield section(f"{title}, in {counted(seen[0].of, 'step')} without profiler")
    rows = table("in", "called", "how often", "waits", text_columns=3)
    for wait in seen[:MAX_SEEN]:
        rows.add_row(cut(place(wait.place), MAX_CELL), wait.called or NOTHING, wait.how_often, f"{wait.waits:,}")
    yield rows
    if len(seen) > MAX_SEEN:
        yield bullet(f"and {counted(len(seen) - MAX_SEEN, 'more line')}, all in the JSON and HTML reports")


def _gathered_rows(profile: Profile, gathered: Gathered, by: str, most: int) -> Iterable[tuple[str, ...]]:
    """Yield the row of a site; of several their sum, then so many of the costliest, then what is left of them."""
    first, *others = gathered.sites
    if not others:
        yield cause_of(first), whole_place(first) or NOTHING, first.op or first.call, *wait_cells(profile, first)
        return
    sums = wait_cells(profile, *gathered.sites)
    yield (
        gathered.cause,
        place(in_short(gathered.at) if by == LIBRARY else gathered.at),
        f"{len(gathered.sites)} sites",
        *sums,
    )
    for site in gathered.sites[:most]:
        where = inner_place(site, by)
        yield f"  {cause_of(site)}", f"  {where}", site.op or site.call, *wait_cells(profile, site)
    if left := gathered.sites[most:]:
        yield "  more", NOTHING, counted(len(left), "site"), *wait_cells(profile, *left)


def _input(profile: Profile) -> Iterable[RenderableType]:
    loader = profile.loader
    yield section(f"Input, {profile.steps.per}")
    wait = NOTHING if profile.withheld.per_step else duration(loader.wait_in_steps_ns / profile.steps.divisor)
    yield fact(wait, "the main thread waits for its DataLoader")
    if loader.pinned is not None:
        memory = "pinned" if loader.pinned else "pageable"
        thread = ", and a pin-memory thread is at work" if loader.pin_thread else ""
        yield bullet(f"batches are copied from {memory} memory{thread}")


def _host(profile: Profile) -> Iterable[RenderableType]:
    sums, why_not = profile.host, list(not_sampled(profile))
    if sums is None and not why_not:
        return
    yield section(TITLE)
    yield from map(bullet, why_not)
    if sums is not None:
        yield bullet(f"{by_kind(sums)} ({precision(sums)})")
        rows = table("your line", "in", "of the time", "of the step", "samples")
        for row in sums.called[:MAX_LINES]:
            at, share, time, samples, kind = called_cells(profile, sums, row)
            rows.add_row(at, kind, share, time, samples)
        yield rows


def _idle(profile: Profile) -> Iterable[RenderableType]:
    yield section("Idle GPU, in the whole trace as traced")
    for gpu in profile.gpus[:MAX_DEVICES]:
        if isinstance(gpu.time, Withheld):
            yield fact(NOTHING, f"GPU {gpu.device} is idle: {why_not(gpu.time.reason)}")
            continue
        time = gpu.time.value
        share = time.idle_ns / time.span_ns if time.span_ns else 0.0
        yield fact(
            duration(time.idle_ns),
            f"GPU {gpu.device} is idle ({percent(share)} of the time from its first work to its last)",
        )
        for cause, idle in given(gpu.idle_by_cause) or ():
            yield bullet(f"{duration(idle)}: {IDLE[cause]}")
        outside = idle_outside(profile, gpu)
        if outside:
            whole = profile.steps.whole
            yield bullet(f"another {duration(outside)} of the {whole} lie before its first work or after its last")
    yield from _more(len(profile.gpus))
    if profile.withheld.causes and not profile.withheld.busy:
        yield bullet(f"by cause: {why_not(profile.withheld.causes)}")


def _findings(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    yield section("What to do")
    reason = unsearched(profile)
    if reason:
        yield bullet(f"not searched in full: {reason.what}")
    elif not findings:
        yield bullet(nothing_found(profile))
    for finding in findings:
        style = SEVERITY_STYLES[finding.severity]
        what = (f"{finding.rule.id} {finding.title}", "bold")
        yield Padding(Text.assemble((worth(finding, profile), style), ": ", what), (0, 0, 0, 2))
        yield Padding(Text(printable(finding.evidence.text)), (0, 0, 0, 6))
        yield from _finding_sites(finding)
        yield Padding(Text(f"Fix: {finding.fix}"), (0, 0, 0, 6))
        further = then_worth(finding, profile)
        if further:
            yield Padding(Text(f"Then: {further}"), (0, 0, 0, 6))
    for sentence in (joint_worth(findings, profile), rates_of(findings, profile)):
        if sentence:
            yield bullet(printable(sentence))


def _finding_sites(finding: Finding) -> Iterable[RenderableType]:
    lines = [site_line(site) for site in finding.sites[:MAX_FOUND]] if finding.evidence.sites else []
    if (more := len(finding.evidence.sites) - MAX_FOUND) > 0:
        lines.append(f"and {counted(more, 'more site')}, all in the JSON and HTML reports")
    rows = Table.grid(padding=(0, 1))
    for line in lines:
        rows.add_row("-", Text(printable(line)))
    if lines:
        yield Padding(rows, (0, 0, 0, 6))
