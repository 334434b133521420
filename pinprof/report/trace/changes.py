"""The findings worth doing: what each saves, where it is, what to change, and the commands that go on from there."""

import shlex
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof import urls
from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.ranks import RankPart
from pinprof.report.layout import hanging, whole_words
from pinprof.report.source import Quoting
from pinprof.report.words import begun, place, printable, untold
from pinprof.rules import Finding, Findings
from pinprof.rules.catalogue import pin102_blocking_copies, pin104_unpinned_batches
from pinprof.trace.sources import Sources
from pinprof.units import counted, duration, percent, shortened

MOST = 3
"""Findings that are named."""
WORTH = 0.01
"""One that saves a smaller share of the step is left to the full report."""
BLOCKING_COPIES, UNPINNED_BATCHES = pin102_blocking_copies.RULE.id, pin104_unpinned_batches.RULE.id
"""Rules of which the first brings something only where the second is mended, too: what to do says both of either."""
_BOTH = frozenset((BLOCKING_COPIES, UNPINNED_BATCHES))
INDENT = 5
LONGEST = 220
"""Characters of what was seen of a finding without a place."""
CHANGED = "(the source has changed since the recording)"
LEAST_CODE = 24
"""Characters of a line of code that tell it; with less room it stands below its place."""
DROP_SYNCS = "--drop-syncs"
"""The option that takes the waits of a finding out of the program; it needs a place."""


def chosen(findings: Findings, profile: Profile) -> list[Finding]:
    """Return the findings worth doing in their order: those that save most, and one that may give wrong numbers.

    Where none alone saves much but all do together, the first ones.
    """
    step = profile.step_ns or 0.0
    worth = [finding for finding in findings if _brings(finding) >= WORTH * step]
    copies = next((each.rule.id for each in worth if each.rule.id in _BOTH), None)
    worth = [each for each in worth if each.rule.id not in _BOTH - {copies}]
    joint = findings.joint.saving_ns if findings.joint else 0.0
    shown = (worth or (list(findings) if joint >= WORTH * step > 0 else []))[:MOST]
    hazards = [each for each in worth if each.rule.is_hazard and each not in shown]
    return shown + hazards[:1]


def left_out(findings: Findings, shown: Sequence[Finding]) -> list[Finding]:
    """Return the findings of which those that are shown tell nothing."""
    both = any(each.rule.id in _BOTH for each in shown)
    return [each for each in findings if each not in shown and not (both and each.rule.id in _BOTH)]


def _brings(finding: Finding) -> float:
    """Return what a fix saves in ns, at most or for certain; one whose worth nothing tells may be worth any time."""
    if finding.saving is not None:
        return finding.saving.saving_ns
    if finding.most_ns is not None:
        return finding.most_ns
    return finding.evidence.cost_ns or float("inf")


def change_lines(
    number: int, finding: Finding, findings: Findings, profile: Profile, quoting: Quoting, width: int
) -> Iterator[RenderableType]:
    """Yield one of the findings in up to three lines for a terminal of this width."""
    what = Text.assemble((saves(finding, profile), "green"), f": {finding.title} ", (f"({finding.rule.id})", "dim"))
    yield hanging(Text(f"{number:>3}. "), what)
    yield from _where(finding, quoting, width)
    yield hanging(Text(" " * INDENT + "→ "), Text(begun(to_do(finding, findings))))


def saves(finding: Finding, profile: Profile) -> str:
    """Return what fixing a finding alone saves, with its share of the step."""
    saving, step = finding.saving, profile.step_ns
    if saving is None:
        return untold(finding) or f"concerns {duration(finding.evidence.cost_ns)} of idle GPU or copies"
    if not saving.saving_ns:
        return "saves nothing alone"
    verb = "may save" if saving.range_ns[0] <= 0 else "saves"
    return f"{verb} {duration(saving.saving_ns)}" + (f", {percent(saving.saving_ns / step)}" if step else "")


