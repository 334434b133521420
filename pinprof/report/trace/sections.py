"""The parts of the page below the timeline: each a chart with its table, or why it is not shown."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pinprof.analyses.parts import StepParts
from pinprof.measurement.profile import OF_PARTS, Profile
from pinprof.report.charts import (
    Chart,
    copies_chart,
    idle_chart,
    overlap_chart,
    shown,
    steps_chart,
    syncs_chart,
)
from pinprof.report.elements import escaped
from pinprof.report.timeline.names import shown_numbers
from pinprof.report.trace.tables import (
    copies_table,
    idle_table,
    parts_table,
    reasons_table,
    sites_table,
    steps_table,
)
from pinprof.report.words import why_not
from pinprof.trace.tables import Trace

MAX_GPUS = 4
"""Of one trace that have a chart of their steps each; the others have the table of idle times."""


class Part(NamedTuple):
    """A part of the page."""

    id: str
    title: str
    content: str


def below(number: int, trace: Trace, profile: Profile, parts: Sequence[StepParts]) -> list[Part]:
    """Return the parts of a trace's page that have something to show; `parts` are the steps of its GPUs."""
    each = "each step" if profile.steps.whole == "step" else "the whole trace"
    sections = (
        ("overlap", f"Overlap in {each}", _overlap(trace, profile, parts)),
        ("copies", "Copies", _copies(trace, profile)),
        ("waits", "Waits of the host", _waits(profile)),
        ("idle", "Idle GPU", _idle(profile)),
        ("steps", "Steps" if profile.steps.count > 1 else f"The {profile.steps.whole}", _steps(trace, profile, parts)),
    )
    named = (Part(f"{name}-{number}", title, "\n".join(filter(None, content))) for name, title, content in sections)
    return [part for part in named if part.content]


def _overlap(trace: Trace, profile: Profile, parts: Sequence[StepParts]) -> Iterator[str]:
    if not profile.devices:
        return
    yield _unshown(profile, *OF_PARTS)
    if profile.withheld.keys() & set(OF_PARTS):
        return
    numbers = shown_numbers(trace)
    for of_device in parts[:MAX_GPUS]:
        yield shown(overlap_chart(of_device, numbers))
        in_numbers = parts_table(of_device, numbers, profile.steps.whole)
        yield f"<details><summary>The same in numbers</summary>{in_numbers}</details>"
    if len(parts) > MAX_GPUS:
        yield f'<p class="note">The first {MAX_GPUS} of {len(parts)} GPUs are drawn.</p>'


def _copies(trace: Trace, profile: Profile) -> Iterator[str]:
    if not profile.copies:
        return
    yield _unshown(profile, "copies")
    yield _drawn(None if "copies" in profile.withheld else copies_chart(trace))
    yield copies_table(profile)
    reasons = reasons_table(profile)
    if reasons:
        yield f"<h4>Why copies are exposed</h4>{reasons}"


def _waits(profile: Profile) -> Iterator[str]:
    figures = ("stalls", "drain", "per_step")
    if not profile.syncs.sites:
        return
    yield _unshown(profile, *figures)
    yield _drawn(None if profile.withheld.keys() & set(figures) else syncs_chart(profile))
    yield sites_table(profile)


def _idle(profile: Profile) -> Iterator[str]:
    if not any(device.span_ns for device in profile.devices):
        return
    yield _unshown(profile, "busy", "causes")
    yield _drawn(None if profile.withheld.keys() & {"busy", "causes"} else idle_chart(profile))
    yield idle_table(profile)


def _steps(trace: Trace, profile: Profile, parts: Sequence[StepParts]) -> Iterator[str]:
    yield _unshown(profile, "step")
    if "step" not in profile.withheld:
        usable = parts and not profile.withheld.keys() & set(OF_PARTS)
        longest = max(parts, key=lambda of_device: int(of_device.length_ns.sum())) if usable else None
        yield _drawn(steps_chart(trace, profile, longest))
    yield steps_table(profile)


def _drawn(chart: Chart | None) -> str:
    return shown(chart) if chart else ""


def _unshown(profile: Profile, *figures: str) -> str:
    reason = why_not(profile, *figures)
    return f'<p class="note">The chart is {escaped(reason)}.</p>' if reason else ""
