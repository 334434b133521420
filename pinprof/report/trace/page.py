"""The report as a page: the step and what costs it time, what to do, a timeline, tables, and sections with charts."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import PurePath

from pinprof.analyses.step_parts import MeanStep
from pinprof.analysis import Analysis
from pinprof.ground.hues import OF_LIMITS, see_through
from pinprof.ground.processes import aside
from pinprof.ground.units import between, counted, digits_of, duration
from pinprof.measurement.profile import Profile, busiest
from pinprof.measurement.trust.doubt import Withheld
from pinprof.report.findings.cards import changes
from pinprof.report.html import Column, HtmlBarPart, Markup, inline_html, lines, note, remarks, shares, table
from pinprof.report.page import page, report_page, top
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.tables import grids_of, tables
from pinprof.report.timeline import fragment
from pinprof.report.timeline.drawn_lanes import MAX_PAGE_EVENTS
from pinprof.report.timeline.kinds import COMPUTE_ONLY_KIND, EVENT_KINDS, IDLE_KIND
from pinprof.report.trace import step
from pinprof.report.trace.first_screen import FirstScreen, first_screen
from pinprof.report.trace.sections.whole_run import course_sections
from pinprof.report.trace.sections.work import kind_sections
from pinprof.report.trace.steps_chart import part_times, steps_chart, steps_svg
from pinprof.report.trace.verdict import advice, headline, not_told, step_length
from pinprof.report.trace.view import doubt_sections, event_sections, in_short, step_sections
from pinprof.report.view import Section, capitalized_sentence, on_page, sentence_html
from pinprof.report.words import NOTHING, capitalized, doubts, joint_worth, recording_line, which_together
from pinprof.verdict.step_limits import LIMITS
from pinprof.verdict.verdict import NO_VERDICT, Verdict

GROUP_OF_SECTION = {
    **dict.fromkeys(("kinds", "kernels", "collectives"), "Kernels"),
    **dict.fromkeys(("waits", "elsewhere", "input", "copies", "idle"), "Waits"),
    **dict.fromkeys(("host", "ops"), "Host"),
    **dict.fromkeys(("steps", "serving", "unlike", "course"), "Steps"),
}
"""The group of each section below the timeline, both in order; a link at the top leads to each group. The last one
has all other sections, too."""
IDLE_HUES = {name: see_through(colour, 0.4) for name, colour in OF_LIMITS.items()}


def to_html(entries: Sequence[Analysis], code: Code = PLAIN) -> Markup:
    """Return the report on the traces as one self-contained page; `code` says how it shows the user's code."""
    names = [PurePath(entry.profile.path).name for entry in entries]
    title = f"pinprof: {names[0]}" if len(names) == 1 else f"pinprof: {len(names)} traces"
    max_events = MAX_PAGE_EVENTS // max(len(entries), 1)
    sections = (section(number, entry, max_events, code) for number, entry in enumerate(entries, start=1))
    overview = _overview(entries) if len(entries) > 1 else Markup()
    return report_page(title, "pinprof: where the step's time goes", overview + Markup().join(sections))


def timeline_page(analysis: Analysis) -> Markup:
    """Return the timeline alone as one page without other files."""
    name = PurePath(analysis.profile.path).name
    return page(f"pinprof: {name}", Markup("<main><h1>{}</h1>\n{}\n</main>").format(name, fragment(analysis)))


def timeline_title(analysis: Analysis) -> tuple[str, str]:
    """Return the name of a trace and the sentence of its report, for a timeline."""
    screen = first_screen(analysis.profile, analysis.findings)
    return PurePath(analysis.profile.path).name, f"{headline(screen)}."


def _overview(entries: Sequence[Analysis]) -> Markup:
    columns = [Column("trace"), Column("step", is_number=True), Column("bound by"), Column("what to do first")]
    rows = []
    for number, entry in enumerate(entries, start=1):
        profile = entry.profile
        name = PurePath(profile.path).name
        rank = f"rank {profile.info.rank}: " if profile.info.rank is not None else ""
        link = Markup('<a href="#trace-{}">{}</a>').format(number, rank + name)
        limit = step.bound_fact(profile)
        first = advice(first_screen(profile, entry.findings)).sentence
        rows.append((link, step.step_fact(profile).number, limit.number if limit else NOTHING, first))
    return Markup('<nav aria-label="Traces">{}</nav>\n').format(table("The traces of this page", columns, rows))