def to_do(finding: Finding, findings: Findings) -> str:
    """Return what to change, in a few words; `findings` are all of the trace."""
    change = finding.rule.change if not finding.evidence.fix else None
    short = change.to if change else finding.fix.split(". ")[0].rstrip(".")
    keep = f". But {finding.evidence.keep}" if finding.evidence.keep else ""
    return short + _pinned_by(finding, findings) + keep


def _pinned_by(finding: Finding, findings: Findings) -> str:
    """Return how a copy with `non_blocking=True` gets its pinned memory, where another finding tells."""
    unpinned = next((each for each in findings if each.rule.id == UNPINNED_BATCHES), None)
    if finding.rule.id != BLOCKING_COPIES or unpinned is None:
        return ""
    if unpinned.evidence.fix:
        return f" ({unpinned.rule.id})"
    return f": {unpinned.rule.fix.split(', and')[0]} ({unpinned.rule.id})"


def seen(finding: Finding) -> str:
    """Return what was seen of a finding that has no place, in a line or two."""
    first, *more = printable(finding.evidence.text).split("; ")
    both = "; ".join((first, *more[:1]))
    return both if len(both) <= LONGEST else shortened(first, LONGEST)


def _where(finding: Finding, quoting: Quoting, width: int) -> Iterator[RenderableType]:
    """Yield the place of a finding with its line of code, as far as they are known."""
    at = finding.evidence.place
    named = printable(str(at)) if at.line is not None else printable(place(at))
    if not named and finding.rule.family == "gpu" and finding.most_ns is None:
        return  # what its title says, and the name of a kernel
    if not named:
        shown = finding.evidence.text.split("; ")[0] if finding.rule.family == "gpu" else seen(finding)
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


def fix_command(profile: Profile) -> str:
    """Return the command that prints diffs."""
    return f"pinprof fix {shlex.quote(profile.path)}"


def has_diffs(measured: Analysis | RankPart) -> bool:
    """Return whether `pinprof fix` has a diff for a trace.

    False for a rank of a job, of which the rows are not kept. What reads programs is imported only where one may be
    changed: it takes a tenth of a second.
    """
    if isinstance(measured, RankPart) or not _may_have_diffs(measured.profile, measured.findings):
        return False
    from pinprof import fix  # noqa: PLC0415

    return fix.has_diffs(measured)


def _may_have_diffs(profile: Profile, findings: Findings) -> bool:
    """Return whether a recording has what diffs need, and the program that is to be changed is at hand."""
    if not profile.info.by_pinprof or profile.path == urls.shown(urls.STANDARD_INPUT):
        return False
    made = profile.info.made
    files: set[str | None] = {each.file for each in (*made.loaders, *made.optimizers)} if made else set()
    files = files if any(finding.rule.mended in ("line", "construction") for finding in findings) else set()
    for finding in findings:
        if finding.rule.mended == "line":
            files |= {site.evidence.file for site in finding.sites if site.evidence.file and site.evidence.line}
    sources = Sources(profile.path)
    return any(file is not None and sources.path(file) is not None for file in files)


def next_command(profile: Profile, findings: Findings) -> str:
    """Return the command that predicts the first change worth doing; without one, that which compares all changes.

    Nothing where the trace is not fit for predictions.
    """
    if not profile.gpus or profile.withheld.estimate:
        return ""
    options = next(filter(None, map(options_of, chosen(findings, profile))), "")
    return f"pinprof whatif {shlex.quote(profile.path)} {options}".rstrip()


def options_of(finding: Finding) -> str:
    """Return the options of `pinprof whatif` for the change that a finding asks for; nothing where there are none."""
    options, named = finding.rule.what_if, finding.evidence.place.names
    if options != DROP_SYNCS:
        return options
    if finding.saving is None:
        return ""
    return f"{options} {shlex.quote(named[0]) if named and not finding.evidence.sites else 'all'}"
