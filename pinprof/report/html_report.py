"""The report as a page: the step and what costs it time, what to do, a timeline to check it by, and the tables."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from pinprof.analyses.syncs.sites import Cost, Site
from pinprof.measure import Profile
from pinprof.report.elements import Column, Markup, Share, details, escaped, facts, shares, table
from pinprof.report.page import page
from pinprof.report.timeline import MAX_EVENTS, fragment, zoom_attribute
from pinprof.report.timeline.kinds import BOTH, COMPUTE_ONLY, COPY_ONLY, KINDS, MEMSET_ONLY
from pinprof.report.timeline.kinds import IDLE as IDLE_KIND
from pinprof.report.words import (
    ABSENT,
    BOUNDS,
    DISTRUST,
    IDLE,
    NOTHING,
    REASONS,
    absences,
    consequence,
    doubts,
    joint_worth,
    place,
    step_known,
    steps,
    surprises,
    unless,
    why_not,
    worth,
)
from pinprof.rules import Finding, Findings, unsearched
from pinprof.trace.tables import Trace
from pinprof.trust import Missing
from pinprof.units import duration, percent, rate, size

Entry = tuple[Trace, Profile, Findings]
"""A trace, its measurements, and what the rules found in it."""


def to_html(entries: Sequence[Entry]) -> str:
    """Return the report on the traces as one page that needs nothing else."""
    names = [PurePath(profile.path).name for _, profile, _ in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    most = MAX_EVENTS // max(len(entries), 1)
    sections = (_section(number, entry, most) for number, entry in enumerate(entries, start=1))
    contents = "".join(f'<li><a href="#trace-{n}">{escaped(name)}</a></li>' for n, name in enumerate(names, start=1))
    navigation = f'<nav aria-label="Traces"><ol>{contents}</ol></nav>' if len(names) > 1 else ""
    header = "<header><h1>pinprof: what the host and its copies cost the step</h1></header>"
    return page(title, f"{header}\n{navigation}\n<main>\n{''.join(sections)}</main>")


def timeline_page(trace: Trace, profile: Profile) -> str:
    """Return the timeline alone as one page that needs nothing else."""
    name = PurePath(profile.path).name
    return page(f"pinprof: {name}", f"<main><h1>{escaped(name)}</h1>\n{fragment(trace, profile)}\n</main>")


def _section(number: int, entry: Entry, max_events: int) -> str:
    trace, profile, findings = entry
    parts = [
        *_missing(DISTRUST, doubts(profile)),
        facts(_summary(profile)),
        *_device_shares(profile),
        *_findings(trace, profile, findings),
        Markup("<h3>Timeline</h3>"),
        fragment(trace, profile, max_events, findings),
        *_tables(profile),
        *_missing(ABSENT, absences(profile)),
    ]
    heading = f'<h2 id="heading-{number}">{escaped(profile.path)}</h2>'
    recorded = f'<p class="note">{escaped(_recorded(profile))}</p>'
    body = "\n".join([heading, recorded, *parts])
    return f'<section id="trace-{number}" aria-labelledby="heading-{number}">\n{body}\n</section>\n'


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
        yield f"{which} busy", *_fact(profile, percent(busy / span), f"{duration(busy)} of {duration(span)}", "busy")
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


# What to do


def _findings(trace: Trace, profile: Profile, findings: Findings) -> Iterator[str]:
    if not profile.devices:
        return
    yield "<h3>What to do</h3>"
    reason = unsearched(profile)
    if reason:
        yield f'<p class="note">Not searched in full: {escaped(reason.what)}.</p>'
    if not findings:
        if reason:
            return
        yield '<p class="note">Nothing: no copy or wait costs the step a measurable time.</p>'
        return
    step = profile.step.step_ns or profile.steps.traced_ns
    yield from (_finding(finding, step, zoom_attribute(trace, profile, finding)) for finding in findings)
    together = joint_worth(findings, step)
    if together:
        yield f"<p><strong>{escaped(together[0].upper() + together[1:])}.</strong></p>"


def _finding(finding: Finding, step_ns: float | None, zoom: str) -> str:
    rule, evidence = finding.rule, finding.evidence
    at = place(evidence.file, evidence.line, evidence.function)
    where = f"<p>In <code>{escaped(at)}</code></p>" if at else ""
    return f"""<article class="finding {escaped(finding.severity)}">
