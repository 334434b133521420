"""A comparison of two traces as a page: the verdict, what changed, and one step of each on one time axis."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.ground.units import duration
from pinprof.measurement.profile import busiest
from pinprof.report.comparison.view import events, summary
from pinprof.report.comparison.words import ARROW, step_of, verdict
from pinprof.report.html import Markup, inline_html, lines, note
from pinprof.report.page import report_page, top
from pinprof.report.timeline import SharedTimeline, fragment, framed
from pinprof.report.timeline.drawn_lanes import MAX_PAGE_EVENTS
from pinprof.report.timeline.steps import Window, choose_window, window_of_steps
from pinprof.report.trace.page import division_bar
from pinprof.report.view import on_page
from pinprof.trace.links import work_ends
from pinprof.trace.tables import WHOLE_TRACE, Trace

MARGIN_SHARE_OF_STEP = 0.02
"""The share of the longer step that the first view shows before and after it."""


def to_html(before: Analysis, after: Analysis, comparison: Comparison) -> Markup:
    """Return the comparison as one self-contained page."""
    names = [PurePath(profile.path).name for profile in (comparison.before, comparison.after)]
    step, *figures = summary(comparison)
    bars = lines(_bars(comparison))
    below = list(events(comparison))
    links = [(name.capitalize(), name) for name in (*(part.name for part in figures), "timelines")]
    links += [(part.name.capitalize(), part.name) for part in below]
    parts = [
        top("heading", f"{names[0]} {ARROW} {names[1]}", "what changed between two traces", links),
        Markup('<p class="headline">{}.</p>').format(inline_html(verdict(comparison))),
        on_page(replace(step, facts=()) if bars else step, bars),
        *map(on_page, figures),
        *_timelines(before, after, comparison),
        *map(on_page, below),
        *(note(f"{side.capitalize()}: {profile.path}") for side, profile in comparison.sides),
    ]
    heading = "pinprof: what changed between two traces"
    return report_page(f"pinprof: {names[0]} {ARROW} {names[1]}", heading, lines(parts))


def _bars(comparison: Comparison) -> Iterator[Markup]:
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
        "short, and the GPU still runs an earlier step. Zooming one timeline zooms the other."
    )
    traced = [profile.steps.traced_ns for profile in (comparison.before, comparison.after)]
    longest = max((length for length in traced if length is not None), default=None)
    first = None if longest is None else (-MARGIN_SHARE_OF_STEP * longest, (1 + MARGIN_SHARE_OF_STEP) * longest)
    sides, timelines = (before, after), []
    for (side, profile), analysis, length in zip(comparison.sides, sides, traced, strict=True):
        view = typical_step(analysis.trace)
        per = "per step in the trace" if profile.steps.whole == "step" else "in the whole trace"
        step = "" if length is None else f", {duration(length)} {per}"
        title = f"{side.capitalize()}: {PurePath(profile.path).name}{step}"
        since = "the compared step of each"
        shared = SharedTimeline("comparison", side, title, first, view, view.start_ns, since)
        timelines.append(fragment(analysis, MAX_PAGE_EVENTS // len(sides), shared=shared))
    yield framed(lines(timelines))


def typical_step(trace: Trace) -> Window:
    """Return the complete step of median length; without complete steps what a timeline shows at first."""
    steps = trace.steps
    chosen = np.flatnonzero(steps.complete)
    if steps.source == WHOLE_TRACE or not len(chosen):
        return choose_window(trace)
    lengths = (np.maximum(steps.end_ns, work_ends(trace)) - steps.start_ns)[chosen]
    median = int(chosen[np.argsort(lengths, kind="stable")[(len(chosen) - 1) // 2]])
    return window_of_steps(trace, median, median)
