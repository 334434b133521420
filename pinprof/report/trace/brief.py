"""The report in some twenty lines: the verdict, the step as a bar, what to change, and what to know of the trace."""

import shlex
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from pinprof import urls
from pinprof.measurement.profile import Profile
from pinprof.report.layout import hanging, laid_out, unbroken
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.trace.advice import advice, is_of_verdict, removes_more, way_to_gpu
from pinprof.report.trace.changes import INDENT, change_lines, chosen, fix_command, left_out
from pinprof.report.trace.course import OF_STEPS, often
from pinprof.report.trace.headline import how_to_tell, sentence
from pinprof.report.trace.host import named_lines, time_of_line, way_out
from pinprof.report.trace.step import step_bar
from pinprof.report.trace.waits import seen_elsewhere
from pinprof.report.words import (
    absences,
    all_together,
    begun,
    consequence,
    doubts,
    joint_worth,
    place,
    printable,
    rates_of,
    steps,
)
from pinprof.rules import Finding, Findings
from pinprof.trace.sources import Sources
from pinprof.units import between, counted, duration, percent

LINES = ("copies", "waits")
"""Families of rules whose findings are at a line of the program."""
ESTIMATED = "the step is estimated from the trace: pinprof run and pinprof.profile measure it"
NO_LINES = "this trace has no lines of waits and copies: pinprof run and pinprof.profile record them"
MATTERS = 0.05
"""Steps unlike the others are named if they add at least this share to each step."""


def to_text(
    profile: Profile,
    findings: Findings,
    *,
    width: int = 100,
    color: bool = False,
    code: Code = PLAIN,
    diffs: bool = False,
) -> str:
    """Return the short report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    `code` says whether the lines to change are quoted, `diffs` whether `pinprof fix` has some.
    """
    return laid_out(_parts(profile, findings, width, code, diffs=diffs), width=width, color=color)


def _parts(profile: Profile, findings: Findings, width: int, code: Code, *, diffs: bool) -> Iterator[RenderableType]:
    yield from (unbroken(line, "dim") for line in _of_what(profile, width))
    yield from conclusion(profile, findings, width)
    shown, quoting = chosen(findings, profile), Quoting(Sources(profile.path, profile.info.made), code)
    if not profile.gpus:
        yield from _slow_lines(profile, quoting)
    yield from _advice(profile, findings, shown)
    if shown:
        yield Text.assemble(("\nWhat to change", "bold"), _of_first(findings, shown[0]))
    for number, finding in enumerate(shown, start=1):
        yield from change_lines(number, finding, findings, profile, quoting, width)
    yield from _together(profile, findings, shown)
    yield from _notes(profile, findings, shown)
    yield Text("")
    if shown:
        yield Text(f"The fix as code: pinprof explain {shown[0].rule.id}", "dim")
    if diffs:
        yield unbroken(f"Diffs, where a change is certain: {printable(fix_command(profile))}", "dim")
    yield unbroken(f"All tables: pinprof report {named_again(profile)} --full", "dim")


def _of_first(findings: Findings, first: Finding) -> str:
    """Return how the first change goes with the verdict."""
    if removes_more(findings, first):
        return " (the first change also removes other causes)"
    is_other = first.saving and not is_of_verdict(findings, first)
    return " (the largest predicted saving first)" if is_other else ""


def _slow_lines(profile: Profile, quoting: Quoting) -> Iterator[RenderableType]:
    """Yield the lines of the program that take most of the time, each with its code and what it waits for."""
    lines = named_lines(profile)
    if not lines:
        return
    yield Text("\nLines that take the time, timed without the profiler", "bold")
    for number, line in enumerate(lines, start=1):
        yield hanging(Text(f"{number:>3}. "), Text(f"{time_of_line(profile, line)}"))
        code = quoting.line(line.place, of_call=False)
        where = Text.assemble((printable(place(line.place)), "dim"), f"  {code}" if code else "")
        yield hanging(Text(" " * INDENT), where)
        remedy = way_out(profile, line)
        if remedy:
            yield hanging(Text(f"{' ' * INDENT}→ "), Text(begun(remedy)))


def named_again(profile: Profile) -> str:
    """Return a trace as a command takes it."""
    return "-" if profile.path == urls.shown(urls.STANDARD_INPUT) else shlex.quote(printable(profile.path))