<h4><span class="cost">{escaped(worth(finding, step_ns))}</span> <span>{escaped(rule.title)}</span>
<span class="severity">{escaped(rule.id)}, {escaped(finding.severity)}</span></h4>
<p>{escaped(evidence.text)}.</p>{where}
<p><strong>Fix:</strong> {escaped(rule.fix)}</p>
{f'<button type="button" class="show"{zoom}>Show the worst one in the timeline</button>' if zoom else ""}
<details><summary>Why</summary><p>{escaped(rule.why)}</p></details>
</article>"""


# The tables


def _tables(profile: Profile) -> Iterator[str]:
    named = (
        ("Copies", _copies(profile)),
        ("Why copies are exposed", _reasons(profile)),
        ("Waits of the host", _sites(profile)),
        ("Idle GPU", _idle(profile)),
        ("Steps", _steps(profile)),
    )
    for title, content in named:
        if content:
            yield f"<h3>{title}</h3>"
            yield content


def _numbers(*titles: str) -> list[Column]:
    return [Column(title, is_number=True) for title in titles]


def _copies(profile: Profile) -> str:
    if not profile.copies:
        return ""
    columns = [Column("direction"), Column("host memory")]
    columns += _numbers("count", "bytes", "time", "overlapped", "exposed", "rate", "host blocked")
    of_copies, of_overlap, of_stalls = (unless(profile, figure) for figure in ("copies", "overlap", "stalls"))
    rows = (
        (
            group.direction,
            NOTHING if group.host_memory == "none" else group.host_memory,
            of_copies(f"{group.count:,}"),
            of_copies(size(group.bytes) if group.bytes else NOTHING),
            of_copies(duration(group.time_ns)),
            of_overlap(duration(group.overlapped_ns)),
            of_overlap(duration(group.exposed_ns)),
            of_copies(rate(group.bandwidth_gbps) if group.bandwidth_gbps is not None else NOTHING),
            of_stalls(duration(group.host_blocked_ns)),
        )
        for group in profile.copies
    )
    return table("In the whole trace, each copy counted by itself", columns, rows)


def _reasons(profile: Profile) -> str:
    if profile.withheld.keys() & {"overlap", "causes"}:
        return ""
    rows = profile.overlap.by_reason()
    columns = [Column("reason"), *_numbers("copies", "exposed"), Column("meaning")]
    cells = ((reason.replace("_", " "), f"{count:,}", duration(time), REASONS[reason]) for reason, count, time in rows)
    return table("In the whole trace; the first reason that holds for a copy", columns, cells) if rows else ""


def _sites(profile: Profile) -> str:
    sites, steps = profile.syncs.sites, max(profile.steps.count, 1)
    columns = [Column("cause"), Column("verdict"), Column("where"), Column("op or call")]
    columns += _numbers("in the trace", "per step", "stall", "drain", "own copy", "bubble")
    of_stalls, of_step = unless(profile, "stalls"), unless(profile, "stalls", "per_step")
    of_drain = unless(profile, "stalls", "drain", "per_step")
    rows = (
        (
            "the profiler's own, not counted" if site.verdict == "profiler" else site.cause.replace("_", " "),
            "" if site.verdict == "profiler" else site.verdict,
            _where(site),
            Markup(f"<code>{escaped(site.op or site.call)}</code>"),
            of_stalls(f"{site.total.count:,}"),
            of_step(f"{site.in_steps.count / steps:.3g}"),
            *(
                NOTHING if site.verdict == "profiler" else shown(duration(time / steps))
                for shown, time in zip((of_step, of_drain, of_drain, of_drain), _times(site.in_steps), strict=True)
            ),
        )
        for site in sites
    )
    caption = "Times per complete step. Drain: waiting for work queued before. Bubble: the GPU is idle after the wait"
    if not sites:
        return ""
    said = "".join(f"<li>{escaped(sentence)}.</li>" for sentence in surprises(profile))
    return table(caption, columns, rows) + (f"<ul>{said}</ul>" if said else "")


def _times(cost: Cost) -> tuple[int, int, int, int]:
    return cost.stall_ns, cost.drain_ns, cost.own_ns, cost.bubble_ns


def _where(site: Site) -> str:
    at = place(site.file, site.line, site.function) or NOTHING
    return details(at, site.stack) if site.stack else at


def _idle(profile: Profile) -> str:
    if profile.withheld.keys() & {"busy", "causes"}:
        return ""
    columns = [Column("GPU"), Column("cause"), *_numbers("time", "of its span"), Column("meaning")]
    rows = [
        (
            str(device.device),
            cause.replace("_", " "),
            duration(time),
            percent(time / device.span_ns),
            IDLE[cause],
        )
        for device in profile.devices
        for cause, time in device.idle_by_cause
    ]
    return table("In the whole trace, between the first and the last work of each GPU", columns, rows) if rows else ""


def _steps(profile: Profile) -> str:
    steps = profile.steps
    named = (
        ("host", steps.host_ns, "median time between the starts of consecutive steps on the host"),
        ("GPU", steps.device_ns, "mean time between the ends of the GPU work of consecutive steps"),
        ("GPU busy", steps.busy_ns, "mean time in which the busiest GPU worked for a step"),
    )
    rows = [(name, duration(time), meaning) for name, time, meaning in named if time is not None]
    each = ", ".join(duration(time) for time in steps.each_ns.tolist())
    if len(steps.each_ns) > 1:
        rows.append(("each", each, "from the start of one complete step to the next one's"))
    columns = [Column("step"), *_numbers("time"), Column("meaning")]
    return table("Complete steps as traced, with the profiler's cost in them", columns, rows) if rows else ""


def _missing(title: str, entries: Sequence[Missing]) -> Iterator[str]:
    if entries:
        items = "".join(
            f"<li><strong>{escaped(entry.what)}</strong>: {escaped(consequence(entry))}.</li>" for entry in entries
        )
        yield f'<h3>{escaped(title)}</h3>\n<ul class="missing">{items}</ul>'
