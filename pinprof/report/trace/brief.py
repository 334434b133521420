"""The report in some twenty lines: the verdict, the step as a bar, what to change, and what to know of the trace."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.measurement.profile import Profile
from pinprof.report.layout import hanging, laid_out, unbroken, whole_words
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.trace.actions import Action, actions, fix_command, named_again
from pinprof.report.trace.advice import advice, is_of_verdict, removes_more, way_to_gpu
from pinprof.report.trace.headline import sentence, way_to_ranks
from pinprof.report.trace.host import named_lines, time_of_line, way_out
from pinprof.report.trace.step import step_bar
from pinprof.report.trace.view import doubt_sections, event_sections
from pinprof.report.view import Sentence, begun_row, in_words
from pinprof.report.words import (
    begun,
    joint_worth,
    place,
    printable,
    rates_of,
    steps,
)
from pinprof.rules import Finding, Findings
from pinprof.trace.sources import Sources
from pinprof.units import counted, shortened

INDENT = 5
LONGEST = 220
"""Characters of what was seen of a finding without a place."""
CHANGED = "(the source has changed since the recording)"
LEAST_CODE = 24
"""Characters of a line of code that tell it; with less room it stands below its place."""


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
    rows = actions(profile, findings)
    shown, quoting = [row for row in rows if row.is_brief], Quoting(Sources(profile.path, profile.info.made), code)
    if not profile.gpus:
        yield from _slow_lines(profile, quoting)
    yield from _advice(profile, findings, shown)
    if shown:
        yield Text.assemble(("\nWhat to change", "bold"), _of_first(findings, shown[0].finding))
    for number, row in enumerate(shown, start=1):
        yield from _change(number, row, quoting, width)
    yield from _together(profile, findings, rows)
    yield from _notes(profile, findings)
    yield Text("")
    if shown:
        yield Text(f"The fix as code: pinprof explain {shown[0].finding.rule.id}", "dim")
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


def _advice(profile: Profile, findings: Findings, shown: Sequence[Action]) -> Iterator[RenderableType]:
    """Yield what to do first where no change that follows is that."""
    if not profile.gpus:
        yield Text(f"\n{printable(way_to_gpu(profile))}")
        return
    first = advice(profile, findings)
    if first.finding is None or first.finding not in [row.place for row in shown[:1]]:
        yield Text(f"\n{printable(first.sentence)}")


def _change(number: int, action: Action, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield one of the findings in up to three lines for a terminal of this width."""
    what, rule = f": {action.finding.title} ", f"({action.finding.rule.id})"
    yield hanging(Text(f"{number:>3}. "), Text.assemble((action.saves, "green"), what, (rule, "dim")))
    yield from _where(action.finding, quoting, width)
    yield hanging(Text(" " * INDENT + "→ "), Text(begun(action.do)))


def _where(finding: Finding, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield the place of a finding with its line of code, as far as they are known."""
    at = finding.evidence.place
    named = printable(str(at)) if at.line is not None else printable(place(at))
    if not named and finding.rule.family == "gpu" and finding.most_ns is None:
        return  # what its title says, and the name of a kernel
    if not named:
        shown = finding.evidence.text.split("; ")[0] if finding.rule.family == "gpu" else _evidence(finding)
        yield Padding(Text(printable(shown), "dim"), (0, 0, 0, INDENT))
        return
    more = len(finding.sites) - 1
    others = f"  and {counted(more, 'more place')}" if more else ""
    others += f"  {CHANGED}" if quoting.is_changed(at) else ""
    where, code = whole_words(named, max(width - INDENT - 1, LEAST_CODE)), quoting.line(at)
    room = width - INDENT - cell_len(where) - cell_len(others) - 2
    if code and room < LEAST_CODE:
        yield Padding(Text(where + others, "dim"), (0, 0, 0, INDENT))
        yield Padding(Text(shortened(code, width - INDENT - 2)), (0, 0, 0, INDENT + 2))
        return
    shown = f"  {code if cell_len(code) <= room else code[: room - 1] + '…'}" if code else ""
    yield Padding(Text.assemble((where, "dim"), shown, (others, "dim")), (0, 0, 0, INDENT))


def _evidence(finding: Finding) -> str:
    """Return what was seen of a finding that has no place, in a line or two."""
    first, *more = printable(finding.evidence.text).split("; ")
    both = "; ".join((first, *more[:1]))
    return both if len(both) <= LONGEST else shortened(first, LONGEST)


def _together(profile: Profile, findings: Findings, rows: Sequence[Action]) -> Iterator[RenderableType]:
    shown, left = any(row.is_brief for row in rows), sum(row.is_left_out for row in rows)
    more = f"{counted(left, 'more finding')}: --full" if left else ""
    if left and not shown:
        more = f"{counted(left, 'finding')} {'saves' if left == 1 else 'save'} next to nothing: --full"
    for text in (joint_worth(findings, profile) if shown else "", more):
        if text:
            yield hanging(Text("  "), Text(f"{begun(text)}."))


def _notes(profile: Profile, findings: Findings) -> Iterator[RenderableType]:
    """Yield what changes what one may believe, and what the recorded steps do not show: rows of the full report."""
    sections = (*doubt_sections(profile), *event_sections(profile, findings, full=False))
    ranks = way_to_ranks(findings.verdict) if advice(profile, findings).finding is not None else []
    notes: list[Sentence] = [*(f"{way}." for way in ranks), *(row for section in sections for row in section.brief)]
    rates = rates_of(findings, profile)
    notes += [f"{rates}."] if rates else []
    if notes:
        yield Text("")
        yield hanging(Text("Note: ", "bold"), Text(" ").join(in_words(begun_row(note)) for note in notes))