def conclusion(profile: Profile, findings: Findings, width: int) -> Iterator[RenderableType]:
    """Yield the verdict in one sentence, and the step as a bar."""
    yield Text(printable(f"{sentence(profile, findings.verdict)}."), "bold")
    bar = list(step_bar(profile, width, findings.verdict.cause))
    if bar:
        yield Text("")
    yield from bar


def _of_what(profile: Profile, width: int) -> list[str]:
    """Return the trace and how it was recorded, in one line where that fits."""
    gpus = ", ".join(sorted({device.name for device in profile.info.devices if device.name}))
    path, details = printable(profile.path), " · ".join(printable(part) for part in (gpus, steps(profile)) if part)
    line = " · ".join(filter(None, (path, details)))
    return [line] if cell_len(line) <= width or not details else [path, details]


def _advice(profile: Profile, findings: Findings, shown: list[Finding]) -> Iterator[RenderableType]:
    """Yield what to do first where no change that follows is that."""
    if not profile.gpus:
        yield Text(f"\n{printable(way_to_gpu(profile))}")
        return
    first = advice(profile, findings)
    if first.finding is None or findings[first.finding] not in shown[:1]:
        yield Text(f"\n{printable(first.sentence)}")


def _together(profile: Profile, findings: Findings, shown: list[Finding]) -> Iterator[RenderableType]:
    step, joint = profile.step_ns, findings.joint
    together = ""
    if joint_worth(findings, profile) and step and joint and joint.saving_ns and shown:
        after = f"{between(step, step - joint.saving_ns)} {profile.steps.per}"
        together = f"{all_together(joint)}: {after}, {percent(joint.saving_ns / step)} less"
    left = len(left_out(findings, shown))
    more = f"{counted(left, 'more finding')}: --full" if left else ""
    if left and not shown:
        more = f"{counted(left, 'finding')} {'saves' if left == 1 else 'save'} next to nothing: --full"
    for text in (together, more):
        if text:
            yield hanging(Text("  "), Text(f"{begun(text)}."))


def _notes(profile: Profile, findings: Findings, shown: list[Finding]) -> Iterator[RenderableType]:
    """Yield what changes what one may believe, and what the recorded steps do not show."""
    notes = [
        how_to_tell(findings.verdict) if shown else "",
        *_believed(profile, findings, shown),
        *_unlike(profile),
        *_elsewhere(profile),
        rates_of(findings, profile),
    ]
    said = " ".join(f"{begun(note)}." for note in notes if note)
    if said:
        yield Text("")
        yield hanging(Text("Note: ", "bold"), Text(printable(said)))


def _believed(profile: Profile, findings: Findings, shown: list[Finding]) -> Iterator[str]:
    said = {"no_gpu", "no_step_marks"} if not profile.gpus else set()  # the first lines say it
    said |= {"profiler_cost"} if _is_measured(profile) or findings.verdict.between else set()
    grave = [entry for entry in doubts(profile) if entry.check not in said]
    if grave:
        first, *others = grave
        yield ESTIMATED if first.check == "profiler_cost" else f"{first.what}: {consequence(first)}"
        if others:
            yield f"also: {'; '.join(entry.what for entry in others)}; see --full"
    if any(finding.evidence.line is None and finding.rule.family in LINES for finding in shown):
        lines = [entry for entry in absences(profile) if entry.check == "source_lines"]
        yield from (f"{entry.effect}: {entry.remedy}" if profile.info.by_pinprof else NO_LINES for entry in lines)


def _is_measured(profile: Profile) -> bool:
    """Return whether nothing in the short report has the profiler's cost in it."""
    return profile.estimate.step_ns is not None and profile.estimate.source != "estimated"


def _unlike(profile: Profile) -> Iterator[str]:
    step = profile.step_ns
    for row in profile.course.irregular if profile.course and step else ():
        if step and row.per_step_ns >= MATTERS * step:
            yield f"{OF_STEPS[row.reason]} adds {duration(row.per_step_ns)} to each step on average: {often(row)}"


def _elsewhere(profile: Profile) -> Iterator[str]:
    seen = [wait for wait in seen_elsewhere(profile) if wait.is_outside]
    if seen:
        first, more = seen[0], len(seen) - 1
        also = f", and at {counted(more, 'more line')} (--full)" if more else ""
        called = f"`{first.called}` at " if first.called else ""
        where = f"{called}{place(first.place)}, {first.how_often}"
        yield f"the host also waits outside of the recorded steps: {where}{also}"