def section(number: int, entry: Analysis, max_events: int, code: Code = PLAIN) -> Markup:
    """Return the report on one trace, the page's `number`-th."""
    profile, findings = entry.profile, entry.findings
    timeline = aside(partial(fragment, entry, max_events, findings), is_worth=entry.trace.is_worth_two_cores)
    screen = first_screen(profile, findings)
    bold_advice = Markup("<strong>{}</strong>").format(inline_html(advice(screen).sentence))
    quoting, grids = Quoting(entry.details.sources, code), grids_of(entry)
    what_to_do = changes(number, entry, screen, quoting)
    parts = list(_below(number, entry, {grid.name for grid in grids}, quoting))
    links = [("Changes", f"findings-{number}")] if what_to_do else []
    links += [("Timeline", f"timeline-{number}"), *([("Tables", f"tables-{number}")] if grids else [])]
    links += [(group, name) for group, name, _ in parts]
    pieces = [
        top(f"heading-{number}", PurePath(profile.path).name, recording_line(profile), links),
        *_answer(screen),
        *_in_short(screen),
        Markup("<p>{}</p>").format(bold_advice) if screen.first is None else "",
        *_doubts(profile),
        what_to_do,
        Markup('<h3 id="timeline-{}">Timeline</h3>\n{}').format(number, timeline()),
        Markup('<h3 id="tables-{}">Tables</h3>\n{}').format(number, tables(number, entry, grids, quoting))
        if grids
        else "",
        *(content for _, _, content in parts),
        note(Markup("Read from <code>{}</code>").format(profile.path)),
    ]
    frame = Markup('<section id="trace-{0}" aria-labelledby="heading-{0}">\n{1}\n</section>\n')
    return frame.format(number, lines(pieces))


def _answer(screen: FirstScreen) -> Iterator[Markup]:
    profile, findings, (number, meaning) = screen.profile, screen.findings, step_length(screen.profile)
    if number:
        answer = Markup('<p class="answer"><strong>{}</strong> {}</p>')
        yield answer.format(inline_html(number), inline_html(meaning))
    why = headline(screen, has_length=False)
    yield Markup('<p class="headline">{}</p>').format(inline_html(f"{why}." if why else ""))
    yield from _shares(profile, findings.verdict)
    joint, step_ns = findings.joint, profile.step_ns
    if joint and step_ns and 0 < joint.saving_ns < step_ns:
        after_ns = step_ns - joint.saving_ns
        lengths = between(step_ns, after_ns, digits_of(profile.step_range_ns)).replace(" to ", " \u2192 ")
        which = which_together(joint, "all changes").removesuffix(" together")
        saves = joint_worth(findings, profile).partition("; ")[2]
        yield Markup(
            '<figure class="share after"><div class="bar"><span style="width:{:.2f}%"></span></div>'
            "<figcaption><strong>{}</strong> {}</figcaption></figure>"
        ).format(100 * after_ns / step_ns, inline_html(f"{lengths} with {which}"), inline_html(saves))


def _in_short(screen: FirstScreen) -> Iterator[Markup]:
    profile = screen.profile
    said = (*in_short(profile, screen.verdict.cause), *not_told(screen))
    lines_of = [f"{capitalized(words)}." for words in said]
    course = course_sections(profile.whole_run, profile.step_ns) if profile.whole_run else ()
    lines_of += [str(words) for part in course for words in part.brief]
    if lines_of:
        items = Markup().join(map(Markup("<li>{}</li>").format, map(inline_html, lines_of)))
        yield Markup('<ul class="short">{}</ul>').format(items)


def _doubts(profile: Profile) -> Iterator[Markup]:
    """Yield the doubts as one line that unfolds; it is open if figures are withheld."""
    all_doubts = doubts(profile)
    is_open = Markup(" open") if any(doubt.withholds for doubt in all_doubts) else ""
    what = "; ".join(doubt.what for doubt in all_doubts)
    for part in doubt_sections(profile):
        reasons = remarks(map(sentence_html, map(capitalized_sentence, part.notes)))
        line = Markup('<details class="trust"{}><summary><strong>{}:</strong> {}</summary>{}</details>')
        yield line.format(is_open, part.title, inline_html(what), reasons)


