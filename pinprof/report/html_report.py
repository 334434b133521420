"""The report as a page: the step and what costs it time, what to do, a timeline to check it by, and the tables."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from pinprof.analyses.parts import StepParts, measure_parts
from pinprof.measure import Profile
from pinprof.report.actions import best, cards
from pinprof.report.elements import Column, Markup, Share, escaped, facts, shares, table, unbroken
from pinprof.report.headline import headline
from pinprof.report.page import page
from pinprof.report.sections import OF_PARTS, below
from pinprof.report.timeline import MAX_EVENTS, fragment
from pinprof.report.timeline.kinds import BOTH, COMPUTE_ONLY, COPY_ONLY, KINDS, MEMSET_ONLY
from pinprof.report.timeline.kinds import IDLE as IDLE_KIND
from pinprof.report.words import (
    ABSENT,
    BOUNDS,
    DISTRUST,
    NOTHING,
    absences,
    consequence,
    doubts,
    step_known,
    steps,
    why_not,
)
from pinprof.rules import Findings
from pinprof.trace.tables import Trace
from pinprof.trust import Missing
from pinprof.units import duration, percent

Entry = tuple[Trace, Profile, Findings]
"""A trace, its measurements, and what the rules found in it."""


def to_html(entries: Sequence[Entry]) -> str:
    """Return the report on the traces as one page that needs nothing else."""
    names = [PurePath(profile.path).name for _, profile, _ in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    most = MAX_EVENTS // max(len(entries), 1)
    steps_of = [measure_parts(trace) for trace, _, _ in entries]
    sections = (
        section(number, entry, parts, most)
        for number, (entry, parts) in enumerate(zip(entries, steps_of, strict=True), start=1)
    )
    overview = _overview(entries, steps_of) if len(entries) > 1 else ""
    return report_page(title, "what the host and its copies cost the step", f"{overview}{''.join(sections)}")


def report_page(title: str, subject: str, sections: str) -> str:
    """Return a page of these sections, as HTML, on a subject in words."""
    header = f"<header><h1>pinprof: {escaped(subject)}</h1></header>"
    skip = '<a class="skip" href="#report">Skip to the report</a>'
    return page(title, f'{skip}\n{header}\n<main id="report" tabindex="-1">\n{sections}</main>')


def timeline_page(trace: Trace, profile: Profile) -> str:
    """Return the timeline alone as one page that needs nothing else."""
    name = PurePath(profile.path).name
    return page(f"pinprof: {name}", f"<main><h1>{escaped(name)}</h1>\n{fragment(trace, profile)}\n</main>")


def _overview(entries: Sequence[Entry], steps_of: Sequence[Sequence[StepParts]]) -> str:
    """Return a table of the traces, each with its step and what to do first, and a link to its part of the page."""
    columns = [Column("trace"), Column("step", is_number=True), Column("bound by"), Column("what to do first")]
    rows = []
    for number, ((_, profile, findings), parts) in enumerate(zip(entries, steps_of, strict=True), start=1):
        name = PurePath(profile.path).name
        rank = f"rank {profile.info.rank}: " if profile.info.rank is not None else ""
        link = Markup(f'<a href="#trace-{number}">{escaped(rank + name)}</a>')
        sentence = headline(profile, findings, _busiest(profile, parts))
        rows.append((link, _step(profile)[1], profile.bound or NOTHING, sentence.do))
    return f'<nav aria-label="Traces">{table("The traces of this page", columns, rows)}</nav>\n'


def section(number: int, entry: Entry, parts: Sequence[StepParts], max_events: int) -> str:
    """Return the report on one trace, the page's so many-th; `parts` are its steps on each GPU."""
    trace, profile, findings = entry
    said = headline(profile, findings, _busiest(profile, parts))
    do = unbroken(said.do)
    first = f'<a href="#finding-{number}-{said.number}">{do}</a>' if said.number else do
    charts = below(number, trace, profile, parts)
    links = [(f"findings-{number}", "What to do")] if profile.devices else []
    links += [(f"timeline-{number}", "Timeline"), *((part.id, part.title) for part in charts)]
    pieces = [
        f'<h2 id="heading-{number}">{escaped(PurePath(profile.path).name)}</h2>',
        f'<p class="note">{escaped(_recorded(profile))}</p>',
        f'<p class="headline">{unbroken(said.what)} <strong>{first}</strong></p>',
        *_missing(DISTRUST, doubts(profile)),
        facts(_summary(profile)),
        *_device_shares(profile),
        *best(number, trace, profile, findings),
        contents(links),
        *cards(number, trace, profile, findings),
        f'<h3 id="timeline-heading-{number}">Timeline</h3>',
        f'<div id="timeline-{number}">{fragment(trace, profile, max_events, findings)}</div>',
        *(f'<h3 id="{part.id}">{escaped(part.title)}</h3>\n{part.content}' for part in charts),
        *_missing(ABSENT, absences(profile)),
        f'<p class="note">Read from <code>{escaped(profile.path)}</code></p>',
    ]
    body = "\n".join(pieces)
    return f'<section id="trace-{number}" aria-labelledby="heading-{number}">\n{body}\n</section>\n'


