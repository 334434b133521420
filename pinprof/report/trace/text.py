"""The report for the terminal: in some twenty lines, or in full with all sections."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.measurement.profile import Profile
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.terminal import bullet, hanging, laid_out, note, section, shorten_words, unwrapped
from pinprof.report.trace.finding_views import FindingView, brief_views, finding_views, trace_argument
from pinprof.report.trace.host import input_remedy, named_lines, parts_of_line, time_of_line
from pinprof.report.trace.step import memory_in_short, step_bar
from pinprof.report.trace.verdict import (
    advice,
    evidence,
    how_to_record_gpu,
    how_to_see_ranks,
    input_uncertain,
    is_of_verdict,
    known_verdict,
    next_cause,
    removes_more,
    unanswered,
    verdict_sentence,
    why_no_finding,
)
from pinprof.report.trace.view import PARTS, doubt_sections, event_sections, step_sections
from pinprof.report.trace.waits import waits_in_short
from pinprof.report.trace.work import FEW, collectives_in_short, kind_sections, kinds_in_short, ops_in_short
from pinprof.report.view import Sentence, capitalized_sentence, in_terminal, sentence_text
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
from pinprof.units import counted, shortened
from pinprof.verdict.step_limits import IRREGULAR

MAX_SITES = 5
"""Sites of a finding that are listed."""
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim", "suspect": "magenta"}
INDENT = 5
OR_PAGE = " or --html FILE"
MOST_LINES = 30
"""Lines of a short report where it has room; a longer one becomes terse."""
LONGEST_EVIDENCE = 185
"""Characters of the evidence of a finding without a place."""
CHANGED = "(the source has changed since the recording)"
LEAST_CODE = 24
"""The least characters of a line of code next to its place; with less room it stands below it."""


def trace_to_text(
    profile: Profile, findings: Findings, *, width: int = 100, color: bool = False, rows: int = FEW
) -> str:
    """Return the full report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    The tables of waits, lines, kernels and ops have their first `rows`.
    """
    return laid_out(_full(profile, findings, width, rows), width=width, color=color)


def _full(profile: Profile, findings: Findings, width: int, rows: int) -> Iterable[RenderableType]:
    yield unwrapped(profile.path, "bold")
    yield Text(recording_line(profile))
    yield from _verdict(profile, findings)
    for part in (*doubt_sections(profile), *step_sections(profile, findings.verdict)):
        yield from in_terminal(part, step_bar(profile, width, has_legend=False) if part.name == PARTS else ())
    if profile.gpus or findings:
        yield from _findings(profile, findings)
    for part in (*kind_sections(profile), *event_sections(profile, findings, rows=rows)):
        yield from in_terminal(part)


def _verdict(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    yield section("Why the step takes so long") if known_verdict(profile, findings.verdict) else Text("")
    yield Padding(Text(f"{verdict_sentence(profile, findings.verdict)}.", "bold"), (0, 0, 0, 2))
    yield Padding(Text(printable(advice(profile, findings).sentence)), (0, 0, 0, 2))
    yield from (bullet(f"{line}.") for line in evidence(profile, findings))


def _findings(profile: Profile, findings: Findings) -> Iterable[RenderableType]:
    remark = why_no_finding(profile, findings)
    if not findings and remark == advice(profile, findings).sentence:
        return
    yield section("What to do")
    if remark:
        yield bullet(remark)
    for view in finding_views(profile, findings):
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
    lines = list(view.sites[:MAX_SITES])
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
    again: str = "",
    has_page: bool = False,
) -> str:
    """Return the short report on one trace as text for a terminal of this width, with ANSI colours if asked for.

    `code` says whether the lines to change are quoted. `again` is what follows `pinprof report` in the command that
    repeats this report, by default the trace. `has_page`: a page is written, too, so the text does not say how to get
    one.
    """
    footer = unwrapped(
        _footer(profile, findings, again or trace_argument(profile), width=width, has_page=has_page), "dim"
    )
    for is_terse in (False, True):
        parts = [*_brief(profile, findings, width, code, is_terse=is_terse), Text(""), footer]
        text = laid_out(parts, width=width, color=color)
        if text.count("\n") <= MOST_LINES:
            break
    return text


def _brief(profile: Profile, findings: Findings, width: int, code: Code, *, is_terse: bool) -> Iterator[RenderableType]:
    """Yield the parts of a short report; a terse one shows what was seen for the first change alone."""
    yield from (unwrapped(line, "dim") for line in _recording_lines(profile, width))
    yield from conclusion(profile, findings, width)
    rows = finding_views(profile, findings)
    shown, quoting = [row for row in rows if row.is_brief], Quoting(Sources(profile.path, profile.info.made), code)
    answered = {IRREGULAR, *(cause for row in shown for cause in row.rule.answers)}
    for line in (
        kinds_in_short(profile, findings.verdict.cause),
        ops_in_short(profile),
        collectives_in_short(profile),
        memory_in_short(profile),
        waits_in_short(profile),
        next_cause(findings.verdict, answered),
    ):
        if line:
            yield hanging(Text("  "), Text(printable(line)))
    if not profile.gpus:
        yield from _slow_lines(profile, quoting)
    yield from _advice(profile, findings, shown)
    if shown:
        yield Text.assemble(("\nWhat to change", "bold"), _remark_on_first(findings, shown[0].finding))
    for number, row in enumerate(shown, start=1):
        yield from _brief_finding(number, row, quoting, width, is_terse=is_terse and number > 1)
    for line in unanswered(profile, findings, [row.finding for row in shown]):
        yield hanging(Text("  "), Text(line))
    yield from _together(profile, findings, rows)
    yield from _notes(profile, findings)


def _footer(profile: Profile, findings: Findings, again: str, *, width: int, has_page: bool) -> str:
    """Return the next commands, in one line."""
    first = next(iter(brief_views(profile, findings)), None)
    fix = f"pinprof explain {first.rule.id} · " if first else ""
    line = f"Next: {fix}pinprof report {again} --full"
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
        code = quoting.line(line.place, of_call=False)
        where = Text.assemble((printable(place(line.place)), "dim"), f"  {code}" if code else "")
        yield hanging(Text(" " * INDENT), where)
        parts = parts_of_line(profile, line)
        if parts:
            yield hanging(Text(" " * INDENT), Text(f"below it: {parts}"))
        remedy = input_remedy(profile, line)
        if remedy:
            yield hanging(Text(f"{' ' * INDENT}→ "), Text(capitalized(remedy)))


def conclusion(profile: Profile, findings: Findings, width: int) -> Iterator[RenderableType]:
    """Yield the verdict in one sentence, and the step as a bar."""
    yield Text(printable(f"{verdict_sentence(profile, findings.verdict)}."), "bold")
    bar = list(step_bar(profile, width, findings.verdict))
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


def _advice(profile: Profile, findings: Findings, shown: Sequence[FindingView]) -> Iterator[RenderableType]:
    """Yield what to do first, unless the first listed change says it."""
    if not profile.gpus:
        yield Text(f"\n{printable(how_to_record_gpu(profile))}")
        return
    first = advice(profile, findings)
    if first.finding is None or first.finding not in [row.number for row in shown[:1]]:
        yield Text(f"\n{printable(first.sentence)}")


def _brief_finding(
    number: int, view: FindingView, quoting: Quoting, width: int, *, is_terse: bool
) -> Iterator[RenderableType]:
    """Yield one of the findings in up to three lines for a terminal of this width."""
    what, rule = f": {view.title} ", f"({view.rule.id})"
    yield hanging(Text(f"{number:>3}. "), Text.assemble((view.worth_in_short, "green"), what, (rule, "dim")))
    if not is_terse or view.where or view.finding.evidence.line is not None:
        yield from _where(view.finding, quoting, width)
    if view.finding.evidence.surprise and not is_terse:
        yield Padding(Text(capitalized(view.finding.evidence.surprise), "dim"), (0, 0, 0, INDENT))
    yield hanging(Text(" " * INDENT + "→ "), Text(capitalized(view.do)))
    if view.then and number == 1:
        yield Padding(Text(capitalized(view.then), "dim"), (0, 0, 0, INDENT))


def _where(finding: Finding, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield the place of a finding with its line of code, as far as they are known."""
    at = finding.evidence.place
    named = printable(str(at)) if at.line is not None else printable(place(at))
    of_kernels = finding.rule.family == "gpu" and not finding.evidence.brief
    if not named and of_kernels and finding.most_ns is None:
        return  # what its title says, and the name of a kernel
    if not named:
        shown = finding.evidence.text.split("; ")[0] if of_kernels else _evidence(finding)
        yield Padding(Text(printable(shown), "dim"), (0, 0, 0, INDENT))
        return
    more = len(finding.sites) - 1
    others = f"  and {counted(more, 'more place')}" if more else ""
    others += f"  {CHANGED}" if quoting.is_changed(at) else ""
    where, code = shorten_words(named, max(width - INDENT - 1, LEAST_CODE)), quoting.line(at)
    room = width - INDENT - cell_len(where) - cell_len(others) - 2
    if code and room < LEAST_CODE:
        yield Padding(Text(where + others, "dim"), (0, 0, 0, INDENT))
        yield Padding(Text(shortened(code, width - INDENT - 2)), (0, 0, 0, INDENT + 2))
        return
    shown = f"  {code if cell_len(code) <= room else code[: room - 1] + '…'}" if code else ""
    yield Padding(Text.assemble((where, "dim"), shown, (others, "dim")), (0, 0, 0, INDENT))


