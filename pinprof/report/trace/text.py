"""The report for the terminal: in at most thirty lines, or in full with all sections."""

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.ground.units import counted, shortened
from pinprof.measurement.profile import Profile
from pinprof.report.findings.views import FindingView, brief_views, trace_argument
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.terminal import bullet, hanging, laid_out, note, section, shorten_words, unwrapped
from pinprof.report.trace.first_screen import FirstScreen, first_screen, is_of_verdict, removes_more
from pinprof.report.trace.sections.host import input_remedy, named_lines, parts_of_line, time_of_line
from pinprof.report.trace.sections.work import DEFAULT_ROWS, kind_sections
from pinprof.report.trace.step import step_bar
from pinprof.report.trace.verdict import (
    advice,
    headline,
    how_to_record_gpu,
    known_headline,
    next_cause,
    not_told,
    other_causes,
    unanswered,
    why_no_finding,
)
from pinprof.report.trace.view import PARTS_SECTION, doubt_sections, event_sections, in_short, step_sections
from pinprof.report.view import capitalized_sentence, in_terminal, sentence_text
from pinprof.report.words import (
    capitalized,
    complete_steps,
    gpu_names,
    joint_worth,
    place,
    printable,
    recording_line,
    source_of_rates,
)
from pinprof.rules.rule import Finding, Findings
from pinprof.trace.sources import Sources
from pinprof.verdict.step_limits import IRREGULAR

MAX_LISTED_SITES = 5
"""Sites of a finding that are listed."""
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}
FINDING_INDENT = 5
OR_PAGE = " or --html FILE"
MAX_BRIEF_LINES = 30
"""Lines of a short report."""
BRIEF_FORMS = ((3, 3), (3, 1), (3, 0), (2, 1), (1, 1), (1, 0))
"""How many changes a short report shows, and of how many what was seen: the first form that is short enough."""
MAX_EVIDENCE_CHARS = 185
"""Characters of the evidence of a finding without a place."""
SOURCE_CHANGED = "(the source has changed since the recording)"
STATEMENT_PREFIX = "The trace "
"""A fix that begins so only says what the trace shows or lacks: nothing to do, and so without an arrow."""
MIN_CODE_CHARS = 24
"""The least characters of a line of code next to its place; with less room it stands below it."""


def trace_to_text(
    profile: Profile, findings: Findings, *, width: int = 100, color: bool = False, rows: int = DEFAULT_ROWS
) -> str:
    """Return the full report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    The tables of waits, lines, kernels and ops have their first `rows`.
    """
    return laid_out(_full(profile, findings, width, rows), width=width, color=color)


def _full(profile: Profile, findings: Findings, width: int, rows: int) -> Iterable[RenderableType]:
    yield unwrapped(profile.path, "bold")
    yield Text(recording_line(profile))
    screen = first_screen(profile, findings)
    yield from _verdict(screen)
    for part in (*doubt_sections(profile), *step_sections(profile, findings.verdict)):
        yield from in_terminal(part, step_bar(profile, width, has_legend=False) if part.name == PARTS_SECTION else ())
    if profile.gpus or findings:
        yield from _findings(screen)
    for part in (*kind_sections(profile), *event_sections(profile, findings, rows=rows)):
        yield from in_terminal(part)


def _verdict(screen: FirstScreen) -> Iterable[RenderableType]:
    yield section("Why the step takes so long") if known_headline(screen) else Text("")
    yield Padding(Text(f"{headline(screen)}.", "bold"), (0, 0, 0, 2))
    yield Padding(Text(printable(advice(screen).sentence)), (0, 0, 0, 2))
    yield from (bullet(f"{line}.") for line in (other_causes(screen), *not_told(screen)) if line)


def _findings(screen: FirstScreen) -> Iterable[RenderableType]:
    profile, findings, remark = screen.profile, screen.findings, why_no_finding(screen)
    if not findings and remark == advice(screen).sentence:
        return
    yield section("What to do")
    if remark:
        yield bullet(remark)
    for view in screen.views:
        style = SEVERITY_STYLES[view.finding.severity]
        yield Padding(Text.assemble((view.worth, style), ": ", (f"{view.rule.id} {view.title}", "bold")), (0, 0, 0, 2))
        yield Padding(Text(printable(view.evidence)), (0, 0, 0, 6))
        yield from _finding_sites(view)
        yield Padding(Text(f"Fix: {view.fix}"), (0, 0, 0, 6))
        if view.then:
            yield Padding(Text(f"Then: {view.then}"), (0, 0, 0, 6))
    for words in (joint_worth(findings, profile), source_of_rates(findings, profile)):
        if words:
            yield bullet(printable(words))


