"""The report for the terminal: the number first, then what it means, then what to do."""

import io
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.measure import Profile
from pinprof.report.words import BOUNDS, IDLE, REASONS, place, printable, steps, surprises
from pinprof.rules import Finding
from pinprof.units import duration, percent, rate, size

MAX_SITES = 10
"""More sites than this are counted, not listed."""

SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}


def to_text(profile: Profile, findings: Sequence[Finding], *, width: int = 100, color: bool = False) -> str:
    """Return the report on one trace as text for a terminal of this width, with ANSI colours if asked for."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color, highlight=False, emoji=False)
    for part in _parts(profile, findings):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(profile: Profile, findings: Sequence[Finding]) -> Iterable[RenderableType]:
    yield _heading(profile)
    yield from _summary(profile)
    if profile.copies:
        yield from _copies(profile)
    if any(site.is_wait or site.cause == "queue_full" for site in profile.syncs.sites):
        yield from _waits(profile)
    if profile.loader.waits:
        yield from _input(profile)
    if profile.devices:
        yield from _idle(profile)
    if profile.devices:
        yield from _findings(findings)
    if profile.missing:
        yield _section("Not in this trace")
        for gap in profile.missing:
            yield _bullet(f"{gap.what}: {gap.effect}; {gap.remedy}.")


def _heading(profile: Profile) -> Text:
    gpus = ", ".join(sorted({device.name or f"device {device.index}" for device in profile.info.devices}))
    torch = f"torch {profile.info.torch_version}" if profile.info.torch_version else ""
    details = " · ".join(printable(part) for part in (gpus, torch, steps(profile)) if part)
    return Text.assemble((printable(profile.path), "bold"), f"\n{details}")


def _summary(profile: Profile) -> Iterable[RenderableType]:
    yield _section("Step")
    steps, step = profile.steps, profile.step
    if step.step_ns is not None:
        how = "measured without profiler" if step.source == "measured" else "estimated: the profiler cannot lengthen it"
        yield _fact(duration(step.step_ns), how)
    elif step.range_ns is not None:
        low, high = (duration(bound) for bound in step.range_ns)
        yield _fact(f"{low} to {high}", "without profiler; the trace alone cannot say more (see the end)")
    if steps.traced_ns is not None:
        parts = [
            f"{name} {duration(time)}"
            for name, time in (("host", steps.host_ns), ("GPU", steps.device_ns))
            if time is not None
        ]
        yield _fact(duration(steps.traced_ns), f"in the trace, with the profiler's cost in it ({', '.join(parts)})")
    if profile.bound:
        yield _fact(profile.bound, BOUNDS[profile.bound])
    for device in profile.devices:
        yield _fact(
            percent(device.busy_ns / device.span_ns) if device.span_ns else "0 %",
            f"GPU {device.device} busy: {duration(device.busy_ns)} of {duration(device.span_ns)} "
            f"(kernels {duration(device.kernel_ns)}, copies {duration(device.memcpy_ns)})",
        )


def _copies(profile: Profile) -> Iterable[RenderableType]:
    overlap = profile.overlap
    total = sum(device.copy_ns for device in overlap.devices)
    hidden = sum(device.overlapped_ns for device in overlap.devices)
    yield _section("Copies, in the whole trace")
    yield _fact(percent(hidden / total) if total else "0 %", f"of {duration(total)} copy time is hidden behind kernels")
    table = _table("copy", "host memory", "count", "bytes", "time", "hidden", "exposed", "rate", "host blocked")
    for group in profile.copies:
        table.add_row(
            group.direction,
            "-" if group.host_memory == "none" else group.host_memory,
            str(group.count),
            size(group.bytes) if group.bytes else "-",
            duration(group.time_ns),
            duration(group.overlapped_ns),
            duration(group.exposed_ns),
            rate(group.bandwidth_gbps) if group.bandwidth_gbps is not None else "-",
            duration(group.host_blocked_ns),
        )
    yield table
    for reason, count, exposed in overlap.by_reason():
        yield _bullet(f"{duration(exposed)} exposed in {count} {'copy' if count == 1 else 'copies'}: {REASONS[reason]}")


def _waits(profile: Profile) -> Iterable[RenderableType]:
    listed = [site for site in profile.syncs.sites if site.verdict != "profiler"]
    sites = [site for site in listed if site.is_wait]
    steps = max(profile.steps.count, 1)
    stall, bubble = sum(site.in_steps.stall_ns for site in sites), sum(site.in_steps.bubble_ns for site in sites)
    yield _section("Waits of the host, per step")
    yield _fact(
        duration(stall / steps),
        f"the host stands in calls that can block; they leave the GPU idle for {duration(bubble / steps)}",
    )
    table = _table("cause", "in", "op or call", "count", "stall", "drain", "own", "GPU idle after", text_columns=3)
    for site in listed[:MAX_SITES]:
        cost = site.in_steps
        table.add_row(
            site.cause if site.verdict == "hidden" else f"{site.cause} ({site.verdict})",
            printable(place(site.file, site.line, site.function) or "-"),
            printable(site.op or site.call),
            f"{cost.count / steps:.3g}",
            *(duration(time / steps) for time in (cost.stall_ns, cost.drain_ns, cost.own_ns, cost.bubble_ns)),
        )
    yield table
    if len(listed) > MAX_SITES:
        yield _bullet(f"and {len(listed) - MAX_SITES} more sites, all in the JSON and HTML reports")
    for sentence in surprises(profile):
        yield _bullet(sentence)


def _input(profile: Profile) -> Iterable[RenderableType]:
    loader = profile.loader
    yield _section("Input, per step")
    yield _fact(
        duration(loader.wait_in_steps_ns / max(profile.steps.count, 1)), "the main thread waits for its DataLoader"
    )
    if loader.pinned is not None:
        memory = "pinned" if loader.pinned else "pageable"
        thread = ", and a pin-memory thread is at work" if loader.pin_thread else ""
        yield _bullet(f"batches are copied from {memory} memory{thread}")


def _idle(profile: Profile) -> Iterable[RenderableType]:
    yield _section("Idle GPU, in the whole trace")
    for device in profile.devices:
        share = device.idle_ns / device.span_ns if device.span_ns else 0.0
        yield _fact(duration(device.idle_ns), f"GPU {device.device} has nothing to run ({percent(share)} of its span)")
        for cause, time in device.idle_by_cause:
            yield _bullet(f"{duration(time)} {cause}: {IDLE[cause]}")


def _findings(findings: Sequence[Finding]) -> Iterable[RenderableType]:
    yield _section("What to do")
    if not findings:
        yield _bullet("nothing: no copy or wait costs the step a measurable time")
    for finding in findings:
        style = SEVERITY_STYLES[finding.severity]
        cost = Text(f"{duration(finding.evidence.cost_ns):>9} ", style)
        yield Text.assemble(cost, (f"{finding.rule.id} {finding.rule.title}", "bold"))
        yield Padding(Text(printable(finding.evidence.text)), (0, 0, 0, 10))
        yield Padding(Text(f"Fix: {finding.rule.fix}"), (0, 0, 0, 10))
    if findings:
        yield _bullet("times are GPU idle or exposed copy time per step that goes with the problem, not yet a saving")


def _section(title: str) -> Text:
    return Text(f"\n{title}", "bold underline")


def _fact(number: str, meaning: str) -> Text:
    return Text.assemble((f"{number:>9}", "bold"), f"  {meaning}")


def _bullet(text: str) -> Padding:
    return Padding(Text(f"- {printable(text)}"), (0, 0, 0, 2))


def _table(*columns: str, text_columns: int = 2) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < text_columns else "right", overflow="fold")
    return table