def _below(
    number: int, entry: Analysis, grids: AbstractSet[str], quoting: Quoting
) -> Iterator[tuple[str, str, Markup]]:
    """Yield the parts below the timeline, each a group of sections: its title, its id, and the sections."""
    profile = entry.profile
    said = step.step_fact(profile).meaning  # above, as the length of the step
    shown_facts = [fact for part in step_sections(profile) for fact in part.facts]
    facts = [fact for fact in shown_facts if said == step.AS_TRACED or not said.startswith(fact.meaning)]
    title = "Steps" if profile.steps.count > 1 else f"The {profile.steps.whole}"
    lengths = Section(
        title, notes=[f"{capitalized(name)}: {value}, {why}" for name, value, why, *_ in facts], name="steps"
    )
    order, sections = [*GROUP_OF_SECTION], [lengths, *event_sections(profile, entry.findings), *kind_sections(profile)]
    sections.sort(key=lambda part: order.index(part.name) if part.name in order else len(order))
    for group in dict.fromkeys(GROUP_OF_SECTION.values()):
        pieces = [
            piece
            for part in sections
            if GROUP_OF_SECTION.get(part.name, "Steps") == group and (piece := _piece(part, entry, grids, quoting))
        ]
        if pieces:
            name = f"{group.lower()}-{number}"
            heading = Markup('<h3 id="{}">{}</h3>').format(name, group)
            yield group, name, Markup('{}\n<div class="group">{}</div>').format(heading, lines(pieces))


def _piece(part: Section, entry: Analysis, grids: AbstractSet[str], quoting: Quoting) -> Markup:
    """Return a section in its group; empty if the page shows the same elsewhere."""
    tables_of = [table for table in part.tables if table.grid not in grids]
    if part.name == "phases" or (part.name in ("kernels", "collectives", "ops") and part.tables and not tables_of):
        return Markup()
    drawn = _steps_chart(entry) if part.name == "steps" else Markup()
    title = "" if part.title == GROUP_OF_SECTION.get(part.name) else part.title
    content = on_page(replace(part, title=title, tables=tables_of, name=""), drawn, quoting, level=4)
    return Markup('<div class="piece">{}</div>').format(content) if title else content


def _shares(profile: Profile, verdict: Verdict) -> Iterator[Markup]:
    main = busiest(profile)
    bars = [
        division_bar(profile, mean, step.division_title(profile, mean))
        for mean in profile.parts
        if mean.length_ns and mean is not main
    ]
    if main is not None and main.length_ns:
        is_plain = not bars and step.name_of_whole(profile, main) == profile.steps.whole
        yield division_bar(profile, main, "" if is_plain else step.division_title(profile, main), verdict)
    if bars:
        others = Markup("<details><summary>{}</summary>{}</details>")
        yield others.format(counted(len(bars), "other GPU"), lines(bars))


def division_bar(
    profile: Profile, mean: MeanStep, caption: str, verdict: Verdict = NO_VERDICT, longest: float = 0.0
) -> Markup:
    """Return how a step divides on a GPU as a bar, idle time by cause; `longest` is as for `shares`."""
    names = {} if mean.both_ns else {COMPUTE_ONLY_KIND: "kernels"}
    parts = [
        HtmlBarPart(names.get(kind, EVENT_KINDS[kind].label), time, duration(time), EVENT_KINDS[kind].colour)
        for kind, time in part_times(mean).items()
        if kind != IDLE_KIND and time >= step.MIN_DRAWN_SHARE * mean.length_ns
    ]
    if mean.idle_ns >= step.MIN_DRAWN_SHARE * mean.length_ns:
        parts += _idle_parts(profile, mean, verdict)
    return shares(caption, parts, longest)


def _idle_parts(profile: Profile, mean: MeanStep, verdict: Verdict) -> Iterator[HtmlBarPart]:
    causes = [(name, ns) for name, ns in verdict.idle if ns >= step.MIN_NAMED_SHARE_OF_IDLE * mean.idle_ns]
    if causes and causes[0][1] >= step.SOLE_SHARE_OF_IDLE * mean.idle_ns:
        causes = [(causes[0][0], mean.idle_ns)]
    rest = mean.idle_ns - sum(ns for _, ns in causes)
    for name, ns in causes:
        yield HtmlBarPart(f"idle: {LIMITS[name].lost}", ns, duration(ns), IDLE_HUES[name])
    if rest >= step.MIN_DRAWN_SHARE * mean.length_ns:
        why = step.why_idle(profile, mean, verdict)
        other = "idle: other causes" if causes else f"GPU idle, {why}" if why else "GPU idle"
        yield HtmlBarPart(other, rest, duration(rest), EVENT_KINDS[IDLE_KIND].colour)


def _steps_chart(analysis: Analysis) -> Markup:
    profile = analysis.profile
    mean = None if isinstance(profile.mean_steps, Withheld) else busiest(profile)
    chart = None if profile.withheld.step else steps_chart(analysis.trace, profile, mean.device if mean else None)
    return steps_svg(chart) if chart else Markup()