def contents(links: Sequence[tuple[str, str]]) -> str:
    """Return links to parts of the page: (id, title)."""
    items = "".join(f'<li><a href="#{name}">{escaped(title)}</a></li>' for name, title in links)
    return f'<nav class="contents" aria-label="Parts of the report"><ul>{items}</ul></nav>'


def _busiest(profile: Profile, parts: Sequence[StepParts]) -> StepParts | None:
    """Return the steps of the GPU that works most; None where they are not to be shown."""
    if not parts or profile.withheld.keys() & set(OF_PARTS):
        return None
    return max(parts, key=lambda of_device: int((of_device.length_ns - of_device.idle_ns).sum()))


def _recorded(profile: Profile) -> str:
    info = profile.info
    gpus = ", ".join(sorted({device.name or f"device {device.index}" for device in info.devices}))
    rank = f"rank {info.rank}" + (f" of {info.world_size}" if info.world_size else "") if info.rank is not None else ""
    torch = f"torch {info.torch_version}" if info.torch_version else ""
    return " · ".join(
        part for part in (gpus, torch, rank, steps(profile), f"{duration(profile.span_ns)} recorded") if part
    )


# The numbers on top


def _summary(profile: Profile) -> Iterator[tuple[str, str, str]]:
    yield _step(profile)
    if profile.bound:
        yield "Bound by", profile.bound.replace("gpu", "GPU"), BOUNDS[profile.bound]
    busy, span = sum(device.busy_ns for device in profile.devices), sum(device.span_ns for device in profile.devices)
    if span:
        which = "GPU" if len(profile.devices) == 1 else f"{len(profile.devices)} GPUs"
        yield (
            f"{which} busy",
            *_fact(profile, percent(busy / span), f"{duration(busy)} of {duration(span)} in the trace", "busy"),
        )
    copied = sum(device.copy_ns for device in profile.overlap.devices)
    if copied:
        hidden = sum(device.overlapped_ns for device in profile.overlap.devices)
        meaning = f"of {duration(copied)} run beside kernels; {duration(copied - hidden)} are exposed"
        yield "Copies overlapped", *_fact(profile, percent(hidden / copied), meaning, "overlap")
    steps = profile.steps.count
    if steps and profile.devices:
        sites = [site for site in profile.syncs.sites if site.is_wait]
        waits = sum(site.in_steps.count for site in sites) / steps
        stall = sum(site.in_steps.stall_ns for site in sites) / steps
        bubble = sum(site.in_steps.bubble_ns for site in sites) / steps
        meaning = f"in calls that can block; waits per step: {waits:.3g}"
        yield "Host stalls per step", *_fact(profile, duration(stall), meaning, "stalls", "per_step")
        meaning = "the GPU is idle after those waits"
        yield "Bubbles per step", *_fact(profile, duration(bubble), meaning, "stalls", "drain", "per_step")


def _fact(profile: Profile, number: str, meaning: str, *figures: str) -> tuple[str, str]:
    """Return a number and what it means; where one of the figures that it is part of is withheld, nothing and why."""
    reason = why_not(profile, *figures)
    return (NOTHING, reason) if reason else (number, meaning)


def _step(profile: Profile) -> tuple[str, str, str]:
    step, traced = profile.step, profile.steps.traced_ns
    in_trace = f"; {duration(traced)} in the trace" if traced is not None else ""
    known = step_known(step)
    if known:
        return "Step", known[0], known[1] + in_trace
    if profile.devices and profile.withheld.keys() & {"step", "estimate"}:
        return "Step", NOTHING, why_not(profile, "estimate", "step") + in_trace
    return "Step", duration(traced) if traced is not None else "unknown", "as traced, with the profiler's cost in it"


def _device_shares(profile: Profile) -> Iterator[Markup]:
    """Yield a bar for each device whose parts add up to its span."""
    if profile.withheld.keys() & {"busy", "overlap"}:
        return
    overlaps = {entry.device: entry for entry in profile.overlap.devices}
    for device in profile.devices:
        if device.span_ns == 0:
            continue
        both = overlaps[device.device].overlapped_ns if device.device in overlaps else 0
        exposed = device.memcpy_ns - both
        parts = {
            COMPUTE_ONLY: device.kernel_ns - both,
            BOTH: both,
            COPY_ONLY: exposed,
            MEMSET_ONLY: device.busy_ns - device.kernel_ns - exposed,
            IDLE_KIND: device.idle_ns,
        }
        yield shares(
            f"Where the time of GPU {device.device} went, {duration(device.span_ns)} from its first work to its last",
            [Share(KINDS[kind].label, time, duration(time), KINDS[kind].colour) for kind, time in parts.items()],
        )


def _missing(title: str, entries: Sequence[Missing]) -> Iterator[str]:
    if entries:
        items = "".join(
            f"<li><strong>{escaped(entry.what)}</strong>: {escaped(consequence(entry))}.</li>" for entry in entries
        )
        yield f'<h3>{escaped(title)}</h3>\n<ul class="missing">{items}</ul>'