def _evidence(finding: Finding) -> str:
    """Return the evidence of a finding without a place, in a line or two."""
    if finding.evidence.brief:
        return printable(finding.evidence.brief)
    first, *more = printable(finding.evidence.text).split("; ")
    both = "; ".join((first, *more[:1]))
    if len(both) <= LONGEST_EVIDENCE:
        return both
    return (
        first
        if len(first) <= LONGEST_EVIDENCE
        else first[:LONGEST_EVIDENCE].rpartition(", ")[0] or shortened(first, LONGEST_EVIDENCE)
    )


def _together(profile: Profile, findings: Findings, rows: Sequence[FindingView]) -> Iterator[RenderableType]:
    shown, left_out = any(row.is_brief for row in rows), sum(not row.is_brief for row in rows)
    which = f"all {len(findings)} findings (--full)" if left_out else "all of these"
    text = joint_worth(findings, profile, which, in_short=True) if shown else ""
    if left_out and not shown:
        text = f"{counted(left_out, 'finding')} {'saves' if left_out == 1 else 'save'} next to nothing: --full"
    elif left_out and not text:
        text = f"{counted(left_out, 'more finding')}: --full"
    if text:
        yield hanging(Text("  "), Text(f"{capitalized(text)}."))


def _notes(profile: Profile, findings: Findings) -> Iterator[RenderableType]:
    """Yield doubts, and what the recorded steps do not show: sentences of the full report's sections."""
    sections = (*doubt_sections(profile), *event_sections(profile, findings, rows=FEW))
    ranks = how_to_see_ranks(profile, findings.verdict) if advice(profile, findings).finding is not None else []
    supply = [f"{words}." for words in (input_uncertain(profile),) if words]
    notes: list[Sentence] = [
        *supply,
        *(f"{way}." for way in ranks),
        *(row for section in sections for row in section.brief),
    ]
    rates = source_of_rates(findings, profile)
    notes += [f"{rates}."] if rates else []
    if notes:
        yield Text("")
        yield note(Text(" ").join(sentence_text(capitalized_sentence(sentence)) for sentence in notes))
