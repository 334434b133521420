"""The report for the terminal: in at most thirty lines, or in full with all sections."""

from collections.abc import Iterable, Iterator
from textwrap import shorten

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.ground.units import counted
from pinprof.measurement.profile import Profile
from pinprof.report.findings.views import FindingView, brief_views, trace_argument
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.terminal import bullet, hanging, laid_out, note, section, shorten_words, unwrapped
from pinprof.report.trace import verdict
from pinprof.report.trace.first_screen import FirstScreen, first_screen
from pinprof.report.trace.sections.host import input_remedy, named_lines, parts_of_line, time_of_line
from pinprof.report.trace.sections.work import DEFAULT_ROWS, kind_sections
from pinprof.report.trace.step import step_bar
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
    site_figures,
    source_of_rates,
)
from pinprof.rules.rule import Finding, Findings
from pinprof.trace.sources import Sources
from pinprof.verdict.step_limits import IRREGULAR

MAX_LISTED_SITES = 5
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}
FINDING_INDENT = 5
OR_PAGE = " or --html FILE"
MAX_BRIEF_LINES = 30
BRIEF_FORMS = ((3, 3), (3, 1), (3, 0), (2, 1), (1, 1), (1, 0))
"""How many changes a short report shows, and of how many what was seen: the first form that is short enough."""
MAX_EVIDENCE_CHARS = 240
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
    for part in (*doubt_sections(profile), *step_sections(profile)):
        yield from in_terminal(
            part, step_bar(profile, width, findings.verdict, is_titled=True) if part.name == PARTS_SECTION else ()
        )
    if profile.gpus or findings:
        yield from _findings(screen)
    for part in (*kind_sections(profile), *event_sections(profile, findings, rows=rows)):
        yield from in_terminal(part)


def _verdict(screen: FirstScreen) -> Iterable[RenderableType]:
    yield section("Why the step takes so long") if verdict.known_headline(screen) else Text("")
    yield Padding(Text(f"{verdict.headline(screen)}.", "bold"), (0, 0, 0, 2))
    yield Padding(Text(printable(verdict.advice(screen).sentence)), (0, 0, 0, 2))
    yield from (bullet(f"{line}.") for line in (verdict.other_causes(screen), *verdict.not_told(screen)) if line)


def _findings(screen: FirstScreen) -> Iterable[RenderableType]:
    profile, findings, remark = screen.profile, screen.findings, verdict.why_no_finding(screen)
    if not findings and remark == verdict.advice(screen).sentence:
        return
    yield section("What to do")
    if remark:
        yield bullet(remark)
    for view in screen.views:
        style = SEVERITY_STYLES[view.finding.severity]
        yield Padding(
            Text.assemble((view.worth, style), ": ", (f"{view.rule.id} {view.finding.title}", "bold")), (0, 0, 0, 2)
        )
        yield Padding(Text(printable(view.finding.evidence.text)), (0, 0, 0, 6))
        yield from _finding_sites(view)
        yield Padding(Text(f"Fix: {view.finding.fix}"), (0, 0, 0, 6))
        if view.then:
            yield Padding(Text(f"Then: {view.then}"), (0, 0, 0, 6))
    for words in (joint_worth(findings, profile), source_of_rates(findings, profile)):
        if words:
            yield bullet(printable(words))


def _finding_sites(view: FindingView) -> Iterable[RenderableType]:
    sites = view.finding.sites if view.finding.evidence.sites else ()
    lines = [": ".join(filter(None, (place(site.evidence.place), site_figures(site)))) for site in sites]
    if (more := len(lines) - MAX_LISTED_SITES) > 0:
        lines[MAX_LISTED_SITES:] = [f"and {counted(more, 'more site')}: --json"]
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
    yield from (unwrapped(line, "dim") for line in _recording_lines(profile, width))
    screen = first_screen(profile, findings)
    yield from conclusion(screen, width)
    shown, quoting = screen.shown[:changes], Quoting(Sources(profile.path, profile.info.made), code)
    for line in in_short(profile, screen.verdict.cause):
        yield hanging(Text("  "), Text(printable(line)))
    if not profile.gpus:
        yield from _slow_lines(profile, quoting)
    yield from _advice(screen)
    if shown:
        remark = " (in percent of a regular step)" if screen.verdict.cause == IRREGULAR else ""
        yield Text.assemble(("\nWhat to change", "bold"), remark)
    for number, row in enumerate(shown, start=1):
        yield from _brief_finding(number, row, quoting, width, is_terse=number > explained)
    for line in verdict.unanswered(screen):
        yield hanging(Text("  "), Text(line))
    yield from _together(screen, len(shown))
    yield from _notes(screen)


