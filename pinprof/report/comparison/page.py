"""A comparison of two traces as a page: the verdict, what changed, and one step of each on one time axis."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from pinprof.analysis import Analysis
from pinprof.comparison import ComparedFigure, Comparison, FindingChange, WaitChange
from pinprof.comparison.changes import CopyChange
from pinprof.measurement.profile import Profile
from pinprof.phrases import WAITS
from pinprof.report.comparison.changed import changed_lanes
from pinprof.report.comparison.words import (
    AFTER,
    ARROW,
    BEFORE,
    BETTER,
    WORSE,
    amount,
    change_of,
    changed,
    difference,
    has_several_gpus,
    how_sure,
    label,
    meaning,
    noise,
    not_compared,
    outcome,
    pair,
    repinning,
    saving,
    step_of,
    telling,
    verdict,
    where,
)
from pinprof.report.elements import Column, Markup, facts, lines, note, number_columns, remarks, table
from pinprof.report.page import page
from pinprof.report.timeline import MAX_EVENTS, Shared, Zero, beside, fragment
from pinprof.report.timeline.window import choose_window
from pinprof.report.trace.step import bound
from pinprof.report.words import NOTHING, begun, consequence, doubts, steps
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration

MARGIN = 0.02
"""Of the longer step, shown before and after it."""
ON_TOP = ("kernel_ms", "exposed_ms", "stall_ms", "bubble_ms")
"""Figures per step that are shown large, beside the step."""


def to_html(before: Analysis, after: Analysis, comparison: Comparison) -> Markup:
    """Return the comparison as one page that needs nothing else."""
    names = [PurePath(profile.path).name for profile in (comparison.before, comparison.after)]
    parts = [
        Markup("<h2>{}.</h2>").format(verdict(comparison)),
        _remarks("", (f"{sentence}." for sentence in how_sure(comparison))),
        facts(_cards(comparison)),
        _doubts(comparison),
        Markup("<h3>Figures</h3>"),
        _figures(comparison),
        _remarks("Not compared", _reasons(comparison)),
        *_findings(comparison),
        *_timelines(before, after, comparison),
        *_waits(comparison),
        *_copies(comparison),
    ]
    sides = ((BEFORE, comparison.before), (AFTER, comparison.after))
    read = (note(f"{side.capitalize()}: {profile.path} · {steps(profile)}") for side, profile in sides)
    body = Markup("<header><h1>pinprof: what changed between two traces</h1>{}</header>\n<main>\n{}\n</main>").format(
        Markup().join(read), lines(parts)
    )
    return page(f"pinprof: {names[0]} {ARROW} {names[1]}", body)


def _remarks(title: str, sentences: Iterable[str]) -> Markup:
    return remarks(title, map(begun, sentences))


def _doubts(comparison: Comparison) -> Markup:
    return _remarks(
        "Before you trust these traces",
        (
            f"{side}: {entry.what}: {consequence(entry)}."
            for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after))
            for entry in doubts(profile)
        ),
    )


def _reasons(comparison: Comparison) -> Iterator[str]:
    return (f"{', '.join(names)} ({reason})." for reason, names in not_compared(comparison).items())


# The numbers


def _cards(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after)):
        number, how = step_of(profile)
        yield f"Step {side}", number, f"{how}{_bound(profile)}"
    several = has_several_gpus(comparison)
    for figure in telling(comparison):
        if figure.name in ON_TOP and figure.difference is not None:
            now, was = (amount(figure.unit, value) for value in (figure.after.value, figure.before.value))
            yield label(figure, several_gpus=several), now, f"{comparison.per}, {was} before; {_said(figure)}"


def _bound(profile: Profile) -> str:
    limit = bound(profile)
    return f"; {limit.meaning}" if limit else ""


def _said(figure: ComparedFigure) -> str:
    said = meaning(figure)
    return f"{said}, beyond the noise of {noise(figure)}" if said in {BETTER, WORSE} else said


def _coloured(said: str, what: str) -> Markup:
    """Return a text in the colour of better or worse, if it is one of them."""
    return Markup('<span class="{}">{}</span>').format(what, said) if what else Markup.escape(said)


def _change(change: WaitChange | CopyChange | FindingChange) -> Markup:
    return _coloured(changed(change), change_of(change)[1])


def _figures(comparison: Comparison) -> Markup:
    several = has_several_gpus(comparison)
    columns = [Column("figure"), *number_columns(BEFORE, AFTER, "difference", "noise"), Column("meaning")]
    rows = (
        (
            label(figure, several_gpus=several),
            amount(figure.unit, figure.before.value),
            amount(figure.unit, figure.after.value),
            difference(figure),
            noise(figure),
            _coloured(meaning(figure), outcome(figure)),
        )
        for figure in telling(comparison)
    )
    return table("Per complete step; overlapped copy time in the whole trace. Noise: spread over steps", columns, rows)


def _findings(comparison: Comparison) -> Iterator[Markup]:
    if comparison.findings:
        yield Markup("<h3>Findings</h3>")
        columns = [Column("change"), Column("finding"), Column("where"), *number_columns("fixing it saves")]
        rows = (
            (
                _change(change),
                f"{change.findings[0].rule.id} {change.findings[0].title}",
                where(change),
                saving(change),
            )
            for change in comparison.findings
        )
        caption = "The same rule in the same function is the same finding; each saving is that of fixing it alone"
        yield table(caption, columns, rows)


def _waits(comparison: Comparison) -> Iterator[Markup]:
    if comparison.waits:
        yield Markup("<h3>Waits of the host</h3>")
        columns = [Column("change"), Column("cause"), Column("verdict"), Column("where"), Column("op or call")]
        columns += number_columns("count", "stall", "GPU idle after")
        rows = (
            (
                _change(change),
                WAITS[change.sites[0].cause],
                f" {ARROW} ".join(dict.fromkeys(site.verdict for site in (*change.before[:1], *change.after[:1]))),
                where(change),
                Markup("<code>{}</code>").format(change.sites[0].op or change.sites[0].call),
                *map(pair, (change.count, change.stall, change.bubble)),
            )
            for change in comparison.waits
        )
        yield table(f"Times {comparison.per}. GPU idle after: from the end of the wait to its next work", columns, rows)


def _copies(comparison: Comparison) -> Iterator[Markup]:
    if comparison.copies:
        yield Markup("<h3>Copies</h3>")
        columns = [Column("change"), Column("direction"), Column("host memory")]
        columns += number_columns("count", "bytes", "time", "exposed", "rate")
        rows = (
            (
                _change(change),
                change.direction,
                NOTHING if change.host_memory == "none" else change.host_memory,
                *map(pair, (change.count, change.bytes, change.time, change.exposed, change.rate)),
            )
            for change in comparison.copies
        )
        yield table(f"Figures {comparison.per}", columns, rows)
        yield _remarks("", (f"{repinning(change, comparison.per)}." for change in comparison.repinned))


# The timelines


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
        of = "per step in the trace" if profile.steps.whole == "step" else "in the whole trace"
        step = "" if length is None else f", {duration(length)} {of}"
        shared = Shared("comparison", side, f"{side.capitalize()}: {PurePath(profile.path).name}{step}")
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
