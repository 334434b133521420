"""`pinprof report --md`: the report as Markdown for a pull request; no name in it becomes a mention or a link."""

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

from pinprof.measurement.profile import Profile
from pinprof.report import words
from pinprof.report.findings.views import FindingView, named, trace_argument
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.terminal import laid_out
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.step import step_bar
from pinprof.report.trace.verdict import advice, headline
from pinprof.rules.rule import Findings
from pinprof.trace.sources import Sources

MAX_SHOWN_FINDINGS = 3
BAR_COLUMNS = 80
MARKUP = re.compile(r"([\\`*_\[\]<>&~|$#])")
"""Characters with a meaning in Markdown or in GitHub's formulas."""
MARKUP_AT_LINE_START = re.compile(r"^(\d*)([-+=.)])(?=[-=\s]|$)")
"""The beginning of a line that Markdown would take for a list or a rule."""
REFERENCE = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
"""Positions at which a space without width keeps GitHub from a mention, a reference or a link."""
CODE_SPAN = re.compile(r"`([^`]+)`")
BACKTICKS = re.compile("`+")


def traces_to_markdown(entries: Sequence[tuple[Profile, Findings]], job_headline: str = "", code: Code = PLAIN) -> str:
    """Return the report on the traces as Markdown; `job_headline` is on all of them, as on a job's ranks."""
    parts = [f"**{inline(job_headline)}**"] if job_headline else []
    for profile, findings in entries:
        parts += _trace(profile, findings, Quoting(Sources(profile.path, profile.info.made), code))
    return "\n\n".join(filter(None, parts)) + "\n"


def _trace(profile: Profile, findings: Findings, quoting: Quoting) -> Iterator[str]:
    screen = first_screen(profile, findings)
    yield f"### {code_span(profile.path)}"
    yield inline(words.recording_line(profile))
    yield f"**{inline(headline(screen))}.**"
    if bar := laid_out(step_bar(profile, BAR_COLUMNS, findings.verdict), width=BAR_COLUMNS, color=False).rstrip():
        yield fenced(dedent(bar), "text")
    views = screen.views
    shown = (screen.shown or views)[:MAX_SHOWN_FINDINGS]
    if screen.first is None or screen.first not in [view.number for view in shown]:
        yield inline(advice(screen).sentence)
    for number, view in enumerate(shown, start=1):
        yield from _finding(number, view, quoting)
    left_out, together = len(views) - len(shown), words.joint_worth(findings, profile, f"all {len(views)} findings")
    remarks = [words.capitalized(together)] if together else []
    remarks += [f"{left_out} more in the full report"] if left_out else []
    yield inline("".join(f"{remark}. " for remark in remarks).rstrip())
    reasons = [f"- {inline(f'{doubt.what}: {words.effect_and_remedy(doubt)}.')}" for doubt in words.doubts(profile)]
    yield "\n".join((f"{words.TRUST_TITLE}:\n", *reasons)) if reasons else ""
    explain = [f"pinprof explain {view.rule.id}" for view in shown[:1]]
    commands = [*explain, f"pinprof report {trace_argument(profile)} --html report.html"]
    yield f"Next: {' · '.join(map(code_span, commands))}"


def _finding(number: int, view: FindingView, quoting: Quoting) -> Iterator[str]:
    yield f"**{number}. {inline(words.capitalized(named(view.finding)))}: {inline(view.worth)}**"
    where = f"{code_span(view.where)}: " if view.where else ""
    then = f" Then: {inline(view.then)}." if view.then else ""
    yield f"{where}{inline(view.finding.evidence.text)}. {inline(view.finding.fix)}{then}"
    if line := quoting.line(view.finding.evidence.place):
        yield fenced(line, "python")
    yield f"<details><summary>{view.rule.id} as code</summary>"
    yield fenced(f"# before\n{view.rule.before.strip()}\n\n# after\n{view.rule.code.strip()}", "python")
    yield f"Safe if: {inline(view.rule.safe_if)}"
    yield "</details>"


def inline(text: str) -> str:
    """Return a sentence as Markdown: text between backticks is code, all other characters are literal."""
    pieces = enumerate(CODE_SPAN.split(words.printable(text).lstrip()))
    written = "".join(
        code_span(piece) if number % 2 else REFERENCE.sub("\N{ZERO WIDTH SPACE}", MARKUP.sub(r"\\\1", piece))
        for number, piece in pieces
    )
    return MARKUP_AT_LINE_START.sub(r"\1\\\2", written)


def code_span(text: str) -> str:
    """Return a text as code within a line."""
    shown = words.printable(text)
    ticks = "`" * (_longest_run(shown) + 1)
    return f"{ticks} {shown} {ticks}" if "`" in shown else f"{ticks}{shown}{ticks}"


def fenced(text: str, language: str) -> str:
    """Return lines as a block of code that no backticks in them end."""
    ticks = "`" * max(_longest_run(text) + 1, 3)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, BACKTICKS.findall(text)), default=0)
