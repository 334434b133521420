"""The parts of the page below the timeline: each a chart with its table, or why it is not shown."""

from collections.abc import Iterator
from typing import NamedTuple

from pinprof.analysis import Analysis
from pinprof.measurement.known import Withheld
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt
from pinprof.report.charts import (
    Chart,
    copies_chart,
    idle_chart,
    overlap_chart,
    shown,
    steps_chart,
    syncs_chart,
)
from pinprof.report.elements import Markup, lines, note
from pinprof.report.flame import fragment as flame
from pinprof.report.flame import host_flame, waits_flame
from pinprof.report.source import Quoting
from pinprof.report.timeline.names import shown_numbers
from pinprof.report.trace.course import course_table, unlike
from pinprof.report.trace.elsewhere import by_title
from pinprof.report.trace.host import not_sampled
from pinprof.report.trace.spent_page import kernel_tables, op_tables
from pinprof.report.trace.tables import (
    called_table,
    copies_table,
    elsewhere_table,
    functions_table,
    idle_table,
    parts_table,
    reasons_table,
    sites_table,
    steps_table,
)
from pinprof.report.words import why_not

MAX_GPUS = 4
"""Of one trace that have a chart of their steps each; the others have the table of idle times."""


class PagePart(NamedTuple):
    """A part of the page."""

    id: str
    title: str
    content: Markup


def below(number: int, analysis: Analysis, quoting: Quoting) -> list[PagePart]:
    """Return the parts of a trace's page that have something to show."""
    steps = analysis.profile.steps
    each = "each step" if steps.whole == "step" else "the whole trace"
    sections = (
        ("overlap", f"Overlap in {each}", _overlap(analysis)),
        ("copies", "Copies", _copies(analysis)),
        ("waits", "Waits of the host", _waits(analysis.profile, quoting)),
        ("host", "Where the host's time goes", _host(analysis.profile)),
        ("idle", "Idle GPU", _idle(analysis.profile)),
        ("kernels", "Kernels", kernel_tables(analysis.profile, number)),
        ("ops", "Ops of the host", op_tables(analysis.profile, number)),
        ("course", "The whole run", _course(analysis.profile)),
        ("steps", "Steps" if steps.count > 1 else f"The {steps.whole}", _steps(analysis)),
    )
    named = (PagePart(f"{name}-{number}", title, lines(content)) for name, title, content in sections)
    return [part for part in named if part.content]


def _overlap(analysis: Analysis) -> Iterator[Markup]:
    profile = analysis.profile
    if not profile.gpus:
        return
    if isinstance(profile.mean_steps, Withheld):
        yield _unshown(profile.mean_steps.reason)
        return
    parts, numbers = analysis.details.parts, shown_numbers(analysis.trace)
    for of_device in parts[:MAX_GPUS]:
        yield shown(overlap_chart(of_device, numbers))
        in_numbers = parts_table(of_device, numbers, profile.steps.whole)
        yield Markup("<details><summary>The same in numbers</summary>{}</details>").format(in_numbers)
    if len(parts) > MAX_GPUS:
        yield note(f"The first {MAX_GPUS} of {len(parts)} GPUs are drawn.")


def _copies(analysis: Analysis) -> Iterator[Markup]:
    profile = analysis.profile
    if not profile.copies:
        return
    yield _unshown(profile.withheld.copies)
    yield _drawn(None if profile.withheld.copies else copies_chart(analysis.trace))
    yield copies_table(profile)
    reasons = reasons_table(profile)
    if reasons:
        yield Markup("<h4>Why copies are exposed</h4>{}").format(reasons)


def _waits(profile: Profile, quoting: Quoting) -> Iterator[Markup]:
    why = profile.withheld
    if profile.sites:
        yield _unshown(why.stalls, why.drain, why.per_step)
        yield _drawn(syncs_chart(profile))
        graph = waits_flame(profile)
        yield flame(graph) if graph else Markup()
        yield sites_table(profile, quoting)
    for title, seen in by_title(profile):
        yield Markup("<h4>{}</h4>{}").format(title, elsewhere_table(seen))


def _host(profile: Profile) -> Iterator[Markup]:
    yield from map(note, not_sampled(profile))
    if profile.host is not None:
        graph = host_flame(profile)
        yield flame(graph) if graph else Markup()
        yield called_table(profile, profile.host)
        functions = functions_table(profile, profile.host)
        yield Markup("<details><summary>By function</summary>{}</details>").format(functions)


def _idle(profile: Profile) -> Iterator[Markup]:
    if not profile.idles:
        return
    yield _unshown(profile.withheld.busy, profile.withheld.causes)
    yield _drawn(None if profile.withheld.busy or profile.withheld.causes else idle_chart(profile))
    yield idle_table(profile)


def _course(profile: Profile) -> Iterator[Markup]:
    if profile.course is None:
        return
    facts = list(unlike(profile.course))
    if facts:
        yield Markup("<h4>Steps unlike the others, which the step leaves out</h4><ul>{}</ul>").format(
            Markup().join(Markup("<li>{} {}</li>").format(number, meaning) for _, number, meaning in facts)
        )
    yield course_table(profile)


def _steps(analysis: Analysis) -> Iterator[Markup]:
    profile = analysis.profile
    yield _unshown(profile.withheld.step)
    if not profile.withheld.step:
        parts = () if isinstance(profile.mean_steps, Withheld) else analysis.details.parts
        longest = max(parts, key=lambda of_device: int(of_device.length_ns.sum()), default=None)
        yield _drawn(steps_chart(analysis.trace, profile, longest))
    yield steps_table(profile)


def _drawn(chart: Chart | None) -> Markup:
    return shown(chart) if chart else Markup()


def _unshown(*reasons: Doubt | None) -> Markup:
    reason = why_not(*reasons)
    return note(f"The chart is {reason}.") if reason else Markup()
