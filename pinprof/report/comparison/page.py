"""A comparison of two traces as a page: the verdict, what changed, and one step of each on one time axis."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.measurement.profile import busiest
from pinprof.report.comparison.change_lanes import changed_lanes
from pinprof.report.comparison.view import DISTRUST_BOTH, events, summary
from pinprof.report.comparison.words import AFTER, ARROW, BEFORE, step_of, verdict
from pinprof.report.elements import Markup, inline_html, lines, note
from pinprof.report.page import page, top
from pinprof.report.timeline import MAX_EVENTS, SharedTimeline, Zero, fragment, framed
from pinprof.report.timeline.steps import choose_window
from pinprof.report.trace.page import division_bar
from pinprof.report.view import Section, on_page
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration

MARGIN = 0.02
"""The share of the longer step that the first view shows before and after it."""


def to_html(before: Analysis, after: Analysis, comparison: Comparison) -> Markup:
    """Return the comparison as one self-contained page."""
    names = [PurePath(profile.path).name for profile in (comparison.before, comparison.after)]
    step, *figures = summary(comparison)
    bars = lines(_bars(comparison))
    above, below = ([_linked(part) for part in sections] for sections in (figures, events(comparison)))
    links = [*map(_link, above), ("Timelines", "timelines"), *map(_link, below)]
    parts = [
        top("heading", f"{names[0]} {ARROW} {names[1]}", "what changed between two traces", links),
        Markup('<p class="headline">{}.</p>').format(inline_html(verdict(comparison))),
        on_page(replace(step, facts=()) if bars else step, bars),
        *map(on_page, above),
        *_timelines(before, after, comparison),
        *map(on_page, below),
        *(note(f"{side.capitalize()}: {profile.path}") for side, profile in comparison.sides),
    ]
    body = Markup('<h1 class="unseen">pinprof: what changed between two traces</h1>\n<main>\n{}\n</main>')
    return page(f"pinprof: {names[0]} {ARROW} {names[1]}", body.format(lines(parts)))


def _linked(part: Section) -> Section:
    """Return a section with a name, to which a link can lead."""
    return replace(part, name=part.title.split()[0].strip(",").lower())


def _link(part: Section) -> tuple[str, str]:
    return ("Trust" if part.title == DISTRUST_BOTH else part.title.split()[0].strip(",")), part.name


def _bars(comparison: Comparison) -> Iterator[Markup]:
    """Yield how the step divides before and after as bars of one scale, if both are known."""
    divisions = [busiest(profile) for _, profile in comparison.sides]
    longest = max((mean.length_ns for mean in divisions if mean), default=0.0)
    if not all(mean and mean.length_ns for mean in divisions):
        return
    for (side, profile), mean in zip(comparison.sides, divisions, strict=True):
        number, how = step_of(profile)
        if mean:
            yield division_bar(profile, mean, f"{side.capitalize()}: {number}, {how}", longest=longest)


def _timelines(before: Analysis, after: Analysis, comparison: Comparison) -> Iterator[Markup]:
    yield Markup('<h3 id="timelines">One step of each, on one time axis</h3>')
    yield note(
        "The step of median length of each trace. It starts at 0 on the host; if the host runs ahead, its part is "
        "short, and the GPU still runs an earlier step. Zooming one timeline zooms the other. The lanes on top mark "
        "what only one of them has, and what is longer or shorter after: waits and copies by more than noise, "
        "kernels by a tenth or more."
    )
    traced = [profile.steps.traced_ns for profile in (comparison.before, comparison.after)]
    longest = max((length for length in traced if length is not None), default=None)
    first = None if longest is None else (-MARGIN * longest, (1 + MARGIN) * longest)
    sides = ((BEFORE, before), (AFTER, after))
    timelines = []
    for (side, analysis), length in zip(sides, traced, strict=True):
        profile, drawn = analysis.profile, typical_step(analysis.trace)
        per = "per step in the trace" if profile.steps.whole == "step" else "in the whole trace"
        step = "" if length is None else f", {duration(length)} {per}"
        shared = SharedTimeline("comparison", side, f"{side.capitalize()}: {PurePath(profile.path).name}{step}")
        more = changed_lanes(comparison, (before, after), (BEFORE, AFTER).index(side))
        most = MAX_EVENTS // len(sides)
        zero = Zero(choose_window(drawn).start_ns, "the compared step of each")
        timelines.append(fragment(analysis, most, shared=shared, first_ns=first, drawn=drawn, more=more, zero=zero))
    yield framed(lines(timelines))


def typical_step(trace: Trace) -> Trace:
    """Return the trace with its step of median length as the only complete one; unchanged without complete steps."""
    steps, step = trace.steps, trace.links.activity_step
    chosen = np.flatnonzero(steps.complete)
    if not len(chosen):
        return trace
    ends = steps.end_ns.copy()
    np.maximum.at(ends, step[step != NONE], trace.gpu.end_ns[step != NONE])
    lengths = (ends - steps.start_ns)[chosen]
    median = chosen[np.argsort(lengths, kind="stable")[(len(chosen) - 1) // 2]]
    return replace(trace, steps=replace(steps, complete=np.arange(len(steps)) == median))
