"""A comparison of two traces as a page: the verdict, what changed, and one step of each on one time axis."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.report.comparison.change_lanes import changed_lanes
from pinprof.report.comparison.view import events, summary
from pinprof.report.comparison.words import AFTER, ARROW, BEFORE, verdict
from pinprof.report.elements import Markup, lines, note
from pinprof.report.page import page
from pinprof.report.timeline import MAX_EVENTS, TimelineGroup, Zero, beside, fragment
from pinprof.report.timeline.steps import choose_window
from pinprof.report.view import on_page
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration

MARGIN = 0.02
"""Of the longer step, shown before and after it."""


def to_html(before: Analysis, after: Analysis, comparison: Comparison) -> Markup:
    """Return the comparison as one page without other files."""
    names = [PurePath(profile.path).name for profile in (comparison.before, comparison.after)]
    parts = [
        Markup("<h2>{}.</h2>").format(verdict(comparison)),
        *map(on_page, summary(comparison)),
        *_timelines(before, after, comparison),
        *map(on_page, events(comparison)),
    ]
    read = (note(f"{side.capitalize()}: {profile.path}") for side, profile in comparison.sides)
    body = Markup("<header><h1>pinprof: what changed between two traces</h1>{}</header>\n<main>\n{}\n</main>").format(
        Markup().join(read), lines(parts)
    )
    return page(f"pinprof: {names[0]} {ARROW} {names[1]}", body)


def _timelines(before: Analysis, after: Analysis, comparison: Comparison) -> Iterator[Markup]:
    yield Markup("<h3>One step of each, on one time axis</h3>")
    yield note(
        "Of each trace the step of median length. It starts at 0 on the host; where the host runs ahead, its part is "
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
        shared = TimelineGroup("comparison", side, f"{side.capitalize()}: {PurePath(profile.path).name}{step}")
        more = changed_lanes(comparison, (before, after), (BEFORE, AFTER).index(side))
        most = MAX_EVENTS // len(sides)
        zero = Zero(choose_window(drawn).start_ns, "the compared step of each")
        timelines.append(fragment(analysis, most, shared=shared, first_ns=first, drawn=drawn, more=more, zero=zero))
    yield beside(lines(timelines))


def typical_step(trace: Trace) -> Trace:
    """Return the trace with one complete step only, that of median length; without complete steps as it is."""
    steps, step = trace.steps, trace.links.activity_step
    chosen = np.flatnonzero(steps.complete)
    if not len(chosen):
        return trace
    ends = steps.end_ns.copy()
    np.maximum.at(ends, step[step != NONE], trace.gpu.end_ns[step != NONE])
    lengths = (ends - steps.start_ns)[chosen]
    median = chosen[np.argsort(lengths, kind="stable")[(len(chosen) - 1) // 2]]
    return replace(trace, steps=replace(steps, complete=np.arange(len(steps)) == median))