def _footer(profile: Profile, findings: Findings, report_arguments: str, *, width: int, has_page: bool) -> str:
    first = next(iter(brief_views(profile, findings)), None)
    fix = f"pinprof explain {first.rule.id} · " if first else ""
    line = f"Next: {fix}pinprof report {report_arguments} --full"
    return line if has_page or cell_len(line + OR_PAGE) > width else line + OR_PAGE


def _slow_lines(profile: Profile, quoting: Quoting) -> Iterator[RenderableType]:
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
    yield Text(printable(f"{verdict.headline(screen)}."), "bold")
    bar = list(step_bar(screen.profile, width, screen.verdict))
    if bar:
        yield Text("")
    yield from bar


def _recording_lines(profile: Profile, width: int) -> list[str]:
    path, parts = printable(profile.path), filter(None, (", ".join(gpu_names(profile)), complete_steps(profile)))
    details = " · ".join(map(printable, parts))
    line = f"{path} · {details}"
    return [line] if cell_len(line) <= width else [path, details]


def _advice(screen: FirstScreen) -> Iterator[RenderableType]:
    """Yield what to do first, unless the first listed change says it."""
    if not screen.profile.gpus:
        yield Text(f"\n{printable(verdict.how_to_record_gpu(screen.profile))}")
    elif screen.first is None or screen.first not in [view.number for view in screen.shown[:1]]:
        yield Text(f"\n{printable(verdict.advice(screen).sentence)}")


def _brief_finding(
    number: int, view: FindingView, quoting: Quoting, width: int, *, is_terse: bool
) -> Iterator[RenderableType]:
    what, rule = f": {view.finding.title} ", f"({view.rule.id})"
    yield hanging(Text(f"{number:>3}. "), Text.assemble((view.worth_in_short, "green"), what, (rule, "dim")))
    if not is_terse or view.where or view.finding.evidence.line is not None:
        yield from _where(view.finding, quoting, width)
    arrow = "" if view.do.startswith(STATEMENT_PREFIX) else "→ "
    yield hanging(Text(" " * FINDING_INDENT + arrow), Text(capitalized(view.do)))
    if view.then and number == 1:
        yield Padding(Text(capitalized(view.then), "dim"), (0, 0, 0, FINDING_INDENT))


def _where(finding: Finding, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield the place of a finding with its line of code, or else what was seen."""
    at = finding.evidence.place
    named = printable(str(at)) if at.line is not None else printable(place(at))
    if not named:
        seen = printable(finding.evidence.text.split("; ")[0])
        yield Padding(Text(shorten(seen, MAX_EVIDENCE_CHARS, placeholder=" …"), "dim"), (0, 0, 0, FINDING_INDENT))
        return
    more = len(finding.sites) - 1
    others = f"  and {counted(more, 'more place')}" if more else ""
    others += f"  {SOURCE_CHANGED}" if quoting.is_changed(at) else ""
    where = shorten_words(named, max(width - FINDING_INDENT - 1, MIN_CODE_CHARS))
    room = max(width - FINDING_INDENT - cell_len(where + others) - 2, MIN_CODE_CHARS)
    code = quoting.line(at)
    code = code if cell_len(code) <= room else f"{code[: room - 1]}…"
    yield hanging(Text(" " * FINDING_INDENT), Text.assemble((where, "dim"), code and f"  {code}", (others, "dim")))


def _together(screen: FirstScreen, shown: int) -> Iterator[RenderableType]:
    left_out = len(screen.views) - shown
    which = f"all {len(screen.views)} findings (--full)" if left_out else "all of these"
    text = joint_worth(screen.findings, screen.profile, which, in_short=True) if shown else ""
    if left_out and not shown:
        text = f"{counted(left_out, 'finding')}, of next to no worth: --full"
    elif left_out and not text:
        text = f"{counted(left_out, 'more finding')}: --full"
    if text:
        yield hanging(Text("  "), Text(f"{capitalized(text)}."))


def _notes(screen: FirstScreen) -> Iterator[RenderableType]:
    """Yield doubts, and what the recorded steps do not show: sentences of the full report's sections."""
    profile, findings = screen.profile, screen.findings
    sections = (*doubt_sections(profile), *event_sections(profile, findings, rows=DEFAULT_ROWS))
    brief = [capitalized_sentence(sentence) for part in sections for sentence in part.brief]
    said = (*verdict.not_told(screen), source_of_rates(findings, profile))
    if notes := [*(f"{capitalized(words)}." for words in said if words), *brief]:
        yield Text("")
        yield note(Text(" ").join(map(sentence_text, notes)))