def _finding_sites(view: FindingView) -> Iterable[RenderableType]:
    lines = list(view.sites[:MAX_LISTED_SITES])
    if (more := len(view.sites) - len(lines)) > 0:
        lines.append(f"and {counted(more, 'more site')}: --json")
    rows = Table.grid(padding=(0, 1))
    for line in lines:
        rows.add_row("-", Text(printable(line)))
    if lines:
        yield Padding(rows, (0, 0, 0, 6))


def to_brief(
    profile: Profile,
    findings: Findings,
    *,
    width: int = 100,
    color: bool = False,
    code: Code = PLAIN,
    report_arguments: str = "",
    has_page: bool = False,
) -> str:
    """Return the short report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    `code` says whether the lines to change are quoted. `report_arguments` follow `pinprof report` in the command that
    repeats this report; by default they are the trace. `has_page`: a page is written, too, so the text does not say how
    to get one.
    """
    footer = unwrapped(
        _footer(profile, findings, report_arguments or trace_argument(profile), width=width, has_page=has_page), "dim"
    )
    for changes, explained in BRIEF_FORMS:
        parts = [*_brief(profile, findings, width, code, changes, explained), Text(""), footer]
        text = laid_out(parts, width=width, color=color)
        if text.count("\n") <= MAX_BRIEF_LINES:
            break
    return text


def _brief(
    profile: Profile, findings: Findings, width: int, code: Code, changes: int, explained: int
) -> Iterator[RenderableType]:
    """Yield the parts of a short report: up to `changes` changes, the first `explained` with what was seen."""
    yield from (unwrapped(line, "dim") for line in _recording_lines(profile, width))
    screen = first_screen(profile, findings)
    yield from conclusion(screen, width)
    shown, quoting = screen.shown[:changes], Quoting(Sources(profile.path, profile.info.made), code)
    answered = {IRREGULAR, *(cause for row in screen.shown for cause in row.rule.answers)}
    for line in filter(None, (*in_short(profile, screen.verdict.cause), next_cause(screen, answered))):
        yield hanging(Text("  "), Text(printable(line)))
    if not profile.gpus:
        yield from _slow_lines(profile, quoting)
    yield from _advice(screen)
    if shown:
        yield Text.assemble(("\nWhat to change", "bold"), _remark_on_first(findings, shown[0].finding))
    for number, row in enumerate(shown, start=1):
        yield from _brief_finding(number, row, quoting, width, is_terse=number > explained)
    for line in unanswered(screen):
        yield hanging(Text("  "), Text(line))
    yield from _together(screen, len(shown))
    yield from _notes(screen)


def _footer(profile: Profile, findings: Findings, report_arguments: str, *, width: int, has_page: bool) -> str:
    """Return the next commands, in one line."""
    first = next(iter(brief_views(profile, findings)), None)
    fix = f"pinprof explain {first.rule.id} · " if first else ""
    line = f"Next: {fix}pinprof report {report_arguments} --full"
    return line if has_page or cell_len(line + OR_PAGE) > width else line + OR_PAGE


def _remark_on_first(findings: Findings, first: Finding) -> str:
    """Return how the first change relates to the verdict."""
    if findings.verdict.cause == IRREGULAR:
        return " (in percent of a regular step)"
    if removes_more(findings, first):
        return " (the first change saves more than this cause costs)"
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
        code = quoting.line(line.place)
        where = Text.assemble((printable(place(line.place)), "dim"), f"  {code}" if code else "")
        yield hanging(Text(" " * FINDING_INDENT), where)
        parts = parts_of_line(profile, line)
        if parts:
            yield hanging(Text(" " * FINDING_INDENT), Text(f"below it: {parts}"))
        remedy = input_remedy(profile, line)
        if remedy:
            yield hanging(Text(f"{' ' * FINDING_INDENT}→ "), Text(capitalized(remedy)))


def conclusion(screen: FirstScreen, width: int) -> Iterator[RenderableType]:
    """Yield the verdict in one sentence, and the step as a bar."""
    yield Text(printable(f"{headline(screen)}."), "bold")
    bar = list(step_bar(screen.profile, width, screen.verdict))
    if bar:
        yield Text("")
    yield from bar


def _recording_lines(profile: Profile, width: int) -> list[str]:
    """Return the trace and how it was recorded, in one line if it fits."""
    gpus = ", ".join(gpu_names(profile))
    path, details = (
        printable(profile.path),
        " · ".join(printable(part) for part in (gpus, complete_steps(profile)) if part),
    )
    line = " · ".join(filter(None, (path, details)))
    return [line] if cell_len(line) <= width or not details else [path, details]


def _advice(screen: FirstScreen) -> Iterator[RenderableType]:
    """Yield what to do first, unless the first listed change says it."""
    if not screen.profile.gpus:
        yield Text(f"\n{printable(how_to_record_gpu(screen.profile))}")
    elif screen.first is None or screen.first not in [view.number for view in screen.shown[:1]]:
        yield Text(f"\n{printable(advice(screen).sentence)}")


def _brief_finding(
    number: int, view: FindingView, quoting: Quoting, width: int, *, is_terse: bool
) -> Iterator[RenderableType]:
    """Yield one of the findings in up to three lines for a terminal of this width."""
    what, rule = f": {view.title} ", f"({view.rule.id})"
    yield hanging(Text(f"{number:>3}. "), Text.assemble((view.worth_in_short, "green"), what, (rule, "dim")))
    if not is_terse or view.where or view.finding.evidence.line is not None:
        yield from _where(view.finding, quoting, width)
    arrow = "" if view.do.startswith(STATEMENT_PREFIX) else "→ "
    yield hanging(Text(" " * FINDING_INDENT + arrow), Text(capitalized(view.do)))
    if view.then and number == 1:
        yield Padding(Text(capitalized(view.then), "dim"), (0, 0, 0, FINDING_INDENT))


def _where(finding: Finding, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield the place of a finding with its line of code, as far as they are known."""
    at = finding.evidence.place
    named = printable(str(at)) if at.line is not None else printable(place(at))
    of_kernels = finding.rule.family == "gpu"
    if not named and of_kernels and finding.most_ns is None:
        return  # what its title says, and the name of a kernel
    if not named:
        shown = finding.evidence.text.split("; ")[0] if of_kernels else _evidence(finding)
        yield Padding(Text(printable(shown), "dim"), (0, 0, 0, FINDING_INDENT))
        return
    more = len(finding.sites) - 1
    others = f"  and {counted(more, 'more place')}" if more else ""
    others += f"  {SOURCE_CHANGED}" if quoting.is_changed(at) else ""
    where, code = shorten_words(named, max(width - FINDING_INDENT - 1, MIN_CODE_CHARS)), quoting.line(at)
    room = width - FINDING_INDENT - cell_len(where) - cell_len(others) - 2
    if code and room < MIN_CODE_CHARS:
        yield Padding(Text(where + others, "dim"), (0, 0, 0, FINDING_INDENT))
        yield Padding(Text(shortened(code, width - FINDING_INDENT - 2)), (0, 0, 0, FINDING_INDENT + 2))
        return
    shown = f"  {code if cell_len(code) <= room else code[: room - 1] + '…'}" if code else ""
    yield Padding(Text.assemble((where, "dim"), shown, (others, "dim")), (0, 0, 0, FINDING_INDENT))


def _evidence(finding: Finding) -> str:
    """Return the evidence of a finding without a place, in a line or two."""
    first, *more = printable(finding.evidence.text).split("; ")
    both = "; ".join((first, *more[:1]))
    if len(both) <= MAX_EVIDENCE_CHARS:
        return both
    return (
        first
        if len(first) <= MAX_EVIDENCE_CHARS
        else first[:MAX_EVIDENCE_CHARS].rpartition(", ")[0] or shortened(first, MAX_EVIDENCE_CHARS)
    )


def _together(screen: FirstScreen, shown: int) -> Iterator[RenderableType]:
    left_out = len(screen.views) - shown
    which = f"all {len(screen.views)} findings (--full)" if left_out else "all of these"
    text = joint_worth(screen.findings, screen.profile, which, in_short=True) if shown else ""
    if left_out and not shown:
        text = f"{counted(left_out, 'finding')} {'saves' if left_out == 1 else 'save'} next to nothing: --full"
    elif left_out and not text:
        text = f"{counted(left_out, 'more finding')}: --full"
    if text:
        yield hanging(Text("  "), Text(f"{capitalized(text)}."))


def _notes(screen: FirstScreen) -> Iterator[RenderableType]:
    """Yield doubts, and what the recorded steps do not show: sentences of the full report's sections."""
    profile, findings = screen.profile, screen.findings
    sections = (*doubt_sections(profile), *event_sections(profile, findings, rows=DEFAULT_ROWS))
    brief = [capitalized_sentence(sentence) for part in sections for sentence in part.brief]
    before, after = (
        [f"{capitalized(words)}." for words in said if words]
        for said in (not_told(screen), [source_of_rates(findings, profile)])
    )
    if notes := [*before, *brief, *after]:
        yield Text("")
        yield note(Text(" ").join(map(sentence_text, notes)))
